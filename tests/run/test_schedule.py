"""Schedules of the step size, for every method, and fine-tuning in two parts."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter

import pytest
import torch
from problems import net_for, ragged, small_net

import manyheads as mh
from manyheads import SGD, Engine, FineTune, Model, Schedule, UserError, simulate
from manyheads.core.contract import ALGORITHMS, Round
from manyheads.core.randomness import Purpose
from manyheads.core.rounds import at_rate
from manyheads.engines.client_data import ClientData
from manyheads.engines.cohort import LocalCohort
from manyheads.engines.fine_tuning import fine_tuned

HALF = Schedule(kind="step", factor=0.5, every=1)


def test_the_course_of_each_kind():
    cosine = Schedule(kind="cosine", end=0.2)
    assert [cosine.rate(t, 10) for t in (1, 6)] == pytest.approx([1.0, 0.6])
    assert cosine.rate(10, 10) == pytest.approx(0.2, abs=0.03)
    assert all(cosine.rate(t, 10) > cosine.rate(t + 1, 10) for t in range(1, 10))
    assert [Schedule(kind="cosine", rounds=4, end=0.5).rate(t, 99) for t in (5, 50)] == pytest.approx([0.5, 0.5])
    assert [Schedule(kind="step", factor=0.1, every=3).rate(t, 9) for t in (1, 3, 4, 7)] == pytest.approx(
        [1, 1, 0.1, 0.01]
    )
    assert Schedule(kind="step", factor=0.1, every=1).rate(5000, 9) > 0  # a step size of 0 is none


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_a_round_at_a_rate_is_a_round_with_that_step_size(name):
    """For every method: the second round at half the step size is that of a method with half the step size."""
    if name == "fedrep-linear":
        pytest.skip("its problem is another; test_a_rate_changes_only_the_step_sizes has it")
    algorithm, federation, net = ALGORITHMS[name](), ragged(), net_for(name)
    halved = at_rate(algorithm, Round(2, 0, 1, 1, rate=0.5))
    scheduled = simulate(algorithm, net, federation, rounds=1, schedule=Schedule(kind="cosine", rounds=1, end=0.5))
    assert scheduled.checksum == simulate(algorithm, net, federation, rounds=1).checksum  # the first round is at 1
    second = simulate(replace(halved), net, federation, rounds=1)
    now = simulate(algorithm, net, federation, rounds=1, schedule=Always(kind="step"))
    assert now.checksum == second.checksum


class Always(Schedule):
    """Half the step size in every round."""

    def rate(self, round: int, rounds: int) -> float:
        return 0.5


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_a_rate_changes_only_the_step_sizes(name):
    algorithm = ALGORITHMS[name]()
    halved = at_rate(algorithm, Round(1, 0, 1, 1, rate=0.5))
    assert list(algorithm.scheduled())
    for path in algorithm.scheduled():
        assert attrgetter(path)(halved) == 0.5 * attrgetter(path)(algorithm)
    back = at_rate(halved, Round(1, 0, 1, 1, rate=2.0))
    assert back == algorithm


def test_a_scheduled_run_is_the_same_with_workers_and_after_a_resume(tmp_path):
    arguments, more = (mh.FedAvg(), small_net(), ragged()), {"schedule": HALF, "participation": 0.5}
    whole = simulate(*arguments, rounds=4, engine=Engine(workers=2), **more)
    simulate(*arguments, rounds=2, out=tmp_path / "run", **more)
    assert simulate(*arguments, rounds=4, out=tmp_path / "run", resume=True, **more).checksum == whole.checksum


def test_a_cosine_that_ends_with_the_run_cannot_be_stretched_by_a_resume(tmp_path):
    arguments = (mh.FedAvg(), small_net(), ragged())
    simulate(*arguments, rounds=2, out=tmp_path / "run", schedule=Schedule(kind="cosine"))
    with pytest.raises(UserError, match="made for its number of rounds"):
        simulate(*arguments, rounds=4, out=tmp_path / "run", resume=True, schedule=Schedule(kind="cosine"))
    with pytest.raises(UserError, match="schedule is not what this run was started with"):
        simulate(*arguments, rounds=2, out=tmp_path / "run", resume=True)


def test_a_method_without_a_step_size_refuses_a_schedule():
    @mh.settings
    class Still(mh.Algorithm):
        """Nothing is trained."""

        name = "still"
        paper, travels, stays, models = "none", "all", "nothing", ("global",)

        def init_server(self, params, population):
            return mh.State(model=params.all)

        def local(self, cohort, server, client):
            return mh.Update(mh.State(model=cohort.each(server.model)))

        def global_model(self, server):
            return server.model

    with pytest.raises(UserError, match="no step size that a schedule could change"):
        simulate(Still(), small_net(), ragged(), rounds=1, schedule=HALF)


# -- LP-FT -------------------------------------------------------------------------------------------------------------


def test_lp_ft_is_the_head_first_and_then_the_whole_model():
    federation, net = ragged(), Model(small_net())
    data = ClientData.of(federation.train.select([1, 3]), federation.task, net.params.all["0.weight"])
    tried = net.tried(data.x[:2], federation.task, federation.outputs)

    def cohort():
        return LocalCohort(tried, data, [1, 3], Round(1, 0, 10, 2), purpose=Purpose.FINETUNE)

    tune = FineTune(scope="lp-ft", epochs=2, lr=0.1)
    found = fine_tuned(cohort(), tried, net.params.all, tune)
    by_hand, opt = cohort(), SGD(lr=0.1)
    head = by_hand.sgd(net.params.head, given=net.params.body, opt=opt, batch=10, epochs=2)
    wanted = by_hand.sgd(net.params.body | head, opt=opt, batch=10, epochs=2)
    for name, value in wanted.items():
        assert torch.equal(found[name], value)
    probed = fine_tuned(cohort(), tried, net.params.all, replace(tune, scope="head"))
    assert all(torch.equal(probed[name], value) for name, value in head.items())


def test_lp_ft_is_named_by_the_protocol_and_needs_a_head():
    run = simulate(mh.FedAvg(), small_net(), ragged(), rounds=1, finetune=FineTune(scope="lp-ft", steps=3))
    assert "after fine-tuning the head for 3 steps, then the whole model for 3 steps" in run.final[0]["protocol"]
    assert FineTune.parse("lp-ft:5") == {"scope": "lp-ft", "epochs": "5"}
    with pytest.raises(UserError, match="no head to fine-tune"):
        simulate(mh.FedAvg(), Model(small_net(), head=()), ragged(), rounds=1, finetune=FineTune(scope="lp-ft"))
