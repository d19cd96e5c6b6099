"""A checkpoint is what was written, or an error."""

import pytest
import torch

from manyheads import UserError
from manyheads.core.checkpoint import hash_tensors, read_checkpoint, rounds_on_disk, write_checkpoint


def tensors(fill: float = 1.0) -> dict[str, torch.Tensor]:
    return {
        "server/body/0.weight": torch.full((2, 3), fill).T,  # not contiguous
        "server/step": torch.tensor(7),
        "server/none": torch.empty(0, 2, dtype=torch.float64),
        "store/slot": torch.arange(3, dtype=torch.uint8),
    }


def only_file(folder):
    (file,) = folder.iterdir()
    return file


def test_a_checkpoint_is_read_as_it_was_written(tmp_path):
    write_checkpoint(tmp_path, 3, tensors())
    found = read_checkpoint(tmp_path, 3)
    assert found.keys() == tensors().keys()
    for name, value in tensors().items():
        assert found[name].dtype == value.dtype
        assert torch.equal(found[name], value)


def test_only_the_last_two_are_kept_and_no_temporary_file_is_left(tmp_path):
    for round in (1, 2, 10, 9999, 100_000_000):
        write_checkpoint(tmp_path, round, tensors(round))
    assert rounds_on_disk(tmp_path) == [100_000_000, 9999]
    assert len(list(tmp_path.iterdir())) == 2
    assert read_checkpoint(tmp_path, 9999)["server/body/0.weight"][0, 0] == 9999


def test_writing_a_round_again_replaces_it(tmp_path):
    write_checkpoint(tmp_path, 1, tensors(1))
    write_checkpoint(tmp_path, 1, tensors(2))
    assert rounds_on_disk(tmp_path) == [1]
    assert read_checkpoint(tmp_path, 1)["server/body/0.weight"][0, 0] == 2


def test_a_failed_write_is_an_error_that_names_the_file_and_leaves_the_old_one(tmp_path):
    write_checkpoint(tmp_path, 1, tensors())
    (tmp_path / "round-00000002.safetensors").mkdir()  # nothing can take its place
    with pytest.raises(UserError, match=r"cannot write .*round-00000002\.safetensors"):
        write_checkpoint(tmp_path, 2, tensors())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["round-00000001.safetensors", "round-00000002.safetensors"]
    assert torch.equal(read_checkpoint(tmp_path, 1)["server/step"], torch.tensor(7))


def test_any_flipped_bit_is_noticed(tmp_path):
    write_checkpoint(tmp_path, 1, {"w": torch.arange(3.0), "n": torch.tensor([1, 2])})
    file = only_file(tmp_path)
    whole = file.read_bytes()
    for place in range(len(whole)):
        for bit in (0, 5, 7):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << bit)]) + whole[place + 1 :])
            with pytest.raises(UserError, match=r"round-00000001\.safetensors (is|cannot)"):
                read_checkpoint(tmp_path, 1)


def test_a_file_cut_short_anywhere_is_an_error(tmp_path):
    write_checkpoint(tmp_path, 1, tensors())
    file = only_file(tmp_path)
    whole = file.read_bytes()
    for length in range(0, len(whole), 7):
        file.write_bytes(whole[:length])
        with pytest.raises(UserError, match="cannot be read"):
            read_checkpoint(tmp_path, 1)


def test_a_checkpoint_of_another_round_is_an_error(tmp_path):
    write_checkpoint(tmp_path, 1, tensors())
    only_file(tmp_path).rename(tmp_path / "round-00000002.safetensors")
    with pytest.raises(UserError, match="damaged"):
        read_checkpoint(tmp_path, 2)
    with pytest.raises(UserError, match="cannot be read"):
        read_checkpoint(tmp_path, 1)


def test_the_hash_knows_names_types_shapes_and_bytes_but_not_the_order_or_strides():
    value = torch.tensor([[1, 2], [3, 4]])
    base = {"a": value, "b": torch.zeros(2)}
    same = {"b": torch.zeros(2), "a": value.T.contiguous().T}
    others = [
        {"a": value, "c": torch.zeros(2)},
        {"a": value.reshape(4), "b": torch.zeros(2)},
        {"a": value.T, "b": torch.zeros(2)},
        {"a": value, "b": torch.zeros(2, dtype=torch.int32)},
        {"a": value, "b": torch.tensor([0.0, -0.0])},
        {"a": value},
    ]
    assert hash_tensors(same).hexdigest() == hash_tensors(base).hexdigest()
    assert hash_tensors(base).hexdigest() not in {hash_tensors(o).hexdigest() for o in others}


def test_two_names_of_one_tensor_are_written_like_two_tensors(tmp_path):
    value = torch.ones(3)
    write_checkpoint(tmp_path, 1, {"server/model": value, "server/anchor": value})
    assert {k: v.tolist() for k, v in read_checkpoint(tmp_path, 1).items()} == {
        "server/model": [1, 1, 1],
        "server/anchor": [1, 1, 1],
    }
