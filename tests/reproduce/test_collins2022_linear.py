"""The linear figures of collins2022: fine-tuning against gradient descent written out, and claims on made-up values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from manyheads.core.optim import FineTune
from manyheads.core.randomness import Purpose, generator
from manyheads.reproduce.collins2022.figure1 import Figure1
from manyheads.reproduce.collins2022.figure3 import Figure3
from manyheads.reproduce.collins2022.linear import errors_of_new_client, iterates
from manyheads.reproduce.drawing import banded, row
from manyheads.reproduce.experiment import Place
from manyheads.reproduce.records import Record, Result
from manyheads.theory import Collins2022

SMALL = {"dim": 8, "rank": 2, "clients": 6, "rounds": 40, "seeds": 2}


@pytest.mark.parametrize("scope", ["all", "head"])
def test_a_new_client_is_tuned_by_gradient_descent_on_its_first_samples(scope):
    setting = Collins2022(dim=8, rank=2, clients=6, rounds=5, seed=4)
    *_, trained = iterates(setting)
    tune = FineTune(scope=scope, steps=30, batch=0, lr=0.02, momentum=0.0)
    found = errors_of_new_client(setting, trained, [3, 12], 0.1, tune)
    rng = generator(4, Purpose.NEW_CLIENTS)
    truth = setting.problem().body @ rng.normal(size=2)
    x = rng.normal(size=(12, 8))
    y = x @ truth + 0.1 * rng.normal(size=12)
    for n, error in zip([3, 12], found, strict=True):
        body, head = trained.body, trained.head
        for _ in range(30):  # 1/(2n) sum of squares
            slope = x[:n].T @ (x[:n] @ body @ head - y[:n]) / n
            step = np.outer(slope, head) if scope == "all" else 0.0
            body, head = body - 0.02 * step, head - 0.02 * body.T @ slope
        assert error == pytest.approx(np.square(body @ head - truth).sum(), rel=1e-9)


def test_facts_and_figures_of_small_problems(tmp_path: Path):
    place = Place(tmp_path)
    three, one = Figure3(**SMALL, samples=(4, 16)), Figure1(**SMALL)
    found = {part: {seed: three.measure(part, seed, place) for seed in range(2)} for part in three.parts()}
    assert three.parts() == ["tau 2", "tau 1"]
    facts = found["tau 2"][0]
    assert len(facts["gradient"]) == 5
    assert len(facts["all"]) == len(facts["head"]) == 2
    *_, last = iterates(three.setting("tau 2", 0))
    assert facts["gradient"][-1] == last.gradient
    assert facts["distance"] == last.distance
    assert len(three.claims(found)) == 4
    assert len(three.figure(found).to_dict()["hconcat"]) == 2
    distances = {part: {0: one.measure(part, 0, place)} for part in one.parts()}
    assert distances["tau 2"][0]["distance"][-1] == last.distance
    assert one.figure(distances).to_dict()["layer"]


def made_up(
    vanishing: float, constant: float, fedavg: float, d_gd: float
) -> dict[str, dict[int, dict[str, list[float]]]]:
    """Gradient norms that fall by factors a round for D-GD and FedAvg, and errors of three seeds."""
    rounds = np.arange(0, 2001, 10)
    return {
        part: {
            seed: {
                "gradient": (0.1 * factor**rounds).tolist(),
                "all": [error * (1 + 0.01 * seed)] * 7,
                "head": [(0.1 if part == "tau 2" else 10) * error * (1 + 0.02 * seed)] * 7,
            }
            for seed in range(3)
        }
        for part, factor, error in (("tau 2", constant, fedavg), ("tau 1", vanishing, d_gd))
    }


def test_claims_hold_on_what_fits_and_fail_on_what_contradicts():
    verdicts = [claim.verdict for claim in Figure3().claims(made_up(0.99, 1.0, 0.1, 1.0))]
    assert verdicts == ["reproduced"] * 4
    verdicts = [claim.verdict for claim in Figure3().claims(made_up(1.0, 0.99, 1.0, 0.1))]
    assert verdicts[:3] == ["not reproduced"] * 3
    assert [claim.found_here for claim in Figure3().claims({})] == [False, False, False, True]
    assert all(claim.verdict == "undecided" for claim in Figure3().claims({}))


def test_what_is_found_here_does_not_count_for_the_verdict(tmp_path: Path):
    found = made_up(0.99, 1.0, 0.1, 1.0)
    for facts in found["tau 2"].values():
        facts["head"] = [10.0 * e for e in facts["all"]]
    records = [Record(part, seed, "", 0.0, None, facts) for part, runs in found.items() for seed, facts in runs.items()]
    result = Result.of(Figure3(seeds=3), "paper", records)
    assert result.claims[3].verdict == "partly"
    assert result.verdict == "reproduced"
    result.write(tmp_path)
    assert Result.read(tmp_path) == result


def test_lines_like_others_are_dashed_in_their_colour_with_bars_of_the_deviation():
    rows = [row(line, seed, 1, seed + 1.0) for line in ("a", "b", "a too") for seed in range(2)]
    chart = banded(rows, "y", "x", like={"a too": "a"}, spread="deviation").to_dict()
    bars, lines = chart["layer"]
    assert bars["mark"]["type"] == "errorbar"
    assert bars["mark"]["extent"] == "stdev"
    a, b, too = lines["encoding"]["color"]["scale"]["range"]
    assert a == too != b
    dashes = lines["encoding"]["strokeDash"]["scale"]["range"]
    assert dashes[0] == dashes[1] != dashes[2]


def test_a_distance_that_does_not_fall_contradicts_figure_1():
    def lines(fedavg: float, d_gd: float) -> dict[str, dict[int, dict[str, list[float]]]]:
        rates = {"tau 2": fedavg, "tau 1": d_gd}
        return {part: {s: {"distance": [f**t for t in range(200)]} for s in range(3)} for part, f in rates.items()}

    assert [claim.verdict for claim in Figure1().claims(lines(0.9, 1.0))] == ["reproduced", "reproduced"]
    assert [claim.verdict for claim in Figure1().claims(lines(1.0, 0.9))] == ["not reproduced", "not reproduced"]
