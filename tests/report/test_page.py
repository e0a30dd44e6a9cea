"""The HTML report: complete, without errors or requests in a real browser, readable on a phone; and the plots."""

import os
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

import weakform as wf
from weakform.report.comparison_page import build_comparison_page
from weakform.report.html_report import _build_initial_values_table, build_notebook_form, build_page
from weakform.report.text_report import format_number
from weakform.report.verdict_text import judge_fit
from weakform.results.records import LateResults
from weakform.results.status import Status

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(
    BROWSER is None and not os.environ.get("CI"), reason="no Chromium here; CI installs one"
)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@pytest.fixture(scope="module")
def goodwin(tmp_path_factory):
    problem = wf.problems.get("goodwin")
    fit = wf.fit(problem.model, problem.simulate(M=100, noise=0.05, seed=1), bounds=problem.bounds)
    return fit, fit.report(tmp_path_factory.mktemp("page") / "fit.html", "weakform fit model.toml data.csv")


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield started
        started.close()


@needs_browser
@pytest.mark.filterwarnings("default")
def test_page_draws_all_charts_without_errors_or_requests(goodwin, browser):
    _, path = goodwin
    tab = browser.new_page(viewport={"width": 1000, "height": 900})
    errors, requests = [], []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on("console", lambda message: errors.append(message.text) if message.type in ("error", "warning") else None)
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(path.as_uri())
    assert errors == []
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    charts = tab.locator(".chart svg")
    # Three states, three residuals of each, the weak residuals, eight profiles.
    assert charts.count() == 3 + 9 + 1 + 8
    for k in range(charts.count()):
        assert charts.nth(k).locator("path").count() >= 1
        assert charts.nth(k).get_attribute("aria-label")
    assert tab.locator("math").count() >= 1
    assert tab.locator("table.correlations tbody td").count() == 64

    light = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    tab.click("#theme")
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") != light
    assert tab.get_attribute("#theme", "aria-pressed") == "true"

    charts.nth(0).hover()
    assert "time" in tab.locator(".chart .tip").nth(0).inner_text()
    before = charts.nth(0).locator("path").nth(1).get_attribute("d")
    tab.locator(".chart .tools button").nth(0).click()
    assert charts.nth(0).locator("path").nth(1).get_attribute("d") != before
    charts.nth(0).focus()
    tab.keyboard.press("0")
    assert charts.nth(0).locator("path").nth(1).get_attribute("d") == before
    assert errors == []
    tab.close()


@needs_browser
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("width", [360, 768])
def test_page_does_not_overflow_narrow_screens(goodwin, browser, width):
    _, path = goodwin
    tab = browser.new_page(viewport={"width": width, "height": 740})
    tab.goto(path.as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    wide = tab.evaluate(
        "[...document.querySelectorAll('main *')].filter(e => !e.closest('.wide, svg, pre, math') && "
        f"e.getBoundingClientRect().right > {width} + 1).map(e => e.outerHTML.slice(0, 80))"
    )
    assert wide == []
    tab.close()


def test_page_contains_warnings_parameters_and_command(goodwin):
    fit, path = goodwin
    text = path.read_text(encoding="utf-8")
    for warning in fit.warnings:
        assert warning.replace("'", "&#x27;") in text
    for name in fit.model.parameters:
        assert f"<td>{name}</td>" in text
    assert "weakform fit model.toml data.csv" in text
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text
    assert "src=" not in text


def test_names_and_labels_are_escaped():
    t = np.linspace(0, 5, 40)
    parts = [wf.Dataset(t, np.exp(-t) + 0.01 * np.cos(9 * t + k)) for k in range(2)]
    fit = wf.fit(wf.Model.from_text("x' = -a*x"), wf.Dataset.join(parts, ["<script>alert(1)</script>", "b"]))
    text = build_page(fit, "weakform fit '<b>'")
    assert "<script>alert" not in text
    assert "<b>" not in text.replace("<b>weak", "")


@pytest.mark.parametrize(
    ("name", "method"), [("lorenz", "wendy"), ("lorenz", "mle"), ("logistic", "hybrid"), ("sir-tdi", "wls")]
)
def test_every_method_has_a_page(name, method):
    problem = wf.problems.get(name)
    fit = wf.fit(problem.model, problem.simulate(M=100, noise=0.02, seed=1), bounds=problem.bounds, method=method)
    text = build_page(fit)
    assert "Estimates" in text
    assert judge_fit(fit).headline.split("(")[0] in text.replace("&#x27;", "'")
    assert "<math" in build_notebook_form(fit)


def test_verdict_depends_on_status_and_test():
    problem = wf.problems.get("lotka-volterra")
    data = problem.simulate(M=200, noise=0.03, seed=1)
    assert judge_fit(wf.fit(problem.model, data, bounds=problem.bounds)).kind == "good"
    logistic_data = wf.problems.get("logistic").simulate(M=200, noise=0.03, seed=1)
    rejected = judge_fit(wf.fit(wf.Model.from_text("u' = p1*u"), logistic_data))
    assert rejected.kind == "bad"
    assert "does not fit" in rejected.headline
    assert judge_fit(wf.fit(problem.model, data, method="mle")).kind == "doubt"
    noise_free = wf.fit(problem.model, problem.simulate(M=300, noise=0.0))
    assert "noise-free" in judge_fit(noise_free).headline
    at_bound = wf.fit(problem.model, data, bounds={"p1": (0, 2)})
    assert "At a bound: p1" in " ".join(judge_fit(at_bound).reasons)
    unfinished = wf.fit(problem.model, data, method="mle", options={"max_iterations": 1})
    assert judge_fit(unfinished).kind == "bad"


def test_parameters_are_not_called_determined_if_other_values_fit_equally_well():
    problem = wf.problems.get("logistic")
    fit = wf.fit(problem.model, problem.simulate(M=100, noise=0.05, seed=1), bounds=problem.bounds)
    assert judge_fit(fit).reasons == ("All parameters are determined by the data.",)
    ambiguous = judge_fit(replace(fit, status=Status.UNDETERMINED))
    assert "other parameter values fit equally well" in ambiguous.headline
    assert ambiguous.reasons
    assert "All parameters are determined" not in " ".join(ambiguous.reasons)


def test_tables_show_minus_signs_and_no_hyphens_before_numbers():
    t = np.linspace(0, 2, 80)
    values = -3 * np.exp(-1.5 * t) + 0.02 * np.random.default_rng(0).standard_normal(80)
    fit = wf.fit(wf.Model.from_text("x' = a*x"), wf.Dataset(t, values, names=["x"]))
    cells = re.findall(r"<td>([^<]*)</td>", build_page(fit))
    assert any(cell.startswith("−1.") for cell in cells)
    assert [cell for cell in cells if re.search(r"-[\d.]", cell)] == []


def test_comparison_shows_no_interval_of_what_cannot_be_determined():
    t = np.linspace(0, 10, 50)
    values = 3 * np.exp(-0.3 * t) + 0.05 * np.random.default_rng(0).standard_normal(50)
    data = wf.Dataset(t, values, names=["glow"])
    fits = {name: wf.fit(wf.Model.from_text(f"x' = -k*x\nglow = {name}"), data) for name in ("s*x", "x")}
    cells = re.findall(r"<td>([^<]*)</td>", build_comparison_page(wf.compare(fits)))
    assert "none" in cells
    assert not any("inf" in cell for cell in cells)


def test_notebook_forms_contain_equations_table_and_charts(goodwin):
    fit, _ = goodwin
    assert "<math" in fit.model._repr_html_()
    assert "<table" in fit._repr_html_()
    assert fit.data._repr_html_().count("<svg") == 3


def test_only_initial_values_that_the_model_gives_are_shown_as_given():
    """The hidden x has an interval by its profile, or one by Wald's formula if the time limit ended the profile."""
    model = wf.Model.from_text("x' = -a*x\nw' = a*x - b*w\nw(0) = 0.4")
    t = np.linspace(0, 9, 10)
    w = wf.simulate(model, {"a": 0.5, "b": 0.3}, {"x": 2.0, "w": 0.4}, t).states[:, 1]
    data = wf.Dataset(t, w + 0.1 * np.random.default_rng(1).standard_normal(10), names=["w"])
    fit = wf.fit(model, data, bounds={"a": (0, 5), "b": (0, 5)})
    hurried = replace(fit, options=replace(fit.options, time_limit=1e-9), late=LateResults())
    assert fit.initial["w"].note == "given"
    assert fit.initial["x"].note == "by its profile"
    assert "time limit" in hurried.initial["x"].note
    for each in (fit, hurried):
        table = _build_initial_values_table(each)
        assert table.count(">given<") == 1
        assert format_number(each.initial["x"].error, 3) in table
    scaled = wf.Model.from_text("x' = -a*x\ny = s*x")
    y = np.exp(-0.5 * t) + 0.01 * np.random.default_rng(1).standard_normal(10)
    free = wf.fit(scaled, wf.Dataset(t, y, names=["y"]), starts=1)
    assert free.initial["x"].note == "cannot be determined"
    assert ">given<" not in _build_initial_values_table(free)
    assert "[−∞, ∞]" in _build_initial_values_table(free)


def test_every_plot_can_be_saved(goodwin, tmp_path):
    from weakform.report import plots

    fit, _ = goodwin
    for name in ("states", "data_residuals", "residuals", "profiles", "correlations", "waterfall"):
        path = plots.save(getattr(plots, name)(fit), tmp_path / f"{name}.png")
        assert path.stat().st_size > 5000
    plots.save(fit.plot(), tmp_path / "fit.png")
