"""Configuration files: those of the settings with something changed, and text that is hardly TOML."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import tomli_w

from fuzz import hostile
from fuzz.bases import Bases
from fuzz.child import command
from fuzz.lines import long
from fuzz.verdict import Case, broken

__all__ = ["CONFIGS"]

TEXT_SHOWN = 600


class Configs:
    """Made of the settings' own fields and defaults."""

    name = "configs"

    def prepare(self, bases: Bases, place: Path) -> None:
        self.bases = bases
        bases.need("clinics")

    def attempt(self, rng: Random, place: Path) -> Case:
        self.bases.copy(place, "clinics")
        comparing = rng.random() < 0.25
        table = _sound(rng, comparing)
        for _ in range(rng.choice([0, 1, 1, 1, 2, 4])):
            _mutate(table, rng)
        text = _toml(table)
        if rng.random() < 0.3:
            text = _garbled(text, rng)
        (place / "own.toml").write_bytes(text)
        words = ["compare" if comparing else "run", "own.toml", "--out", "out", "--json"]
        shown = text.decode("utf-8", "replace")
        usual = not all(f"{key} = " in shown for key in (("rounds", "seeds", "rates") if comparing else ("rounds",)))
        ended = command(words, place, endless=usual or long(shown.split()))
        outcome = {0: "done", 2: "refused", 130: "stopped"}.get(ended.code, "broken")
        wrong = broken(ended, words)
        what = f"manyheads {' '.join(words)} with {shown[:TEXT_SHOWN]!r}"
        return Case(what, "broken" if wrong else outcome, wrong, ended.out[-2000:] + ended.err)


def _sound(rng: Random, comparing: bool) -> dict[str, Any]:
    """A small configuration with every setting spelled out."""
    from manyheads.core.contract import ALGORITHMS
    from manyheads.core.settings import as_dict
    from manyheads.data import SOURCES
    from manyheads.data.partitions.partitioners import PARTITIONERS
    from manyheads.experiments.compare import Comparison
    from manyheads.models import MODELS
    from manyheads.run import Config

    table = as_dict(Config()) | {"rounds": 1}
    table["engine"] |= {"workers": 1}
    data = rng.choice(["digits", "linear-tasks", "sites"] if rng.random() < 0.9 else [*SOURCES])
    table["data"] = _filled(SOURCES[data]) | ({"path": "clinics"} if data == "sites" else {})
    table["clients"] = 3 if data in ("digits", "linear-tasks") else 0
    if data == "digits":
        table["partition"] = rng.choice(["iid", _filled(rng.choice([*PARTITIONERS.values()]))])
    if rng.random() < 0.5:
        table["model"] = _filled(rng.choice([*MODELS.values()]))
    if comparing:
        for key in ("algorithm", "evaluate", "validation", "new_clients", "new_data", "new_samples"):
            del table[key]
        table["compare"] = as_dict(Comparison()) | {
            "methods": ["fedavg", rng.choice([*ALGORITHMS])],
            "seeds": 1,
            "rates": [0.1],
            "folds": 1,
            "baselines": ["majority"],
            "local_rounds": 1,
        }
    else:
        table["algorithm"] = _filled(rng.choice([*ALGORITHMS.values()]))
    return table


def _filled(cls: Any) -> dict[str, Any]:
    """A name and the defaults of its settings, as far as there are some."""
    from manyheads.core.settings import as_dict

    try:
        return {"name": cls.name, **as_dict(cls())}
    except ValueError:  # a setting without a default
        return {"name": cls.name}


def _mutate(table: dict[str, Any], rng: Random) -> None:
    """One thing is other than it should be."""
    owner: Any = table
    while True:
        below = [v for v in owner.values() if isinstance(v, dict) and v]
        if not below or rng.random() < 0.45:
            break
        owner = rng.choice(below)
    keys = [*owner]
    key, how = rng.choice(keys or [""]), rng.random()
    if not keys or how < 0.1:
        owner[hostile.word(rng)] = hostile.value(rng)
    elif how < 0.5:
        owner[key] = hostile.like(rng, owner[key])
    elif how < 0.7:
        owner[key] = hostile.value(rng)
    elif how < 0.8:
        del owner[key]
    elif how < 0.9:
        owner[rng.choice([key.upper(), key + "s", key[:-1], key.replace("_", "-")])] = owner.pop(key)
    else:
        other = rng.choice(keys)
        owner[key], owner[other] = owner[other], owner[key]


def _toml(table: dict[str, Any]) -> bytes:
    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {k.encode("utf-8", "replace").decode(): plain(v) for k, v in value.items() if v is not None}
        if isinstance(value, list):
            return [plain(v) for v in value if v is not None]
        return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value

    return tomli_w.dumps(plain(table)).encode()


def _garbled(text: bytes, rng: Random) -> bytes:
    """As an editor, a copy or a cat would leave it."""
    at = rng.randrange(len(text) + 1)
    return rng.choice(
        [
            text[:at],
            text[:at] + rng.randbytes(rng.randrange(1, 9)) + text[at:],
            text.replace(b"\n", b"\r"),
            text.replace(b"\n", b"\r\n"),
            b"\xef\xbb\xbf" + text,
            text.decode().encode("utf-16"),
            text + text,
            text.replace(b"=", b":"),
            b"x = " + b"[" * 3000 + b"]" * 3000 + b"\n" + text,
            b"x = " + b"{a=" * 2000 + b"1" + b"}" * 2000 + b"\n" + text,
            b".".join([b"a"] * 3000) + b" = 1\n" + text,
            b"rounds = " + b"9" * 5000 + b"\n",
            b"\0" * 100,
            b"",
            rng.randbytes(300),
        ]
    )


CONFIGS = Configs()
