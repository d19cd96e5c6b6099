"""Every command and every Python example of the README and of docs/ does what it says: it runs, and ends well."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from commands import call
from own_code import forget, write_files

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
USUAL_ROUNDS = 30

NOT_RUN = {
    r"\bdata get\b": "fetches from a hub",
    r"\blive\b(?! )|^live ": "serves until it is stopped",
    r"^federate\b": "needs a server and sites of its own, or starts them",
    r"--data (mnist|cifar10|cifar100|chars74k|sent140)\b|compare (tcga-brca|parkinsons)": "needs data beside the package",
    r"^reproduce [a-z]": "takes minutes; tests/reproduce runs small ones",
    r"^theory (fallah2020|deng2022|collins2021)|^theory .*--sweep": "takes long; tests/theory runs it",
    r"^(report|run|personalize|predict|tune)$": "names a command, and is none",
    r"time,event": "needs sites with survival times; tests/run and tests/onboarding have some",
    r"--engine.executor ray": "starts Ray; tests/engines does",
    r"[A-Z]{3,}": "has a word to be replaced",
}
"""commands that are only parsed, and why"""


def commands_of(text: str) -> list[str]:
    """The commands of a page in their order, without what is said about them and where their output goes."""
    joined = re.sub(r"\\\n\s+", "", text)
    lines = re.findall(r"^    (?:\w+=\S+ )?manyheads (.*)$|`manyheads ([^`]*)`", joined, flags=re.MULTILINE)
    words = (" ".join((line or inline).split()) for line, inline in lines)
    return [re.sub(r"\s*(#|>).*$", "", w).strip() for w in words]


def why_not(command: str) -> str | None:
    return next((why for pattern, why in NOT_RUN.items() if re.search(pattern, command)), None)


def smaller(command: str) -> list[str]:
    """The same with less work: a thirtieth of the rounds, and of a comparison one seed, one step size, one method."""
    words = shlex.split(command)

    def put(option: str, value: object) -> None:
        if option in words:
            words[words.index(option) + 1] = str(value)
        else:
            words.extend([option, str(value)])

    if words[0] == "personalize":
        put("--export", "none")
    if "--help" in words or words[0] not in ("run", "compare", "theory", "tune") or words == ["theory"]:
        return words
    given = int(words[words.index("--rounds") + 1]) if "--rounds" in words else USUAL_ROUNDS
    if words[0] == "theory":
        put("--seeds", 1)
        put("--rounds", 20)
        return words
    put("--rounds", -(-given // USUAL_ROUNDS))
    put("--workers", 1)
    if "--search" in words or words[0] == "tune":
        put("--search", 2)
    if words[0] == "tune" and "--resume" not in words:
        put("--seeds", 1)
    if words[0] == "compare" and "--resume" not in words:
        put("--seeds", 1)
        put("--folds", 1)
        put("--baselines", "majority")
        put("--local-rounds", 1)
        put("--pooled", "false")
        put("--rates", 0.1)
        own = any(re.search(r"\w:[A-Z]", w) for w in words)  # a class of the page's own
        if not own and not any(w.endswith(".toml") for w in words):
            put("--methods", "fedavg")
    return words


def write_sites(folder: Path) -> None:
    """What the pages speak of: three sites with a label ``outcome``, and the files of one that comes later."""
    rng = np.random.default_rng(0)
    (folder / "my_sites").mkdir()
    for name in ("my_sites/leeds", "my_sites/turin", "my_sites/oslo", "new_site", "more"):
        rows = [f"{60 + 9 * a:.2f},{b:.3f},{'AB'[int(b > 0)]},{int(a + b > 0)}" for a, b in rng.normal(size=(40, 2))]
        (folder / f"{name}.csv").write_text("\n".join(["age,dose,ward,outcome", *rows]))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with what the pages speak of, as the current one; what is imported from it is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    write_sites(tmp_path)
    yield tmp_path
    forget(tmp_path)


def prepare(page: Path, place: Path) -> None:
    """What a page takes for granted: the TOML file that it shows, and folders that another page has made."""
    text = page.read_text()
    for table in re.findall(r"```toml\n(.*?)```", text, flags=re.DOTALL):
        (place / "that.toml").write_text(table)
    write_files(text, place)
    used = {w.rstrip("/") for c in commands_of(text) if not why_not(c) for w in c.split() if w.startswith("runs/")}
    made = {w for c in commands_of(text) for w in re.findall(r"--out (runs/\S+)", c)}
    for folder in sorted(f for f in used - made if not f.endswith(".toml")):
        kinds = {"comparison": ["compare", "digits"], "search": ["tune", "fedavg", "digits"]}
        what = next((words for kind, words in kinds.items() if kind in folder), ["run"])
        assert call(*smaller(shlex.join([*what, "--clients", "4", "--out", folder]))) == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_command_ends_well(page, place, capsys):
    commands = commands_of(page.read_text())
    prepare(page, place)
    for command in commands:
        words = [*command.split(), "--help"] if why_not(command) else smaller(command)
        words = [w for w in words if not re.fullmatch(r"[A-Z.]{3,}|\.\.\.", w)]
        code = call(*words)
        assert code == 0, f"manyheads {shlex.join(map(str, words))}: {capsys.readouterr().err}"


def test_every_example_of_the_help_is_understood(place, capsys):
    files = sorted((ROOT / "src" / "manyheads" / "cli").glob("*.py"))
    examples = [e for f in files for e in re.findall(r"^      (?:\w+=\S+ )?manyheads (.*)$", f.read_text(), flags=re.M)]
    assert len(examples) > 20
    for example in examples:
        words = re.sub(r"\s*>.*$", "", example).split()
        assert call(*words, "--help") == 0, f"manyheads {example}: {capsys.readouterr().err}"


@pytest.mark.parametrize(
    "page", [p for p in PAGES if "```python" in p.read_text()], ids=lambda p: str(p.relative_to(ROOT))
)
def test_every_python_example_runs(page, place):
    text = page.read_text()
    files = write_files(text, place)
    blocks = [code for code in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL) if code not in files.values()]
    if "personalize" in page.name:
        for command in commands_of(text)[:2]:
            assert call(*smaller(command)) == 0
    for code in blocks:
        if code.startswith("def "):  # a part of a class, shown to be read
            compile(code, page.name, "exec")
            continue
        code = re.sub(r"rounds=\d+", "rounds=1", code).replace(
            "folds=2", 'folds=2, baselines=["majority"], local_rounds=1'
        )
        exec(compile(code, page.name, "exec"), {})


def test_the_commands_are_found():
    found = {command.split()[0] for page in PAGES for command in commands_of(page.read_text()) if not why_not(command)}
    assert found >= {"run", "compare", "report", "personalize", "export", "predict", "data", "theory", "algorithms"}
