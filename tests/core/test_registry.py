"""Things by name: registered, declared by an installed package, or imported because a user typed where they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import ClassVar

import pytest

from manyheads import Algorithm, State, Update, settings
from manyheads.core.contract import ALGORITHMS
from manyheads.core.errors import UserError
from manyheads.core.registry import Registry, import_path, is_import_path
from manyheads.data import PARTITIONERS, SOURCES
from manyheads.models import MODELS


class Red:
    name = "red"


@pytest.fixture
def colours():
    return Registry("colour")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current folder; what is imported from it is forgotten at the end."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(dedent(text))


def test_a_thing_is_found_by_its_name(colours):
    assert colours.register(Red) is Red
    assert colours.find("red") is colours["red"] is Red
    assert list(colours) == ["red"]
    assert len(colours) == 1
    assert "red" in colours
    assert "blue" not in colours
    assert colours.get("blue") is None
    assert dict(colours) == {"red": Red}
    with pytest.raises(UserError, match=r"box: unknown colour; given 'rad'; allowed: red; did you mean 'red'\?"):
        colours.find("rad", where="box")
    with pytest.raises(KeyError):
        colours["blue"]


def test_a_taken_name_is_refused(colours):
    colours.register(Red)
    other = type("Other", (), {"name": "red"})
    with pytest.raises(
        UserError, match=rf"another colour of that name: {__name__}:Red; given 'red'; give .*:Other another"
    ):
        colours.register(other)
    again = type("Red", (), {"name": "red", "__module__": __name__})
    assert colours.register(again) is again is colours["red"], "a class that is defined again, as in a notebook"


@pytest.mark.parametrize("name", [None, "", 3, "a b", "a:b", "a,b", "../a", "all", "custom", "-a", "a+ft"])
def test_a_name_must_be_usable(colours, name):
    with pytest.raises(UserError, match=r"colour: .*:Thing has (no name|a name that cannot be used).*declare one"):
        colours.register(type("Thing", (), {"name": name}))


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("my_methods:Mine", True),
        ("package.module:Outer.Inner", True),
        ("./my_methods.py:Mine", True),
        (r"C:\work\my_methods.py:Mine", True),
        ("my_methods", False),
        ("classes:3", False),
        ("dirichlet:0.6,minimum=10", False),
        (r"C:\data\sites", False),
        ("/data/ward:12/sites.csv", False),
        ("a:", False),
    ],
)
def test_what_an_import_path_looks_like(text, is_one):
    assert is_import_path(text) is is_one


def test_what_is_typed_is_imported_from_the_current_folder(colours, here):
    write(here / "paint" / "warm.py", "class Outer:\n    class Pink:\n        name = 'pink'\n")
    pink = colours.imported("paint.warm:Outer.Pink")
    assert import_path(pink) == "paint.warm:Outer.Pink"
    assert colours.find("pink") is pink
    assert colours.imported("pink") is pink
    assert colours.imported("paint.warm:Outer.Pink") is pink, "twice is once"
    assert sys.path[0] != str(here), "it hides nothing of the usual path"


def test_a_file_can_be_named_too(colours, here):
    write(here / "elsewhere" / "cold.py", "class Blue:\n    name = 'blue'\n")
    assert colours.imported("./elsewhere/cold.py:Blue").name == "blue"
    with pytest.raises(UserError, match=r"no such file: none\.py"):
        colours.imported("none.py:Blue")
    write(here / "json.py", "class Blue:\n    name = 'blue'\n")
    with pytest.raises(UserError, match=r"json is also the name of .*give json\.py another name"):
        colours.imported("json.py:Blue")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("class Blue: name = 'blue'", r"cannot import the colour paint:Bleu: module 'paint' has no attribute 'Bleu'"),
        ("1 / 0", r"cannot import the colour paint:Bleu: division by zero"),
        ("raise SystemExit", r"cannot import the colour paint:Bleu: SystemExit"),
        ("import no_such_thing", r"No module named 'no_such_thing'"),
        ("Bleu = 3", r"builtins:int has no name"),
    ],
)
def test_what_cannot_be_imported_is_told_in_one_line(colours, here, text, says):
    write(here / "paint.py", text)
    with pytest.raises(UserError, match=says) as error:
        colours.imported("paint:Bleu", where="--colour")
    assert "\n" not in str(error.value)


def test_a_file_of_a_run_imports_nothing(colours, here):
    write(here / "paint.py", "raise AssertionError('imported')")
    with pytest.raises(
        UserError, match=r"no colour is imported because a file, .*names it; given .*import paint.*--colour paint:Blue"
    ):
        colours.find("paint:Blue")
    with pytest.raises(
        UserError,
        match=r"made with the colour 'blue' \(paint:Blue\), not imported here; in Python: import paint, .*--colour paint:Blue$",
    ):
        colours.find("blue", path="paint:Blue")
    with pytest.raises(UserError, match=r"define and register it again"):
        colours.find("blue", path="__main__:Blue")


def test_a_recorded_name_of_another_is_not_ours():
    """A run of a user's own ``fedavg``, never registered, is not read as ours."""
    with pytest.raises(UserError, match=r"'fedavg' \(mine:FedAvg\), not imported"):
        ALGORITHMS.find("fedavg", path="mine:FedAvg")


# -- what the kinds need --------------------------------------------------------------------------------------------------


def test_an_algorithm_that_lacks_something_is_told_all_of_it():
    class Bare(Algorithm):
        name: ClassVar[str] = "bare"

    with pytest.raises(
        UserError, match=r"Bare lacks paper = \.\.\., travels = \.\.\., stays = \.\.\., models = \.\.\., "
    ) as error:
        ALGORITHMS.register(Bare)
    assert "init_server(), local(), @settings" in str(error.value)
    with pytest.raises(UserError, match=r"Red is no Algorithm; class Red\(Algorithm\)"):
        ALGORITHMS.register(Red)
    assert "bare" not in ALGORITHMS


def complete(**changes):
    """An algorithm that can be registered, but for the changes."""

    class Mine(Algorithm):
        name: ClassVar[str] = "mine"
        paper: ClassVar[str] = "none"
        travels: ClassVar[str] = "the model"
        stays: ClassVar[str] = "nothing"
        models: ClassVar[tuple[str, ...]] = ("global",)

        def init_server(self, params, population):
            return State(model=params.all)

        def local(self, cohort, server, client):
            return Update(State(model=cohort.each(server.model)))

    for name, value in changes.items():
        setattr(Mine, name, value)
    return settings(Mine)


def test_an_algorithm_must_give_the_models_that_it_names():
    with pytest.raises(UserError, match=r"Mine lacks global_model\(\): its models name 'global'"):
        ALGORITHMS.register(complete())
    with pytest.raises(UserError, match=r"Mine lacks personal_model\(\): its models name 'personal'"):
        ALGORITHMS.register(complete(models=("personal",)))
    with pytest.raises(UserError, match=r"unknown kind of model; given 'globl'; .*did you mean 'global'"):
        ALGORITHMS.register(complete(models=("globl",)))
    assert "mine" not in ALGORITHMS


def test_a_model_needs_build_and_data_a_pool_or_a_federation():
    class Thing:
        name: ClassVar[str] = "thing"

    with pytest.raises(UserError, match=r"Thing lacks build\(\), @settings"):
        MODELS.register(Thing)
    with pytest.raises(UserError, match=r"Thing lacks model = \.\.\., @settings"):
        SOURCES.register(Thing)
    Thing.model = "mlp"
    with pytest.raises(UserError, match=r"Thing lacks pool\(seed\) -> Pool, or federation\(seed\) -> Federation"):
        SOURCES.register(settings(Thing))
    with pytest.raises(UserError, match=r"Thing is no Partition"):
        PARTITIONERS.register(Thing)


# -- other installed packages ---------------------------------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path):
    """A folder with an installed package that declares things; a Python that has it on its path runs a program."""
    site = tmp_path / "site-packages"
    write(
        site / "their_methods.py",
        """
        from typing import ClassVar
        from torch import nn
        from manyheads import Algorithm, State, Update, SGD, settings

        @settings
        class Theirs(Algorithm):
            '''FedAvg by another name.'''
            name: ClassVar[str] = "theirs"
            paper: ClassVar[str] = "a paper of theirs"
            travels: ClassVar[str] = "the model"
            stays: ClassVar[str] = "nothing"
            models: ClassVar[tuple[str, ...]] = ("global",)
            lr: float = 0.1
            def init_server(self, params, population):
                return State(model=params.all)
            def local(self, cohort, server, client):
                return Update(State(model=cohort.sgd(server.model, opt=SGD(lr=self.lr), batch=10, epochs=1)))
            def global_model(self, server):
                return server.model

        @settings
        class Wide:
            name: ClassVar[str] = "wide"
            units: int = 8
            def build(self, shape, outputs):
                return nn.Linear(shape[0], outputs), "weight"
        """,
    )
    write(
        site / "their_methods-1.0.dist-info" / "METADATA", "Metadata-Version: 2.1\nName: their-methods\nVersion: 1.0\n"
    )
    write(
        site / "their_methods-1.0.dist-info" / "entry_points.txt",
        """
        [manyheads.algorithms]
        theirs = their_methods:Theirs
        broken = their_methods:Gone
        misnamed = their_methods:Theirs
        [manyheads.models]
        wide = their_methods:Wide
        """,
    )
    source = Path(import_file("manyheads")).parent.parent

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env={"PYTHONPATH": f"{source}:{site}", "PATH": ""},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def import_file(name: str) -> str:
    return str(sys.modules[name].__file__)


def test_things_of_installed_packages_are_found_by_name(installed):
    program = """
        import sys
        from manyheads.api import Run
        from manyheads.core.contract import ALGORITHMS
        from manyheads.core.errors import UserError
        from manyheads.models import MODELS
        assert {"theirs", "broken", "fedavg"} <= set(ALGORITHMS) and "theirs" in ALGORITHMS
        assert "their_methods" not in sys.modules, "imported before it is asked for"
        assert ALGORITHMS.find("theirs").lr == 0.1
        assert MODELS["wide"]().units == 8
        for name in ("broken", "misnamed"):
            try:
                ALGORITHMS.find(name)
            except UserError as error:
                print(error)
        import warnings
        from manyheads.experiments.methods import methods_of
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert "theirs" in methods_of("all") and len(told) == 2
        said = []
        assert "theirs" in ALGORITHMS.usable(said.append) and len(said) == 2
    """
    done = installed("-c", dedent(program))
    assert done.returncode == 0, done.stderr
    broken, misnamed = done.stdout.splitlines()
    assert "cannot import the algorithm their_methods:Gone of their-methods: module 'their_methods' has no" in broken
    assert "the entry point 'misnamed' of manyheads.algorithms gives something named 'theirs'" in misnamed


def test_the_command_line_lists_and_runs_them(installed):
    listed = installed("-m", "manyheads", "algorithms")
    assert "a paper of theirs" in listed.stdout, listed.stderr
    assert "cannot import the algorithm their_methods:Gone" in listed.stderr
    shown = installed("-m", "manyheads", "algorithms", "theirs")
    assert "--algorithm.lr" in shown.stdout, shown.stderr
    words = "run --algorithm theirs --algorithm.lr 0.2 --model wide --model.units 4 --clients 4 --rounds 1 --workers 1"
    done = installed("-m", "manyheads", *words.split(), "--out", "a-run")
    assert done.returncode == 0, done.stderr
    loaded = installed("-c", "import manyheads as mh; print(mh.load('a-run').algorithm)")
    assert loaded.stdout.strip() == "Theirs(lr=0.2)", loaded.stderr
