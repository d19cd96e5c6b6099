"""Deng et al. 2022: what the theory of Local SGD on deep ReLU networks says of a run, and what the run does."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field

from manyheads.algorithms import LocalSGD
from manyheads.core.contract import Batch
from manyheads.core.errors import UserError
from manyheads.core.randomness import Purpose, generator
from manyheads.core.settings import as_dict, build, settings
from manyheads.core.trees import State, Tree
from manyheads.data import Federation, Samples
from manyheads.engines.cohort import LocalCohort
from manyheads.models import ReluNet, build_model
from manyheads.run import Evaluate, simulate
from manyheads.theory.facts import condition, fitted_contraction, number, within
from manyheads.theory.landscape import Landscape, watched
from manyheads.theory.paper import Say

if TYPE_CHECKING:
    import altair as alt

__all__ = ["Deng2022", "figure", "separation"]

TRIES = 1000
"""inputs drawn in vain before it is said that they do not fit"""
SMALLEST = 1e-24
"""losses below are rounding: the run is over"""


def separation(x: np.ndarray) -> float:
    """phi of Assumption 1: the least distance of two inputs.

    >>> separation(np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])) == 2**0.5
    True
    """
    from scipy.spatial.distance import pdist

    return float(pdist(x.reshape(len(x), -1)).min())


class Traced(LocalCohort):
    """A cohort that keeps the points at which its clients take gradients: their local models, step by step."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.visited: list[Tree] = []

    def gradient(self, params: Tree, on: Batch) -> Tree:
        self.visited.append(params)
        return super().gradient(params, on)


@settings
class Deng2022:
    """Local GD and Local SGD on a deep ReLU network whose top layer is fixed: Theorems 1 and 2, Lemmas 2 and 4 to 6.

    Inputs are random on the unit sphere, at least ``separation`` apart, with random targets of norm 1. The paper names no
    constants: what it bounds by O(.) or Omega(.) is shown as the measured quantity over the expression in the brackets,
    which has to stay in a band as width, depth and the number of local steps change.

    Reference: Deng, Kamani, Mahdavi, Local SGD Optimizes Overparameterized Neural Networks in Polynomial Time, AISTATS
    2022.
    """

    name: ClassVar[str] = "deng2022"
    title: ClassVar[str] = "Deng et al. 2022: Local SGD trains wide ReLU networks at a linear rate (Theorems 1 and 2)"

    width: Annotated[int, Field(ge=2)] = 256
    """neurons a layer, m"""
    depth: Annotated[int, Field(ge=1)] = 2
    """hidden layers, L"""
    tau: Annotated[int, Field(ge=1)] = 5
    """local steps a round"""
    widths: tuple[Annotated[int, Field(ge=2)], ...] = (32, 64, 128)
    """other widths to compare with"""
    depths: tuple[Annotated[int, Field(ge=1)], ...] = (1, 3)
    """other depths to compare with"""
    taus: tuple[Annotated[int, Field(ge=1)], ...] = (1, 2, 10)
    """other numbers of local steps to compare with"""
    gradient: Literal["full", "single"] = "full"
    """full: Local GD, Theorem 1; single: Local SGD, n times the gradient of one sample, Theorem 2"""
    step: Annotated[float, Field(gt=0)] = 4.0
    """eta = step * d / (m L tau); of Local SGD, divided by n too"""
    clients: Annotated[int, Field(ge=2)] = 4
    """number of clients, K"""
    samples: Annotated[int, Field(ge=1)] = 5
    """samples a client, n"""
    dim: Annotated[int, Field(ge=2)] = 20
    """length of the inputs"""
    outputs: Annotated[int, Field(ge=1)] = 5
    """length of the targets, d: the fixed top layer is N(0, 1/d)"""
    separation: Annotated[float, Field(ge=0, lt=2)] = 0.5
    """least distance of two inputs"""
    rounds: Annotated[int, Field(ge=10)] = 60
    """communication rounds, R"""
    views: Annotated[int, Field(ge=2)] = 5
    """rounds whose local steps are followed"""
    seed: Annotated[int, Field(ge=0)] = 0
    """everything random comes from it"""

    @property
    def eta(self) -> float:
        """The step size. It shrinks as 1/(m tau), as both theorems have it."""
        return self.step * self.outputs / (self.width * self.depth * self.tau * (self.samples if self.single else 1))

    @property
    def single(self) -> bool:
        return self.gradient == "single"

    def federation(self) -> Federation:
        rng = generator(self.seed, Purpose.DATA)
        count, vain = self.clients * self.samples, 0
        x = np.empty((0, self.dim))
        while len(x) < count:
            one = rng.normal(size=self.dim)
            one /= np.linalg.norm(one)
            if len(x) and np.linalg.norm(x - one, axis=1).min() < self.separation:
                vain += 1
                if vain == TRIES:
                    raise UserError(
                        f"{count} inputs do not fit on the unit sphere so far apart",
                        where="separation",
                        given=self.separation,
                        fix="take a smaller separation, fewer samples or a larger dim",
                    )
                continue
            x = np.vstack([x, one])
        y = rng.normal(size=(count, self.outputs))
        y /= np.linalg.norm(y, axis=1, keepdims=True)
        samples = Samples(x, y, np.arange(self.clients + 1) * self.samples)
        return Federation("deng2022", samples, samples, "regression", self.outputs)

    def run(self, say: Say) -> dict[str, Any]:
        """The run itself, then the same with other widths, depths and numbers of local steps."""
        phi = separation(self.federation().train.x)
        conditions = self._conditions(phi)
        base = self.measure(phi, say)
        others = {"width": self.widths, "tau": self.taus, "depth": self.depths}
        runs = {name: {getattr(self, name): base} for name in others}
        for name, values in others.items():
            for value in values:
                if value not in runs[name]:
                    changed = build(Deng2022, as_dict(self) | {name: value}, where=self.name)
                    runs[name][value] = changed.measure(phi, say)
        return {
            "phi": phi,
            "eta": self.eta,
            "conditions": conditions,
            "within_assumptions": within(conditions),
            **base,
            **{f"by_{name}": [_compared(name, v, found[v]) for v in sorted(found)] for name, found in runs.items()},
            "losses": {
                name: {str(v): found[v]["series"]["loss"] for v in sorted(found)} for name, found in runs.items()
            },
        }

    def _conditions(self, phi: float) -> list[dict[str, Any]]:
        """What the theorems ask for, their hidden constants taken as 1."""
        n, L, log_m, d = self.samples, self.depth, math.log(self.width), self.outputs
        power, logs, phis = (18, 5, 3) if self.single else (16, 3, 5)
        wide = self.clients * d * n**power * L**12 * log_m**logs / phi**phis
        scale = d * phi / (self.tau * n**3 * log_m**2) if self.single else d * n**2 / (phi * self.tau)
        eta_most = scale / self.width
        stable = d / (2 * self.tau * L**2 * self.width)
        return [
            condition("separated inputs: phi (Assumption 1)", phi > 0, phi, "> 0"),
            condition("width: m", self.width >= wide, self.width, f"of order {wide:.1e} or more"),
            condition("step size: eta", None, self.eta, f"of order {eta_most:.2e}, constant not named"),
            condition(
                "step size: eta, in the proof (A.2.2)", None, self.eta, f"of order {stable:.2e} or less, not named"
            ),
        ]

    def measure(self, phi: float, say: Say) -> dict[str, Any]:
        """One run and the ratios of its quantities to the expressions that bound them."""
        say(f"width {self.width}, depth {self.depth}, {self.tau} local steps")
        federation = self.federation()
        spec = ReluNet(width=self.width, depth=self.depth)
        model = build_model(spec, federation.sample_shape, federation.outputs, self.seed, "float64")
        algorithm = LocalSGD(gradient=self.gradient, steps=self.tau, lr=self.eta)
        states: list[State] = []
        simulate(
            watched(algorithm, states.append), model, federation, rounds=self.rounds, seed=self.seed,
            evaluate=Evaluate(every=self.rounds),
        )  # fmt: skip
        land = Landscape(model, federation, self.seed)
        path = [model.params.all, *(state.model for state in states)]
        loss = [float(land.losses(land.flat(w)).mean()) for w in path]
        done = next((c for c, value in enumerate(loss) if value < SMALLEST), len(loss))
        path, loss = path[:done], loss[:done]
        square = [float(land.gradients(land.flat(w)).mean(dim=0).square().sum()) for w in path]
        far = [float(land.flat(w - path[0]).norm()) for w in path]
        chosen = np.unique(np.linspace(0, min(done, self.rounds) - 1, self.views).astype(int)).tolist()
        omega = max(_spectral(path[c] - path[0]) for c in (*chosen, -1))
        local = [{"round": c + 1} | self._local(land, algorithm, path[c], c + 1, loss[c], omega) for c in chosen]

        m_d, n = self.width / self.outputs, self.samples
        upper = [g / (m_d * v) for g, v in zip(square, loss, strict=True)]
        lower = [u * n**2 / phi for u in upper]
        fit = fitted_contraction(loss, SMALLEST, math.inf)
        rate = -math.log(fit["contraction"]) if fit else math.nan
        gain = self.eta * self.tau * m_d * phi / n**2 * (n if self.single else 1)
        R0 = n**5 * math.log(self.width) ** 2 / phi**2
        return {
            "measured": {
                "fit": fit,
                "rate": number(rate),
                "first_loss": loss[0],
                "last_loss": loss[-1],
                "largest_local_growth": max(at["growth"] for at in local),
                "local_losses_fall": all(at["falls"] for at in local),
                "distance_spectral": omega,
                "distance_frobenius": max(far),
            },
            "ratios": {
                "rate": number(rate / gain),
                "rate_times_R0": number(rate * R0) if self.single else None,
                "gradient_upper": max(upper),
                "gradient_lower": min(lower),
                "distance": max(far) / (n**2 / phi * math.sqrt(loss[0] / m_d)),
                "deviation": max(at["deviation_ratio"] for at in local),
                "semi_lipschitz": max(at["semi_ratio"] for at in local),
                "outputs": max(at["outputs_ratio"] for at in local),
                "outputs_m_d": max(at["outputs_ratio"] for at in local) / m_d,
            },
            "series": {
                "loss": loss,
                "gradient_upper": upper,
                "gradient_lower": lower,
                "distance_frobenius": far,
            },
            "local": local,
        }

    def _local(
        self, land: Landscape, algorithm: LocalSGD, start: Tree, round: int, loss: float, omega: float
    ) -> dict[str, Any]:
        """The local steps of one round, done again: local losses, deviation (Lemma 4), gradient changes (Lemma 5)."""
        cohort = land.cohort_at(round, Traced)
        end = algorithm.local(cohort, State(model=start), State()).model
        assert isinstance(cohort, Traced)
        assert end is not None
        first, visited = land.flat(start), [land.flat(params) for params in cohort.visited]
        relative = [land.losses(w) / land.losses(first) for w in (*visited, land.flat(end))]
        deviation = [float((w - first).square().sum(dim=1).mean()) for w in visited]
        m_d, L, last = self.width / self.outputs, self.depth, visited[-1]  # t_c + tau - 1, the farthest that is meant
        change = float((land.gradients(last) - land.gradients(first)).square().sum(dim=1).mean())
        outputs = float((land.outputs(last) - land.outputs(first)).square().sum(dim=2).max())
        own = [cohort.visited[-1].map(lambda v, i=i: v[i]) for i in range(len(land))]
        apart = float(np.mean([_spectral(params - start) ** 2 for params in own]))
        slack = omega ** (2 / 3) * L**5 + omega**2 * L**6
        semi = m_d * (L**4 * apart + slack * math.log(self.width) * loss)
        losses = torch.stack(relative)
        return {
            "growth": float(losses.max()),
            "falls": bool((losses.diff(dim=0) <= 1e-12).all()),
            "local_loss": losses.mean(dim=1).tolist(),
            "deviation": deviation,
            "deviation_ratio": max(deviation) / (self.eta**2 * self.tau**2 * m_d * self.samples * loss),
            "semi_ratio": change / semi if semi else 0.0,
            "outputs_ratio": outputs / (L**3 * apart) if apart else 0.0,
        }


def _compared(name: str, value: int, found: dict[str, Any]) -> dict[str, Any]:
    """A run as a row of a table."""
    measured, fit, ratios = found["measured"], found["measured"]["fit"], found["ratios"]
    chosen = ("gradient_upper", "gradient_lower", "deviation", "outputs", "outputs_m_d", "distance")
    return {
        name: value,
        "rate": measured["rate"],
        "r2": fit["r2"] if fit else None,
        "last_loss": measured["last_loss"],
        "from_start": measured["distance_frobenius"],
        **{key: ratios[key] for key in chosen},
    }


def figure(facts: dict[str, Any]) -> alt.HConcatChart | alt.ConcatChart:
    """The loss at several widths and numbers of local steps, and what has to stay in a band as the width grows."""
    from manyheads.theory.figures import lines, rows_of

    by_width, by_tau = facts["losses"]["width"], facts["losses"]["tau"]
    ratios = {
        "|grad|² / (m loss / d), largest": "gradient_upper",
        "|grad|² / (m φ loss / (d n²)), smallest": "gradient_lower",
        "deviation² / (η² τ² m n loss / d), largest": "deviation",
        "change of outputs² / (L³ |ΔW|²), largest": "outputs",
        "the same with m/d": "outputs_m_d",
    }
    bands = [
        {"line": line, "x": row["width"], "y": row[key]} for line, key in ratios.items() for row in facts["by_width"]
    ]
    charts = (
        lines(rows_of({f"width {m}": loss for m, loss in by_width.items()}), "loss", "round", log=True),
        lines(rows_of({f"local steps: {tau}": loss for tau, loss in by_tau.items()}), "loss", "round", log=True),
        lines(bands, "measured / expression in O(.) or Ω(.)", "width m", log=True, points=True),
    )
    return (charts[0] | charts[1] | charts[2]).resolve_scale(color="independent", strokeDash="independent")


def _spectral(tree: Tree) -> float:
    """``||W||_2`` of all layers: the largest spectral norm of one."""
    return max(float(torch.linalg.matrix_norm(v, 2)) for v in tree.values())
