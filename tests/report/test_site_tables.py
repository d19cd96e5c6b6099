"""What the page tells each site: advice that can be copied, confusions, whose model works where."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from comparisons import HEART, made

from manyheads.report.site_tables import advice_text, confusions, site_tables


def test_the_advice_is_the_facts():
    result = made()
    table = site_tables(result)["advice"]
    assert table.head == ["Site", "Test samples", "Best alone", "With FedRep", "Gain [95 % interval]", "What to do"]
    for row, site in zip(table.rows, result.sites, strict=True):
        written = [cell.text.replace("\N{MINUS SIGN}", "-") for cell in row]
        assert written[:2] == [site.name, str(site.samples)]
        assert written[2].startswith(f"{100 * site.alone:.1f} (")
        assert written[3] == f"{100 * site.federated:.1f}"
        low, high = site.interval
        assert written[4] == f"{100 * site.gain:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"
        assert written[5].lower() == site.text.replace("fedrep", "FedRep").lower()
    assert table.rows[0][2].text.endswith("(boosted trees)")


def test_the_copy_has_plain_numbers_for_a_spreadsheet():
    result = made(names=[f"site {i}" for i in range(600)])
    head, *lines = (line.split("\t") for line in advice_text(result, "fedrep").split("\n"))
    assert len(lines) == 600
    assert {len(line) for line in lines} == {len(head)}
    for line, site in zip(lines, result.sites, strict=True):
        values = [100 * v for v in (site.alone, site.federated, site.gain, *site.interval)]
        assert [float(v) for v in line[3:8]] == pytest.approx(values, rel=1e-4)


def test_a_name_in_the_copy_is_no_formula_and_no_second_cell():
    result = made(names=["=1+1", "+2", "a\tb\nc", "@d"])
    nothing = replace(result.sites[3], gain=math.nan, alone=math.nan, federated=math.nan, interval=None)
    text = advice_text(replace(result, sites=(*result.sites[:3], nothing)), "fedrep")
    _, *lines = (line.split("\t") for line in text.split("\n"))
    assert [line[0] for line in lines] == ["'=1+1", "'+2", "a b c", "'@d"]
    assert lines[3][3:8] == [""] * 5


def test_what_it_takes_to_know_more_is_for_undecided_sites():
    result = made()
    table = site_tables(result)["needed"]
    assert [[cell.text for cell in row] for row in table.rows] == [
        [site.name, str(site.samples), "400", "would not decide it"]
        for site in result.sites
        if site.verdict == "unclear"
    ]


def test_survival_data_are_told_by_their_events():
    table = site_tables(made("survival"))["data"]
    assert table.head == ["Site", "Training samples", "Events", "Median time of observation"]
    assert [cell.text for cell in table.rows[1]] == ["hungarian", "40", "11", "365.5"]


@pytest.mark.parametrize(("task", "better"), [("classification", max), ("regression", min)])
def test_the_better_a_model_at_a_site_the_stronger_the_colour(task, better):
    result = made(task)
    table = site_tables(result)["cross"]
    assert table.head == ["Model of", *HEART]
    assert [row[0].text for row in table.rows] == [*HEART, "FedRep"]
    cells = {
        value: cell
        for values, row in zip(result.cross.scores, table.rows, strict=True)
        for value, cell in zip(values, row[1:], strict=True)
    }
    known = {value: cell.fill for value, cell in cells.items() if math.isfinite(value)}
    assert known[better(known)] == 1
    assert min(known.values()) == 0
    assert [cell.fill for value, cell in cells.items() if math.isnan(value)] == [None]


def test_confusions_have_both_models_of_each_site():
    result = made()
    found = confusions(result)
    assert list(found) == list(HEART)
    first = found["cleveland"]
    assert [table.caption for table in first] == ["cleveland, Best alone", "cleveland, FedRep"]
    assert first[0].head == ["True label", "healthy", "disease"]
    counts = result.quality[0].confusion
    assert [[cell.text for cell in row[1:]] for row in first[0].rows] == [[str(n) for n in row] for row in counts]
    assert first[0].rows[0][1].fill == counts[0][0] / sum(counts[0])
