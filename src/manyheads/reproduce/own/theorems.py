"""The papers' theorems beside a run, judged: bounds, hypotheses of a proof, lemmas, what has to stay in a band."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from manyheads.core.settings import as_dict, settings
from manyheads.reproduce.claims import Check, Claim, holds
from manyheads.reproduce.experiment import Experiment, Facts, Measured, Place, Scale, register
from manyheads.theory import Collins2021, Collins2022, Deng2022, Fallah2020, figure_of, theory
from manyheads.theory.collins2022.induction import LEMMA_8
from manyheads.theory.facts import fitted_power

__all__ = ["Theorem"]

RUN = "run"
STRAIGHT = 0.98
"""r² of a line through the logarithm of a loss that falls at a linear rate"""
LOWER = "gradient_lower"
FLAT = 0.5
"""a ratio that goes with a power of the width below this is nearer to none than to the first"""
RATIOS = {
    "Lemma 1, what the linear part of a round's change leaves over both terms, does not rise": "semi_smoothness",
    "Lemma 2, |grad|² over m loss / d, does not rise": "gradient_upper",
    "Lemma 2, |grad|² over m phi loss / (d n²), does not fall": LOWER,
    "Lemma 3, features' way from the start over |dW| L^(5/2) sqrt(log m), does not rise": "features_moved",
    "Lemma 3, length of features, does not rise": "features",
    "Lemma 3, change of features over L^(3/2) |dW|, does not rise": "features_apart",
    "Lemma 3, change of backward products over omega^(1/3) L² sqrt(m log m / d), does not rise": "backward_moved",
    "Lemma 3, backward products over sqrt(m / d), does not rise": "backward",
    "Lemma 4, deviation² over eta² tau² m n loss / d, does not rise": "deviation",
    "Lemma 7 without its K, E|mean gradient of one sample each|² over m loss / d, does not rise": "stochastic_mean",
    "Lemma 7, the largest such mean² over m n loss / d, does not rise": "stochastic_largest",
    "distance from the start over sqrt(d / m) n² / phi sqrt(loss_0), does not rise": "distance",
}
"""measured, over what is in the brackets of O(.), or of Omega(.) for :data:`LOWER`"""
OUTPUTS = "change of an output² over {}L³ |dW|², does not rise"


@settings
class Theorem(Experiment):
    """``manyheads theory NAME`` with its usual settings, its facts as checks. The first seed is drawn."""

    paper: ClassVar[type[Any]]
    scales: ClassVar[Mapping[Scale, Mapping[str, Any]]] = {"quick": {}}

    seeds: Annotated[int, Field(ge=1)] = 3

    def parts(self) -> list[str]:
        return [RUN]

    def recipe(self, part: str, seed: int) -> Facts:
        return {"theory": self.paper.name, **as_dict(self.paper(seed=seed))}

    def measure(self, part: str, seed: int, place: Place) -> Facts:
        return theory(self.paper(seed=seed), place.say)

    def claims(self, found: Measured) -> list[Claim]:
        runs = list(found[RUN].values())
        return [claim for judge in (_bound, _proof, _lemmas, _widths, _assumptions) for claim in judge(runs)]

    def figure(self, found: Measured) -> Any:
        return figure_of(next(iter(found[RUN].values())))


@register
@settings
class TheoryCollins2021(Theorem):
    """Bound (10) beside FedRep's distance."""

    name: ClassVar[str] = "theory.collins2021"
    title: ClassVar[str] = Collins2021.title
    about: ClassVar[
        str
    ] = """FedRep with exact heads on fresh batches, beside GD-GD and 10GD-GD, with 50 clients, d = 20,
        k = 2 and m = 100; then the distance and the error by samples a client, and the errors of new clients. What is drawn
        and measured is explained in [Theory](theory.md); drawn is seed 0."""
    paper: ClassVar[type[Any]] = Collins2021
    minutes: ClassVar[Mapping[Scale, float]] = {"quick": 0.5}


@register
@settings
class TheoryCollins2022(Theorem):
    """Theorem 1's bound, the hypotheses of its induction, and Proposition 1."""

    name: ClassVar[str] = "theory.collins2022"
    title: ClassVar[str] = Collins2022.title
    about: ClassVar[
        str
    ] = """FedAvg with two local steps, and D-GD, with population gradients: d = 100, k = 5, 40 clients,
        step 0.4, as in the paper's Figures 1 and 3; constants as in Appendix B of its arXiv version. At this step the limits
        of some hypotheses are so large that they say nothing; so the same problem is also run at the largest step that the
        theorem allows. What is drawn and measured is explained in [Theory](theory.md); drawn is seed 0."""
    paper: ClassVar[type[Any]] = Collins2022
    minutes: ClassVar[Mapping[Scale, float]] = {"quick": 0.2}


@register
@settings
class TheoryDeng2022(Theorem):
    """What the paper bounds without constants, over widths."""

    name: ClassVar[str] = "theory.deng2022"
    title: ClassVar[str] = Deng2022.title
    about: ClassVar[
        str
    ] = """Local GD on four clients with five samples each: L = 2, tau = 5, widths from 32 to 256. The
        paper names no constants: what it bounds by O(.) or Omega(.) is divided by the expression in the brackets, and that ratio
        must not go with a power of the width. What is drawn and measured is explained in [Theory](theory.md); drawn is seed 0."""
    paper: ClassVar[type[Any]] = Deng2022
    minutes: ClassVar[Mapping[Scale, float]] = {"quick": 0.3}


@register
@settings
class TheoryFallah2020(Theorem):
    """Theorem 4.5's bound, and every lemma's."""

    name: ClassVar[str] = "theory.fallah2020"
    title: ClassVar[str] = Fallah2020.title
    about: ClassVar[
        str
    ] = """Per-FedAvg on softmax regression, whose constants are known for every w: six clients, tau = 5,
        150 rounds, inner step 0.3, the largest outer step that the theorem allows. What is drawn and measured is explained in
        [Theory](theory.md); drawn is seed 0."""
    paper: ClassVar[type[Any]] = Fallah2020
    minutes: ClassVar[Mapping[Scale, float]] = {"quick": 0.5}


def _bound(runs: Sequence[Facts]) -> Iterator[Claim]:
    """A bound that is exceeded outside the assumptions, or where these are open, says nothing against the theorem."""
    if "bound" in runs[0]:
        above = [run["bound"]["violations"] for run in runs]
        broken = any(v and run["within_assumptions"] for v, run in zip(above, runs, strict=True))
        held = False if broken else None if any(above) else True
        words = f"exceeded in {', '.join(map(str, above))} rounds ({len(runs)} seeds)"
        yield Claim("what is measured is below the theorem's bound", (Check("in every round", held, words),))


def _proof(runs: Sequence[Facts]) -> Iterator[Claim]:
    if "hypotheses" in runs[0]:
        yield from _hypotheses(runs, "hypotheses", "in every round")
        yield from _hypotheses(runs, "hypotheses_at_theorem_step", "at the largest step that the theorem allows")
        least = min(each["lemma_8"]["smallest"] for run in runs for each in (run, run["theorem_step"]))
        kept = holds("alpha sigma_min²(B_t^T B_*) over E_0", least >= LEMMA_8, f"at least {least:.3g}, needs {LEMMA_8}")
        yield Claim("Lemma 8: B keeps its part in the true subspace", (kept,))
    if runs[0].get("proposition_1"):
        found = [run["proposition_1"] for run in runs]
        least, needs = min(f["smallest_ratio"] for f in found), found[0]["needs"]
        words = f"at least {least:.3g} delta_0 on {sum(f['instances'] for f in found)} instances"
        stays = holds(f"at least {needs:g} delta_0 of the distance is left", least >= needs, words)
        yield Claim("Proposition 1: there are representations that D-GD does not learn", (stays,))


def _hypotheses(runs: Sequence[Facts], key: str, where: str) -> Iterator[Claim]:
    """Those whose limits say something, judged; and the others, which would hold for a run that learns nothing."""
    judged: list[Check] = []
    vacuous: list[Check] = []
    for rows in zip(*(run[key] for run in runs), strict=True):
        ratios = [row["ratio"] for row in rows if row["ratio"] is not None]
        words = f"at most {max(ratios):.2g} of its limit ({len(rows)} seeds)" if ratios else "its limit is 0"
        why = next((row["needs"] for row in rows if row["vacuous"]), "").partition("vacuous: ")[2]
        check = holds(rows[0]["name"], all(row["holds"] for row in rows), words + (f"; {why}" if why else ""))
        (vacuous if why else judged).append(check)
    yield Claim(f"the hypotheses of the induction hold {where}", tuple(judged))
    if vacuous:
        yield Claim(
            f"and those that a run which learns nothing would meet too, {where}", tuple(vacuous), found_here=True
        )


def _lemmas(runs: Sequence[Facts]) -> Iterator[Claim]:
    if "lemmas" in runs[0]:
        checks = []
        for rows in zip(*([*run["lemmas"], *run["similarity"]] for run in runs), strict=True):
            most = max(row["ratio"] for row in rows)
            words = f"at most {most:.2g} of its bound ({len(rows)} seeds)"
            checks.append(holds(f"{rows[0]['name']}, {rows[0]['what']}", all(row["below"] for row in rows), words))
        yield Claim("what each lemma bounds is below its bound along the run", tuple(checks))


def _widths(runs: Sequence[Facts]) -> Iterator[Claim]:
    if "by_width" not in runs[0]:
        return
    fits = [run["measured"]["fit"]["r2"] for run in runs]
    straight = holds(f"log loss is a straight line, r² of {STRAIGHT}", min(fits) >= STRAIGHT, f"r² {_span(fits)}")
    yield Claim("the loss falls at a linear rate in the widest network", (straight,))
    yield Claim(
        "with the width, what is bounded goes as the lemmas say", tuple(_flat(n, k, runs) for n, k in RATIOS.items())
    )
    yield Claim(
        "the change of an output is bounded without a factor of the width, as in the proof of Lemma 5",
        (_flat(OUTPUTS.format(""), "outputs", runs),),
        "the proof leaves out the norm of the top layer V, of order sqrt(m / d)",
    )
    yield Claim(
        "with that factor, m / d, it is", (_flat(OUTPUTS.format("m / d "), "outputs_m_d", runs),), found_here=True
    )


def _flat(what: str, key: str, runs: Sequence[Facts]) -> Check:
    """Whether a ratio stays within a constant as the width grows: it may rise over what is a lower bound only."""
    powers, sign = [], -1 if key == LOWER else 1
    for run in runs:
        widths, ratios = zip(*((row["width"], row[key]) for row in run["by_width"]), strict=True)
        powers.append(fitted_power(widths, ratios))
    return holds(
        what,
        max(sign * np.array(powers)) < FLAT,
        f"goes with the width to the power {_span(powers)} ({len(runs)} seeds)",
    )


def _span(values: Sequence[float]) -> str:
    return f"{min(values):.3g} to {max(values):.3g}"


def _assumptions(runs: Sequence[Facts]) -> Iterator[Claim]:
    """A run outside the assumptions is no failure of the theorem, so this counts for no verdict."""
    checks = []
    for rows in zip(*(run["conditions"] for run in runs), strict=True):
        found = {row["holds"] for row in rows}
        held = False if False in found else None if None in found else True
        value = "" if rows[0]["value"] is None else f"{rows[0]['value']:.3g}; "
        checks.append(Check(rows[0]["name"], held, f"{value}needs {rows[0]['needs']}"))
    yield Claim("the run is within the theorem's assumptions", tuple(checks), found_here=True)
