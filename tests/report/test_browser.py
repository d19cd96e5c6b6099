"""The report in a real browser: hover, toggle, sort, switch, dark, phone, and an audit of its accessibility."""

from __future__ import annotations

import json
import shutil
import threading
import time
from importlib import resources

import pytest
from comparisons import HEART, made, too_short
from processes import PATIENCE

from manyheads import FedRep, simulate
from manyheads.data import Classes, Digits, federate
from manyheads.experiments import ComparisonResult
from manyheads.report import page
from manyheads.report.live import Live
from manyheads.report.run_page import write_run_report
from manyheads.report.site_tables import advice_text
from manyheads.run import Training
from manyheads.run.config_file import RunConfig

selenium = pytest.importorskip("selenium", reason="selenium is not installed")
from selenium import webdriver  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import Select, WebDriverWait  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no chromium with chromedriver on this machine")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_script_timeout(PATIENCE)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Addresses of the pages of made-up comparisons."""
    folder = tmp_path_factory.mktemp("pages")
    results = {task: made(task) for task in ("classification", "regression", "survival")}
    results["too short"] = too_short(results["classification"])
    results["many"] = made(names=[f"site {i}" for i in range(60)])  # more than are named one by one
    for name, result in results.items():
        (folder / f"{name}.html").write_text(page(result), encoding="utf-8")
    return {name: (folder / f"{name}.html").as_uri() for name in results}


@pytest.fixture
def report(reports):
    return reports["classification"]


def show(browser, address, width=1280, dark=False):
    """Open a page and wait for its charts."""
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(address)
    until(browser, lambda: browser.execute_script("return document.documentElement.hasAttribute('data-ready')"))


def until(browser, true):
    WebDriverWait(browser, PATIENCE, poll_frequency=0.05).until(lambda _: true())


def marks(browser, chart, kind):
    """The drawn marks of a chart: paths or groups of one kind (line, symbol, rect, ...)."""
    return browser.find_elements(By.CSS_SELECTOR, f"[data-chart='{chart}'] .mark-{kind}.role-mark > *")


def hover(browser, element):
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    ActionChains(browser).move_to_element(element).perform()


def open_all(browser):
    browser.execute_script("for (const d of document.querySelectorAll('details')) d.open = true")


def tooltip(browser):
    return browser.find_element(By.ID, "vg-tooltip-element").text


def test_no_errors_and_no_requests(browser, report):
    show(browser, report)
    assert browser.get_log("browser") == []
    requests = [
        message["params"]["request"]["url"]
        for entry in browser.get_log("performance")
        if (message := json.loads(entry["message"])["message"])["method"] == "Network.requestWillBeSent"
    ]
    assert requests[0] == report
    assert [url for url in requests[1:] if not url.startswith("data:")] == []
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    charts = browser.find_elements(By.CSS_SELECTOR, "[data-chart] svg")
    places = browser.find_elements(By.CSS_SELECTOR, "[data-chart]")
    assert len(charts) == sum(place.is_displayed() for place in places) >= 12
    assert all(chart.size["width"] > 150 and chart.size["height"] > 60 for chart in charts)
    open_all(browser)
    until(browser, lambda: len(browser.find_elements(By.CSS_SELECTOR, "[data-chart] svg")) == len(places))
    assert browser.get_log("browser") == []


def test_a_bar_tells_its_site(browser, report, facts):
    show(browser, report)
    shown = facts["recommendation"]["method"] or facts["recommendation"]["best"]
    rows = sorted(facts["methods"][shown]["gains"], key=lambda r: -r["gain"])
    rank = max(range(len(rows)), key=lambda i: abs(rows[i]["gain"]))
    hover(browser, marks(browser, "gains", "rect")[rank])
    until(browser, lambda: rows[rank]["name"] in tooltip(browser))
    text = tooltip(browser)
    assert f"Test samples {rows[rank]['samples']}" in text.replace("\n", " ").replace(":", "")
    assert f"{100 * rows[rank]['alone']:.1f}" in text
    assert f"{100 * rows[rank]['auc']:.1f}" in text


def test_a_method_is_hidden_and_shown_again(browser, report, facts):
    show(browser, report)

    def drawn():
        return [len(marks(browser, chart, "line")) for chart in ("rounds", "bytes")]

    methods = sum("curve" in method for method in facts["methods"].values())
    assert drawn() == [methods, methods - 1]  # training alone sends nothing
    button = browser.find_element(By.CSS_SELECTOR, ".legend button[data-method='FedRep']")
    hover(browser, button)
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    until(browser, lambda: drawn() == [methods - 1, methods - 2])
    button.send_keys(Keys.SPACE)
    assert button.get_attribute("aria-pressed") == "true"
    until(browser, lambda: drawn() == [methods, methods - 1])


def column(browser, name):
    """A heading of the first table of all numbers, and the keys of its cells from top to bottom."""
    table = browser.find_element(By.CSS_SELECTOR, "section[aria-labelledby=numbers] table")
    heads = table.find_elements(By.CSS_SELECTOR, "thead th")
    place = [h.text for h in heads].index(name)
    cells = table.find_elements(By.CSS_SELECTOR, f"tbody tr > :nth-child({place + 1})")
    return heads[place], [cell.get_attribute("data-key") for cell in cells]


def test_the_table_is_sorted_by_click_and_by_keyboard(browser, report, facts):
    show(browser, report)
    head, keys = column(browser, "Spread")
    button = head.find_element(By.TAG_NAME, "button")
    hover(browser, button)
    button.click()
    assert head.get_attribute("aria-sort") == "ascending"
    numbers = [float(k) for k in keys]
    sorted_keys = column(browser, head.text)[1]
    assert [float(k) for k in sorted_keys] == sorted(numbers)
    button.send_keys(Keys.ENTER)
    assert head.get_attribute("aria-sort") == "descending"
    assert [float(k) for k in column(browser, head.text)[1]] == sorted(numbers, reverse=True)
    other = column(browser, "Gain over the best alone")[0]
    other.find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert head.get_attribute("aria-sort") is None
    gains = column(browser, other.text)[1]
    known = [method["gain"]["gain"] for method in facts["methods"].values() if "gain" in method]
    assert gains[len(known) :] == [None] * 5  # what sites do alone has none, and comes last
    assert [float(g) for g in gains[: len(known)]] == pytest.approx(sorted(known), rel=1e-5)


def test_the_method_of_the_gains_is_switched(browser, report, facts):
    show(browser, report)
    select = Select(browser.find_element(By.CSS_SELECTOR, "section[aria-labelledby=sites] select"))
    for name, written in (("fedrep", "FedRep"), ("fedavg", "FedAvg")):
        select.select_by_visible_text(written)
        words = browser.find_element(By.ID, "verdicts").text
        assert words == f"With {written}, of 4 sites 1 gains and 1 loses; 2 have too few test samples to tell."
        rows = sorted(facts["methods"][name]["gains"], key=lambda r: -r["gain"])
        colour = {"fedavg": "#0072b2", "fedrep": "#d55e00"}[name]
        until(browser, lambda c=colour: {m.get_attribute("fill") for m in marks(browser, "gains", "rect")} == {c})
        labels = browser.find_elements(By.CSS_SELECTOR, "[data-chart=gains] .role-axis .role-axis-label text")
        assert [row["name"] for row in rows] == [t.text for t in labels if t.text.isalpha()]
    open_all(browser)  # a chart that is drawn later shows the method that was chosen before
    other = Select(browser.find_element(By.CSS_SELECTOR, "section[aria-labelledby=researchers] select"))
    assert other.first_selected_option.text == "FedAvg"
    until(browser, lambda: marks(browser, "gain-by-total-variation", "symbol"))
    drawn = marks(browser, "gain-by-total-variation", "symbol")
    until(browser, lambda: {m.get_attribute("fill") for m in drawn} == {"#0072b2"})


def test_every_dot_is_named(browser, report):
    show(browser, report)
    open_all(browser)
    until(browser, lambda: len(marks(browser, "gain-by-total-variation", "text")) == len(HEART))
    assert {m.text for m in marks(browser, "gain-by-total-variation", "text")} == set(HEART)


def luminance(browser, selector, name):
    colour = browser.execute_script(
        "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]", selector, name
    )
    return sum(int(v) for v in colour[colour.index("(") + 1 : -1].split(",")[:3]) / 765


def test_dark_by_the_system_and_by_the_button(browser, report):
    show(browser, report, dark=True)
    assert luminance(browser, "body", "backgroundColor") < 0.2 < 0.7 < luminance(browser, "body", "color")
    axis = "[data-chart=methods] .role-axis-label text"
    assert luminance(browser, axis, "fill") > 0.7
    browser.find_element(By.ID, "theme").click()
    assert luminance(browser, "body", "backgroundColor") > 0.9
    assert luminance(browser, axis, "fill") < 0.3
    browser.find_element(By.ID, "theme").click()
    assert luminance(browser, "body", "backgroundColor") < 0.2


KINDS = ["classification", "regression", "survival", "too short", "many"]


@pytest.mark.parametrize("which", KINDS)
def test_a_phone_scrolls_in_one_direction_only(browser, reports, which):
    show(browser, reports[which], width=390)
    assert browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]") == [390, 390]
    assert browser.get_log("browser") == []
    for chart in browser.find_elements(By.CSS_SELECTOR, "[data-chart]:not(:empty)"):
        assert chart.find_element(By.TAG_NAME, "svg").size["width"] <= chart.size["width"] + 1


@pytest.mark.parametrize("which", ["classification", "too short"])
def test_the_first_screen_holds_the_answer_the_metric_and_every_site(browser, reports, which):
    show(browser, reports[which])
    for words in ("Should these sites", "AUC decides", *HEART):
        found = browser.find_element(By.XPATH, f"//*[self::h1 or self::p or self::th][starts-with(., '{words}')]")
        assert found.rect["y"] + found.rect["height"] < 800, words


@pytest.mark.parametrize("which", ["classification", "regression", "survival"])
def test_no_table_of_numbers_is_cut_on_a_laptop(browser, reports, which):
    show(browser, reports[which])
    tables = browser.find_elements(By.CSS_SELECTOR, "section[aria-labelledby=numbers] .table, #summary ~ .table")
    assert len(tables) >= 3
    assert not any("wide" in table.get_attribute("class") for table in tables)


def test_on_a_phone_a_wide_table_says_so_and_keeps_its_first_column(browser, report):
    show(browser, report, width=390)
    table = browser.find_element(By.CSS_SELECTOR, "section[aria-labelledby=costs] .table")
    assert "More columns: scroll sideways" in table.text
    first = table.find_element(By.CSS_SELECTOR, "tbody th")
    before = first.rect["x"]
    browser.execute_script("arguments[0].scrollLeft = 200", table.find_element(By.CLASS_NAME, "scroll"))
    assert first.rect["x"] == before


def test_on_a_phone_the_advice_is_a_card_for_each_site(browser, report, facts):
    show(browser, report, width=390)
    rows = browser.find_elements(By.CSS_SELECTOR, "table.cards tbody tr")
    assert len(rows) == len(facts["sites"])
    assert all(row.size["width"] <= 390 and row.size["height"] > 100 for row in rows)


def test_the_advice_is_copied_as_tab_separated_text(browser, report, facts):
    browser.execute_cdp_cmd(
        "Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    )
    show(browser, report)
    button = browser.find_element(By.CSS_SELECTOR, "[data-copy]")
    button.click()
    until(browser, lambda: "Copied" in browser.find_element(By.CSS_SELECTOR, ".copy [role=status]").text)
    text = browser.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
    assert text == advice_text(ComparisonResult.from_json(facts), "fedrep")
    assert [line.split("\t")[0] for line in text.splitlines()[1:]] == list(HEART)


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize(("which", "dark"), [*((name, False) for name in KINDS), ("classification", True)])
def test_accessibility(browser, reports, which, dark, width):
    package = pytest.importorskip("axe_core_python", reason="axe-core-python is not installed")
    axe = (resources.files(package) / "axe.min.js").read_text(encoding="utf-8")
    assert axe.startswith("/*! axe v4.")
    show(browser, reports[which], width, dark)
    open_all(browser)
    browser.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})
    found = browser.execute_async_script(
        "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then(done)"
    )
    assert len(found["passes"]) > 15
    bad = [v for v in found["violations"] if v["impact"] in ("serious", "critical")]
    assert bad == [], [(v["id"], v["nodes"][0]["html"][:200]) for v in bad]


def test_evil_names_stay_names(browser, facts, tmp_path):
    evil = "</script><img src=x onerror='window.evil = 1'><b>"
    text = json.dumps(facts)
    for name in HEART:
        text = text.replace(json.dumps(name), json.dumps(evil))
    path = tmp_path / "evil.html"
    path.write_text(page(ComparisonResult.from_json(json.loads(text))), encoding="utf-8")
    show(browser, path.as_uri())
    hover(browser, marks(browser, "data", "rect")[0])
    until(browser, lambda: evil in tooltip(browser))
    time.sleep(0.1)  # an onerror would come later
    assert browser.execute_script("return window.evil") is None
    assert browser.find_elements(By.CSS_SELECTOR, "img") == []
    assert browser.get_log("browser") == []


def test_print_is_light_and_holds_everything(browser, report):
    show(browser, report, width=700, dark=True)
    assert any(hint.is_displayed() for hint in browser.find_elements(By.CLASS_NAME, "hint"))
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert luminance(browser, "body", "backgroundColor") > 0.9
        assert not browser.find_element(By.ID, "theme").is_displayed()
        assert not any(hint.is_displayed() for hint in browser.find_elements(By.CLASS_NAME, "hint"))
        assert all(c.is_displayed() for c in browser.find_elements(By.CSS_SELECTOR, "[data-chart] svg"))
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_runs_side_by_side(browser, trained, tmp_path):
    show(browser, write_run_report(list(trained.values()), tmp_path / "runs.html").as_uri(), width=390)
    assert browser.get_log("browser") == []
    assert len(marks(browser, "rounds", "line")) == 2
    assert browser.execute_script("return document.documentElement.scrollWidth") == 390


def test_a_live_page_grows_with_the_run(browser, tmp_path):
    federation = federate(Digits().pool(0), Classes(3), clients=5, seed=0)
    rounds = threading.Semaphore(0)
    settings = {"rounds": 30, "out": tmp_path / "run", "on_round": lambda _: rounds.acquire()}
    run = threading.Thread(target=lambda: simulate(FedRep(head_epochs=1), "mlp", federation, **settings))
    config = RunConfig.of(FedRep(head_epochs=1), federation, Training(rounds=30), {"data": {"name": "digits"}})
    with Live(tmp_path / "run", config) as server:
        show(browser, server.address)
        assert "Waiting for the first round" in browser.find_element(By.ID, "state").text
        run.start()
        for known in (1, 2, 3):  # after the first, it has loaded itself again
            until(browser, lambda known=known: len(marks(browser, "training-loss", "symbol")) == known)
            rounds.release()
        assert marks(browser, "rounds", "symbol") == []  # test scores are not drawn unless asked for
        rounds.release(27)
        until(browser, lambda: "has ended" in browser.find_element(By.ID, "state").text)
        run.join()
        assert len(marks(browser, "training-loss", "symbol")) == 30
        last = json.loads((tmp_path / "run" / "history.jsonl").read_text().splitlines()[-1])
        words = browser.find_element(By.ID, "words").text
        assert words == f"FedRep: 30 of 30 rounds, training loss {last['train_loss']:.3g}."
        assert "digits: 5 sites" in browser.find_element(By.TAG_NAME, "header").text
        browser.find_element(By.CSS_SELECTOR, "section[aria-labelledby=scores] summary").click()
        until(browser, lambda: len(marks(browser, "rounds", "symbol")) == 30)
        assert len(marks(browser, "bytes", "symbol")) == 30
        assert len(marks(browser, "sites", "rect")) == 5
        assert browser.get_log("browser") == []
        asked = browser.execute_script("return performance.getEntriesByType('resource').map((e) => e.name)")
        assert all(url.startswith(f"{server.address}history?from=") for url in asked)
