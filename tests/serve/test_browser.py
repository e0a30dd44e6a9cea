"""The page in a real browser: each thing that a person does there."""

import os
import re
import signal
import subprocess

import numpy as np
import pandas as pd
import pytest

from serve.conftest import Server

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.xdist_group("browser")]
LV = "hare' = alpha*hare - beta*hare*lynx\nlynx' = -gamma*lynx + delta*hare*lynx"


def begin(tab, name="lynx-hare"):
    """An example, ready to fit."""
    before = tab.input_value("#equations")
    tab.select_option("#gallery", name)
    tab.wait_for_function("before => document.getElementById('equations').value !== before", arg=before)
    tab.wait_for_selector("#charts svg")
    tab.wait_for_selector("#fit:not([disabled])")


def fit(tab):
    """Press the button; wait for the report, and for the end."""
    tab.wait_for_selector("#fit:not([disabled])")
    tab.click("#fit")
    tab.wait_for_selector("#stop", state="visible")
    tab.wait_for_selector("#stop", state="hidden", timeout=90_000)
    tab.wait_for_selector("#sections .verdict")


def saved(tab, text):
    """What a button hands over."""
    with tab.expect_download() as waiting:
        tab.click(f"text={text}")
    return waiting.value


def typed(tab, text):
    tab.fill("#equations", text)
    tab.wait_for_timeout(300)


def curve(tab, chart=0):
    return tab.locator("#charts .chart").nth(chart).locator("path").last.get_attribute("d")


def test_an_example_from_the_table_to_the_report(server, visit, tmp_path):
    tab = visit(server.address)
    begin(tab)
    assert tab.locator("#table .spark").count() == 3
    assert tab.locator("#math math").count() == 1
    assert "alpha, beta, delta, gamma" in tab.inner_text("#known")
    fit(tab)
    text = tab.inner_text("#sections")
    for words in (
        "Estimates",
        "Residuals",
        "Profiles",
        "Correlations",
        "What should not be overlooked",
        "initial value",
    ):
        assert words in text
    assert tab.locator("#sections .chart svg").count() >= 2 + 6 + 4
    report = saved(tab, "Report (HTML)")
    report.save_as(tmp_path / "fit.html")
    page = tab.context.new_page()
    page.goto((tmp_path / "fit.html").as_uri())
    assert page.locator(".chart svg").count() == tab.locator("#sections .chart svg").count()
    for button, name, inside in (
        ("Estimates (CSV)", "estimates.csv", "alpha,0.5"),
        ("Model file", "model.toml", "[columns]"),
        ("Python script", "fit.py", "import weakform as wf"),
        ("Command line", "fit.sh", "weakform fit model.toml lynx-hare.csv"),
    ):
        download = saved(tab, button)
        assert download.suggested_filename == name
        assert inside in download.path().read_text(encoding="utf-8")
    tab.locator("#sections .chart").first.hover()
    for kind, start in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
        with tab.expect_download() as waiting:
            tab.locator("#sections .chart .tools button", has_text=kind).first.click()
        data = waiting.value.path().read_bytes()
        assert data.startswith(start)
        assert b"var(--" not in data


def test_sliders_move_the_solution(server, visit):
    tab = visit(server.address)
    begin(tab, "logistic")
    before = curve(tab)
    tab.locator("#slide-p1").focus()
    for _ in range(30):
        tab.keyboard.press("ArrowRight")
    tab.wait_for_function(
        "d => document.querySelector('#charts .chart path:last-of-type').getAttribute('d') !== d", arg=before
    )
    assert float(tab.input_value("#value-p1")) > 1
    tab.fill("#value-p1", "0.5")
    tab.wait_for_timeout(300)
    assert curve(tab) != before
    tab.click("#guess")
    tab.wait_for_function("() => Math.abs(document.getElementById('value-p1').value - 1) < 0.3")


def test_equations_as_they_are_typed(server, visit):
    tab = visit(server.address)
    begin(tab)
    typed(tab, LV[:-4] + "$")
    tab.wait_for_selector("#wrong:not(:empty)")
    assert re.match(r"line 2, column \d+: unexpected character", tab.inner_text("#wrong"))
    assert tab.locator("#painted .here").inner_text() == "$"
    assert tab.locator("#fit").is_disabled()
    typed(tab, LV + "\nz' = -k*z")
    tab.wait_for_function("() => document.getElementById('known').innerText.includes('hidden states: z')")
    assert tab.inner_text("#wrong") == ""
    assert tab.locator("#slide-k").count() == 1
    typed(tab, "x' = ")
    tab.wait_for_selector("#wrong:not(:empty)")
    assert "line 1" in tab.inner_text("#wrong")


def test_a_table_with_an_odd_cell(server, visit, tmp_path):
    tab = visit(server.address)
    path = tmp_path / "pelts.csv"
    rows = [f"{1900 + k},{30 + 20 * np.sin(k):.1f},{20 + 9 * np.cos(k):.1f}" for k in range(80)]
    rows[70] = "1970,-999,12"
    path.write_text("year,hare,lynx\n" + "\n".join(rows) + "\n")
    tab.set_input_files("#file", path)
    tab.wait_for_selector("#table .problems")
    assert "row 71, hare = −999" in tab.inner_text("#table .problems")
    tab.click("#table .problems >> text=show")
    tab.wait_for_selector("td.odd")
    assert tab.inner_text("td.odd") == "-999"
    tab.click("text=treat -999 as missing")
    tab.wait_for_function("() => document.querySelectorAll('td.odd').length === 0")
    tab.click("#undo")
    tab.wait_for_selector("td.odd")
    tab.click("#redo")
    tab.fill("#equations", LV)
    tab.wait_for_selector("#charts svg")
    assert "measured: hare" in tab.locator("#role-hare option:checked").inner_text()
    tab.select_option("#role-lynx", "")
    tab.wait_for_function("() => document.getElementById('known').innerText.includes('hidden states: lynx')")


def test_other_kinds_of_tables(server, visit, tmp_path):
    tab = visit(server.address)
    t = np.arange(20.0)
    one, two = pd.DataFrame({"day": t, "x": np.exp(-t / 9)}), pd.DataFrame({"day": t, "y": np.cos(t)})
    with pd.ExcelWriter(tmp_path / "book.xlsx") as book:
        one.to_excel(book, sheet_name="first", index=False)
        two.to_excel(book, sheet_name="second", index=False)
    tab.set_input_files("#file", tmp_path / "book.xlsx")
    tab.wait_for_selector("#sheet")
    tab.select_option("#sheet", "second")
    tab.wait_for_selector("#role-y")
    two.to_parquet(tmp_path / "t.parquet")
    tab.set_input_files("#file", tmp_path / "t.parquet")
    tab.wait_for_function("() => document.getElementById('table').innerText.includes('t.parquet')")
    long = one.melt(id_vars="day", var_name="name")
    long.to_csv(tmp_path / "long.tsv", sep="\t", index=False)
    tab.set_input_files("#file", tmp_path / "long.tsv")
    tab.wait_for_selector("#role-x")
    assert "long" in tab.inner_text("#table")


def test_a_malformed_table_is_said_and_nothing_is_lost(server, visit, tmp_path):
    tab = visit(server.address)
    begin(tab)
    (tmp_path / "bad.csv").write_text("a,b\n1,2,3\n")
    tab.set_input_files("#file", tmp_path / "bad.csv")
    tab.wait_for_function("() => document.getElementById('banner').innerText.includes('3 values for 2 columns')")
    assert "/tmp" not in tab.inner_text("#banner")
    assert tab.locator("#role-hare").count() == 1
    fit(tab)


def test_a_hundred_thousand_rows(server, visit, tmp_path):
    tab = visit(server.address)
    t = np.linspace(0, 20, 100_000)
    frame = pd.DataFrame({"t": t, "x": np.exp(-0.2 * t) + 0.01 * np.random.default_rng(0).standard_normal(len(t))})
    frame.to_csv(tmp_path / "large.csv", index=False)
    tab.set_input_files("#file", tmp_path / "large.csv")
    tab.wait_for_function("() => document.getElementById('table').innerText.includes('100,000 rows')", timeout=30_000)
    tab.fill("#equations", "x' = -k*x")
    tab.wait_for_selector("#charts svg", timeout=30_000)
    assert tab.locator("#table tbody tr").count() < 100
    fit(tab)
    row = tab.locator("#sections td", has_text=re.compile("^k$")).locator("..").inner_text()
    assert row.split()[1].startswith(("0.19", "0.2"))


def test_bounds_fixed_values_and_two_models_side_by_side(server, visit):
    tab = visit(server.address)
    begin(tab, "logistic")
    fit(tab)
    tab.check("#fix-p1")
    tab.fill("#value-p1", "1")
    fit(tab)
    assert "fixed" in tab.inner_text("#sections")
    tab.click("#undo")  # the estimates on the sliders
    tab.click("#undo")  # the value
    tab.wait_for_function("() => document.getElementById('value-p1').value !== '1'")
    tab.uncheck("#fix-p1")
    tab.fill("#high-p1", "0.7")
    fit(tab)
    assert "bound" in tab.inner_text("#sections")
    assert tab.locator("#fits tbody tr").count() == 3
    typed(tab, "u' = p1*u")
    fit(tab)
    tab.check("#with-0")
    tab.check("#with-3")
    tab.click("text=Compare the marked ones")
    tab.wait_for_function("() => document.getElementById('report-title').innerText === 'Side by side'")
    assert "Models side by side" in tab.inner_text("#sections")
    tab.locator("#fits tr", has=tab.locator("#with-0")).locator("text=go back to").click()
    tab.wait_for_function("() => document.getElementById('equations').value.includes('p2')")
    tab.locator("#fits tr", has=tab.locator("#with-0")).locator("text=to the sliders").click()
    tab.wait_for_function("() => Math.abs(document.getElementById('value-p1').value - 1) < 0.1")


def test_a_fit_that_is_stopped_keeps_the_best(server, visit):
    tab = visit(server.address)
    begin(tab, "goodwin")
    tab.click("text=Settings")
    tab.fill("#starts", "1000")
    tab.select_option("#method", "mle")
    tab.wait_for_selector("#fit:not([disabled])")
    tab.click("#fit")
    tab.wait_for_function("() => document.getElementById('progress').innerText.includes('objective')")
    tab.click("#stop")
    tab.wait_for_selector("#sections .verdict", timeout=120_000)
    assert "Stopped by the user" in tab.inner_text("#sections")
    assert "p1" in tab.inner_text("#sections")


def test_a_killed_worker_is_said_and_the_page_goes_on(server, visit):
    tab = visit(server.address)
    begin(tab, "goodwin")
    before = set(_workers(server))
    tab.click("text=Settings")
    tab.fill("#starts", "1000")
    tab.wait_for_selector("#fit:not([disabled])")
    tab.click("#fit")
    tab.wait_for_function("() => document.getElementById('progress').innerText.includes('start')")
    mine = max(set(_workers(server)) - before)
    os.kill(mine, signal.SIGKILL)
    tab.wait_for_function("() => document.getElementById('progress').innerText.includes('has ended (signal 9)')")
    for pid in _workers(server):  # those for short tasks, too
        os.kill(pid, signal.SIGKILL)
    tab.fill("#starts", "")
    begin(tab, "logistic")
    fit(tab)


def _workers(server):
    found = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(server.process.pid)], capture_output=True, text=True
    )
    return [int(line.split()[0]) for line in found.stdout.splitlines() if "spawn_main" in line]


def test_the_server_killed_and_started_again(visit, tmp_path):
    first = Server()
    try:
        tab = visit(first.address)
        begin(tab, "logistic")
        fit(tab)
        tab.fill("#value-p1", "1.25")
        tab.wait_for_timeout(900)
        first.end(signal.SIGKILL)
    finally:
        first.kill()
    tab.fill("#value-p1", "1.5")
    tab.wait_for_function("() => document.getElementById('banner').innerText.includes('does not answer')")
    project = saved(tab, "Save project")
    tab.wait_for_timeout(700)
    second = Server("--port", str(first.port))
    try:
        tab.wait_for_function(
            "() => document.getElementById('banner').innerText.includes('started again')", timeout=15_000
        )
        again = visit(second.address, context=tab.context)
        assert again.input_value("#value-p1") == "1.5"
        assert "opened again" in again.inner_text("#banner")
        assert "Estimates" in again.inner_text("#sections")
        other = visit(second.address)
        assert other.input_value("#equations") == ""
        project.save_as(tmp_path / "p.weakform.json")
        other.set_input_files("#file", tmp_path / "p.weakform.json")
        other.wait_for_selector("#sections .verdict")
        other.wait_for_selector("#charts svg")
        assert other.input_value("#value-p1") == "1.5"
        fit(other)
    finally:
        second.end()


def test_two_tabs_and_two_fits_at_once(server, visit):
    tabs = [visit(server.address), visit(server.address)]
    for tab, name in zip(tabs, ("lynx-hare", "sir"), strict=True):
        begin(tab, name)
    for tab in tabs:
        tab.click("#fit")
    for tab in tabs:
        tab.wait_for_selector("#sections .verdict", timeout=60_000)
    assert "alpha" in tabs[0].inner_text("#sections")
    assert "beta" in tabs[1].inner_text("#sections")


def test_each_tab_keeps_its_own_work(server, visit):
    first = visit(server.address)
    second = visit(server.address, context=first.context)
    begin(first, "logistic")
    begin(second)
    first.fill("#value-p1", "0.75")
    for tab in (second, first):
        tab.wait_for_timeout(700)  # the browser keeps it after half a second
        tab.reload()
        tab.wait_for_selector("#charts svg")
    assert "u" in first.input_value("#equations").split("'")[0]
    assert first.input_value("#value-p1") == "0.75"
    assert "hare" in second.input_value("#equations")
    new = visit(server.address, context=first.context)  # goes on with what was changed last
    new.wait_for_selector("#charts svg")
    assert new.input_value("#equations") == first.input_value("#equations")


def test_work_that_is_put_away_comes_back(server, visit, tmp_path):
    tab = visit(server.address)
    begin(tab, "logistic")
    saved(tab, "Save project").save_as(tmp_path / "p.weakform.json")
    logistic = tab.input_value("#equations")
    begin(tab)
    tab.set_input_files("#file", tmp_path / "p.weakform.json")
    tab.wait_for_function("was => document.getElementById('equations').value === was", arg=logistic)
    for words in ("hare", logistic):  # what was there is put away in exchange
        tab.click("text=bring it back")
        tab.wait_for_function("words => document.getElementById('equations').value.includes(words)", arg=words)
        tab.wait_for_selector("#fit:not([disabled])")


def test_of_two_tables_dropped_at_once_the_last_one_wins(server, visit, tmp_path):
    tab = visit(server.address)
    t = np.arange(60_000.0)
    pd.DataFrame({"t": t, "slow": np.sin(t)}).to_csv(tmp_path / "slow.csv", index=False)
    pd.DataFrame({"t": t[:30], "quick": np.sin(t[:30])}).to_csv(tmp_path / "quick.csv", index=False)
    tab.set_input_files("#file", tmp_path / "slow.csv")
    tab.set_input_files("#file", tmp_path / "quick.csv")
    tab.wait_for_selector("#role-quick")
    tab.wait_for_timeout(2500)
    assert tab.locator("#role-quick").count() == 1
    assert tab.locator("#role-slow").count() == 0


def test_each_trajectory_begins_where_it_does(server, visit, tmp_path):
    tab = visit(server.address)
    t, rng = np.linspace(0, 4, 30), np.random.default_rng(0)
    rows = [
        f"{k},{x:.3f},{a * np.exp(-0.7 * x) + 0.01 * rng.standard_normal():.4f}" for k, a in ((1, 2), (2, 5)) for x in t
    ]
    (tmp_path / "two.csv").write_text("id,t,x\n" + "\n".join(rows) + "\n")
    tab.set_input_files("#file", tmp_path / "two.csv")
    tab.wait_for_selector("#role-id")
    tab.fill("#equations", "x' = -k*x")
    tab.wait_for_selector("#charts svg")
    fit(tab)
    initial = tab.evaluate("import('/page/store.js').then(one => one.store.doc.initial.x)")
    assert initial == pytest.approx([2, 5], abs=0.05)


def test_a_fit_may_start_at_the_sliders(server, visit):
    tab = visit(server.address)
    begin(tab, "logistic")
    tab.fill("#value-p1", "0.7")
    tab.click("text=Settings")
    tab.check("#begin")
    fit(tab)
    assert "start = 0.7" in saved(tab, "Model file").path().read_text(encoding="utf-8")


def test_by_keyboard_alone(server, visit):
    tab = visit(server.address)

    def to(selector, key="Tab"):
        for _ in range(60):
            if tab.evaluate("s => document.activeElement && document.activeElement.matches(s)", selector):
                return
            tab.keyboard.press(key)
        raise AssertionError(f"{selector} cannot be reached")

    to("#gallery")
    tab.keyboard.type("Michaelis")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#charts svg")
    to("#equations")
    tab.keyboard.press("Control+End")
    tab.keyboard.type(" ")
    to("#slide-Km")
    tab.keyboard.press("ArrowLeft")
    to("#high-Vmax", "Shift+Tab")
    tab.keyboard.type("20")
    tab.wait_for_timeout(600)
    tab.wait_for_selector("#fit:not([disabled])")
    tab.keyboard.press("Control+Enter")
    tab.wait_for_selector("#sections .verdict")
    to("#sections .chart svg")
    to("#take button", "Shift+Tab")
    with tab.expect_download():
        tab.keyboard.press("Enter")


def test_a_report_that_comes_anew_leaves_the_keyboard_where_it_is(server, visit):
    tab = visit(server.address)
    begin(tab, "logistic")
    tab.click("#fit")
    tab.wait_for_selector("#sections .verdict")
    tab.wait_for_selector("#progress:empty", state="attached")
    for place in ("#take button:nth-of-type(3)", "#sections .chart svg", "#fits button"):
        tab.focus(place)
        before = tab.evaluate("document.activeElement.outerHTML.slice(0, 80)")
        tab.evaluate("document.activeElement.old = true; document.querySelector('#fits button').click()")
        assert tab.evaluate("document.activeElement.outerHTML.slice(0, 80)") == before
        assert not tab.evaluate("Boolean(document.activeElement.old)")


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1300, "dark")])
def test_accessible_and_nothing_overflows(server, visit, width, scheme):
    from axe_playwright_python.sync_playwright import Axe

    tab = visit(server.address, width, color_scheme=scheme)
    assert tab.evaluate("document.documentElement.dataset.theme") == scheme

    def looked():
        found = Axe().run(tab)
        assert found.violations_count == 0, found.generate_report()
        assert tab.evaluate("document.documentElement.scrollWidth") <= width

    looked()
    begin(tab, "michaelis-menten")
    looked()
    fit(tab)
    tab.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    looked()
    typed(tab, "S' = ")
    tab.wait_for_selector("#wrong:not(:empty)")
    looked()


def test_what_a_table_says_is_never_run(server, visit, tmp_path):
    tab = visit(server.address)
    name = "<img src=x onerror=alert(1)>"
    rows = "".join(f"{k},{np.exp(-k / 9):.4f},a{k % 2}<b>\n" for k in range(40))
    (tmp_path / "evil.csv").write_text(f"time,{name},id\n{rows}")
    tab.on("dialog", lambda dialog: pytest.fail("a script has run"))
    tab.set_input_files("#file", tmp_path / "evil.csv")
    tab.wait_for_selector("#table .columns")
    tab.fill("#equations", "x' = -k*x # <script>alert(1)</script>")
    tab.wait_for_function("() => document.querySelector('#known').innerText.includes('k')")
    tab.locator("#table .columns tr").nth(2).locator("select").first.select_option("=x")
    fit(tab)
    assert tab.locator("#sections img, #table img").count() == 0
