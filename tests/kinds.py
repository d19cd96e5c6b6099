"""Kinds of modules that users bring: each is trained as a plain loop would, or refused in one line."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from problems import images, ragged
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations, parametrize, prune
from torch.utils.checkpoint import checkpoint

from manyheads import Federation


def tokens() -> Federation:
    """Sequences of tokens 0 to 11, of which 0 is padding."""
    rng = np.random.default_rng(5)
    clients = []
    for n in (9, 17, 6, 12):
        x = rng.integers(0, 12, (n, 5))
        clients.append((x, (x.sum(1) + x[:, 0]) % 3))
    return Federation.from_clients(clients, name="tokens", outputs=3)


def numbers() -> Federation:
    """A regression."""
    rng = np.random.default_rng(6)
    clients = []
    for n in (9, 17, 6, 12):
        x = rng.normal(size=(n, 6)).astype(np.float32)
        clients.append((x, (x[:, 0] - x[:, 1] ** 2).astype(np.float32)))
    return Federation.from_clients(clients, name="numbers")


VECTORS, IMAGES, TOKENS, NUMBERS = ragged(sizes=(5, 23, 7, 30, 12)), images(), tokens(), numbers()


@dataclass(frozen=True)
class Kind:
    """A kind of module: how one is made, with what samples, and why it is refused, if it is."""

    make: Callable[[], nn.Module]
    data: Federation = VECTORS
    head: str | tuple[str, ...] | None = None
    refused: str = ""
    how: dict[str, Any] = field(default_factory=dict)
    """further arguments of Model"""


def module(forward: Callable[..., Any], **parts: Any) -> nn.Module:
    made = type("Custom", (nn.Module,), {"forward": forward})()
    for name, part in parts.items():
        setattr(made, name, part)
    return made


def between(*layers: nn.Module) -> nn.Sequential:
    """Layers between two linear ones."""
    return nn.Sequential(nn.Linear(6, 8), *layers, nn.Linear(8, 3))


def body_and_head(forward: Callable[..., Any], **more: Any) -> nn.Module:
    return module(forward, body=nn.Linear(6, 8), head=nn.Linear(8, 3), **more)


def embedded(*layers: nn.Module, **how: Any) -> nn.Sequential:
    return nn.Sequential(nn.Embedding(12, 4, **how), *layers, nn.Flatten(), nn.Linear(20, 3))


def convolved(*layers: nn.Module, width: int = 16) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 4, 3), *layers, nn.Flatten(), nn.Linear(width, 3))


def recurrent(kind: type[nn.Module], **how: Any) -> nn.Module:
    def forward(self, x):
        return self.head(self.rnn(self.embedding(x))[0][:, -1])

    width = 6 * (2 if how.get("bidirectional") else 1)
    return module(
        forward, embedding=nn.Embedding(12, 4), rnn=kind(4, 6, batch_first=True, **how), head=nn.Linear(width, 3)
    )


def attentive(need_weights: bool) -> nn.Module:
    def forward(self, x):
        h = self.embedding(x)
        return self.head(self.attention(h, h, h, need_weights=need_weights)[0].mean(1))

    return module(
        forward,
        embedding=nn.Embedding(12, 4),
        attention=nn.MultiheadAttention(4, 2, batch_first=True),
        head=nn.Linear(4, 3),
    )


def transformer(dropout: float) -> nn.Module:
    def forward(self, x):
        return self.head(self.layer(self.embedding(x)).mean(1))

    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=dropout, batch_first=True)
    return module(forward, embedding=nn.Embedding(12, 4), layer=layer, head=nn.Linear(4, 3))


class Running(nn.Module):
    """Keeps a running mean of its inputs, in place or by a new tensor, and takes it off."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.in_place = in_place
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x):
        if self.training:
            new = 0.9 * self.mean + 0.1 * x.detach().mean(0)
            if self.in_place:
                self.mean.copy_(new)
            else:
                self.mean = new
        return x - self.mean


class Positions(nn.Module):
    """A buffer that never changes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("positions", torch.linspace(-1, 1, 8))

    def forward(self, x):
        return x + self.positions


class Rounded(torch.autograd.Function):
    """Straight through: no rule for vmap."""

    @staticmethod
    def forward(ctx, x):
        return (4 * x).round() / 4

    @staticmethod
    def backward(ctx, slope):
        return slope


def counting() -> nn.Module:
    def forward(self, x):
        self.calls += 1
        return self.head(self.body(x))

    return body_and_head(forward, calls=0)


def counting_in_its_class() -> nn.Module:
    made = body_and_head(None)

    def forward(self, x):
        type(self).calls += 1
        return self.head(self.body(x))

    type(made).forward, type(made).calls = forward, 0
    return made


def own_generator() -> nn.Module:
    return body_and_head(
        lambda self, x: self.head(self.body(x) + 0.1 * torch.randn(8, generator=self.draws)),
        draws=torch.Generator().manual_seed(0),
    )


def by_a_closure() -> nn.Module:
    made = body_and_head(lambda self, x: self.through(x))
    made.through = lambda x: made.head(made.body(x))
    return made


def patched() -> nn.Module:
    made = between(nn.ReLU())
    made.forward = lambda x: nn.Sequential.forward(made, x)
    return made


def hooked() -> nn.Module:
    made = between(nn.ReLU())
    made[0].register_forward_hook(lambda _m, _a, out: 2 * out)
    return made


def masked_gradient() -> nn.Module:
    made = between(nn.ReLU())
    made[0].weight.register_hook(lambda g: g * 0)
    return made


def frozen(*names: str) -> nn.Module:
    made = between(nn.Tanh())
    for name in names:
        made.get_parameter(name).requires_grad_(False)
    return made


def tied_to_embedding() -> nn.Module:
    made = module(
        lambda self, x: self.head(self.embedding(x).mean(1))[:, :3],
        embedding=nn.Embedding(12, 4), head=nn.Linear(4, 12),
    )  # fmt: skip
    made.head.weight = made.embedding.weight
    return made


def tied_layers() -> nn.Module:
    made = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3))
    made[2].weight = made[0].weight
    return made


def used_twice() -> nn.Module:
    layer = nn.Linear(6, 6)
    return nn.Sequential(layer, nn.Tanh(), layer, nn.Tanh(), nn.Linear(6, 3))


def pruned() -> nn.Module:
    made = between(nn.ReLU())
    prune.l1_unstructured(made[0], "weight", amount=0.5)
    return made


def lazy_but_called() -> nn.Module:
    made = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.Linear(8, 3))
    made(torch.zeros(2, 6))
    return made


class Doubling(nn.Module):
    def forward(self, weight):
        return 2 * weight


def parametrized() -> nn.Module:
    made = between(nn.ReLU())
    parametrize.register_parametrization(made[0], "weight", Doubling())
    return made


def experts(x_of: Callable[..., Any]) -> nn.Module:
    return module(x_of, gate=nn.Linear(6, 2), one=nn.Linear(6, 8), two=nn.Linear(6, 8), head=nn.Linear(8, 3))


def routed(self, x):
    """Each sample goes to one expert, chosen by what it is."""
    first = self.gate(x).argmax(1) == 0
    h = torch.zeros(len(x), 8, dtype=x.dtype)
    h = h.index_put((first.nonzero()[:, 0],), self.one(x[first]))
    return self.head(h.index_put(((~first).nonzero()[:, 0],), self.two(x[~first])).tanh())


def padded_inside() -> nn.Module:
    """Padding that no layer declares."""
    return module(
        lambda self, x: self.head(functional.embedding(x, self.table.weight, padding_idx=0).flatten(1)),
        table=nn.Embedding(12, 4), head=nn.Linear(20, 3),
    )  # fmt: skip


def in_training(self, x):
    h = self.body(x).tanh()
    return self.head(h - h.mean(0) if self.training else h)


SPECTRAL = {"norm": "average", "buffers": ["0.parametrizations.weight.0._u", "0.parametrizations.weight.0._v"]}
MIXED = "depends on the others of its batch"

KINDS: dict[str, Kind] = {
    # plain chains, and what looks like one
    "chain": Kind(lambda: between(nn.ReLU())),
    "chain without bias": Kind(lambda: nn.Sequential(nn.Linear(6, 8, bias=False), nn.ELU(), nn.Linear(8, 3, bias=False))),
    "one linear layer": Kind(lambda: nn.Linear(6, 3)),
    "gelu": Kind(lambda: between(nn.GELU())),
    "elu, another alpha": Kind(lambda: between(nn.ELU(alpha=0.5))),
    "prelu": Kind(lambda: between(nn.PReLU())),
    "softplus": Kind(lambda: between(nn.Softplus())),
    "activation in place": Kind(lambda: between(nn.ReLU(inplace=True))),
    "softmax over features": Kind(lambda: between(nn.Softmax(1))),
    "double precision": Kind(lambda: between(nn.Tanh()).double()),
    "bilinear": Kind(lambda: module(lambda s, x: s.head(s.pair(x, x).tanh()), pair=nn.Bilinear(6, 6, 5), head=nn.Linear(5, 3))),
    "residual": Kind(lambda: module(lambda s, x: s.head(x + s.body(x).tanh()), body=nn.Linear(6, 6), head=nn.Linear(6, 3))),
    "gated": Kind(lambda: module(lambda s, x: s.head(s.a(x) * s.b(x).sigmoid()), a=nn.Linear(6, 8), b=nn.Linear(6, 8), head=nn.Linear(8, 3))),
    "bare parameters": Kind(lambda: module(lambda s, x: x @ s.w + s.b, w=nn.Parameter(torch.randn(6, 3)), b=nn.Parameter(torch.zeros(3))), head=()),
    "a list of parameters": Kind(lambda: module(lambda s, x: x @ s.ws[0].tanh() @ s.ws[1], ws=nn.ParameterList([torch.randn(6, 4), torch.randn(4, 3)])), head=()),
    "a parameter that is never used": Kind(lambda: body_and_head(lambda s, x: s.head(s.body(x)), spare=nn.Linear(2, 2)), head="head"),
    "a layer that is detached": Kind(lambda: body_and_head(lambda s, x: s.head(s.body(x).detach()))),
    "a regression": Kind(lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 1)), NUMBERS),
    "a regression without its dimension": Kind(lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 1), nn.Flatten(0)), NUMBERS, "2"),
    # norms
    "layer norm": Kind(lambda: between(nn.LayerNorm(8))),
    "group norm": Kind(lambda: between(nn.GroupNorm(2, 8))),
    "rms norm": Kind(lambda: between(nn.RMSNorm(8))),
    "instance norm": Kind(lambda: convolved(nn.InstanceNorm2d(4)), IMAGES),
    "local response norm": Kind(lambda: convolved(nn.LocalResponseNorm(2)), IMAGES),
    "batch norm, unsaid": Kind(lambda: between(nn.BatchNorm1d(8)), refused="batch norm"),
    "batch norm that counts": Kind(lambda: between(nn.BatchNorm1d(8, momentum=None)), refused="counts its batches", how={"norm": "average"}),
    "batch norm without statistics": Kind(lambda: between(nn.BatchNorm1d(8, track_running_stats=False)), refused="for a single sample"),
    # convolutions
    "convolutions": Kind(lambda: convolved(nn.ReLU()), IMAGES),
    "grouped convolutions": Kind(lambda: convolved(nn.Conv2d(4, 4, 1, groups=2), nn.ReLU()), IMAGES),
    "transposed convolutions": Kind(lambda: convolved(nn.ConvTranspose2d(4, 2, 2), nn.ReLU(), width=18), IMAGES),
    "max pooling": Kind(lambda: convolved(nn.MaxPool2d(2), width=4), IMAGES),
    "adaptive pooling": Kind(lambda: convolved(nn.AdaptiveAvgPool2d(1), width=4), IMAGES),
    "upsampling": Kind(lambda: convolved(nn.Upsample(scale_factor=2), width=64), IMAGES),
    "convolutions along one dimension": Kind(lambda: module(lambda s, x: s.head(s.conv(x.unsqueeze(1)).flatten(1)), conv=nn.Conv1d(1, 2, 3), head=nn.Linear(8, 3))),
    # text
    "embedding": Kind(embedded, TOKENS),
    "embedding with padding": Kind(lambda: embedded(padding_idx=0), TOKENS),
    "embedding padded in forward": Kind(padded_inside, TOKENS),
    "embedding bag": Kind(lambda: nn.Sequential(nn.EmbeddingBag(12, 4), nn.Linear(4, 3)), TOKENS),
    "embedding scaled by frequency": Kind(lambda: embedded(scale_grad_by_freq=True), TOKENS),
    "embedding of bounded norm": Kind(lambda: embedded(max_norm=0.5), TOKENS, refused="changes the parameter '0.weight'"),
    "sparse embedding": Kind(lambda: embedded(sparse=True), TOKENS, refused="sparse"),
    "frozen embedding": Kind(lambda: nn.Sequential(nn.Embedding(12, 4).requires_grad_(False), nn.Flatten(), nn.Linear(20, 6), nn.Tanh(), nn.Linear(6, 3)), TOKENS),
    "lstm": Kind(lambda: recurrent(nn.LSTM), TOKENS),
    "lstm both ways": Kind(lambda: recurrent(nn.LSTM, bidirectional=True), TOKENS),
    "gru": Kind(lambda: recurrent(nn.GRU), TOKENS),
    "rnn of two layers": Kind(lambda: recurrent(nn.RNN, num_layers=2), TOKENS),
    "attention": Kind(lambda: attentive(True), TOKENS),
    "attention without weights": Kind(lambda: attentive(False), TOKENS),
    "transformer": Kind(lambda: transformer(0.0), TOKENS),
    "transformer with dropout": Kind(lambda: transformer(0.3), TOKENS),
    # random numbers
    "dropout": Kind(lambda: between(nn.Dropout(0.4))),
    "alpha dropout": Kind(lambda: between(nn.SELU(), nn.AlphaDropout(0.2))),
    "dropout of channels": Kind(lambda: convolved(nn.Dropout2d(0.4)), IMAGES),
    "random slope": Kind(lambda: between(nn.RReLU())),
    "noise in training": Kind(lambda: body_and_head(lambda s, x: s.head(s.body(x) + (0.1 * torch.randn(len(x), 8) if s.training else 0)))),
    "dropout in evaluation": Kind(lambda: body_and_head(lambda s, x: s.head(functional.dropout(s.body(x)))), refused="random numbers in evaluation"),
    "numpy's noise": Kind(lambda: body_and_head(lambda s, x: s.head(s.body(x) + np.random.normal())), refused="numpy's generator"),  # noqa: NPY002
    "numpy's noise of a new generator": Kind(lambda: body_and_head(lambda s, x: s.head(s.body(x) + np.random.default_rng().normal())), refused="differ"),
    "Python's noise": Kind(lambda: body_and_head(lambda s, x: s.head(s.body(x) * random.random())), refused="Python's generator"),
    "a generator of its own": Kind(own_generator, refused="differ|attribute"),
    # what it remembers
    "a constant buffer": Kind(lambda: between(Positions())),
    "an undeclared running mean": Kind(lambda: between(Running(True)), refused=r"buffer '1\.mean'.*buffers=\['1\.mean'\]"),
    "a declared running mean": Kind(lambda: between(Running(True)), how={"norm": "average", "buffers": ["1.mean"]}),
    "a running mean that is replaced": Kind(lambda: between(Running(False)), how={"norm": "average", "buffers": ["1.mean"]}),
    "a counter": Kind(counting, refused="attribute 'calls'"),
    "a counter of its class": Kind(counting_in_its_class, refused="attribute 'calls'"),
    "features that are kept": Kind(lambda: body_and_head(lambda s, x: s.head(vars(s).update(seen=s.body(x)) or s.seen)), refused="attribute 'seen'"),
    "spectral norm": Kind(lambda: nn.Sequential(parametrizations.spectral_norm(nn.Linear(6, 8)), nn.ReLU(), nn.Linear(8, 3)), how=SPECTRAL),
    "spectral norm, unsaid": Kind(lambda: nn.Sequential(parametrizations.spectral_norm(nn.Linear(6, 8)), nn.ReLU(), nn.Linear(8, 3)), refused="changes the buffer"),
    "spectral norm by hooks": Kind(lambda: nn.Sequential(nn.utils.spectral_norm(nn.Linear(6, 8)), nn.ReLU(), nn.Linear(8, 3)), refused="hooks"),
    "weight norm": Kind(lambda: nn.Sequential(parametrizations.weight_norm(nn.Linear(6, 8)), nn.ReLU(), nn.Linear(8, 3))),
    "weight norm by hooks": Kind(lambda: nn.Sequential(_old_weight_norm(), nn.ReLU(), nn.Linear(8, 3)), refused="hooks"),
    "orthogonal weights": Kind(lambda: nn.Sequential(parametrizations.orthogonal(nn.Linear(6, 6)), nn.ReLU(), nn.Linear(6, 3))),
    "parametrized": Kind(parametrized),
    "pruned": Kind(pruned, refused="hooks"),
    # what a copy, a stack or a cache could get wrong
    "mean of the batch taken off": Kind(lambda: body_and_head(lambda s, x: s.head(s.body(x - x.mean(0)))), refused=MIXED),
    "softmax over the batch": Kind(lambda: between(nn.Softmax(0)), refused=MIXED),
    "another way for large batches": Kind(lambda: body_and_head(lambda s, x: s.head(s.body(x) * (2 if len(x) > 3 else 1))), refused=MIXED),
    "a branch on the whole batch": Kind(lambda: body_and_head(lambda s, x: s.head(s.body(x) * (2 if x[0].sum() > 0 else 1))), refused=MIXED),
    "mean of the batch, in training": Kind(lambda: body_and_head(in_training)),
    "routed to experts": Kind(lambda: experts(routed)),
    "a forward hook": Kind(hooked, refused="hooks"),
    "a hook on a parameter": Kind(masked_gradient, refused="hooks"),
    "a patched forward": Kind(patched, refused="forward of the model was replaced"),
    "a closure over itself": Kind(by_a_closure, refused="keeps a function"),
    "lazy": Kind(lambda: nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.Linear(8, 3)), refused="lazy"),
    "lazy, but called": Kind(lazy_but_called),
    "writes into its input": Kind(lambda: body_and_head(lambda s, x: s.head(s.body(x.div_(2))))),
    "a head that writes into its input": Kind(lambda: nn.Sequential(nn.Linear(6, 8), nn.Sequential(nn.ReLU(inplace=True), nn.Linear(8, 3))), head="1"),
    "tied layers": Kind(tied_layers),
    "a layer used twice": Kind(used_twice),
    "a head tied to the embedding": Kind(tied_to_embedding, TOKENS, head="head"),
    "a frozen body": Kind(lambda: frozen("0.weight", "0.bias")),
    "a frozen weight of the head": Kind(lambda: frozen("2.weight")),
    "a frozen bias of the head": Kind(lambda: frozen("2.bias")),
    "a head that the body uses": Kind(lambda: body_and_head(lambda s, x: s.head(s.body(x) + s.head.weight.mean(0)))),
    "a head changed in training": Kind(lambda: body_and_head(lambda s, x: s.head(s.body(x)) * (0.5 if s.training else 1.0))),
    "a head changed always": Kind(lambda: body_and_head(lambda s, x: s.head(s.body(x)) * 0.5)),
    "a head called by its function": Kind(lambda: body_and_head(lambda s, x: functional.linear(s.body(x), s.head.weight, s.head.bias))),
    "two heads": Kind(lambda: module(lambda s, x: s.a(s.body(x)) + s.b(s.body(x)), body=nn.Linear(6, 8), a=nn.Linear(8, 3), b=nn.Linear(8, 3)), head=("a", "b")),
    "its own gradient": Kind(lambda: body_and_head(lambda s, x: s.head(Rounded.apply(s.body(x))))),
    "checkpointed": Kind(lambda: body_and_head(lambda s, x: s.head(checkpoint(s.body, x, use_reentrant=False)))),
    "Fourier features": Kind(lambda: body_and_head(lambda s, x: s.head(torch.fft.fft(s.body(x)).abs()))),
    "written for single precision": Kind(lambda: body_and_head(lambda s, x: s.head(s.body(x).float() @ torch.eye(8)))),
    "compiled to a script": Kind(lambda: torch.jit.script(between(nn.Tanh())), refused="compiled to a script"),
    "a batch of one is squeezed": Kind(lambda: body_and_head(lambda s, x: s.head(s.body(x)).squeeze()), refused="does not fit the labels"),
    "gives two things": Kind(lambda: body_and_head(lambda s, x: (s.head(s.body(x)), x)), refused="does not fit the labels"),
    "gives a dictionary": Kind(lambda: body_and_head(lambda s, x: {"logits": s.head(s.body(x))}), refused="does not fit the labels"),
}  # fmt: skip


def _old_weight_norm() -> nn.Module:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return nn.utils.weight_norm(nn.Linear(6, 8))
