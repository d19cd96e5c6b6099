"""``federate demo``: a server and three sites on this machine, with embedded data; ended and removed afterwards."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from manyheads.core.files import fresh_folder
from manyheads.core.settings import as_dict
from manyheads.data.public.hospitals import HEART, Heart
from manyheads.experiments.plan import Comparison
from manyheads.federate.follow import followed
from manyheads.federate.kit import Kit, approve, init_study
from manyheads.federate.processes import free_port
from manyheads.federate.serve import server, site
from manyheads.federate.study import Study
from manyheads.run.training import Training

__all__ = ["demonstrate"]

HOSPITALS = ("Cleveland", "Hungary", "VA")
SHORT = Comparison(
    methods=("local", "fedavg", "fedrep"), seeds=1, folds=2, rates=(0.1,), batch=32, local_rounds=20,
    baselines=("majority", "linear"), pooled=False,
)  # fmt: skip


def demonstrate(out: Path | None, rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    """A short comparison of three hospitals; gives the facts of its end."""
    with ExitStack() as stack:
        place = Path(stack.enter_context(TemporaryDirectory(prefix="manyheads-demo-"))) if out is None else out
        if out is not None:
            fresh_folder(out)
        data = {k: v for k, v in as_dict(Heart().reading).items() if k not in ("path", "client")}
        study = Study(
            name="demo",
            sites=HOSPITALS,
            address=f"127.0.0.1:{free_port()}",
            data=data,
            training=Training(rounds=rounds),
            compare=SHORT,
        )
        say("making the study: certificates, a kit for each of three hospitals")
        folder = init_study(place / "study", study, ["127.0.0.1", "localhost"])
        say("starting the server")
        stack.enter_context(server(folder, "127.0.0.1", say))
        for name in HOSPITALS:
            kit = Kit(folder.kits / name)
            approve(kit, lambda words: None, lambda words: True)
            stack.enter_context(site(kit, HEART / f"{name}.csv", say))
        say(
            "comparing training alone, FedAvg and FedRep: a few minutes, since Flower starts a process for every message"
        )
        done = followed(folder, "compare", place / "comparison", False, say)
        kept = {"out": str(out) if out else None, "report": done["report"] if out else None}
        where = f"report: {done['report']}" if out else "everything was in a temporary folder; --out keeps it"
        return {**done, **kept, "text": f"{done['text']}\n\n{where}"}
