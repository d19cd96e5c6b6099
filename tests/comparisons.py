"""Results of comparisons that were never run, for pages of all kinds: drawn at random, alike in form to real ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from manyheads.core.machine import this_machine
from manyheads.experiments.describe import Distances, FederationFacts, Followed, Range, Samples, Sizes, Targets
from manyheads.experiments.gains import Counts, Gain, MeanGain, SiteAdvice, SiteGain
from manyheads.experiments.method_result import Choice, MethodResult, MetricLevel, Observed, Point, Tried
from manyheads.experiments.quality import CalibrationBin, ClassQuality, CrossSites, SurvivalCurve
from manyheads.experiments.results import ComparisonResult, Recommendation

METRICS = {
    "classification": ("auc", "accuracy", "balanced_accuracy", "average_precision", "f1", "log_loss", "brier", "calibration_error"),
    "regression": ("rmse", "mae", "r2"),
    "survival": ("c_index",),
}  # fmt: skip
TITLES = {
    "alone": "the best that each site can do alone",
    "majority": "the most frequent label, or the mean",
    "linear": "logistic or ridge regression",
    "trees": "gradient-boosted trees",
    "local": "the network, trained alone",
    "pooled": "one network trained on the data of all sites together",
}
HEART = ("cleveland", "hungarian", "switzerland", "va")
FEDERATED = ("fedavg", "fedprox", "fedrep", "ditto", "fedavg+ft")


def made(task="classification", names=HEART, federated=FEDERATED, best="fedrep", seed=0):
    """The results of a comparison of these sites; ``best`` is recommended, the first site gains and the last loses."""
    rng = np.random.default_rng(seed)
    sites, score, low = len(names), METRICS[task][0], task == "regression"
    verdicts = ["gains", *["unclear"] * (sites - 2), "loses"]
    methods = {}
    for name in ("alone", "majority", "linear", "trees", "local", *federated, "pooled"):
        kind = "federated" if name in federated else "ceiling" if name == "pooled" else "alone"
        levels = {m: _level(rng, sites, 0.15 if name == "majority" else 0.05) for m in METRICS[task]}
        mean = levels[score].mean
        gains, gain = (), None
        if kind != "alone":
            alone = methods["alone"].metrics[score].sites
            gains = tuple(
                SiteGain(client=i, name=names[i], samples=30 + i, alone=alone[i], score=alone[i] + (-g if low else g),
                         gain=g, interval=(g - 0.05, g + 0.05), verdict=verdicts[i])
                for i, g in enumerate(np.linspace(0.08, -0.06, sites).tolist())
            )  # fmt: skip
            found = [row.verdict for row in gains]
            counts = Counts(*(found.count(v) for v in ("gains", "loses", "unclear")))
            gain = MeanGain(gain=0.0312, interval=(0.0111, 0.0513), verdict="gains", clients=counts)
        trained = kind != "alone" or name == "local"
        methods[name] = MethodResult(
            kind=kind, title=TITLES.get(name, name), score=mean, interval=(mean - 0.02, mean + 0.02),
            per_seed=levels[score].per_seed, worst_decile=levels[score].worst_decile, spread=levels[score].spread,
            metrics=levels, validation=mean + 0.01, gain=gain, gains=gains, seconds=float(rng.uniform(1, 90)),
            **_training(rng, mean, kind) if trained else {},
        )  # fmt: skip
    return ComparisonResult(
        rounds=60, folds=5, seeds=(0, 1, 2), score=score, reason=_reason(task), methods=methods,
        protocol="each client's model on its own test samples, every sample a test sample once, mean over clients",
        target=methods["alone"].score, recommendation=_recommendation(best), check="1 of 4 sites gains.",
        sites=tuple(_advice(row, best, i) for i, row in enumerate(methods[best].gains)),
        left_out={}, data=_facts(task, names, rng), machine=this_machine(),
        settings={"data": {"name": "sites", "path": "my_sites"}, "comparison": {}},
        cross=_cross(rng, names) if sites <= 20 else None, quality=_quality(rng, names, best) if task == "classification" and sites <= 12 else (),
        survival=_survival(rng, names) if task == "survival" else (),
        next_step="manyheads run --from runs/heart fedrep --out runs/heart-fedrep",
    )  # fmt: skip


def too_short(result):
    """The result as if curves still rose at the end."""
    words = "Training was too short: the validation scores of fedrep still rise after 60 rounds. Compare again with --rounds 120."
    given = replace(result.recommendation, method=None, evidence="too short", text=words, rising=("fedrep",))
    return replace(result, recommendation=given)


def _reason(task):
    return {
        "classification": "at switzerland, 6 % of the samples have the label 0: a model that never predicts it has a high accuracy",
        "regression": "targets are numbers",
        "survival": "labels are times with events",
    }[task]  # fmt: skip


def _level(rng, sites, shift):
    values = rng.uniform(0.7, 0.95, sites) - shift
    per_seed = (values.mean() + rng.normal(0, 0.01, 3)).tolist()
    return MetricLevel(
        mean=float(values.mean()), low=min(per_seed), high=max(per_seed), per_seed=tuple(per_seed),
        worst_decile=float(values.min()), spread=float(values.std()), sites=tuple(values.tolist()),
    )  # fmt: skip


def _training(rng, mean, kind):
    rounds = (1, 2, 5, 10, 20, 40, 60)
    points = [mean - 0.3 / r for r in rounds]
    sent = 0 if kind == "alone" else 40_000
    curve = tuple(Point(r, sent * r, p, p - 0.02, p + 0.02) for r, p in zip(rounds, points, strict=True))
    monitors = {
        "cka": tuple(Observed(r, 1 - r / 100) for r in rounds),
        "drift": tuple(Observed(r, 1 / r) for r in rounds),
    }
    return {
        "algorithm": {"sgd": {"lr": 0.1}}, "rate": 0.1, "rounds": 40, "passes": float(rng.integers(20, 200)),
        "choices": tuple(Choice(fold, 0.1, int(rng.integers(20, 60)), mean) for fold in range(5)),
        "bytes_up": sent * 20, "bytes_down": sent * 20, "bytes": sent * 40, "curve": curve,
        "rates": tuple(Tried(rate, mean - abs(rate - 0.1)) for rate in (0.03, 0.1, 0.3)),
        "rounds_to_target": 20, "bytes_to_target": sent * 20, "monitors": monitors if kind == "federated" else {},
    }  # fmt: skip


def _recommendation(best):
    text = f"Federate, with {best}: on average a site gains +3.1 points of AUC over the best that it can do alone (95 % interval +1.1 to +5.1; 920 samples, 5 folds, 3 seeds)."
    gain = Gain(gain=0.0312, interval=(0.0111, 0.0513))
    return Recommendation(best, best, "enough", ("ditto",), text, gain, (best,) * 5)


def _advice(row, best, i):
    family = ("trees", "linear", "local")[i % 3]
    words = {
        "gains": f"Use its personal model of {best}: its AUC is 8.0 points higher than alone (gradient-boosted trees).",
        "loses": f"Stay alone, with logistic or ridge regression: with {best} its AUC is 6.0 points lower.",
        "unclear": "Too few test samples to tell. Stay alone, with the network, trained by each site alone, which sends "
        "nothing. About 400 test samples would tell, if the difference is as it looks.",
    }  # fmt: skip
    use = "personal" if row.verdict == "gains" else "alone"
    return SiteAdvice(
        client=row.client, name=row.name, samples=row.samples, use=use, method=best if use == "personal" else family,
        alone_model=family, alone=row.alone, federated=row.score, gain=row.gain, interval=row.interval,
        verdict=row.verdict, text=words[row.verdict],
        samples_needed=400 if row.verdict == "unclear" else None, seeds_needed=None,
    )  # fmt: skip


def _facts(task, names, rng):
    sites = len(names)
    distances = Distances(0.2, 0.5, tuple(rng.random(sites).tolist()), "sliced")
    labels = {
        "labels": tuple(map(tuple, rng.integers(5, 90, (sites, 2)).tolist())),
        "label_names": ("healthy", "disease"),
        "total_variation": Distances(0.2, 0.5, tuple(rng.random(sites).tolist())),
    }
    targets = {"label_names": (), "targets": tuple(Targets(float(i), 1.0) for i in range(sites))}
    sizes = Sizes(Range(92, 160.0, 240), Range(30, 32.0, 33))
    warnings = ("my_sites/va.csv: 'chol' is missing in 28 % of the rows",)
    followed = {"label_names": (), "followed": tuple(Followed(40, 10 + i, 365.5) for i in range(sites))}
    kind = {"classification": labels, "regression": targets, "survival": followed}[task]
    return FederationFacts(
        clients=sites, names=tuple(names), sizes=sizes, input_wasserstein=distances, data="heart", task=task,
        outputs=2 if task == "classification" else 1, sample_shape=(13,), warnings=warnings, samples=Samples(735, 185), **kind,
    )  # fmt: skip


def _cross(rng, names):
    scores = rng.uniform(0.5, 0.95, (len(names) + 1, len(names))).tolist()
    scores[0][1] = float("nan")
    return CrossSites((*names, "fedrep"), tuple(names), tuple(map(tuple, scores)))


def _quality(rng, names, best):
    found = []
    for i, site in enumerate(names):
        for method in ("alone", best):
            rates = np.sort(rng.random((40, 2)), axis=0)
            roc = (
                (0.0, 0.0),
                *((float(f), float(f ** (0.3 if method == best else 0.5))) for f, _ in rates),
                (1.0, 1.0),
            )
            bins = tuple(
                CalibrationBin(
                    p, o := float(np.clip(p + rng.normal(0, 0.1), 0, 1)), max(0, o - 0.1), min(1, o + 0.1), 12
                )
                for p in (0.05, 0.25, 0.5, 0.75, 0.95)
            )
            confusion = ((30 + i, 5), (8, 20 + i))
            found.append(
                ClassQuality(site=site, method=method, roc=roc if i != 2 else (), calibration=bins, confusion=confusion)
            )
    return tuple(found)


def _survival(rng, names):
    found = []
    for site in names:
        for group, rate in (("all", 0.02), ("low risk", 0.01), ("high risk", 0.04)):
            times = np.cumsum(rng.exponential(5, 20))
            share = np.exp(-rate * times)
            found.append(
                SurvivalCurve(
                    site=site, group=group, times=(0.0, *times.tolist()), survival=(1.0, *share.tolist()),
                    low=(1.0, *(share * 0.9).tolist()), high=(1.0, *np.minimum(1, share * 1.1).tolist()),
                    samples=60, events=20,
                )
            )  # fmt: skip
    return tuple(found)
