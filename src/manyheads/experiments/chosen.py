"""From the answer to the model: the settings of a run of one method, as a comparison chose them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from manyheads.core.errors import UserError, one_of
from manyheads.core.optim import FineTune
from manyheads.core.settings import as_dict
from manyheads.experiments.method_result import MethodResult
from manyheads.experiments.results import ComparisonResult
from manyheads.experiments.tune import TUNED_RESULTS, TuningResult
from manyheads.run.config_file import COMPARISON, TUNING, read_kept_settings

__all__ = ["chosen_settings"]


def chosen_settings(folder: Path, method: str | None) -> dict[str, Any]:
    """The settings of a run that trains a method of the comparison in a folder on all training samples.

    Step size and rounds are those that validation samples chose; ``NAME+ft`` is fine-tuned as in the comparison. The folder
    may also be that of a search for the settings of one method.
    """
    if (folder / TUNED_RESULTS).is_file():
        return _tuned(TuningResult.read(folder), folder, method)
    result = ComparisonResult.read(folder)
    trained = [name for name, found in result.methods.items() if found.algorithm and found.kind != "ceiling"]
    if method is None:
        best = result.recommendation.method
        fix = f"recommended: manyheads run --from {folder} {best}" if best else None
        raise UserError("which of its methods?", where="from", allowed=", ".join(trained), fix=fix)
    found = result.methods.get(method)
    if found is None:
        raise one_of("method of this comparison", method, trained, where="from")
    if found.kind == "ceiling":
        raise UserError(
            "is one model on the data of all sites, which no federation has in one place", where="from", given=method
        )
    if not found.algorithm:
        raise UserError(
            "is what each site can do alone: nothing is trained together", where="from", given=method,
            allowed=", ".join(trained),
        )  # fmt: skip
    if not (folder / COMPARISON).is_file():
        raise UserError(
            f"{folder} has no {COMPARISON}: its data were given in Python",
            where="from",
            fix=f"in Python: simulate(ALGORITHM, model, federation, rounds={found.rounds})",
        )
    return _settings(folder / COMPARISON, found)


def _tuned(found: TuningResult, folder: Path, method: str | None) -> dict[str, Any]:
    if method not in (None, found.method):
        raise UserError("was not tuned there", where="from", given=method, allowed=found.method)
    return _settings(folder / TUNING, found)


def _settings(file: Path, found: MethodResult | TuningResult) -> dict[str, Any]:
    """The settings in a file, with what was found."""
    table = {k: v for k, v in read_kept_settings(file).items() if k != "compare"}
    tune = as_dict(FineTune())
    if found.finetuned:
        tune = table["finetune"] | ({} if found.rate is None else {"lr": found.rate})
    return table | {"algorithm": found.algorithm, "rounds": found.rounds, "finetune": tune}
