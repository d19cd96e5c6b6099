"""That both engines do the same work: on the same batches they must give the same model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from plain import Batches, Plain, Shuffled
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.flop_counter import FlopCounterMode
from workloads import Workload

from manyheads import FedAvg, Model, Scaffold, simulate
from manyheads.core.randomness import Purpose, batch_plan, generator
from manyheads.data import Federation, Samples

__all__ = ["arithmetic", "difference", "in_double", "traffic"]


class Planned:
    """Where the plain loop's batches come from when it is checked: the draws of our first round."""

    def passes(self, data: TensorDataset, client: int, phase: int, batch: int, epochs: int, steps: int) -> Batches:
        rng = generator(0, Purpose.BATCHES, 1, client, phase)
        plan = batch_plan(rng, len(data), batch=batch, epochs=epochs, steps=steps)
        return iter(DataLoader(data, batch_sampler=plan))

    def draw(self, data: TensorDataset, client: int, stream: int, batch: int, steps: int) -> Batches:
        rng = generator(0, Purpose.BATCHES, 1, client, 0, *([stream] if stream else []))
        return iter(
            DataLoader(data, batch_sampler=batch_plan(rng, len(data), batch=batch, steps=steps, independent=True))
        )


def in_double(workload: Workload) -> Workload:
    """The same in double precision.

    In single precision the plain loop is no measure: a sample at the kink of a ReLU falls to either side of it. After a
    round of ``mlp-fedrep`` it is 1e-4 from its own result in double precision, as far as ours is.
    """

    def wide(samples: Samples) -> Samples:
        x, y = (v.astype(np.float64) if v.dtype == np.float32 else v for v in (samples.x, samples.y))
        return Samples(x, y, samples.offsets)

    def federation() -> Federation:
        single = workload.federation()
        return replace(single, train=wide(single.train), test=wide(single.test))

    def model() -> Model:
        single = workload.model()
        return Model(single.module.double(), head=list(dict.fromkeys(k.rpartition(".")[0] for k in single.params.head)))

    return replace(workload, model=model, federation=federation)


def difference(workload: Workload) -> float:
    """The largest difference between the results of one round, relative to the largest value. Without dropout."""
    plain = Plain(workload, Planned())
    model = workload.model()
    for module in [*plain.net.modules(), *model.module.modules()]:
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    if workload.evaluation:
        run = simulate(workload.algorithm, model, workload.federation(), rounds=1, cohort=1)
        plain.server = {k: v for k, v in run.client_model(0).items() if k in plain.server}
        plain.heads = [{k: run.client_model(i)[k] for k in plain.head} for i in range(len(plain.heads))]
        loss, _ = plain.evaluate()
        return abs(float(np.mean(loss)) - run.history[-1]["evaluation"]["loss"])
    run = simulate(workload.algorithm, model, workload.federation(), rounds=1)
    plain.round()
    server = next(iter(run.server.values()))
    found = [_apart(server, plain.server)]
    if isinstance(plain.a, Scaffold):
        found.append(_apart(run.server.control, plain.control))
    found += [_apart(run.client_model(i), own) for i in range(len(plain.train)) if (own := plain.personal(i))]
    return max(found)


def _apart(ours: Mapping[str, Tensor], plain: Mapping[str, Tensor]) -> float:
    return max(float((ours[k] - v).abs().max() / v.abs().max()) for k, v in plain.items())


def arithmetic(workload: Workload) -> int:
    """Floating-point operations of the products and convolutions of a round, if it consists of ordinary SGD steps.

    0 if they are not known: torch's counter does not see those inside an LSTM.
    """
    plain = Plain(workload, Shuffled())
    a = workload.algorithm
    if not isinstance(a, FedAvg) or any(isinstance(m, nn.LSTM) for m in plain.net.modules()):
        return 0
    samples = len(plain.train[0])
    plain.a = FedAvg(steps=1, batch=a.batch, sgd=a.sgd)
    with FlopCounterMode(display=False) as counter:
        plain.local(0)
    per_sample = counter.get_total_flops() / min(a.batch, samples)
    return int(per_sample * (a.steps * a.batch or a.epochs * samples) * len(plain.train))


def traffic(workload: Workload) -> int:
    """Bytes of weights that such a round reads and writes, if every step goes through all of them.

    Each step reads a weight in the forward pass, all but the first layer's in the backward pass, reads and writes it in
    the update, and its velocity too, if it has one. 0 if the round consists of other steps.
    """
    a, model = workload.algorithm, workload.model()
    if not isinstance(a, FedAvg):
        return 0
    federation = workload.federation()
    steps = a.steps or a.epochs * -(-len(federation.train.client(0)[1]) // a.batch)
    weights = [p.numel() * p.element_size() for p in model.params.all.values()]
    moved = (5 if a.sgd.momentum else 3) * sum(weights) + sum(weights[1:])
    return moved * steps * len(federation)
