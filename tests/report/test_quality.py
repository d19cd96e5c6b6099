"""Small charts of each site: what they draw is what was found."""

from __future__ import annotations

from comparisons import HEART, made

from manyheads.report.quality import small_charts


def drawn(chart):
    """The rows of every dataset of a chart."""
    return [row for rows in chart.to_dict()["datasets"].values() for row in rows]


def test_curves_are_the_facts():
    result = made()
    charts = small_charts(result)
    assert list(charts) == ["roc", "calibration"]
    assert list(charts["calibration"]) == list(HEART)
    assert list(charts["roc"]) == [name for name in HEART if name != "switzerland"]  # one class has no curve
    alone = next(q for q in result.quality if (q.site, q.method) == ("va", "alone"))
    rows = [row for row in drawn(charts["roc"]["va"]) if row.get("method") == "Best alone"]
    assert [(row["x"], row["y"]) for row in rows] == [(round(x, 4), round(y, 4)) for x, y in alone.roc]
    rows = [row for row in drawn(charts["calibration"]["va"]) if row.get("method") == "Best alone"]
    bins = {(row["x"], row["y"], row["low"], row["high"], row["samples"]) for row in rows}
    assert bins == {
        (*(round(v, 4) for v in (b.predicted, b.observed, b.low, b.high)), b.samples) for b in alone.calibration
    }


def test_kaplan_meier_curves_are_the_facts():
    result = made("survival")
    charts = small_charts(result)
    assert list(charts) == ["survival"]
    high = next(c for c in result.survival if (c.site, c.group) == ("va", "high risk"))
    rows = [row for row in drawn(charts["survival"]["va"]) if row.get("group") == "high risk"]
    found = {(row["time"], row["share"]) for row in rows}
    assert found == {(float(f"{t:.5g}"), round(s, 4)) for t, s in zip(high.times, high.survival, strict=True)}
