"""The page of a comparison without a browser: what it says, and that it says nothing else."""

from __future__ import annotations

import itertools
import json
import re
from copy import deepcopy
from dataclasses import replace

import pytest
from comparisons import made, too_short
from pages import Reader

from manyheads.core.contract import ALGORITHMS
from manyheads.core.errors import UserError
from manyheads.core.sealed import write_json
from manyheads.experiments import ComparisonResult
from manyheads.report import page as page_of
from manyheads.report import write_report
from manyheads.report.names import display

JARGON = ("CKA", "Wasserstein", "total variation", "sliced", "drift", "heads", "representation")


def page(facts, again=None):
    """The page of results in their form in a file, which tests change."""
    return page_of(ComparisonResult.from_json(facts), again)


def percent(value, sign=""):
    return f"{100 * value:{sign}.1f}".replace("-", "\N{MINUS SIGN}")


def between(ends, sign=""):
    return f"[{percent(ends[0], sign)}, {percent(ends[1], sign)}]"


def test_the_first_screen_answers_with_the_metric_and_every_site(facts):
    said = Reader(page(facts)).part("summary")
    order = ["Yes, with FedRep.", "a site gains +3.1 points", "AUC decides: at switzerland, 6 %", "Every site: AUC (%)"]
    places = [said.index(words) for words in order]
    assert places == sorted(places)
    for site in facts["sites"]:
        assert site["name"] in said[places[-1] :]
    assert "manyheads run --from runs/heart fedrep" in said


def test_training_that_was_too_short_comes_first_and_nothing_is_recommended():
    said = Reader(page_of(too_short(made()))).part("summary")
    assert said.startswith("In short Not known yet: training was too short. Training was too short: the validation")
    assert "scores of FedRep still rise" in said
    assert "Yes" not in said


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({"method": None, "evidence": "enough"}, "No: train alone."),
        ({"method": None, "evidence": "not enough"}, "Not enough evidence yet."),
        ({"method": "fedrep", "evidence": "enough"}, "Yes, with FedRep."),
    ],
)
def test_the_answer_follows_the_recommendation(facts, change, answer):
    facts["recommendation"] |= change
    assert answer in Reader(page(facts)).words


def test_the_table_of_scores_holds_the_facts(facts):
    head, *rows = Reader(page(facts)).table("AUC of all methods")
    assert len(rows) == len(facts["methods"])
    assert head[:3] == ["Method", "AUC (%)", "Gain over the best alone"]
    shown = [float(row[1].split()[0]) for row in rows]
    assert shown == sorted(shown, reverse=True)
    by_name = {row[0]: row for row in rows}
    for name, method in facts["methods"].items():
        row = by_name[display(name)]
        assert row[1] == f"{percent(method['auc'])} {between(method['interval'])}"
        if method["kind"] == "alone":
            assert row[2:6] == ["\N{EN DASH}"] * 4
        else:
            gain = method["gain"]
            assert row[2] == f"{percent(gain['gain'], '+')} {between(gain['interval'], '+')}"
            assert row[3:6] == [str(gain["clients"][k]) for k in ("gains", "loses", "unclear")]
        assert row[6:8] == [percent(method["worst_decile"]), percent(method["spread"])]


def test_every_metric_by_method(facts):
    found = Reader(page(facts))
    for caption, key in {
        "Mean over sites": "mean",
        "Mean over the worst": "worst_decile",
        "Standard": "spread",
    }.items():
        head, *rows = found.table(caption)
        assert head[:4] == ["Method", "AUC (%)", "Accuracy (%)", "Balanced accuracy (%)"]
        by_name = {row[0]: row for row in rows}
        for name, method in facts["methods"].items():
            assert by_name[display(name)][2] == percent(method["metrics"]["accuracy"][key])
            assert float(by_name[display(name)][6]) == float(f"{method['metrics']['log_loss'][key]:.3g}")


def test_costs_are_the_facts(facts):
    head, *rows = Reader(page(facts)).table("What one training costs")
    assert head[1:5] == ["Rounds", "Passes over the data", "MB up", "MB down"]
    row = {row[0]: row for row in rows}["FedRep"]
    fedrep = facts["methods"]["fedrep"]
    assert row[1:3] == [str(fedrep["rounds"]), f"{fedrep['passes']:.3g}"]
    assert float(row[3]) == pytest.approx(fedrep["bytes_up"] / 1e6, abs=0.05)
    assert "Best alone" not in [row[0] for row in rows]  # it is one of those that follow


def numbers_of(tree):
    """Every number of the facts in each of the ways the report writes numbers."""
    if isinstance(tree, dict):
        tree = [*tree.values(), len(tree)]
    if isinstance(tree, list):
        return {text for value in [*tree, len(tree)] for text in numbers_of(value)}
    if isinstance(tree, bool) or not isinstance(tree, int | float):
        return set(re.findall(r"\d[\d.]*\d|\d", tree)) if isinstance(tree, str) else set()
    ways = (f"{abs(100 * tree):.1f}", f"{abs(tree):.3f}", f"{abs(tree):g}", f"{abs(tree):.3g}", f"{tree / 1e6:.1f}")
    return {*ways, f"{tree / 1e6:.2g}", str(abs(tree))}


def test_every_number_in_the_words_is_one_of_the_facts(facts):
    words = Reader(page(facts)).words
    known = numbers_of(facts) | {"95"} | {"0", "1"}  # the ends of scales that are explained
    known |= {str(sum(facts["data"]["samples"].values())), str(len(facts["methods"]) - 6)}  # samples; federated methods
    each = facts["methods"]["fedrep"]["bytes"] / facts["data"]["clients"] / 1e6
    known |= {f"{each:.1f}", f"{each:.2g}"}  # a site's share
    shown = re.findall(r"(?<![\w.-])\d[\d.]*\d|(?<![\w.-])\d", words)
    assert len(shown) > 25
    assert set(shown) <= known, set(shown) - known


def test_curves_step_sizes_and_choices_are_the_facts(facts):
    facts["methods"]["fedrep"] |= {"rate": 0.3}
    facts["methods"]["fedavg"]["rates"][0]["validation"] = None
    found = Reader(page(facts))
    head, *rows = found.table("Validation AUC (%) after each round")
    for name, method in facts["methods"].items():
        if "curve" in method:
            assert [row[head.index(display(name))] for row in rows] == [percent(p["score"]) for p in method["curve"]]
    head, *rows = found.table("Validation AUC (%) by step size")
    assert head == ["Method", "0.03", "0.1", "0.3", "Note"]
    notes = {row[0]: row[-1] for row in rows}
    assert (notes["FedRep"], notes["FedProx"]) == ("at the edge: a larger one may be better", "")
    assert "diverged" in next(row for row in rows if row[0] == "FedAvg")
    _, *rows = found.table("Chosen in each fold")
    chosen = next(row for row in rows if row[0] == "FedRep")
    assert chosen[1:] == [f"{c['rounds']} rounds at 0.1" for c in facts["methods"]["fedrep"]["choices"]]


def test_jargon_is_for_researchers_alone_and_explained_there(facts):
    found = Reader(page(facts))
    for name in found.parts:
        for word in JARGON if name not in ("researchers", "made", "") else ():
            assert not re.search(rf"\b{word}\b", found.part(name)), (name, word)
    told = found.part("researchers")
    assert "CKA with the initial model: how much of the initial representation is left" in told
    assert "It is sliced: the mean over random directions" in told
    assert "0 is the same mixture, 1 has nothing in common" in told


def test_no_site_is_told_a_double_negative(facts):
    text = page(facts)
    assert "cannot be told apart" not in text
    assert "With FedRep, of 4 sites 1 gains and 1 loses; 2 have too few test samples to tell." in Reader(text).words


def test_what_is_missing_is_left_out(facts):
    facts["left_out"] = {"fedrep-linear": "needs a regression", "scaffold": "diverged with every step size"}
    facts["methods"]["fedrep"] |= {"rounds_to_target": None, "bytes_to_target": None}
    for row in facts["methods"]["fedrep"]["gains"]:
        row["interval"] = None
    facts["sites"][1] |= {
        "gain": None,
        "interval": None,
        "alone": None,
        "federated": None,
        "text": "Nothing can be said.",
    }
    facts["methods"]["fedrep"]["gain"]["interval"] = None
    facts["methods"]["fedavg"]["interval"] = [float("-inf"), float("inf")]
    facts["data"]["input_wasserstein"] = None
    facts["data"]["warnings"] = []
    for method in facts["methods"].values():
        method["monitors"] = {}
    del facts["cross"], facts["quality"], facts["next_step"]
    found = Reader(page(facts))
    assert "FedRep (linear): needs a regression; SCAFFOLD: diverged" in found.words
    assert "Nothing can be said." in found.table("Every site: AUC")[2]
    assert [row[0] for row in found.table("To decide")] == ["Site", "switzerland"]
    for gone in ("Input distance", "Representations", "Whose model", "Site by site", "To train what", "arnings about"):
        assert gone not in found.words + str(found.tables), gone
    for word in ("None", "nan", "inf", "NaN", "Infinity"):
        assert not re.search(rf"\b{word}\b", found.words + str(found.tables)), word


def test_how_to_do_it_again(facts):
    assert "manyheads compare compare.toml" in Reader(page(facts)).words
    assert "manyheads compare 'my sites'" in Reader(page(facts, "manyheads compare 'my sites'")).words
    facts["command"] = "compare(\n    federation,\n)"
    assert "compare(\n    federation,\n)" in Reader(page(facts)).words


def test_alone_makes_a_report(facts):
    facts["methods"] = {name: method for name, method in facts["methods"].items() if method["kind"] == "alone"}
    facts["recommendation"] = {
        "method": None,
        "best": None,
        "evidence": "none",
        "alternatives": [],
        "text": "Nothing to compare.",
    }
    facts["sites"] = []
    del facts["cross"], facts["quality"]
    found = Reader(page(facts))
    assert "Nothing to compare." in found.words
    assert found.count("select") == 0


def test_a_regression_counts_errors_down():
    result = made("regression", names=[f"plant {i}" for i in range(36)])
    found = Reader(page_of(result))
    assert "lower is better" in found.words
    _, *rows = found.table("RMSE of all methods")
    errors = [float(row[1].split()[0]) for row in rows]
    assert errors == sorted(errors)
    assert "Site by site" not in found.words


EVIL = "</script><script>window.evil = 1</script><img src=x onerror='window.evil = 1'>\u2028\"'&amp;"


def spoilt(facts):
    """The facts with evil names wherever a name comes from data."""
    text = json.dumps(facts)
    for i, name in enumerate(facts["data"]["names"]):
        text = text.replace(json.dumps(name), json.dumps(f"{EVIL}{i}"))
    facts = json.loads(text)
    facts["data"] |= {"data": EVIL, "warnings": [EVIL], "label_names": [EVIL, f"{EVIL}!"]}
    facts["settings"]["data"]["name"] = EVIL
    facts["left_out"] = {EVIL: EVIL}
    facts["recommendation"]["text"] += EVIL
    facts |= {"command": f"manyheads compare {EVIL}", "next_step": EVIL, "reason": EVIL}
    for site in facts["sites"]:
        site["text"] += EVIL
    facts["methods"][EVIL] = deepcopy(facts["methods"]["fedrep"])
    return facts


def test_text_of_the_data_is_text(facts):
    before, after = (Reader(page(f)) for f in (facts, spoilt(facts)))
    assert after.count("script") == before.count("script") == 3
    assert after.count("img") == 0
    assert not any("onerror" in attributes for _, attributes in after.elements)
    assert EVIL + "3" in [row[0] for row in after.table("Gain of each site")]
    assert EVIL + "3" in after.table("AUC (%) of each row's model")[0]
    charts = json.loads(after.scripts[0])["charts"]
    (labels,) = [p["value"] for p in charts["gains"]["params"] if p["name"] == "labels"]
    assert EVIL + "3" in labels["FedRep"]


def test_nothing_is_loaded_from_elsewhere(facts):
    found = Reader(page(facts))
    for tag, attributes in found.elements:
        assert "src" not in attributes, tag
        assert attributes.get("href", "#").startswith(("#", "data:")), attributes
    (policy,) = [a["content"] for t, a in found.elements if t == "meta" and "http-equiv" in a]
    assert policy.startswith("default-src 'none'")


@pytest.mark.parametrize("task", ["classification", "regression", "survival"])
def test_headings_are_in_order_and_every_chart_has_words(task):
    found = Reader(page_of(made(task)))
    levels = [int(t[1]) for t, _ in found.elements if re.fullmatch(r"h\d", t)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    charts = [a for _, a in found.elements if "data-chart" in a]
    assert {a["data-chart"] for a in charts} == set(json.loads(found.scripts[0])["charts"])
    assert all(a["role"] == "img" and len(a["aria-label"]) > 20 for a in charts)
    links = {a["href"][1:] for t, a in found.elements if t == "a"}
    assert links <= {a.get("id") for _, a in found.elements}


def test_four_sites_stay_below_two_megabytes_and_many_below_four(facts):
    assert len(page(facts).encode()) < 2_000_000
    names = [f"Krankenhaus Nummer {i}, Abteilung für Innere Medizin" for i in range(1200)]
    methods = [name for name in ALGORITHMS if name != "local"][:14]
    result = made(names=names, federated=[*methods, "fedrep+ft"])
    labels = tuple(tuple(range(150)) for _ in names)
    text = page_of(replace(result, data=replace(result.data, labels=labels, label_names=())))
    assert len(text.encode()) < 4_000_000
    found = Reader(text)
    assert "500 of 1200 sites are shown, evenly picked; the copy has all." in found.words
    assert "The 40 most frequent labels, and all others together." in found.words
    drawn = json.loads(found.scripts[0])["charts"]["data"]
    shares = drawn["datasets"][drawn["data"]["name"]]
    whole = {}
    for row in shares:
        whole[row["row"]] = whole.get(row["row"], 0) + row["share"]
    assert len(whole) == 200
    assert all(total == pytest.approx(1, abs=0.01) for total in whole.values())


def test_damaged_and_foreign_files_are_one_line(tmp_path, facts):
    with pytest.raises(UserError, match=r"holds no compare\.json"):
        write_report(tmp_path)
    (tmp_path / "compare.json").write_text('{"schema": 1, "meth')
    with pytest.raises(UserError, match="is damaged"):
        write_report(tmp_path)
    (tmp_path / "compare.json").write_text("[1]")
    with pytest.raises(UserError, match="is damaged"):
        write_report(tmp_path)
    for schema, fix in {1: "compare again", 2: "compare again", 99: "upgrade manyheads"}.items():
        write_json(tmp_path / "compare.json", facts | {"schema": schema})
        with pytest.raises(UserError, match=f"another version; given {schema}.*{fix}") as error:
            write_report(tmp_path)
        assert "\n" not in str(error.value)
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("which", ["compared", "regressed"])
def test_the_page_of_a_real_comparison(which, request):
    folder = request.getfixturevalue(which)
    result, found = ComparisonResult.read(folder), Reader(write_report(folder).read_text(encoding="utf-8"))
    assert [row[0] for row in found.table("Every site:")[1:]] == list(result.data.names)
    _, *rows = found.table("What one training costs")
    assert {display(n) for n in result.others} < {row[0] for row in rows}
    assert "None" not in found.words
