"""The model of a site that took part in the training."""

from __future__ import annotations

from typing import Any

import numpy as np

from manyheads.core.errors import UserError, did_you_mean
from manyheads.core.settings import build
from manyheads.core.words import quoted
from manyheads.data import Encoding, Federation, source_of
from manyheads.engines.memory import Fitted
from manyheads.onboarding.personalize import Personal
from manyheads.run.config import Config, federation_of
from manyheads.run.config_file import CUSTOM
from manyheads.run.result import Run
from manyheads.run.rounds import Evaluated

__all__ = ["federation_again", "site_model", "site_names"]

EXAMPLES = 8
"""random inputs on which exports are tried"""


def site_names(run: Run) -> list[str]:
    """The names of the run's sites; without names, they are called client 0, client 1, ..."""
    about = run.directory.about()
    return [about.site(client) for client in range(run.directory.config().facts.clients)]


def site_model(run: Run, site: str, federation: Federation | None = None) -> Personal:
    """The final model of a site of the run, with the site's own scaling, and what was measured there.

    A run that fine-tunes its final models, or whose method adapts them, needs the site's training samples: they are read
    again from where the run had them, unless the run's ``federation`` is given.

    >>> import manyheads as mh
    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=4, seed=0)
    >>> run = mh.simulate(mh.FedRep(), "mlp", federation, rounds=2)
    >>> list(site_model(run, "client 3").facts["test"])[:2]
    ['accuracy', 'loss']
    """
    names = site_names(run)
    if site not in names:
        raise UserError(
            "the run has no such site", where="site", given=site, allowed=quoted(*names), fix=did_you_mean(site, names)
        )
    client = names.index(site)
    encoding = run.directory.site_encoding(client)
    again = federation or federation_again(run) if run.adapts else None
    mine = run.final_model(client, again) if again else Fitted(run.client_model(client))
    facts = _facts(run, client, site, encoding)
    return Personal(run, mine.params, encoding, _examples(encoding), facts, mine.memory)


def federation_again(run: Run) -> Federation:
    """The federation that the run was trained on, read again."""
    kept = run.directory.config()
    why = "its models are adapted to each site's training samples, which are needed again"
    if kept.settings["data"]["name"] == CUSTOM:
        raise UserError(why, where=str(run.directory.path), fix="in Python: site_model(run, site, federation)")
    config = build(Config, kept.settings, where=str(run.directory.path))
    federation, _ = federation_of(config, source_of(config.data))
    if federation.fingerprint != kept.facts.fingerprint:
        raise UserError(f"{why}: the data are not what they were", where=str(run.directory.path))
    return federation


def _facts(run: Run, client: int, site: str, encoding: Encoding) -> dict[str, Any]:
    """What the model is, and the site's values in the run's last evaluation of such models."""
    last: dict[str, Any] = run.history[-1] if len(run.history) else {}
    found = [Evaluated.of(record) for record in (last.get("evaluation"), *last.get("also", ())) if record]
    models = [e for e in found if e.who == "all" and (e.model == "finetuned") == run.finetunes]
    test: dict[str, float | None] = {}
    for evaluated in models[:1]:
        if client in evaluated.clients:
            row = list(evaluated.clients).index(client)
            test = {name: values[row] for name, values in evaluated.per_client.items()}
    return {
        "site": site,
        "method": run.algorithm.name,
        "rounds": run.rounds,
        "task": encoding.task,
        "protocol": models[0].protocol if models else "",
        "test": test,
        "seed": run.training.seed,
        "warnings": [],
    }


def _examples(encoding: Encoding) -> np.ndarray:
    rng, shape = np.random.default_rng(0), (EXAMPLES, *encoding.shape)
    kind = np.dtype(encoding.dtype)
    if kind.kind == "f":
        return rng.normal(size=shape).astype(kind)
    return rng.integers(0, 256 if kind == np.uint8 else 2, shape).astype(kind)  # pixels, or tokens of any vocabulary
