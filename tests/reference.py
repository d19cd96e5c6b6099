"""The oracle: every method as one would write it first. A deep copy of the model a client, one client after another,
torch's own optimizer, dictionaries of weights, the Hessian as a matrix. Only the draws are the library's."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

import numpy as np
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor, nn
from torch.nn import functional

from manyheads import SGD, Federation, Round
from manyheads.core.contract import Algorithm
from manyheads.core.randomness import Purpose, batch_plan, generator, torch_seeded
from manyheads.run.loop import sample_cohort
from manyheads.run.training import Training

Weights = dict[str, Tensor]


def plus(a: Weights, b: Weights, scale: float = 1.0) -> Weights:
    return {k: a[k] + scale * b[k] for k in a}


def minus(a: Weights, b: Weights) -> Weights:
    return plus(a, b, -1.0)


def times(a: Weights, scale: float) -> Weights:
    return {k: scale * v for k, v in a.items()}


def only(a: Weights, names: Iterable[str]) -> Weights:
    return {k: a[k] for k in a if k in set(names)}


def average(weights: list[Weights], shares: list[float]) -> Weights:
    total = sum(shares)
    return {k: sum(s / total * w[k] for w, s in zip(weights, shares, strict=True)) for k in weights[0]}


class Plain:
    """One run of one method. ``server`` and ``clients`` hold dictionaries of weights by name."""

    def __init__(
        self, algorithm: Any, module: nn.Module, head: list[str], federation: Federation, training: Training,
        buffers: list[str] | None = None,
    ):  # fmt: skip
        self.a, self.module, self.head, self.federation, self.training = algorithm, module, head, federation, training
        trained = {k: v for k, v in module.named_parameters() if v.requires_grad}
        self.start = {k: v.detach().clone() for k, v in trained.items()}
        self.start |= {k: module.get_buffer(k).clone() for k in buffers or ()}
        self.body = [k for k in self.start if k not in head]
        self.server: dict[str, Any] = {}
        self.clients: dict[int, dict[str, Any]] = {}
        self.moments: dict[tuple[str, str], tuple[Tensor, Tensor]] = {}
        self.round = 0

    # -- data and derivatives -----------------------------------------------------------------------------------------

    def data(self, i: int) -> tuple[Tensor, Tensor]:
        x, y = self.federation.train.client(i)
        return self.fitting(torch.from_numpy(np.array(x))), torch.from_numpy(np.array(y))

    def fitting(self, x: Tensor) -> Tensor:
        """Samples in the model's precision."""
        return x.to(next(self.module.parameters()).dtype) if x.is_floating_point() else x

    def size(self, i: int) -> int:
        return int(self.federation.train.sizes[i])

    def plan(self, i: int, phase: int, *stream: int, **how: Any) -> list[np.ndarray]:
        return batch_plan(
            generator(self.training.seed, Purpose.BATCHES, self.round, i, phase, *stream), self.size(i), **how
        )

    def loss(self, net: nn.Module, i: int, rows: np.ndarray) -> Tensor:
        x, y = self.data(i)
        out = net(x[rows])
        if self.federation.task == "classification":
            return self.cross_entropy(out, y[rows], i)
        return 0.5 * functional.mse_loss(out.reshape(-1), y[rows].reshape(-1))

    def cross_entropy(self, out: Tensor, y: Tensor, i: int) -> Tensor:
        return (self.weights(y, i).to(out) * functional.cross_entropy(out, y, reduction="none")).mean()

    def weights(self, y: Tensor, i: int) -> Tensor:
        """Samples have scikit-learn's weights, by the labels of the client or of all clients."""
        if self.training.class_weights == "none":
            return torch.ones(len(y))
        of_all, of_client = self.federation.train.y, self.data(i)[1].numpy()
        labels = of_all if self.training.class_weights == "balanced" else of_client
        present = np.unique(labels)
        weight = compute_class_weight("balanced", classes=present, y=labels)
        return torch.tensor(weight[np.searchsorted(present, y.numpy())])

    def net(self, w: Weights) -> nn.Module:
        net = copy.deepcopy(self.module)
        net.load_state_dict(w, strict=False)
        return net

    def gradient(self, w: Weights, i: int, rows: np.ndarray) -> Weights:
        net = self.net(w)
        self.loss(net, i, rows).backward()
        return {k: torch.zeros_like(p) if p.grad is None else p.grad for k, p in net.named_parameters() if k in w}

    def hessian_times(self, w: Weights, v: Weights, i: int, rows: np.ndarray) -> Weights:
        """By the whole Hessian matrix."""
        names, shapes = list(w), [w[k].shape for k in w]
        sizes = [w[k].numel() for k in names]

        def loss(flat: Tensor) -> Tensor:
            parts = {k: p.view(s) for k, p, s in zip(names, flat.split(sizes), shapes, strict=True)}
            x, y = self.data(i)
            return self.cross_entropy(torch.func.functional_call(self.module, parts, (x[rows],)), y[rows], i)

        matrix = torch.autograd.functional.hessian(loss, torch.cat([w[k].flatten() for k in names]), vectorize=True)
        product = matrix @ torch.cat([v[k].flatten() for k in names])
        return {k: p.view(s) for k, p, s in zip(names, product.split(sizes), shapes, strict=True)}

    def sgd(
        self, w: Weights, i: int, phase: int, opt: SGD, train: Iterable[str] | None = None,
        extra: Callable[[Weights], Weights] | None = None,
        penalty: Callable[[nn.Module, np.ndarray], Tensor] | None = None, **how: int,
    ) -> Weights:  # fmt: skip
        net, names = self.net(w), set(train if train is not None else w)
        for k, p in net.named_parameters():
            p.requires_grad_(k in names)
        chosen = {k: p for k, p in net.named_parameters() if k in names}
        groups = [
            {"params": [p for k, p in chosen.items() if "bias" not in k], "weight_decay": opt.weight_decay},
            {"params": [p for k, p in chosen.items() if "bias" in k], "weight_decay": 0.0},
        ]
        if not chosen:
            return w
        optimizer = torch.optim.SGD([g for g in groups if g["params"]], lr=opt.lr, momentum=opt.momentum)
        with torch_seeded(self.training.seed, Purpose.NOISE, self.round, i, phase):
            for rows in self.plan(i, phase, **how):
                optimizer.zero_grad()
                loss = self.loss(net, i, rows) + (penalty(net, rows) if penalty else 0)
                if loss.requires_grad:
                    loss.backward()
                if extra is not None:
                    for k, g in extra({k: p.detach() for k, p in chosen.items()}).items():
                        chosen[k].grad += g
                optimizer.step()
        return {k: v.detach().clone() if k in names else w[k] for k, v in net.state_dict().items() if k in w}

    @property
    def work(self) -> dict[str, int]:
        return {"batch": self.a.batch, "epochs": self.a.epochs, "steps": self.a.steps}

    # -- the round loop -----------------------------------------------------------------------------------------------

    def run(self) -> Plain:
        name = self.a.name.replace("-", "_")
        getattr(self, f"begin_{name}", self.begin_shared)()
        for index in range(1, self.training.rounds + 1):
            self.round = index
            cohort = sample_cohort(self.training, len(self.federation), self.round, self.a.everyone(self.round))
            equal = self.a.weighting == "equal"
            shares = [1.0 if equal else float(self.size(i)) for i in cohort]
            uploads = [getattr(self, name)(i) for i in cohort]
            merge = getattr(self, f"merge_{name}", self.merge_mean)
            if uploads[0] is not None:
                before = self.server
                merge(cohort, uploads, shares)
                if getattr(self.a, "server", None):
                    self.server_step(before)
        return self

    def server_step(self, before: dict[str, Any]) -> None:
        """Adaptive Federated Optimization, Algorithm 2 (sgd: Algorithm 1), parameter by parameter."""
        opt, stepped = self.a.server, dict(self.server)
        for name in self.a.averaged:
            stepped[name] = {}
            for k, x in before[name].items():
                delta = self.server[name][k] - x
                m, v = self.moments.get((name, k), (torch.zeros_like(x), torch.full_like(x, opt.tau**2)))
                if opt.kind == "sgd":
                    m = opt.momentum * m + delta
                    stepped[name][k] = x + opt.lr * m
                else:
                    m = opt.momentum * m + (1 - opt.momentum) * delta
                    if opt.kind == "adagrad":
                        v = v + delta**2
                    elif opt.kind == "adam":
                        v = opt.beta2 * v + (1 - opt.beta2) * delta**2
                    else:
                        v = v - (1 - opt.beta2) * delta**2 * torch.sign(v - delta**2)
                    stepped[name][k] = x + opt.lr * m / (v.sqrt() + opt.tau)
                self.moments[name, k] = m, v
        self.server = stepped

    def begin_shared(self) -> None:
        self.server = {"model": self.start}

    def merge_mean(self, cohort: list[int], uploads: list[Weights], shares: list[float]) -> None:
        (name,) = self.server
        self.server = {name: average(uploads, shares)}

    def own(self, i: int, **initial: Any) -> dict[str, Any]:
        return self.clients.setdefault(i, initial)

    # -- the methods --------------------------------------------------------------------------------------------------

    def fedavg(self, i: int) -> Weights:
        return self.sgd(self.server["model"], i, 0, self.a.sgd, **self.work)

    def fedprox(self, i: int) -> Weights:
        w = self.server["model"]
        return self.sgd(w, i, 0, self.a.sgd, extra=lambda y: times(minus(y, w), self.a.mu), **self.work)

    def dsgd(self, i: int) -> Weights:
        return self.gradient(self.server["model"], i, self.plan(i, 0, batch=self.a.batch, steps=1)[0])

    def merge_dsgd(self, cohort: list[int], uploads: list[Weights], shares: list[float]) -> None:
        self.server = {"model": plus(self.server["model"], average(uploads, shares), -self.a.lr)}

    def local_sgd(self, i: int) -> Weights:
        w, single = self.server["model"], self.a.gradient == "single"
        for rows in self.plan(i, 0, batch=1 if single else 0, steps=self.a.steps, independent=True):
            scale = self.size(i) if single and self.a.scale_by_n else 1
            w = plus(w, self.gradient(w, i, rows), -self.a.lr * scale)
        return w

    def local(self, i: int) -> None:
        own = self.own(i, model=self.start)
        own["model"] = self.sgd(own["model"], i, 0, self.a.sgd, **self.work)

    def begin_fedrep(self) -> None:
        self.server = {"body": only(self.start, self.body)}

    begin_fedper = begin_fedrep

    def fedrep(self, i: int) -> Weights:
        own = self.own(i, head=only(self.start, self.head))
        both = {**self.server["body"], **own["head"]}
        both = self.sgd(both, i, 0, self.a.sgd, train=self.head, batch=self.a.batch, epochs=self.a.head_epochs)
        how = {"batch": self.a.batch, "epochs": self.a.body_epochs, "steps": self.a.body_steps}
        both = self.sgd(both, i, 1 if self.head else 0, self.a.sgd, train=self.body, **how)
        own["head"] = only(both, self.head)
        return only(both, self.body)

    def fedper(self, i: int) -> Weights:
        own = self.own(i, head=only(self.start, self.head))
        both = self.sgd({**self.server["body"], **own["head"]}, i, 0, self.a.sgd, **self.work)
        own["head"] = only(both, self.head)
        return only(both, self.body)

    begin_fedbabu = begin_fedrep

    def fedbabu(self, i: int) -> Weights:
        own = self.own(i, head=only(self.start, self.head))
        both = self.sgd({**self.server["body"], **own["head"]}, i, 0, self.a.sgd, train=self.body, **self.work)
        return only(both, self.body)

    def begin_fedbn(self) -> None:
        self.norms = [
            k for k in self.start if isinstance(self.module.get_submodule(k.rpartition(".")[0]), nn.LayerNorm)
        ]
        self.server = {"shared": {k: v for k, v in self.start.items() if k not in self.norms}}

    def fedbn(self, i: int) -> Weights:
        own = self.own(i, norms=only(self.start, self.norms))
        both = self.sgd({**self.server["shared"], **own["norms"]}, i, 0, self.a.sgd, **self.work)
        own["norms"] = only(both, self.norms)
        return only(both, self.server["shared"])

    def begin_fedrod(self) -> None:
        self.server = {"body": only(self.start, self.body), "head": only(self.start, self.head)}

    def fedrod(self, i: int) -> Weights:
        """Two heads that are two layers, and log n_i added to the outputs; for a chain of layers."""
        (x, y), a = self.data(i), self.a
        own = self.own(i, head=times(only(self.start, self.head), 0.0))
        net, personal = self.net({**self.server["body"], **self.server["head"]}), copy.deepcopy(self.module[-1])
        personal.load_state_dict({k.rpartition(".")[2]: v for k, v in own["head"].items()})
        logs = torch.bincount(y, minlength=self.federation.outputs).log()
        opt = torch.optim.SGD(personal.parameters(), lr=a.sgd.lr, momentum=a.sgd.momentum)
        for rows in self.plan(i, 0, **self.work):
            opt.zero_grad()
            with torch.no_grad():
                z, generic = net[:-1](x[rows]), net(x[rows])
            self.cross_entropy(generic + personal(z), y[rows], i).backward()
            opt.step()
        opt = torch.optim.SGD(net.parameters(), lr=a.sgd.lr, momentum=a.sgd.momentum)
        for rows in self.plan(i, 1, **self.work):
            opt.zero_grad()
            self.cross_entropy(net(x[rows]) + logs, y[rows], i).backward()
            opt.step()
        prefix = self.head[0].rpartition(".")[0]
        own["head"] = {f"{prefix}.{k}": v.detach().clone() for k, v in personal.named_parameters()}
        return {k: v.detach().clone() for k, v in net.named_parameters()}

    def begin_fedpac(self) -> None:
        classes, start = self.federation.outputs, only(self.start, self.head)
        size = next(v for v in start.values() if v.ndim == 2).shape[1]
        self.server = {"body": only(self.start, self.body), "known": torch.zeros(classes)}
        self.server["centroids"] = torch.zeros(classes, size)
        if self.a.heads == "combined":
            self.server["heads"] = [start] * len(self.federation)

    def features(self, net: nn.Module, x: Tensor) -> Tensor:
        seen: list[Tensor] = []
        layer = net.get_submodule(self.head[0].rpartition(".")[0])
        hook = layer.register_forward_hook(lambda _m, args, _out: seen.append(args[0]))
        net(x)
        hook.remove()
        return seen[0]

    def by_class(self, w: Weights, i: int) -> dict[int, np.ndarray]:
        """The features of the client's samples of each class that has enough of them."""
        x, y = self.data(i)
        z = self.features(self.net(w), x).detach().double().numpy()
        found = {int(k): z[y.numpy() == k] for k in np.unique(y)}
        return {k: v for k, v in found.items() if len(v) >= self.a.fewest}

    def fedpac(self, i: int) -> dict[str, Any]:
        own, (x, y) = self.own(i, head=only(self.start, self.head)), self.data(i)
        start = self.server["heads"][i] if self.a.heads == "combined" else own["head"]
        both = {**self.server["body"], **start}
        before, centroids = self.by_class(both, i), self.server["centroids"]

        def pull(net: nn.Module, rows: np.ndarray) -> Tensor:
            z, labels = self.features(net, x[rows]), y[rows]
            each = [self.server["known"][k] * ((z[j] - centroids[k]) ** 2).mean() for j, k in enumerate(labels)]
            return self.a.lam * (self.weights(labels, i).to(z) * torch.stack(each)).mean()

        work = {"batch": self.a.batch}
        both = self.sgd(both, i, 0, self.a.sgd, train=self.head, epochs=self.a.head_epochs, **work)
        phase = 1 if self.a.head_epochs else 0
        both = self.sgd(both, i, phase, self.a.sgd, train=self.body, penalty=pull, epochs=self.a.body_epochs, **work)
        own["head"] = only(both, self.head)
        return {"body": only(both, self.body), "head": own["head"], "before": before, "after": self.by_class(both, i)}

    def merge_fedpac(self, cohort: list[int], uploads: list[dict[str, Any]], shares: list[float]) -> None:
        server = {**self.server, "body": average([u["body"] for u in uploads], shares)}
        server["centroids"], server["known"] = server["centroids"].clone(), server["known"].clone()
        for k in range(self.federation.outputs):
            samples = [u["after"][k] for u in uploads if k in u["after"]]
            if samples:
                server["centroids"][k] = torch.from_numpy(np.concatenate(samples).mean(axis=0))
                server["known"][k] = 1
        if self.a.heads == "combined":
            server["heads"] = list(server["heads"])
            tell = [j for j, u in enumerate(uploads) if u["before"]]
            variances, points = zip(*(self.moments_of(uploads[j]["before"]) for j in tell), strict=True)
            for j, i in enumerate(cohort):
                a = best_weights(tell.index(j), np.array(variances), np.array(points)) if j in tell else [1.0]
                heads = [uploads[t]["head"] for t in tell] if j in tell else [uploads[j]["head"]]
                server["heads"][i] = average(heads, list(a))
        self.server = server

    def moments_of(self, samples: dict[int, np.ndarray]) -> tuple[float, np.ndarray]:
        """The mean of z times the indicator of its class, and the variance of that mean."""
        n, size = sum(map(len, samples.values())), next(iter(samples.values())).shape[1]
        drawn = np.zeros((n, self.federation.outputs, size))
        row = 0
        for k, z in samples.items():
            drawn[row : row + len(z), k] = z
            row += len(z)
        return float(((drawn - drawn.mean(axis=0)) ** 2).sum() / n / n), drawn.mean(axis=0)

    def begin_lg_fedavg(self) -> None:
        layers = list(dict.fromkeys(k.rpartition(".")[0] for k in self.start))[-self.a.shared_layers :]
        self.server = {"top": {k: v for k, v in self.start.items() if k.rpartition(".")[0] in layers}}

    def lg_fedavg(self, i: int) -> Weights:
        top = self.server["top"]
        own = self.own(i, bottom={k: v for k, v in self.start.items() if k not in top})
        both = self.sgd({**own["bottom"], **top}, i, 0, self.a.sgd, **self.work)
        own["bottom"] = only(both, own["bottom"])
        return only(both, top)

    def begin_scaffold(self) -> None:
        self.server = {"model": self.start, "control": times(self.start, 0.0)}

    def scaffold(self, i: int) -> tuple[Weights, Weights]:
        x, c = self.server["model"], self.server["control"]
        own = self.own(i, control=times(self.start, 0.0))
        shift = minus(c, own["control"])
        y = self.sgd(x, i, 0, SGD(lr=self.a.lr, momentum=0.0), extra=lambda _: shift, **self.work)
        if self.a.option == "I":
            new = self.gradient(x, i, np.arange(self.size(i)))
        else:
            steps = len(self.plan(i, 0, **self.work))
            new = plus(minus(own["control"], c), minus(x, y), 1 / (steps * self.a.lr))
        change = minus(new, own["control"])
        own["control"] = new
        return minus(y, x), change

    def merge_scaffold(self, cohort: list[int], uploads: list[tuple[Weights, Weights]], shares: list[float]) -> None:
        models, controls = zip(*uploads, strict=True)
        part = len(cohort) / len(self.federation)
        self.server = {
            "model": plus(
                self.server["model"], average(list(models), shares), 1.0 if self.a.server else self.a.server_lr
            ),
            "control": plus(self.server["control"], average(list(controls), shares), part),
        }

    def perfedavg(self, i: int) -> Weights:
        w, a = self.server["model"], self.a
        sizes = (a.batch, a.outer_batch, a.hessian_batch)
        streams = [
            self.plan(i, 0, *([s] if s else []), batch=b, steps=a.steps, independent=True) for s, b in enumerate(sizes)
        ]
        for D, D1, D2 in zip(*streams, strict=True):
            path = [w]
            for _ in range(a.inner_steps):
                path.append(plus(path[-1], self.gradient(path[-1], i, D), -a.alpha))
            v = self.gradient(path[-1], i, D1)
            for point in reversed(path[:-1]) if a.variant != "fo" else []:
                if a.variant == "exact":
                    product = self.hessian_times(point, v, i, D2)
                else:
                    ahead, behind = (self.gradient(plus(point, v, s), i, D2) for s in (a.delta, -a.delta))
                    product = times(minus(ahead, behind), 0.5 / a.delta)
                v = plus(v, product, -a.alpha)
            w = plus(w, v, -a.beta)
        return w

    def reptile(self, i: int) -> Weights:
        return self.fedavg(i)

    def knn_per(self, i: int) -> Weights:
        return self.fedavg(i)

    def begin_anil(self) -> None:
        self.server = {"body": only(self.start, self.body), "head": only(self.start, self.head)}

    def anil(self, i: int) -> Weights:
        w, a = {**self.server["body"], **self.server["head"]}, self.a
        streams = [
            self.plan(i, 0, *([s] if s else []), batch=b, steps=a.steps, independent=True)
            for s, b in enumerate((a.batch, a.outer_batch))
        ]
        for D, D1 in zip(*streams, strict=True):
            path = [w]
            for _ in range(a.inner_steps):
                slope = only(self.gradient(path[-1], i, D), self.head)
                path.append({**path[-1], **plus(only(path[-1], self.head), slope, -a.alpha)})
            v = self.gradient(path[-1], i, D1)
            for point in reversed(path[:-1]) if a.variant == "exact" else []:
                inner = {**times(v, 0.0), **only(v, self.head)}
                v = plus(v, self.hessian_times(point, inner, i, D), -a.alpha)
            w = plus(w, v, -a.beta)
        return w

    def merge_anil(self, cohort: list[int], uploads: list[Weights], shares: list[float]) -> None:
        mean = average(uploads, shares)
        self.server = {"body": only(mean, self.body), "head": only(mean, self.head)}

    merge_fedrod = merge_anil

    def pfedme(self, i: int) -> Weights:
        w = theta = self.server["model"]
        for rows in self.plan(i, 0, batch=self.a.batch, steps=self.a.steps, independent=True):
            for _ in range(self.a.inner_steps):
                pulled = plus(self.gradient(theta, i, rows), minus(theta, w), self.a.lam)
                theta = plus(theta, pulled, -self.a.lr)
            w = plus(w, minus(w, theta), -self.a.eta * self.a.lam)
        self.own(i)["model"] = theta
        return w

    def apfl(self, i: int) -> Weights:
        own = self.own(i, model=self.start, alpha=self.a.alpha)
        w, v, a = self.server["model"], own["model"], own["alpha"]
        for rows in self.plan(i, 0, batch=self.a.batch, epochs=self.a.epochs, steps=self.a.steps):
            mixed = self.gradient(plus(times(v, a), w, 1 - a), i, rows)
            slope = sum(float(((v[k] - w[k]) * mixed[k]).sum()) for k in w)
            w, v = plus(w, self.gradient(w, i, rows), -self.a.lr), plus(v, mixed, -self.a.lr * a)
            a = min(1.0, max(0.0, a - self.a.lr * slope)) if self.a.adaptive else a
        own["model"], own["alpha"] = v, a
        return w

    def ditto(self, i: int) -> Weights:
        own, w = self.own(i, model=self.start), self.server["model"]
        upload = self.sgd(w, i, 0, self.a.sgd, **self.work)
        own["model"] = self.sgd(
            own["model"], i, 1, self.a.sgd, extra=lambda v: times(minus(v, w), self.a.lam), **self.work
        )
        return upload

    def begin_mr_mtl(self) -> None:
        self.server = {"mean": self.start}

    def mr_mtl(self, i: int) -> Weights:
        own, mean = self.own(i, model=self.start), self.server["mean"]
        pull = self.a.lam
        own["model"] = self.sgd(
            own["model"], i, 0, self.a.sgd, extra=lambda w: times(minus(w, mean), pull), **self.work
        )
        return own["model"]

    def coin(self, round: int) -> bool:
        return Round(round, self.training.seed, 0, 0).coin(self.a.p)

    def begin_l2gd(self) -> None:
        self.server = {"mean": self.start}

    def l2gd(self, i: int) -> Weights:
        own, n = self.own(i, model=self.start), len(self.federation)
        if self.coin(self.round):
            pull = self.a.eta * self.a.lam / (n * self.a.p)
            own["model"] = plus(own["model"], minus(own["model"], self.server["mean"]), -pull)
        else:
            opt = SGD(lr=self.a.eta / (n * (1 - self.a.p)), momentum=self.a.momentum)
            much = {"epochs": self.a.epochs} if self.a.epochs else {"steps": 1}
            own["model"] = self.sgd(own["model"], i, 0, opt, batch=self.a.batch, **much)
        return own["model"]  # the plain loop averages after every round; the mean is the same

    def begin_ifca(self) -> None:
        def shuffled(v: Tensor, j: int) -> Tensor:
            return v.flatten()[torch.randperm(v.numel(), generator=torch.Generator().manual_seed(j))].view(v.shape)

        others = [{k: shuffled(v, j) for k, v in self.start.items()} for j in range(1, self.a.clusters)]
        self.server = {"models": [self.start, *others]}

    def ifca(self, i: int) -> tuple[int, Weights]:
        every = np.arange(self.size(i))
        losses = [self.loss(self.net(w), i, every).item() for w in self.server["models"]]
        chosen = int(np.argmin(losses))
        self.own(i)["cluster"] = chosen
        return chosen, self.sgd(self.server["models"][chosen], i, 0, self.a.sgd, **self.work)

    def merge_ifca(self, cohort: list[int], uploads: list[tuple[int, Weights]], shares: list[float]) -> None:
        models = list(self.server["models"])
        for j in range(self.a.clusters):
            inside = [(w, share) for (chosen, w), share in zip(uploads, shares, strict=True) if chosen == j]
            if inside:
                models[j] = average(*map(list, zip(*inside, strict=True)))
        self.server = {"models": models}

    def begin_fedmtl(self) -> None:
        n = len(self.federation)
        omega = torch.eye(n) if self.a.relations == "learned" else torch.eye(n) - torch.ones(n, n) / n
        self.server = {"models": [self.start] * n, "omega": omega}

    def fedmtl(self, i: int) -> Weights:
        own, omega, models = self.own(i, model=self.start), self.server["omega"], self.server["models"]

        def related(w: Weights) -> Weights:
            total = times(w, float(omega[i, i]))
            for j in range(len(models)):
                if j != i:
                    total = plus(total, models[j], float(omega[i, j]))
            return times(total, 2 * self.a.lam)

        own["model"] = self.sgd(own["model"], i, 0, self.a.sgd, extra=related, **self.work)
        return own["model"]

    def merge_fedmtl(self, cohort: list[int], uploads: list[Weights], shares: list[float]) -> None:
        models = list(self.server["models"])
        for i, w in zip(cohort, uploads, strict=True):
            models[i] = w
        omega = self.server["omega"]
        if self.a.relations == "learned":
            W = torch.stack([torch.cat([w[k].flatten() for k in w]) for w in models]).double().numpy()
            values, vectors = np.linalg.eigh(W @ W.T)
            root = vectors @ np.diag(np.sqrt(values.clip(0))) @ vectors.T
            mixed = (1 - self.a.ridge) * root / np.trace(root) + self.a.ridge * np.eye(len(models)) / len(models)
            omega = torch.from_numpy(np.linalg.inv(mixed) / len(models))
        self.server = {"models": models, "omega": omega}

    def begin_fedrep_linear(self) -> None:
        self.server = {"body": only(self.start, self.body)}

    def fedrep_linear(self, i: int) -> Any:
        x, y = (v.numpy() for v in self.data(i))
        rows = self.plan(i, 0, batch=self.a.batch, steps=1)[0]
        x, y = x[rows], y[rows]
        own = self.own(i, head=only(self.start, self.head))
        (body_name,), (head_name,) = self.body, self.head
        if self.a.start == "moments" and self.round == 1:
            return sum(y[j] ** 2 * np.outer(x[j], x[j]) for j in range(len(y))) / len(y)
        B = self.server["body"][body_name].numpy().T
        if self.a.head_steps:
            w = own["head"][head_name].numpy()[0]
            for _ in range(self.a.head_steps):
                w = w - self.a.head_lr * (x @ B).T @ (x @ B @ w - y) / len(y)
        else:
            w = np.linalg.lstsq(x @ B, y, rcond=None)[0]
        own["head"] = {head_name: torch.from_numpy(w[None])}
        slope = sum((w @ B.T @ x[j] - y[j]) * np.outer(x[j], w) for j in range(len(y))) / len(y)
        return {body_name: torch.from_numpy((B - self.a.eta * slope).T)}

    def merge_fedrep_linear(self, cohort: list[int], uploads: list[Any], shares: list[float]) -> None:
        (body_name,) = self.body
        if isinstance(uploads[0], np.ndarray):
            vectors = np.linalg.svd(sum(uploads) / len(uploads))[0][:, : len(self.server["body"][body_name])]
            signs = [np.sign(max(v, key=abs)) for v in vectors.T]
            self.server = {"body": {body_name: torch.from_numpy((vectors * signs).T.copy())}}
        else:
            self.merge_mean(cohort, uploads, shares)


def best_weights(own: int, variances: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The best weights on the simplex, by trying every set of those that are positive."""
    away = (points[own] - points).reshape(len(points), -1)
    matrix, alone = np.diag(variances) + away @ away.T, np.eye(len(points))[own]
    best = (matrix[own, own], alone)
    for size in range(1, len(points) + 1):
        for chosen in map(list, combinations(range(len(points)), size)):
            b = np.linalg.lstsq(matrix[np.ix_(chosen, chosen)], np.ones(size), rcond=None)[0]
            if (b > 0).all():
                a = np.zeros(len(points))
                a[chosen] = b / b.sum()
                best = min(best, (a @ matrix @ a * (1 + 1e-12), a), key=lambda found: found[0])
    return best[1]


def run(
    algorithm: Algorithm, module: nn.Module, head: list[str], federation: Federation, training: Training,
    buffers: list[str] | None = None,
) -> Plain:  # fmt: skip
    """A whole run of the plain loop; ``buffers`` are trained and averaged too."""
    return Plain(algorithm, module, head, federation, training, buffers).run()
