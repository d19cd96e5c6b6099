"""The cohort: local training of a group of clients, one after another or stacked.

Both give the same results up to rounding. Which is faster depends on the number of trained parameters and on the work
of convolutions (see docs/benchmarks.md): a loop on a private copy of the parameters is faster for large models, which do
not fit the cache when stacked, and for large images; stacking is faster for small ones, and for heads on features computed
once. Each call chooses anew, by sizes alone and never by a clock: the choice may change the last digits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from manyheads.core.contract import Batch, Round, Step
from manyheads.core.errors import UserError
from manyheads.core.features import Align, ClassFeatures
from manyheads.core.optim import SGD, TorchOptimizer
from manyheads.core.products import Leaf
from manyheads.core.randomness import Purpose, steps_per_pass
from manyheads.core.trees import State, Tree
from manyheads.engines.autograd import differentiated
from manyheads.engines.chain import by_hand
from manyheads.engines.chained import chained
from manyheads.engines.client_data import ClientBatch, ClientData, channels_last
from manyheads.engines.derivatives import Losses, gradient, hvp
from manyheads.engines.draws import Draws, Plan
from manyheads.engines.evaluation import class_features, features_of, predict
from manyheads.engines.local_update import LocalUpdate, Prox, TrainLoss, Values
from manyheads.engines.looped import looped
from manyheads.engines.stacked import stacked
from manyheads.engines.ways import CHAIN_STACK_BELOW, CONVOLVED_STACK_BELOW, STACK_BELOW, Mode
from manyheads.models import Net, TriedModel
from manyheads.models.chain import Chain

__all__ = ["LocalCohort"]


class LocalCohort:
    """Clients of one round on this machine; implements :class:`manyheads.core.contract.Cohort`.

    ``data`` holds their samples, in this order, and ``addresses`` says which clients of the federation they are. With
    ``pooled`` weights, all of them together act as one client whose loss is the weighted mean of theirs. ``purpose``
    keeps the draws of training and those of fine-tuning apart.
    """

    def __init__(
        self,
        model: TriedModel,
        data: ClientData,
        addresses: Sequence[int],
        round: Round,
        mode: Mode = "auto",
        pooled: Tensor | None = None,
        purpose: Purpose = Purpose.BATCHES,
    ) -> None:
        self.model, self.data, self.mode, self.pooled = model, data, mode, pooled
        self._addresses, self._round = list(addresses), round
        self._draws = Draws(model, data, self._addresses, round, purpose)
        self._values = Values(model.params.all, len(self._addresses))
        self._loss = TrainLoss(len(self._addresses), data.x.device, data.dtype)
        model.module.train()

    @property
    def addresses(self) -> Sequence[int]:
        return self._addresses

    @property
    def round(self) -> Round:
        return self._round

    @property
    def samples(self) -> Tensor:
        return torch.from_numpy(self.data.sizes).to(self.data.x.device)

    def class_counts(self, classes: int) -> Tensor | None:
        if not self.data.task.classes:
            return None
        clients = [self.data.y[start:stop] for start, stop in pairwise(self.data.offsets.tolist())]
        return torch.stack([torch.bincount(labels, minlength=classes) for labels in clients])

    def class_features(self, params: Tree, classes: int) -> ClassFeatures | None:
        if not self.data.task.classes:
            return None
        self._require_features(params)
        self.model.module.eval()
        found = class_features(self.model, params, self.data, classes)
        self.model.module.train()
        return found

    @property
    def train_loss(self) -> np.ndarray:
        return self._loss.mean()

    @property
    def passes(self) -> np.ndarray:
        """Passes that each client has made over its samples in this round."""
        return self._draws.visits / self.data.sizes

    def each(self, tree: Tree) -> Tree:
        return self._values.each(tree)

    # -- local training -----------------------------------------------------------------------------------------------

    def sgd(
        self,
        part: Tree,
        *,
        opt: SGD | TorchOptimizer,
        batch: int,
        epochs: int = 0,
        steps: int = 0,
        given: Tree | None = None,
        prox: Prox | None = None,
        correction: Tree | None = None,
        align: Align | None = None,
    ) -> Tree:
        if align is not None:
            self._require_features(part)
        if not part or not (epochs or steps):  # nothing to train, so no random draws either
            return self.each(part)
        plans = self._draws.plans(batch, epochs, steps)
        net, x, rest = self.model.net, self.data.x, given or Tree()
        if self._features_last(part, plans):
            assert self.model.head_net is not None
            net, x, rest = self.model.head_net, features_of(self.model, rest, self.data), Tree()
        if not isinstance(opt, SGD) and (prox or correction):
            raise UserError("a pull or a correction needs SGD", given=opt.name)
        common = (self.model, self.data, self._values, self._draws, self._loss)
        update = LocalUpdate(*common, net, x, part, rest, plans, opt, prox, correction, align)
        if isinstance(opt, SGD) and (chain := self._chain(net, x, align)) is not None:
            return chained(update, chain, self._stacks(part, batch, net, chain))
        if isinstance(opt, SGD) and align is None and self._stacks(part, batch, net):
            return stacked(update)
        return looped(update)

    def steps(self, *, batch: int, epochs: int = 0, steps: int = 0) -> Tensor:
        per_epoch = [steps_per_pass(int(n), batch, self.model.smallest_batch) for n in self.data.sizes]
        return torch.tensor([steps or epochs * e for e in per_epoch], device=self.data.x.device)

    @torch.no_grad()
    def scan(
        self,
        step: Step,
        state: State,
        *,
        batches: tuple[int, ...],
        epochs: int = 0,
        steps: int = 0,
        independent: bool = True,
    ) -> State:
        counts = self.steps(batch=batches[0], epochs=epochs, steps=steps).cpu().numpy()
        streams = self._draws.streams(batches, counts, independent)
        chain = self._chain(self.model.net, self.data.x)
        if self._stacks(self.model.params.all, max(batches), self.model.net, chain):
            return self._scan(step, state, streams, counts, np.arange(len(counts)))
        alone = []
        for client in range(len(counts)):
            with self._draws.noise(client):
                own = state.map(lambda v: channels_last(v[client])[None])  # noqa: B023 (used at once)
                alone.append(self._scan(step, own, streams, counts, np.array([client])))
        return state.unflat({k: torch.cat([s.flat[k] for s in alone]) for k in state.flat})

    def _scan(
        self, step: Step, state: State, streams: list[list[Plan]], counts: np.ndarray, members: np.ndarray
    ) -> State:
        """Carry out the steps of some clients, stacked; clients that have finished leave the stack."""
        order = np.argsort(-counts[members], kind="stable")
        members = members[order]
        state = state.map(lambda v: v[torch.from_numpy(order).to(v.device)])
        croppers = self._draws.croppers(members)
        finished = []
        for time in range(int(counts[members[0]])):
            active = int((counts[members] > time).sum())
            if active < len(members):
                finished.append(state.map(lambda v: v[active:]))  # noqa: B023 (used at once)
                state, members = state.map(lambda v: v[:active]), members[:active]  # noqa: B023
            drawn = [self._draws.batch([plans[m][time] for m in members], members, croppers) for plans in streams]
            state = step(state, *drawn)
        parts = [s.flat for s in (state, *reversed(finished))]
        back = torch.from_numpy(np.argsort(order))
        return state.unflat({k: torch.cat([p[k] for p in parts])[back.to(parts[0][k].device)] for k in parts[0]})

    # -- gradients ----------------------------------------------------------------------------------------------------

    def draw(self, batch: int) -> ClientBatch:
        plans = self._draws.plans(batch, 0, 1)
        everyone = np.arange(len(plans))
        drawn = self._draws.batch([plan[0] for plan in plans], everyone, self._draws.croppers(everyone))
        if self.pooled is None:
            return drawn
        share = (self.pooled / self.pooled.sum()).to(drawn.weight)
        weight = drawn.weight * share[:, None]
        return replace(drawn, weight=weight).only(weight > 0, np.zeros(1, int))

    def losses(self, params: Tree) -> Tensor:
        found = predict(self.model, params, self.data, self.mode).losses
        self.model.module.train()
        found = found if self.data.weight is None else found * self.data.weight.cpu().numpy()
        clients = np.repeat(np.arange(len(self.data.sizes)), self.data.sizes)
        sums = np.bincount(clients, weights=found, minlength=len(self.data.sizes))
        return torch.from_numpy(sums / self.data.sizes).to(self.data.x.device)

    def gradient(self, params: Tree, on: Batch) -> Tree:
        return self._differentiate(params, on, None)

    def hvp(self, params: Tree, vector: Tree, on: Batch) -> Tree:
        return self._differentiate(params, on, vector)

    def _differentiate(self, params: Tree, on: Batch, vector: Tree | None) -> Tree:
        """The gradient or, given a vector, the Hessian-vector product of each client, stacked or one after another."""
        assert isinstance(on, ClientBatch)
        if self.model.statistics:
            raise UserError(
                "this method works with gradients alone and would leave running statistics as they were",
                fix="use a method that trains by SGD (fedavg, fedper, fedrep, ...), or GroupNorm",
            )
        chain = self._chain(self.model.net, self.data.x)
        if len(on) > 1 and not self._stacks(params, on.rows.shape[1], self.model.net, chain):
            return _cat([self._differentiate(*self._one(i, params, on, vector)) for i in range(len(on))])
        found: Mapping[str, Tensor] | Mapping[str, Leaf]
        if chain is None:
            loss_C, found = differentiated(self.model, self._draws, self._values, params, on, vector)
        else:
            at = (chain, dict(params), on.x.flatten(2), Losses(self.data.task, on.y, on.weight))
            loss_C, found = gradient(*at) if vector is None else hvp(*at, vector.terms)
        self._loss.sums.index_add_(0, torch.from_numpy(on.members).to(loss_C.device), loss_C)
        self._loss.steps[on.members] += 1
        return Tree(found)

    def _one(
        self, index: int, params: Tree, on: ClientBatch, vector: Tree | None
    ) -> tuple[Tree, ClientBatch, Tree | None]:
        mask = torch.zeros_like(on.weight, dtype=torch.bool)
        mask[index] = on.weight[index] > 0
        batch = on.only(mask, on.members[index : index + 1])
        return (
            self._values.of_client(params, index),
            batch,
            None if vector is None else vector.map(lambda v: v[index : index + 1]),
        )

    # -- choice of the implementation ---------------------------------------------------------------------------------

    def _stacks(self, part: Tree, batch: int, net: Net, chain: Chain | None = None) -> bool:
        """Whether clients that train this part of a net in batches of so many samples (0: all) are stacked."""
        if self.model.random or not self.model.stackable or self.mode == "loop":
            return False
        size = sum(self.model.params.all[name].numel() for name in part)
        small = size <= (STACK_BELOW if chain is None else CHAIN_STACK_BELOW)
        if net is not self.model.head_net:
            largest = int(self.data.sizes.max())
            small = small and self.model.convolved * min(batch or largest, largest) <= CONVOLVED_STACK_BELOW
        return self.mode == "stacked" or ((small or self.data.x.device.type != "cpu") and len(self._addresses) > 1)

    def _chain(self, net: Net, x: Tensor, align: Align | None = None) -> Chain | None:
        """The layers, if they can be trained without autograd; None if images are augmented anew for every batch.

        A loss on features needs a head that begins where the layer below it ends, activation included.
        """
        apart = align is None or (self.model.head_net is not None and type(self.model.head_net.module) is nn.Linear)
        return by_hand(net, x, self.data.task) if apart and not self.data.augment else None

    def _require_features(self, params: Tree) -> None:
        """An error unless these parameters, or some of them, give features: the inputs of a head that comes last."""
        if self.model.head_net is None or params.keys() <= self.model.params.head.keys():
            raise UserError(
                "this method needs features of the model, and its head is not a layer on top of others",
                fix="name the last layer as the head of the model",
            )

    def _features_last(self, part: Tree, plans: list[Plan]) -> bool:
        """Whether the frozen body's features are computed once: only the head is trained, for at least one pass."""
        visits = sum(len(rows) for plan in plans for rows in plan)
        head = self.model.head_net is not None and part.keys() == self.model.params.head.keys()
        return (
            head
            and not self.model.random
            and not self.model.mixes
            and not self.data.augment
            and visits >= len(self.data.y)
        )


def _cat(trees: Sequence[Tree]) -> Tree:
    return Tree({k: torch.cat([t[k] for t in trees]) for k in trees[0]})
