"""The page in a real browser: tables, equations, sliders, fits, comparisons, projects, keyboard and accessibility."""

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


def load_example(tab, name="lynx-hare"):
    """Load an example and wait until it can be fitted."""
    before = tab.input_value("#equations")
    tab.select_option("#gallery", name)
    tab.wait_for_function("before => document.getElementById('equations').value !== before", arg=before)
    tab.wait_for_selector("#charts svg")
    tab.wait_for_selector("#fit:not([disabled])")


def run_fit(tab):
    """Press the button; wait for the report and for the end of the fit."""
    tab.wait_for_selector("#fit:not([disabled])")
    tab.click("#fit")
    tab.wait_for_selector("#stop", state="visible")
    tab.wait_for_selector("#stop", state="hidden", timeout=300_000)
    tab.wait_for_selector("#sections .verdict")


def download_by(tab, text):
    """Press a button that downloads a file; returns the download."""
    with tab.expect_download() as waiting:
        tab.click(f"text={text}")
    return waiting.value


def type_equations(tab, text):
    tab.fill("#equations", text)
    tab.wait_for_timeout(300)


def read_curve(tab, chart=0):
    return tab.locator("#charts .chart").nth(chart).locator("path").last.get_attribute("d")


def test_example_can_be_fitted_and_all_files_downloaded(server, visit, tmp_path):
    tab = visit(server.address)
    load_example(tab)
    assert tab.locator("#table .spark").count() == 3
    assert tab.locator("#math math").count() == 1
    assert "alpha, beta, delta, gamma" in tab.inner_text("#known")
    run_fit(tab)
    text = tab.inner_text("#sections")
    for heading in (
        "Estimates",
        "Residuals",
        "Profiles",
        "Correlations",
        "Warnings",
        "initial value",
    ):
        assert heading in text
    assert tab.locator("#sections .chart svg").count() >= 2 + 6 + 4
    report = download_by(tab, "Report (HTML)")
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
        download = download_by(tab, button)
        assert download.suggested_filename == name
        assert inside in download.path().read_text(encoding="utf-8")
    tab.locator("#sections .chart").first.hover()
    for kind, start in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
        with tab.expect_download() as waiting:
            tab.locator("#sections .chart .tools button", has_text=kind).first.click()
        data = waiting.value.path().read_bytes()
        assert data.startswith(start)
        assert b"var(--" not in data


def test_sliders_and_rough_guess_change_the_curve(server, visit):
    tab = visit(server.address)
    load_example(tab, "logistic")
    before = read_curve(tab)
    tab.locator("#slide-p1").focus()
    for _ in range(30):
        tab.keyboard.press("ArrowRight")
    tab.wait_for_function(
        "d => document.querySelector('#charts .chart path:last-of-type').getAttribute('d') !== d", arg=before
    )
    assert float(tab.input_value("#value-p1")) > 1
    tab.fill("#value-p1", "0.5")
    tab.wait_for_timeout(300)
    assert read_curve(tab) != before
    tab.click("#guess")
    tab.wait_for_function("() => Math.abs(document.getElementById('value-p1').value - 1) < 0.3")


def test_editor_marks_errors_and_lists_hidden_states(server, visit):
    tab = visit(server.address)
    load_example(tab)
    type_equations(tab, LV[:-4] + "$")
    tab.wait_for_selector("#wrong:not(:empty)")
    assert re.match(r"Line 2, column \d+: unexpected character", tab.inner_text("#wrong"))
    assert tab.locator("#painted .error-mark").inner_text() == "$"
    assert tab.locator("#fit").is_disabled()
    type_equations(tab, LV + "\nz' = -k*z")
    tab.wait_for_function("() => document.getElementById('known').innerText.includes('Hidden states: z')")
    assert tab.inner_text("#wrong") == ""
    assert tab.locator("#slide-k").count() == 1
    type_equations(tab, "x' = ")
    tab.wait_for_selector("#wrong:not(:empty)")
    assert "Line 1" in tab.inner_text("#wrong")


def test_suspicious_cell_can_be_shown_and_treated_as_missing(server, visit, tmp_path):
    tab = visit(server.address)
    path = tmp_path / "pelts.csv"
    rows = [f"{1900 + k},{30 + 20 * np.sin(k):.1f},{20 + 9 * np.cos(k):.1f}" for k in range(80)]
    rows[70] = "1970,-999,12"
    path.write_text("year,hare,lynx\n" + "\n".join(rows) + "\n")
    tab.set_input_files("#file", path)
    tab.wait_for_selector("#table .problems")
    assert "Row 71, hare = −999" in tab.inner_text("#table .problems")
    tab.click("#table .problems >> text=Show")
    tab.wait_for_selector("td.odd")
    assert tab.inner_text("td.odd") == "-999"
    tab.click("text=Treat -999 as missing")
    tab.wait_for_function("() => document.querySelectorAll('td.odd').length === 0")
    tab.click("#undo")
    tab.wait_for_selector("td.odd")
    tab.click("#redo")
    tab.fill("#equations", LV)
    tab.wait_for_selector("#charts svg")
    assert "measured: hare" in tab.locator("#role-hare option:checked").inner_text()
    tab.select_option("#role-lynx", "")
    tab.wait_for_function("() => document.getElementById('known').innerText.includes('Hidden states: lynx')")


def test_sheets_parquet_and_long_tables_are_read(server, visit, tmp_path):
    tab = visit(server.address)
    t = np.arange(20.0)
    first_sheet, second_sheet = pd.DataFrame({"day": t, "x": np.exp(-t / 9)}), pd.DataFrame({"day": t, "y": np.cos(t)})
    with pd.ExcelWriter(tmp_path / "book.xlsx") as book:
        first_sheet.to_excel(book, sheet_name="first", index=False)
        second_sheet.to_excel(book, sheet_name="second", index=False)
    tab.set_input_files("#file", tmp_path / "book.xlsx")
    tab.wait_for_selector("#sheet")
    tab.select_option("#sheet", "second")
    tab.wait_for_selector("#role-y")
    second_sheet.to_parquet(tmp_path / "t.parquet")
    tab.set_input_files("#file", tmp_path / "t.parquet")
    tab.wait_for_function("() => document.getElementById('table').innerText.includes('t.parquet')")
    long = first_sheet.melt(id_vars="day", var_name="name")
    long.to_csv(tmp_path / "long.tsv", sep="\t", index=False)
    tab.set_input_files("#file", tmp_path / "long.tsv")
    tab.wait_for_selector("#role-x")
    assert "long" in tab.inner_text("#table")


def test_malformed_table_is_reported_and_the_work_is_kept(server, visit, tmp_path):
    tab = visit(server.address)
    load_example(tab)
    (tmp_path / "bad.csv").write_text("a,b\n1,2,3\n")
    tab.set_input_files("#file", tmp_path / "bad.csv")
    tab.wait_for_function("() => document.getElementById('banner').innerText.includes('3 values for 2 columns')")
    assert "/tmp" not in tab.inner_text("#banner")
    assert tab.locator("#role-hare").count() == 1
    run_fit(tab)


def test_table_of_a_hundred_thousand_rows_can_be_fitted(server, visit, tmp_path):
    tab = visit(server.address)
    t = np.linspace(0, 20, 100_000)
    frame = pd.DataFrame({"t": t, "x": np.exp(-0.2 * t) + 0.01 * np.random.default_rng(0).standard_normal(len(t))})
    frame.to_csv(tmp_path / "large.csv", index=False)
    tab.set_input_files("#file", tmp_path / "large.csv")
    tab.wait_for_function("() => document.getElementById('table').innerText.includes('100,000 rows')", timeout=300_000)
    tab.fill("#equations", "x' = -k*x")
    tab.wait_for_selector("#charts svg", timeout=300_000)
    assert tab.locator("#table tbody tr").count() < 100
    run_fit(tab)
    row = tab.locator("#sections td", has_text=re.compile("^k$")).locator("..").inner_text()
    assert row.split()[1].startswith(("0.19", "0.2"))


def test_fixed_values_bounds_and_comparison_of_fits(server, visit):
    tab = visit(server.address)
    load_example(tab, "logistic")
    run_fit(tab)
    tab.check("#fix-p1")
    tab.fill("#value-p1", "1")
    run_fit(tab)
    assert "fixed" in tab.inner_text("#sections")
    tab.click("#undo")  # copying the estimates to the sliders
    tab.click("#undo")  # setting the value
    tab.wait_for_function("() => document.getElementById('value-p1').value !== '1'")
    tab.uncheck("#fix-p1")
    tab.fill("#high-p1", "0.7")
    run_fit(tab)
    assert "bound" in tab.inner_text("#sections")
    assert tab.locator("#fits tbody tr").count() == 3
    type_equations(tab, "u' = p1*u")
    run_fit(tab)
    tab.check("#with-0")
    tab.check("#with-3")
    tab.click("text=Compare selected fits")
    tab.wait_for_function("() => document.getElementById('report-title').innerText === 'Comparison'")
    assert "Models side by side" in tab.inner_text("#sections")
    tab.locator("#fits tr", has=tab.locator("#with-0")).locator("text=Restore settings").click()
    tab.wait_for_function("() => document.getElementById('equations').value.includes('p2')")
    tab.locator("#fits tr", has=tab.locator("#with-0")).locator("text=Copy to sliders").click()
    tab.wait_for_function("() => Math.abs(document.getElementById('value-p1').value - 1) < 0.1")


def test_stopped_fit_reports_the_best_estimate(server, visit):
    tab = visit(server.address)
    load_example(tab, "goodwin")
    tab.click("text=Settings")
    tab.fill("#starts", "1000")
    tab.select_option("#method", "mle")
    tab.wait_for_selector("#fit:not([disabled])")
    tab.click("#fit")
    tab.wait_for_function("() => document.getElementById('progress').innerText.includes('objective')")
    tab.click("#stop")
    tab.wait_for_selector("#sections .verdict", timeout=300_000)
    assert "Stopped by the user" in tab.inner_text("#sections")
    assert "p1" in tab.inner_text("#sections")


def test_killed_worker_is_reported_and_replaced(server, visit):
    tab = visit(server.address)
    load_example(tab, "goodwin")
    before = set(list_workers(server))
    tab.click("text=Settings")
    tab.fill("#starts", "1000")
    tab.wait_for_selector("#fit:not([disabled])")
    tab.click("#fit")
    tab.wait_for_function("() => document.getElementById('progress').innerText.includes('start')")
    worker = max(set(list_workers(server)) - before)
    os.kill(worker, signal.SIGKILL)
    tab.wait_for_function("() => document.getElementById('progress').innerText.includes('has ended (signal 9)')")
    for pid in list_workers(server):  # including those for short tasks
        os.kill(pid, signal.SIGKILL)
    tab.fill("#starts", "")
    load_example(tab, "logistic")
    run_fit(tab)


def list_workers(server):
    processes = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(server.process.pid)], capture_output=True, text=True
    )
    return [int(line.split()[0]) for line in processes.stdout.splitlines() if "spawn_main" in line]


def test_work_survives_a_restart_of_the_server(visit, tmp_path):
    first = Server()
    try:
        tab = visit(first.address)
        load_example(tab, "logistic")
        run_fit(tab)
        tab.fill("#value-p1", "1.25")
        tab.wait_for_timeout(900)
        first.end(signal.SIGKILL)
    finally:
        first.kill()
    tab.fill("#value-p1", "1.5")
    tab.wait_for_function("() => document.getElementById('banner').innerText.includes('not responding')")
    project = download_by(tab, "Save project")
    tab.wait_for_timeout(700)
    second = Server("--port", str(first.port))
    try:
        tab.wait_for_function(
            "() => document.getElementById('banner').innerText.includes('restarted')", timeout=300_000
        )
        restored_tab = visit(second.address, context=tab.context)
        assert restored_tab.input_value("#value-p1") == "1.5"
        assert "was restored" in restored_tab.inner_text("#banner")
        assert "Estimates" in restored_tab.inner_text("#sections")
        new_tab = visit(second.address)
        assert new_tab.input_value("#equations") == ""
        project.save_as(tmp_path / "p.weakform.json")
        new_tab.set_input_files("#file", tmp_path / "p.weakform.json")
        new_tab.wait_for_selector("#sections .verdict")
        new_tab.wait_for_selector("#charts svg")
        assert new_tab.input_value("#value-p1") == "1.5"
        run_fit(new_tab)
    finally:
        second.end()


def test_two_tabs_fit_simultaneously(server, visit):
    tabs = [visit(server.address), visit(server.address)]
    for tab, name in zip(tabs, ("lynx-hare", "sir"), strict=True):
        load_example(tab, name)
    for tab in tabs:
        tab.click("#fit")
    for tab in tabs:
        tab.wait_for_selector("#sections .verdict", timeout=300_000)
    assert "alpha" in tabs[0].inner_text("#sections")
    assert "beta" in tabs[1].inner_text("#sections")


def test_each_tab_restores_its_own_work(server, visit):
    first = visit(server.address)
    second = visit(server.address, context=first.context)
    load_example(first, "logistic")
    load_example(second)
    first.fill("#value-p1", "0.75")
    for tab in (second, first):
        tab.wait_for_timeout(700)  # the browser keeps it after half a second
        tab.reload()
        tab.wait_for_selector("#charts svg")
    assert "u" in first.input_value("#equations").split("'")[0]
    assert first.input_value("#value-p1") == "0.75"
    assert "hare" in second.input_value("#equations")
    new = visit(server.address, context=first.context)  # continues the work that was changed last
    new.wait_for_selector("#charts svg")
    assert new.input_value("#equations") == first.input_value("#equations")


def test_work_set_aside_can_be_restored(server, visit, tmp_path):
    tab = visit(server.address)
    load_example(tab, "logistic")
    download_by(tab, "Save project").save_as(tmp_path / "p.weakform.json")
    logistic = tab.input_value("#equations")
    load_example(tab)
    tab.set_input_files("#file", tmp_path / "p.weakform.json")
    tab.wait_for_function("was => document.getElementById('equations').value === was", arg=logistic)
    for equations in ("hare", logistic):  # the current work is set aside in exchange
        tab.click("text=Restore it")
        tab.wait_for_function("text => document.getElementById('equations').value.includes(text)", arg=equations)
        tab.wait_for_selector("#fit:not([disabled])")


def test_last_of_two_simultaneous_uploads_wins(server, visit, tmp_path):
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


def test_fit_returns_an_initial_value_for_each_trajectory(server, visit, tmp_path):
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
    run_fit(tab)
    initial = tab.evaluate("import('/page/store.js').then(module => module.store.doc.initial.x)")
    assert initial == pytest.approx([2, 5], abs=0.05)


def test_slider_values_can_be_used_as_a_start(server, visit):
    tab = visit(server.address)
    load_example(tab, "logistic")
    tab.fill("#value-p1", "0.7")
    tab.click("text=Settings")
    tab.check("#begin")
    run_fit(tab)
    assert "start = 0.7" in download_by(tab, "Model file").path().read_text(encoding="utf-8")


def test_page_can_be_used_by_keyboard_alone(server, visit):
    tab = visit(server.address)

    def move_focus_to(selector, key="Tab"):
        for _ in range(60):
            if tab.evaluate("s => document.activeElement && document.activeElement.matches(s)", selector):
                return
            tab.keyboard.press(key)
        raise AssertionError(f"{selector} cannot be reached")

    move_focus_to("#gallery")
    tab.keyboard.type("Michaelis")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#charts svg")
    move_focus_to("#equations")
    tab.keyboard.press("Control+End")
    tab.keyboard.type(" ")
    move_focus_to("#slide-Km")
    tab.keyboard.press("ArrowLeft")
    move_focus_to("#high-Vmax", "Shift+Tab")
    tab.keyboard.type("20")
    tab.wait_for_timeout(600)
    tab.wait_for_selector("#fit:not([disabled])")
    tab.keyboard.press("Control+Enter")
    tab.wait_for_selector("#sections .verdict")
    move_focus_to("#sections .chart svg")
    move_focus_to("#take button", "Shift+Tab")
    with tab.expect_download():
        tab.keyboard.press("Enter")


def test_rewritten_report_keeps_the_keyboard_focus(server, visit):
    tab = visit(server.address)
    load_example(tab, "logistic")
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
def test_page_is_accessible_and_does_not_overflow(server, visit, width, scheme):
    from axe_playwright_python.sync_playwright import Axe

    tab = visit(server.address, width, color_scheme=scheme)
    assert tab.evaluate("document.documentElement.dataset.theme") == scheme

    def check_page():
        violations = Axe().run(tab)
        assert violations.violations_count == 0, violations.generate_report()
        assert tab.evaluate("document.documentElement.scrollWidth") <= width

    check_page()
    load_example(tab, "michaelis-menten")
    check_page()
    run_fit(tab)
    tab.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    check_page()
    type_equations(tab, "S' = ")
    tab.wait_for_selector("#wrong:not(:empty)")
    check_page()


def test_markup_in_a_table_is_never_executed(server, visit, tmp_path):
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
    run_fit(tab)
    assert tab.locator("#sections img, #table img").count() == 0
