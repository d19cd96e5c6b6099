"""The cohort: local training of a group of clients, one after another or stacked.

Results are the same to rounding. Which is faster depends on the size of what is trained (see docs/benchmarks.md):
a loop on a private copy of the parameters beats stacking for large models, which fall out of the cache when stacked;
stacking wins for small ones, and for the heads on features that are computed once. The cohort chooses call by call.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from manyheads.core.contract import Batch, Round, Step
from manyheads.core.errors import UserError, first_line
from manyheads.core.optim import SGD, FineTune, TorchOptimizer
from manyheads.core.randomness import Purpose, steps_per_pass
from manyheads.core.trees import State, Tree
from manyheads.engines.augment import crop_flip, draw_crops
from manyheads.engines.chain import Chain, descend
from manyheads.engines.client_data import ClientBatch, ClientData, channels_last, pad_rows, slices
from manyheads.engines.derivatives import Losses, gradient, hvp
from manyheads.engines.descent import Descent, TorchDescent, gradients
from manyheads.engines.draws import Draws, Plan
from manyheads.engines.layers import Steps
from manyheads.models import Model, Net, losses

__all__ = ["STACK_BELOW", "LocalCohort", "Mode", "fine_tuned"]

Mode = Literal["auto", "loop", "stacked"]
Prox = tuple[float | Tensor, Tree]
STACK_BELOW = 110_000
"""trained parameters a client up to which stacking the clients pays on a CPU"""
CHAIN_STACK_BELOW = 1_000_000
"""the same for plain chains of linear layers, computed by hand"""


class LocalCohort:
    """Clients of one round on this machine; implements :class:`manyheads.core.contract.Cohort`.

    With ``pooled`` weights, all of them together act as one client whose loss is the weighted mean of theirs.
    ``purpose`` keeps the draws of training and those of fine-tuning apart.
    """

    def __init__(
        self,
        model: Model,
        data: ClientData,
        clients: Sequence[int],
        round: Round,
        mode: Mode = "auto",
        pooled: Tensor | None = None,
        purpose: Purpose = Purpose.BATCHES,
    ) -> None:
        self.model, self.data, self.clients, self.mode, self.pooled = model, data, list(clients), mode, pooled
        self._round = round
        self._draws = Draws(model, data, self.clients, round, purpose)
        model.module.train()
        self._template = model.params.all
        self._chains: dict[Net, Chain | None] = {}
        self._loss = torch.zeros(len(self.clients), device=data.x.device, dtype=data.dtype)
        self._loss_steps = np.zeros(len(self.clients))

    @property
    def round(self) -> Round:
        return self._round

    @property
    def samples(self) -> Tensor:
        return torch.from_numpy(self.data.sizes).to(self.data.x.device)

    @property
    def train_loss(self) -> np.ndarray:
        """Mean loss of each client over the batches it trained on; NaN if there were none."""
        steps = np.where(self._loss_steps > 0, self._loss_steps, np.nan)
        return self._loss.double().cpu().numpy() / steps

    def each(self, tree: Tree) -> Tree:
        count = len(self.clients)
        own = {k: v.expand(count, *v.shape) if self._is_shared(k, v) else v for k, v in tree.items()}
        return Tree(own).clone()

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
    ) -> Tree:
        if not part or not (epochs or steps):  # nothing to do draws nothing
            return self.each(part)
        plans = self._draws.plans(batch, epochs, steps)
        net, x, rest = self.model.net, self.data.x, given or Tree()
        if self._features_last(part, plans):
            assert self.model.head_net is not None
            net, x, rest = self.model.head_net, self._features(rest), Tree()
        if not isinstance(opt, SGD) and (prox or correction):
            raise UserError("a pull or a correction needs SGD", given=opt.name)
        if isinstance(opt, SGD) and (chain := self._chain(net, x)) is not None:
            return self._sgd_chain(chain, x, part, rest, plans, opt, prox, correction)
        if isinstance(opt, SGD) and self._stacks(part):
            return self._sgd_stacked(net, x, part, rest, plans, opt, prox, correction)
        return self._sgd_looped(net, x, part, rest, plans, opt, prox, correction)

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
        if self._stacks(self._template):
            return self._scan(step, state, streams, counts, np.arange(len(counts)))
        alone = []
        for client in range(len(counts)):
            with self._draws.noise(client):
                own = state.map(lambda v: v[client : client + 1])  # noqa: B023 (used at once)
                alone.append(self._scan(step, own, streams, counts, np.array([client])))
        return state.unflat({k: torch.cat([s.flat[k] for s in alone]) for k in state.flat})

    def _scan(
        self, step: Step, state: State, streams: list[list[Plan]], counts: np.ndarray, members: np.ndarray
    ) -> State:
        """The steps of some clients together; those that have finished leave the stack."""
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

    def gradient(self, params: Tree, on: Batch) -> Tree:
        return self._differentiate(params, on, None)

    def hvp(self, params: Tree, vector: Tree, on: Batch) -> Tree:
        return self._differentiate(params, on, vector)

    def _differentiate(self, params: Tree, on: Batch, vector: Tree | None) -> Tree:
        """Gradient or, given a vector, Hessian-vector product, of some clients at once or of one after another."""
        assert isinstance(on, ClientBatch)
        if self.model.statistics:
            raise UserError(
                "this method works with gradients alone and would leave running statistics as they were",
                fix="use a method that trains by SGD (fedavg, fedper, fedrep, ...), or GroupNorm",
            )
        chain = self._chain(self.model.net, self.data.x)
        if len(on) > 1 and not self._stacks(params, STACK_BELOW if chain is None else CHAIN_STACK_BELOW):
            return _cat([self._differentiate(*self._one(i, params, on, vector)) for i in range(len(on))])
        if chain is None:
            loss_C, found = self._by_autograd(params, on, vector)
        else:
            at = (chain, dict(params), on.x.flatten(2), Losses(self.data.task, on.y, on.weight))
            loss_C, found = gradient(*at) if vector is None else hvp(*at, dict(vector))
        self._loss.index_add_(0, torch.from_numpy(on.members).to(loss_C.device), loss_C)
        self._loss_steps[on.members] += 1
        return Tree(found)

    @torch.enable_grad()
    def _by_autograd(self, params: Tree, on: ClientBatch, vector: Tree | None) -> tuple[Tensor, dict[str, Tensor]]:
        """The losses, and the gradient or Hessian-vector product."""
        x, y, count = on.x, on.y, len(on)
        # of attention, the form that can be differentiated twice
        twice = sdpa_kernel(SDPBackend.MATH) if vector is not None else nullcontext()
        if count > 1:
            leaves = {k: v.expand(count, *v.shape) if self._is_shared(k, v) else v for k, v in params.items()}
            leaves = {k: v.detach().requires_grad_() for k, v in leaves.items()}
            with twice:
                out = self.model.net.stacked(leaves, x.clone()).flatten(0, 1)
        else:
            own = {k: v if self._is_shared(k, v) else v[0] for k, v in params.items()}
            leaves = self.model.net.bind(own, train=params)
            with self._draws.noise(int(on.members[0])), twice:
                out = self.model.net(x[0])
        loss = (losses(self.data.task, out, y.flatten(0, 1)).view(on.rows.shape) * on.weight).sum(dim=1)
        wrt = list(leaves.values())
        found = torch.autograd.grad(loss.sum(), wrt, create_graph=vector is not None, materialize_grads=True)
        if vector is not None:
            along = [vector[k].reshape(leaf.shape) for k, leaf in leaves.items()]
            try:
                found = torch.autograd.grad(found, wrt, along, materialize_grads=True)
            except RuntimeError as error:
                raise UserError(
                    f"the model cannot be differentiated twice: {first_line(error)}",
                    fix="use a variant without the Hessian: fo or hf",
                ) from error
        shapes = {k: (count, *self._template[k].shape) for k in leaves}
        return loss.detach(), {k: g.detach().reshape(shapes[k]) for k, g in zip(leaves, found, strict=True)}

    def _one(
        self, index: int, params: Tree, on: ClientBatch, vector: Tree | None
    ) -> tuple[Tree, ClientBatch, Tree | None]:
        mask = torch.zeros_like(on.weight, dtype=torch.bool)
        mask[index] = on.weight[index] > 0
        batch = on.only(mask, on.members[index : index + 1])
        own = Tree({k: v if self._is_shared(k, v) else v[index] for k, v in params.items()})
        return own, batch, None if vector is None else vector.map(lambda v: v[index : index + 1])

    # -- which way ----------------------------------------------------------------------------------------------------

    def _stacks(self, part: Tree, below: int = STACK_BELOW) -> bool:
        if self.model.random or not self.model.stackable or self.mode == "loop":
            return False
        size = sum(self._template[name].numel() for name in part)
        small = size <= below or self.data.x.device.type != "cpu"
        return self.mode == "stacked" or (small and len(self.clients) > 1)

    def _chain(self, net: Net, x: Tensor) -> Chain | None:
        """The layers, if they are a plain chain, which needs no autograd; augmented images are made batch by batch."""
        if self.data.task.closed_form is None:
            return None
        if net not in self._chains:
            self._chains[net] = Chain.of(net.module, net.prefix)
        chain = self._chains[net]
        return chain if chain is not None and chain.reads(x) and not self.data.augment else None

    def _features_last(self, part: Tree, plans: list[Plan]) -> bool:
        """Only the head is trained, on at least one pass: the frozen body's features are computed once."""
        visits = sum(len(rows) for plan in plans for rows in plan)
        head = self.model.head_net is not None and part.keys() == self.model.params.head.keys()
        return (
            head
            and not self.model.random
            and not self.model.mixes
            and not self.data.augment
            and visits >= len(self.data.y)
        )

    def _features(self, body: Tree) -> Tensor:
        shared = all(self._is_shared(name, leaf) for name, leaf in body.items())
        groups = [(0, len(self.data.y))] if shared else list(pairwise(self.data.offsets.tolist()))
        parts = []
        for client, (start, stop) in enumerate(groups):
            own = body if shared else self._of_client(body, client)
            parts += [self.model.features(own, x) for x in slices(self.data.x[start:stop])]
        return torch.cat(parts)

    # -- values with and without the client dimension -----------------------------------------------------------------

    def _is_shared(self, name: str, leaf: Tensor) -> bool:
        return leaf.ndim == self._template[name].ndim

    def _of_client(self, tree: Tree, client: int) -> Tree:
        return Tree({k: v if self._is_shared(k, v) else v[client] for k, v in tree.items()})

    # -- stochastic gradient descent ----------------------------------------------------------------------------------

    def _sgd_looped(
        self,
        net: Net,
        x: Tensor,
        part: Tree,
        given: Tree,
        plans: list[Plan],
        opt: SGD | TorchOptimizer,
        prox: Prox | None,
        correction: Tree | None,
    ) -> Tree:
        trained = self.each(part)
        for client, plan in enumerate(plans):
            own = Tree({k: channels_last(v[client]) for k, v in trained.items()})
            leaves = net.bind(own | self._of_client(given, client), train=part)
            descent: Descent | TorchDescent
            if isinstance(opt, SGD):
                pull = (_of(prox[0], client), self._of_client(prox[1], client)) if prox else None
                shift = self._of_client(correction, client) if correction is not None else None
                descent = Descent(opt, leaves, pull, shift)
            else:
                descent = TorchDescent(opt, leaves.values())
            start = int(self.data.offsets[client])
            croppers = self._draws.croppers(np.array([client]))
            with self._draws.noise(client):
                for rows in plan:
                    chosen = torch.from_numpy(rows + start)
                    if len(rows) < self.model.smallest_batch:
                        raise UserError(
                            f"batch norm cannot train on a single sample, as client {self.clients[client]} would have to",
                            fix="leave the client out, take a larger batch, or use GroupNorm",
                        )
                    inputs = x[chosen]
                    if croppers:
                        inputs = crop_flip(
                            inputs, torch.from_numpy(draw_crops(croppers[client], len(rows))).to(x.device)
                        )
                    inputs = channels_last(inputs)
                    loss = losses(self.data.task, net(inputs), self.data.y[chosen]).mean()
                    descent.step(gradients(loss, descent.params))
                    self._loss[client] += loss.detach()
            self._loss_steps[client] += len(plan)
            for name, leaf in (own | net.statistics).items():
                if name in own and (leaf.ndim == 4 or name in self.model.statistics):  # not a view
                    trained[name][client] = leaf
        return trained

    def _sgd_stacked(
        self,
        net: Net,
        x: Tensor,
        part: Tree,
        given: Tree,
        plans: list[Plan],
        opt: SGD,
        prox: Prox | None,
        correction: Tree | None,
    ) -> Tree:
        # Clients with most steps first: those that have finished are at the end, and drop out of the stack.
        order = np.argsort([-len(plan) for plan in plans], kind="stable")
        position = torch.from_numpy(order).to(x.device)
        rows_TCB, weight_TCB = self._stack_plans([plans[i] for i in order], self.data.offsets[:-1][order])

        def sorted_stack(tree: Tree) -> Tree:
            return self.each(tree).map(lambda v: v[position])

        trained, rest = sorted_stack(part), dict(sorted_stack(given))
        pull = (prox[0][position] if isinstance(prox[0], Tensor) else prox[0], sorted_stack(prox[1])) if prox else None
        descent = Descent(opt, trained, pull, sorted_stack(correction) if correction is not None else None)
        croppers = self._draws.croppers(order)
        loss_C = torch.zeros_like(self._loss)
        steps = np.array([len(plans[i]) for i in order])
        for step in range(int(steps[0])):
            active = int((steps > step).sum())
            if active < len(descent.params[0]):
                descent.narrow(active)
                rest = {k: v[:active] for k, v in rest.items()}
            leaves = [p.detach().requires_grad_() for p in descent.params]
            rows, weight = rows_TCB[step, :active], weight_TCB[step, :active]
            inputs = x[rows]
            if croppers:
                batch = self._draws.batch([plans[m][step] for m in order[:active]], order[:active], croppers)
                rows, weight, inputs = batch.rows, batch.weight, batch.x
            out = net.stacked(dict(zip(part, leaves, strict=True)) | rest, inputs)
            each = losses(self.data.task, out.flatten(0, 1), self.data.y[rows].flatten(0, 1)).view(rows.shape)
            loss = (each * weight).sum(dim=1)
            descent.step(gradients(loss.sum(), leaves))
            loss_C[:active] += loss.detach()
        self._loss[position] += loss_C
        self._loss_steps[order] += steps
        back = torch.argsort(position)
        return trained.map(lambda v: v[back])

    def _sgd_chain(
        self,
        chain: Chain,
        x: Tensor,
        part: Tree,
        given: Tree,
        plans: list[Plan],
        opt: SGD,
        prox: Prox | None,
        correction: Tree | None,
    ) -> Tree:
        """By hand, on a stack of all clients, or on stacks of one."""
        order = np.argsort([-len(plan) for plan in plans], kind="stable")
        stacks = [order] if self._stacks(part, CHAIN_STACK_BELOW) else list(order[:, None])
        trained = {k: v.new_empty(len(plans), *self._template[k].shape) for k, v in part.items()}
        for members in stacks:
            first, chosen = int(members[0]), torch.from_numpy(members).to(x.device)
            in_order = np.array_equal(members, np.arange(first, first + len(members)))
            here = slice(first, first + len(members)) if in_order else chosen
            params = {k: v if self._is_shared(k, v) else v[here] for k, v in (given | part).items()}
            anchor, shift = (
                {k: v.expand(len(members), *v.shape) if self._is_shared(k, v) else v[here] for k, v in tree.items()}
                for tree in (prox[1] if prox else Tree(), correction or Tree())
            )
            mu = prox[0] if prox else 0.0
            pull = (mu[here] if isinstance(mu, Tensor) and mu.ndim else mu, anchor) if prox else None
            own, starts, sizes = [plans[m] for m in members], self.data.offsets[members], self.data.sizes[members]
            rows_TCB, weight_TCB = self._stack_plans(own, starts)
            steps = Steps(x, rows_TCB, weight_TCB, self.data.y[rows_TCB], self.data.task, own, starts, sizes)
            into = {k: v[here] for k, v in trained.items()}  # views, if they are in order
            self._loss[here] += descend(chain, steps, params, into, opt, pull, shift or None)
            if not in_order:
                for name, leaf in into.items():
                    trained[name][here] = leaf
        self._loss_steps += [len(plan) for plan in plans]
        return Tree(trained)

    def _stack_plans(self, plans: list[Plan], starts: np.ndarray) -> tuple[Tensor, Tensor]:
        """Rows [T, C, B] of each step, and the weight of each in the client's mean loss (0 where there is no sample)."""
        batch = max(len(rows) for plan in plans for rows in plan)
        shape = (max(map(len, plans)), len(plans), batch)
        rows_TCB, weight_TCB = np.zeros(shape, np.int64), np.zeros(shape)
        for client, (plan, start) in enumerate(zip(plans, starts, strict=True)):
            padded, weight = pad_rows(plan, np.full(len(plan), start))
            rows_TCB[: len(plan), client, : padded.shape[1]] = padded
            weight_TCB[: len(plan), client, : padded.shape[1]] = weight
        device = self.data.x.device
        return torch.from_numpy(rows_TCB).to(device), torch.from_numpy(weight_TCB).to(device, self.data.dtype)


def fine_tuned(cohort: LocalCohort, model: Model, params: Tree, tune: FineTune) -> Tree:
    """A model after fine-tuning on each client's training samples."""
    if tune.scope == "none":
        return params
    part = params.select(model.params.head) if tune.scope == "head" else params
    given = Tree({k: v for k, v in params.items() if k not in part})
    tuned = cohort.sgd(part, given=given, opt=tune.opt, batch=tune.batch, epochs=tune.epochs, steps=tune.steps)
    return params | tuned


def _of(scale: float | Tensor, client: int) -> float | Tensor:
    return scale[client] if isinstance(scale, Tensor) and scale.ndim else scale


def _cat(trees: Sequence[Tree]) -> Tree:
    return Tree({k: torch.cat([t[k] for t in trees]) for k in trees[0]})
