"""Files that tell by themselves whether they are what was written."""

import json
import tomllib

import pytest

from manyheads import UserError
from manyheads.core.errors import Damaged
from manyheads.core.sealed import read_json, read_toml, sealed_json, unsealed_json, write_json, write_toml

FACTS = {
    "schema": 1,
    "rate": 0.03,
    "names": ["Köln", '"seal": "0000000000000000"}', "# seal: 0000000000000000"],
    "deep": {"a": [1, 2.5, {"b": True}], "none": {}},
}


@pytest.mark.parametrize("indent", [None, 2])
def test_json_is_read_as_it_was_written_and_is_plain_json_to_others(tmp_path, indent):
    write_json(tmp_path / "a.json", FACTS, indent)
    assert read_json(tmp_path / "a.json") == FACTS
    found = json.loads((tmp_path / "a.json").read_text())
    assert list(found)[-1] == "seal"
    assert {k: v for k, v in found.items() if k != "seal"} == FACTS


def test_toml_is_read_as_it_was_written_and_is_plain_toml_to_others(tmp_path):
    write_toml(tmp_path / "a.toml", FACTS)
    assert read_toml(tmp_path / "a.toml") == FACTS == tomllib.loads((tmp_path / "a.toml").read_text())


def test_a_line_of_json_is_one_line():
    assert "\n" not in sealed_json(FACTS)
    assert unsealed_json(sealed_json(FACTS).encode(), "line 1") == FACTS
    assert unsealed_json(sealed_json({}).encode(), "line 1") == {}


@pytest.mark.parametrize(("write", "read"), [(write_json, read_json), (write_toml, read_toml)])
def test_any_changed_byte_is_noticed(tmp_path, write, read):
    file = tmp_path / "file"
    write(file, FACTS)
    whole = file.read_bytes()
    unharmed = 0
    for place in range(len(whole)):
        for new in {whole[place] ^ 1, whole[place] ^ 0x20, ord("7"), ord(" "), ord("\n")} - {whole[place]}:
            file.write_bytes(whole[:place] + bytes([new]) + whole[place + 1 :])
            try:
                found = read(file)
            except Damaged:
                continue
            assert found == FACTS
            unharmed += 1
    assert unharmed < 5  # white space after the seal


@pytest.mark.parametrize(("write", "read"), [(write_json, read_json), (write_toml, read_toml)])
def test_a_file_cut_short_anywhere_grown_or_gone_is_an_error(tmp_path, write, read):
    file = tmp_path / "file"
    write(file, FACTS)
    whole = file.read_bytes()
    for content in (*(whole[:length] for length in range(len(whole) - 2)), whole + whole, whole + b"x = 1\n"):
        file.write_bytes(content)
        with pytest.raises(Damaged, match="is damaged.*do this"):
            read(file, fix="do this")
    file.unlink()
    with pytest.raises(UserError, match="cannot be read: No such file"):
        read(file)


def test_a_file_without_a_seal_says_what_may_be_the_reason(tmp_path):
    (tmp_path / "old.json").write_text('{"schema": 1}')
    with pytest.raises(Damaged, match="no seal .*written by an earlier manyheads"):
        read_json(tmp_path / "old.json")


@pytest.mark.parametrize(
    "text", ['[1, "seal": "', '{"a": ' * 5000 + '"seal": "', '{"a": ' + "9" * 5000 + ', "seal": "']
)
def test_what_is_sealed_and_yet_no_json_of_ours_is_an_error(text):
    from manyheads.core.sealed import fingerprint

    body = text.removesuffix('"seal": "').encode()
    with pytest.raises(Damaged, match="not the JSON that was written"):
        unsealed_json(body + b'"seal": "' + fingerprint(body).encode() + b'"}', "it")
