"""The report without a browser: what it says, and that it says nothing else."""

from __future__ import annotations

import itertools
import json
import re
import xml.etree.ElementTree as ET
from copy import deepcopy
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from manyheads.core.contract import ALGORITHMS
from manyheads.core.errors import UserError
from manyheads.core.sealed import write_json
from manyheads.experiments import ComparisonResult
from manyheads.report import page as page_of
from manyheads.report import write_report
from manyheads.report.figures import write_figures
from manyheads.report.names import display, looks

VOID = {"meta", "link", "br", "img", "input", "line", "hr"}


class Reader(HTMLParser):
    """Tables by caption, visible text, and the elements of a page."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.tables, self.text, self.scripts = [], [], {}, [], []
        self.feed(text)
        assert self.open == [], "an element is not closed"

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag in VOID:
            return
        self.open.append(tag)
        if tag == "table":
            self.rows, self.caption = [], ""
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        assert self.open.pop() == tag, tag
        if tag == "table":
            self.tables[self.caption] = self.rows

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif "style" in self.open:
            return
        elif "caption" in self.open:
            self.caption += data
        elif "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data
        else:
            self.text.append(data.strip())

    def count(self, tag):
        return sum(t == tag for t, _ in self.elements)

    def table(self, start):
        (found,) = [rows for caption, rows in self.tables.items() if caption.startswith(start)]
        return found

    @property
    def words(self):
        return " ".join(t for t in self.text if t)


def page(facts, again=None):
    """The page of results in their form in a file, which tests change."""
    return page_of(ComparisonResult.from_json(facts), again)


def percent(value, sign=""):
    return f"{100 * value:{sign}.1f}".replace("-", "\N{MINUS SIGN}")


def between(ends, sign=""):
    return f"[{percent(ends[0], sign)}, {percent(ends[1], sign)}]"


def test_the_table_holds_the_facts(facts):
    head, *rows = Reader(page(facts)).table("All methods")
    assert len(rows) == len(facts["methods"])
    assert head[:3] == ["Method", "Accuracy (%)", "Gain"]
    shown = [float(row[1].split()[0]) for row in rows]
    assert shown == sorted(shown, reverse=True)
    by_name = {row[0]: row for row in rows}
    for name, method in facts["methods"].items():
        row = by_name[display(name)]
        assert row[1] == f"{percent(method['accuracy'])} {between(method['interval'])}"
        if name == "local":
            assert row[2:6] == ["\N{EN DASH}"] * 4
        else:
            gain = method["gain"]
            assert row[2] == f"{percent(gain['gain'], '+')} {between(gain['interval'], '+')}"
            assert row[3:6] == [str(gain["clients"][k]) for k in ("gains", "loses", "unclear")]
        assert row[6:8] == [percent(method["worst_decile"]), percent(method["spread"])]
        assert float(row[8]) == pytest.approx(method["bytes_up"] / 1e6, abs=0.05)
        assert row[10] == ("\N{EN DASH}" if method["rounds_to_target"] is None else str(method["rounds_to_target"]))
        assert float(row[13]) == method["rate"]


def test_every_site_is_in_the_table_of_gains(facts):
    head, *rows = Reader(page(facts)).table("Gain of each site")
    assert len(rows) == 8
    for name in ("fedavg", "fedavg+ft", "fedrep"):
        column = head.index(display(name))
        for row, known in zip(rows, facts["methods"][name]["gains"], strict=True):
            assert row[:3] == [known["name"], str(known["samples"]), percent(known["alone"])]
            assert row[column] == f"{percent(known['gain'], '+')} {between(known['interval'], '+')}"


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
    found = Reader(page(facts))
    name = facts["recommendation"]["method"] or facts["recommendation"]["best"]
    known = numbers_of(facts) | {"95"}
    each = facts["methods"][name]["bytes"] / facts["data"]["clients"] / 1e6
    known |= {f"{each:.1f}", f"{each:.2g}"}  # a site's share
    shown = re.findall(r"(?<![\w.])\d[\d.]*\d|(?<![\w.])\d", found.words)
    assert len(shown) > 25
    assert set(shown) <= known, set(shown) - known


def test_curves_and_step_sizes_are_the_facts(facts):
    found = Reader(page(facts))
    head, *rows = found.table("Validation accuracy (%) after each round")
    for name, method in facts["methods"].items():
        assert [row[head.index(display(name))] for row in rows] == [percent(p["score"]) for p in method["curve"]]
    head, *rows = found.table("Validation accuracy (%) by step size")
    assert head == ["Method", "0.03", "0.1", "Note"]
    for row in rows:
        (method,) = [m for n, m in facts["methods"].items() if display(n) == row[0]]
        shown = [percent(r["validation"]) + (" *" if r["rate"] == method["rate"] else "") for r in method["rates"]]
        assert row[1:3] == shown
        assert row[3] == f"at the edge: a {'smaller' if method['rate'] == 0.03 else 'larger'} one may be better"


def test_the_answer_follows_the_recommendation(facts):
    recommended = deepcopy(facts)
    recommended["recommendation"] |= {"method": "fedrep", "evidence": "enough", "text": "Federate, with fedrep: good."}
    recommended["methods"]["fedrep"]["gain"]["verdict"] = "gains"
    words = Reader(page(recommended)).words
    assert "Yes, with FedRep. Federate, with FedRep: good." in words
    assert "do not confirm" not in words
    recommended["methods"]["fedrep"]["gain"]["verdict"] = "unclear"
    assert "test samples do not confirm the recommendation" in Reader(page(recommended)).words
    facts["recommendation"] |= {"method": None, "evidence": "enough"}
    assert "No: train alone." in Reader(page(facts)).words
    facts["recommendation"] |= {"evidence": "not enough"}
    assert "There is not enough evidence to say." in Reader(page(facts)).words


def test_numbers_of_sites_are_those_of_the_method_spoken_of(facts):
    for method in facts["methods"].values():
        if "gain" in method:
            method["gain"]["clients"] = {"gains": 1, "loses": 0, "unclear": 7}
    assert "of 8 sites 1 gains, none loses, and 7 cannot be told apart from training alone" in Reader(page(facts)).words


def test_what_is_missing_is_left_out(facts):
    facts["left_out"] = {"fedrep-linear": "needs a regression", "scaffold": "diverged with every step size"}
    facts["methods"]["fedrep"] |= {"rounds_to_target": None, "bytes_to_target": None}
    for row in facts["methods"]["fedrep"]["gains"]:
        row["interval"] = None
    facts["methods"]["fedrep"]["gain"]["interval"] = None
    facts["methods"]["fedavg"]["interval"] = [float("-inf"), float("inf")]
    facts["methods"]["fedrep"]["rates"][0]["validation"] = None
    facts["data"]["input_wasserstein"] = None
    found = Reader(page(facts))
    assert "FedRep (linear): needs a regression; SCAFFOLD: diverged" in found.words
    assert any("diverged" in row for row in found.table("Validation accuracy (%) by step size"))
    assert not any("Input distance" in cell for row in found.table("The sites' training data") for cell in row)
    for word in ("None", "nan", "inf", "NaN", "Infinity"):
        assert not re.search(rf"\b{word}\b", found.words + str(found.tables)), word


def test_monitors_where_there_are_some(facts):
    for method in facts["methods"].values():
        method["monitors"] = {}
    found = Reader(page(facts))
    assert "Representations and heads" not in found.words
    assert "Representations and heads after the last round" not in found.tables
    facts["methods"]["fedrep"]["monitors"] = {"cka": [{"round": 1, "value": 0.9}, {"round": 4, "value": 0.12345}]}
    facts["methods"]["fedavg"]["monitors"] = {"other": [{"round": 4, "value": 3}]}
    found = Reader(page(facts))
    assert "1 where nothing was learnt" in found.words
    head, *rows = found.table("Representations and heads after")
    assert head == ["Method", "Other", "CKA with the initial model"]
    assert ["FedRep", "\N{EN DASH}", "0.123"] in rows
    assert ["FedAvg", "3", "\N{EN DASH}"] in rows
    drawn = json.loads(found.scripts[0])["charts"]["monitor-cka"]
    assert "0.12345" in json.dumps(drawn)


def test_how_to_do_it_again(facts):
    assert "compare( federation," in " ".join(Reader(page(facts)).words.split())
    assert "methods=['fedavg', 'fedavg+ft', 'fedrep']," in Reader(page(facts)).words
    assert "manyheads compare 'my sites'" in Reader(page(facts, "manyheads compare 'my sites'")).words
    facts["command"] = ""  # of the command line, whose settings are no longer beside it
    assert "manyheads compare compare.toml" in Reader(page(facts)).words


def test_local_alone_makes_a_report(facts):
    facts["methods"] = {"local": facts["methods"]["local"]}
    facts["recommendation"] = {
        "method": None,
        "best": None,
        "evidence": "none",
        "alternatives": [],
        "text": "No method could be trained.",
    }
    found = Reader(page(facts))
    assert "No method could be trained." in found.words
    assert found.count("select") == 0


def test_a_regression_with_one_seed_and_a_site_without_test_samples(regressed):
    facts = ComparisonResult.read(regressed).to_json()
    found = Reader(page(facts))
    assert "lower is better" in found.words
    assert "one seed" in found.words
    assert "1 site has no test samples" in found.words
    head, *rows = found.table("All methods")
    assert head[1] == "Loss"
    for row in rows:
        (method,) = [m for n, m in facts["methods"].items() if display(n) == row[0]]
        assert row[1].split()[0] == f"{method['loss']:.3g}"
    losses = [float(row[1].split()[0]) for row in rows]
    assert losses == sorted(losses)
    sites = [row[0] for row in found.table("The sites' training data")]
    assert sites == ["Site", "Köln", "<b>Süd</b>", "A & B", "empty", "Zürich"]
    assert [row[0] for row in found.table("Gain of each site")] == ["Site", "Köln", "<b>Süd</b>", "A & B", "Zürich"]


EVIL = "</script><script>window.evil = 1</script><img src=x onerror='window.evil = 1'>\u2028\"'&amp;"


def spoilt(facts):
    """The facts with evil names wherever a name comes from data."""
    facts = deepcopy(facts)
    facts["data"]["data"] = EVIL
    facts["data"]["names"] = [f"{EVIL}{i}" for i in range(len(facts["data"]["names"]))]
    for method in facts["methods"].values():
        for row in method.get("gains", ()):
            row["name"] = facts["data"]["names"][row["client"]]
    facts["settings"]["data"]["name"] = EVIL
    facts["left_out"] = {EVIL: EVIL}
    facts["recommendation"]["text"] += EVIL
    facts["command"] = f"manyheads compare {EVIL}"
    facts["methods"][EVIL] = deepcopy(facts["methods"]["fedrep"])
    return facts


def test_text_of_the_data_is_text(facts):
    before, after = (Reader(page(f)) for f in (facts, spoilt(facts)))
    assert after.count("script") == before.count("script") == 3
    assert after.count("img") == 0
    assert not any("onerror" in attributes for _, attributes in after.elements)
    assert EVIL + "3" in [row[0] for row in after.table("Gain of each site")]
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


def test_headings_are_in_order_and_every_chart_has_words_and_numbers(facts):
    found = Reader(page(facts))
    levels = [int(t[1]) for t, _ in found.elements if re.fullmatch(r"h\d", t)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    charts = [a for _, a in found.elements if "data-chart" in a]
    assert {a["data-chart"] for a in charts} == set(json.loads(found.scripts[0])["charts"])
    assert all(a["role"] == "img" and len(a["aria-label"]) > 20 for a in charts)


def many(facts, sites, methods, classes):
    """The facts as if there were many sites, methods and classes."""
    facts = deepcopy(facts)
    rng = np.random.default_rng(0)
    names = [f"Krankenhaus Nummer {i}, Abteilung für Innere Medizin" for i in range(sites)]
    for name in methods:
        facts["methods"].setdefault(name, deepcopy(facts["methods"]["fedrep"]))
    for name, method in facts["methods"].items():
        if name != "local":
            values = rng.normal(size=(sites, 3))
            method["gains"] = [
                {"client": i, "name": names[i], "samples": 10, "alone": a, "accuracy": b, "gain": g,
                 "interval": [g - 0.123456789, g + 0.123456789], "verdict": "unclear"}
                for i, (a, b, g) in enumerate(values.tolist())
            ]  # fmt: skip
    facts["data"] |= {
        "clients": sites,
        "names": names,
        "labels": rng.integers(0, 9, size=(sites, classes)).tolist(),
        "total_variation": {"mean": 0.1, "max": 0.2, "per_client": rng.random(sites).tolist()},
        "input_wasserstein": {"method": "exact", "mean": 0.1, "max": 0.2, "per_client": rng.random(sites).tolist()},
    }
    return facts


def test_many_sites_methods_and_classes_stay_below_three_megabytes(facts):
    text = page(many(facts, 1200, [*ALGORITHMS, "fedrep+ft"], 150))
    assert len(text.encode()) < 3_000_000
    found = Reader(text)
    assert "500 of 1200 sites are shown" in found.words
    assert "The 40 most frequent labels, and all others together." in found.words
    shares = json.loads(found.scripts[0])["charts"]["data"]["data"]["values"]
    assert {r["label"] for r in shares} == {*{r["label"] for r in shares if r["label"] != "other"}, "other"}
    whole = {}
    for row in shares:
        whole[row["row"]] = whole.get(row["row"], 0) + row["share"]
    assert len(whole) == 200
    assert all(total == pytest.approx(1, abs=0.01) for total in whole.values())


def test_figures_without_a_browser(compared, regressed, tmp_path):
    made = write_figures([compared], tmp_path / "a", ["svg"])
    assert {p.stem for p in made} >= {"methods", "gains", "rounds", "bytes", "fairness", "spread", "data"}
    for path in made:
        root = ET.parse(path).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        texts = {e.text for e in root.iter("{http://www.w3.org/2000/svg}text")}
        assert len(texts) > 3
        if path.stem in ("methods", "rounds"):  # rows of the one, legend of the other
            assert {"FedRep", "FedAvg + fine-tuning", "Training alone"} <= texts
    for path in write_figures([regressed], tmp_path / "b", ["png"]):
        with Image.open(path) as image:
            assert image.width > 1000
            assert len(image.convert("RGB").getcolors(1 << 24)) > 20
    with pytest.raises(UserError, match="unknown kind of figure.*'gif'.*png, svg"):
        write_figures([compared], tmp_path, ["gif"])


def test_damaged_and_foreign_files_are_one_line(tmp_path, facts):
    with pytest.raises(UserError, match="holds no compare.json"):
        write_report(tmp_path)
    (tmp_path / "compare.json").write_text('{"schema": 1, "meth')
    with pytest.raises(UserError, match="is damaged"):
        write_report(tmp_path)
    (tmp_path / "compare.json").write_text("[1]")
    with pytest.raises(UserError, match="is damaged"):
        write_report(tmp_path)
    write_json(tmp_path / "compare.json", facts | {"schema": 99})
    with pytest.raises(UserError, match="another version; given 99"):
        write_report(tmp_path)
    assert not (tmp_path / "report.html").exists()


# Colours -----------------------------------------------------------------------------------------------------------

SEEN = {  # Machado, Oliveira and Fernandes 2009, full strength, linear RGB
    "normal": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
}  # fmt: skip
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour):
    c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    x = TO_XYZ @ rgb.clip(0, 1) / [0.9505, 1, 1.089]
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_every_method_has_a_look_of_its_own_for_all_kinds_of_colour_vision():
    names = [*ALGORITHMS, *(f"{n}+ft" for n in ALGORITHMS)]
    found = looks(names)
    assert len(set(found.values())) == len(names)
    for (a, one), (b, other) in itertools.combinations(found.items(), 2):
        if one.stroke == other.stroke:
            for kind, seen in SEEN.items():
                distance = np.linalg.norm(lab(seen @ linear(one.colour)) - lab(seen @ linear(other.colour)))
                assert distance > 12, f"{a} and {b} look alike: {kind}, {distance:.0f}"


def test_a_method_looks_the_same_in_whatever_company():
    assert looks(["fedrep"])["fedrep"] == looks(["local", "my-own", "fedrep", "fedavg"])["fedrep"]
    strangers = looks(["fedavg", "mine", "yours", "fedrep"])
    assert len(set(strangers.values())) == 4


def test_variants_of_a_method_have_its_colour_and_strokes_of_their_own():
    found = looks(["fedavg", "fedrep", "fedrep(head_epochs=2)", "fedrep(head_epochs=3)", "fedrep(head_epochs=3)+ft"])
    assert len(set(found.values())) == 5
    assert len({look.colour for name, look in found.items() if name.startswith("fedrep")}) == 1
