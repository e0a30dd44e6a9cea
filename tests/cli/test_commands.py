"""The command line as a newcomer uses it: every command works, and every bad file gives one clear message."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import weakform as wf
from support import EXAMPLES
from weakform.cli.main import COMMANDS, build_parser, main
from weakform.files.model_file import read_model

LYNX = """
equations = '''
    hare' = a*hare - b*hare*lynx
    lynx' = -c*lynx + d*hare*lynx
'''
noise = "lognormal"
duration = 20
initial = { hare = 30, lynx = 4 }
[parameters]
a = { bounds = [0, 2], unit = "1/year", truth = 0.5 }
b = { truth = 0.03 }
c = { truth = 0.8 }
d = { truth = 0.02 }
[units]
time = "years"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.toml").write_text(LYNX)
    (tmp_path / "data.csv").write_text((EXAMPLES / "lynx_hare.csv").read_text())
    return tmp_path


def run(*words):
    return main([str(word) for word in words])


def test_version_and_every_help_text_are_printed(capsys):
    for words in (["--version"], ["--help"], *([name, "--help"] for name in COMMANDS)):
        with pytest.raises(SystemExit) as exited:
            main(words)
        assert exited.value.code == 0
        out = capsys.readouterr().out
        assert "weakform" in out
        if words[0] in COMMANDS:
            assert "example: weakform" in out
    assert build_parser().prog == "weakform"


def test_problems_are_listed_as_text_and_json(capsys):
    assert main(["problems"]) == 0
    assert "goodwin" in capsys.readouterr().out
    assert main(["problems", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == set(wf.problems.names())


def test_demo_prints_the_report_and_writes_picture_and_page(folder, capsys):
    assert run("demo", "--problem", "logistic", "--out", folder / "out") == 0
    out = capsys.readouterr().out
    assert "converged" in out
    assert (folder / "out" / "logistic.png").exists()
    assert "Verdict" in (folder / "out" / "logistic.html").read_text()


def test_fit_prints_units_and_writes_report_and_saved_fit(folder, capsys):
    assert run("fit", "model.toml", "data.csv", "--report", "fit.html", "--save", "fit.json", "--profile") == 0
    out = capsys.readouterr().out
    assert "1/year" in out
    assert "Report: fit.html" in out
    assert "weakform fit model.toml data.csv --report fit.html" in (folder / "fit.html").read_text()
    assert wf.FitResult.load("fit.json")["a"].value == pytest.approx(0.54, abs=0.01)


def test_fit_and_check_print_valid_json(folder, capsys):
    assert run("fit", "model.toml", "data.csv", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["converged"] is True
    assert result["parameters"]["a"]["unit"] == "1/year"
    assert result["parameters"]["a"]["interval"][0] < result["parameters"]["a"]["estimate"]
    assert run("check", "model.toml", "data.csv", "--json") == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True


def test_fit_of_a_wrong_model_exits_with_1(folder, capsys):
    problem = wf.problems.get("lotka-volterra")
    q = problem.simulate(M=200, noise=0.03, seed=1).trajectories[0]
    pd.DataFrame({"t": q.times, "u1": q.values[:, 0], "u2": q.values[:, 1]}).to_csv("d.csv", index=False)
    Path("wrong.txt").write_text("u1' = a*u1\nu2' = -c*u2\n")
    assert run("fit", "wrong.txt", "d.csv", "--time-limit", "2") == 1
    assert "does not fit" in capsys.readouterr().out


def test_new_model_file_can_be_checked_and_fitted(folder, capsys):
    assert run("new", "mine.toml") == 0
    read_model("mine.toml")
    assert run("new", "mine.toml") == 2
    assert "already exists" in capsys.readouterr().err
    text = Path("mine.toml").read_text().replace('# prey = "Hare pelts"', 'prey = "hare"\npredator = "lynx"')
    Path("mine.toml").write_text(text)
    assert run("check", "mine.toml", "data.csv") == 0
    assert "Only 21 samples" in capsys.readouterr().out
    assert run("fit", "mine.toml", "data.csv") == 0
    assert "growth" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--report", "--save"])
def test_folder_in_place_of_a_file_is_refused_before_the_fit(folder, capsys, option):
    assert run("fit", "model.toml", "data.csv", option, ".") == 2
    printed = capsys.readouterr()
    assert "is a folder" in printed.err
    assert "estimate" not in printed.out


def test_check_prints_all_errors_and_warnings(folder, capsys):
    parameters = "[parameters]\nr = { start = 9, bounds = [0, 1] }\nK = { start = 50 }\nh = { start = 1 }\n"
    Path("m.toml").write_text('equations = "N\' = r*N*(1 - (N/K)**h)"\n' + parameters)
    t = np.r_[np.linspace(0, 10, 15), 40, 41, 42]
    pd.DataFrame({"t": t, "N": 100 / (1 + 50 * np.exp(-t))}).to_csv("d.csv", index=False)
    assert run("check", "m.toml", "d.csv") == 0
    out = capsys.readouterr().out
    for words in ("Only 18 samples", "A gap between t = 10 and 40", "lognormal", "K, h enter", "start of r, 9"):
        assert words in out
    Path("m.txt").write_text("N' = a*b*N*(1 - N/K)\n")
    x = 100 / (1 + 50 * np.exp(-t))
    x[4] = -999
    pd.DataFrame({"t": t, "N": x}).to_csv("odd.csv", index=False)
    assert run("check", "m.txt", "odd.csv") == 0
    out = capsys.readouterr().out
    assert "row 5, N = -999" in out
    assert "Only the product a·b can be determined" in out
    assert run("check", "m.toml", "none.csv") == 1
    assert "Cannot read none.csv" in capsys.readouterr().out
    Path("m.toml").write_text('equations = "N\' = r*N*(1 - "\n')
    assert run("check", "m.toml", "d.csv") == 1
    assert "Not ready to fit" in capsys.readouterr().out


def test_simulate_writes_a_table_and_refuses_wrong_arguments(folder, capsys):
    assert run("simulate", "model.toml", "--samples", 20, "--out", "s.csv") == 0
    assert len(pd.read_csv("s.csv")) == 21
    assert run("simulate", "model.toml", "--samples", 200, "--noise", 0.05, "--seed", 3, "--out", "n.csv") == 0
    assert run("fit", "model.toml", "n.csv") == 0
    assert run("simulate", "model.toml", "--set", "a=1", "--initial", "hare=1") == 0
    capsys.readouterr()
    for words in (("--set", "a"), ("--set", "z=1"), ("--duration", -1), ("--samples", 0)):
        assert run("simulate", "model.toml", *words) == 2
    err = capsys.readouterr().err
    assert err.count("weakform: ") == 4
    assert "Traceback" not in err


def test_model_file_with_inputs_trajectories_and_priors_is_fitted(folder, capsys):
    text = """
    equations = "T' = k*Q - c*(T - 20)"
    inputs = ["Q"]
    hold = true
    trajectory = "run"
    [columns]
    time = "s"
    T = "Temp"
    Q = "heat"
    [parameters.k]
    local = true
    bounds = [0, 1]
    [parameters.c]
    log = true
    prior = ["lognormal", 0.1, 0.5]
    """
    Path("m.toml").write_text(text)
    t = np.linspace(0, 50, 60)
    Q = np.where(t > 10, 30.0, 0.0)
    rows = []
    for label, k in (("a", 0.1), ("b", 0.2)):
        T = 20 + np.where(t > 10, 30 * k / 0.1 * (1 - np.exp(-0.1 * (t - 10))), 0.0)
        noise = 0.1 * np.random.default_rng(1).standard_normal(len(t))
        rows.append(pd.DataFrame({"run": label, "s": t, "heat": Q, "Temp": T + noise}))
    pd.concat(rows).to_csv("d.csv", index=False)
    assert run("fit", "m.toml", "d.csv", "--json") in (0, 1)
    result = json.loads(capsys.readouterr().out)
    assert result["parameters"]["k_b"]["estimate"] == pytest.approx(0.2, rel=0.05)
    assert result["parameters"]["c"]["estimate"] == pytest.approx(0.1, rel=0.05)


# Tables as laboratories write them.

GOOD = "day,N\n" + "\n".join(f"{t},{100 / (1 + 9 * 2.71828 ** (-0.5 * t)):.4f}" for t in range(20)) + "\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(GOOD, None, id="comma"),
        pytest.param(GOOD.replace(",", ";"), None, id="semicolon"),
        pytest.param(GOOD.replace(",", ";").replace(".", ","), None, id="decimal comma"),
        pytest.param(GOOD.replace(",", "\t"), None, id="tab"),
        pytest.param("\ufeff" + GOOD, None, id="byte order mark"),
        pytest.param("# made by a machine\n" + GOOD, None, id="comment"),
        pytest.param(GOOD.replace("\n", "\r\n"), None, id="Windows"),
        pytest.param(re.sub(r"^(\d+),", lambda m: f"2024-03-{int(m[1]) + 1:02d},", GOOD, flags=re.M), None, id="dates"),
        pytest.param(
            GOOD.replace("\n5,", "\n5,NA#").replace("NA#", "").replace("\n5,", "\n5,"), None, id="missing value"
        ),
        pytest.param(GOOD.replace("day,N", "day,n"), None, id="other case"),
        pytest.param(GOOD.replace("day,N", "day,N,M"), "2 values for 3 columns", id="short rows"),
        pytest.param(GOOD.replace(".", ","), "decimal signs", id="commas twice"),
        pytest.param(GOOD.replace("\n7,", "\n7,about "), "line 9, column 'N'", id="a word"),
        pytest.param(GOOD.replace("\n7,", "\nseven,"), "line 9, column 'day'", id="a word for a time"),
        pytest.param(
            re.sub(r"^(\d+),", lambda m: f"{int(m[1]) + 1}/3/2024,", GOOD, flags=re.M),
            "If it is a date",
            id="other dates",
        ),
        pytest.param("day,N\n0,1\n", "At least 3 samples", id="one row"),
        pytest.param("day,N\n", "needs a header row", id="header alone"),
        pytest.param("", "needs a header row", id="empty"),
        pytest.param("1,2\n3,4\n", "must be a header", id="no header"),
        pytest.param("day,N,N\n1,2,3\n", "'N' occurs twice", id="column twice"),
        pytest.param(
            ",".join(["day"] + [f"c{k}" for k in range(1000)]) + "\n" + ",".join("1" * 1001) + "\n",
            "No column 'N'",
            id="a thousand columns",
        ),
        pytest.param("day,N\n" + "\n".join(f"{t % 10},{t}" for t in range(20)), "begin again", id="two experiments"),
        pytest.param("day,N\n" + "\n".join(f"{t},3" for t in range(20)), "never varies", id="constant"),
        pytest.param("day,N\n0,1\0\n", "zero bytes", id="zero byte"),
    ],
)
def test_table_is_read_or_refused_with_the_reason(text, words, folder, capsys):
    Path("m.txt").write_text("N' = r*N*(1 - N/K)\n")
    Path("d.csv").write_bytes(text.encode("utf-8"))
    code = run("fit", "m.txt", "d.csv", "--time", "day") if "day" in text else run("fit", "m.txt", "d.csv")
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    if words is None:
        assert code == 0, err
        assert "converged" in out
    else:
        assert code == 2
        assert words in err
        assert err.startswith("weakform: ")
        assert len(err) < 1200


def test_parquet_and_excel_are_read_and_damaged_files_are_refused(folder, capsys):
    Path("m.txt").write_text("N' = r*N*(1 - N/K)\n")
    frame = pd.DataFrame({"day": np.arange(20.0), "N": 100 / (1 + 9 * np.exp(-0.5 * np.arange(20)))})
    frame.to_parquet("d.parquet")
    frame.to_excel("d.xlsx", index=False)
    for name in ("d.parquet", "d.xlsx"):
        assert run("fit", "m.txt", name) == 0
        Path(f"bad{Path(name).suffix}").write_bytes(b"not a table")
        assert run("fit", "m.txt", f"bad{Path(name).suffix}") == 2
    Path("b.csv").write_bytes(bytes(range(256)) * 4)
    assert run("fit", "m.txt", "b.csv") == 2
    assert run("fit", "m.txt", ".") == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(
            'equations = "N\' = r*N*(1 - N/K)"\n[parameters.q]\nstart = 1', "unknown key 'q'", id="unknown parameter"
        ),
        pytest.param(
            'equations = "N\' = rate*N*(1 - N/K)"\n[parameters.rat]\nstart = 1',
            "Did you mean 'rate'",
            id="misspelt parameter",
        ),
        pytest.param(
            'equations = "N\' = r*N*(1 - N/K)"\n[parameters.r]\nstrat = 1', "Did you mean 'start'", id="misspelt key"
        ),
        pytest.param('equations = "N\' = r*N*(1 - N/K"', "expected ')'", id="open bracket"),
        pytest.param('equation = "N\' = r*N"', "Did you mean 'equations'", id="equation"),
        pytest.param("equations = 3", "needs either equations", id="equations as a number"),
        pytest.param("equations = \"N' = r*N\"\nnoise = 'big'", "noise must be", id="unknown noise"),
        pytest.param("equations = \"N' = r*N\"\nnoise = {M = 'gaussian'}", "unknown key 'M'", id="noise of no state"),
        pytest.param("equations = \"N' = r*N\"\nsigma = 'x'", "finite number", id="sigma as text"),
        pytest.param('equations = "N\' = r*N"\n[parameters.r]\nbounds = [1]', "[smallest, largest]", id="one bound"),
        pytest.param('equations = "N\' = r*N"\n[parameters.r]\nprior = 3', "prior must be", id="prior as a number"),
        pytest.param('equations = "N\' = r*N"\n[parameters.r]\ntied = 3', "tied must be text", id="tied as a number"),
        pytest.param('equations = "N\' = r*N"\n[parameters.r]\nlog = 3', "true or false", id="log as a number"),
        pytest.param("equations = \"N' = r*N\"\ninputs = 'N'", "list of names", id="inputs as text"),
        pytest.param("equations = [", "not valid TOML", id="not TOML"),
        pytest.param("a\0b", "not valid TOML", id="zero byte"),
    ],
)
def test_invalid_model_file_is_refused_with_the_reason(text, words, folder, capsys):
    Path("bad.toml").write_text(text)
    assert run("fit", "bad.toml", "data.csv") == 2
    err = capsys.readouterr().err
    assert words in err
    assert "bad.toml" in err


def test_completion_script_is_valid_for_every_shell(capsys):
    for shell in ("bash", "zsh", "fish"):
        assert run("completion", shell) == 0
        out = capsys.readouterr().out
        assert "sweep" in out
        assert "report" in out
    script = subprocess.run(
        ["bash", "-n"],
        input=subprocess.run(
            [sys.executable, "-m", "weakform", "completion", "bash"], capture_output=True, text=True
        ).stdout,
        capture_output=True,
        text=True,
    )
    assert script.returncode == 0, script.stderr


def test_nothing_is_written_to_stderr_in_a_pipe_even_if_it_closes(folder):
    command = f"{sys.executable} -m weakform problems | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stderr == ""
    done = subprocess.run(
        [sys.executable, "-m", "weakform", "fit", "model.toml", "data.csv", "--profile"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert done.stderr == ""


def test_study_is_run_summarised_exported_and_drawn(folder, capsys):
    Path("s.toml").write_text(
        "runs = 2\nmethods = ['wls']\n[[cells]]\nproblems = ['logistic']\nnoise = [0.05]\nsamples = [40]\n"
    )
    assert run("sweep", "s.toml", "--out", "s.sqlite", "--workers", 1) == 0
    assert run("summary", "s.sqlite") == 0
    assert "| logistic | 0.05 | 40 |" in capsys.readouterr().out
    assert run("summary", "s.sqlite", "--export", "s.parquet") == 0
    assert len(pd.read_parquet("s.parquet")) == 4
    assert run("summary", "s.sqlite", "--export", "s.txt") == 2
    assert run("figures", "s.sqlite", "--out", "f", "--format", "png", "--runs-only") == 0
    assert list(Path("f").glob("*.png"))


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no devices")
def test_devices_are_refused(tmp_path, capsys):
    (tmp_path / "m.txt").write_text("x' = -k*x")
    (tmp_path / "d.csv").write_text("t,x\n0,1\n")
    assert main(["fit", str(tmp_path / "m.txt"), "/dev/zero"]) == 2
    assert main(["fit", "/dev/zero", str(tmp_path / "d.csv")]) == 2
    assert capsys.readouterr().err.count("device or a pipe") == 2


# x is measured with an offset, y with a factor.
PARTLY = "x' = -k*x\ny' = k*x - g*y\nfy = 2*y\nfx = x + s\nx(0) = 5\ny(0) = 0\n"


def write_partly(folder, header):
    """Write the model and a table of it whose three columns have the names in `header`."""
    t = np.linspace(0, 8, 30)
    y = 5 * 0.9 / 0.6 * (np.exp(-0.3 * t) - np.exp(-0.9 * t))
    noise = 0.02 * np.random.default_rng(0).standard_normal((2, 30))
    rows = "\n".join(f"{a:g},{b:.5f},{c:.5f}" for a, b, c in zip(t, 2 * y + noise[0], noise[1], strict=True))
    (folder / "partly.txt").write_text(PARTLY)
    (folder / "partly.csv").write_text(f"{header}\n{rows}\n")


def test_columns_that_are_not_in_the_model_are_named(folder, capsys):
    write_partly(folder, "t,fy,weight")
    assert run("fit", "partly.txt", "partly.csv") == 0
    assert "Columns that are not in the model were left out: weight." in " ".join(capsys.readouterr().out.split())
    write_partly(folder, "t,fy,f_x")
    assert run("check", "partly.txt", "partly.csv") == 1
    assert "Did you mean 'fx'?" in capsys.readouterr().out


def test_json_of_a_partly_measured_system_has_initial_values(folder, capsys):
    write_partly(folder, "t,fy,weight")
    assert run("fit", "partly.txt", "partly.csv", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert list(result["sigma"]) == ["fy"]
    assert result["initial"]["x"] == {"estimate": 5.0, "error": 0.0, "interval": [5.0, 5.0], "note": "given"}
    assert result["alternatives"] == []


def test_simulated_table_begins_at_the_initial_values_of_the_model(folder, capsys):
    (folder / "partly.txt").write_text(PARTLY)
    words = ("--set", "k=0.9", "--set", "g=0.3", "--set", "s=1", "--duration", "8", "--samples", "4")
    assert run("simulate", "partly.txt", *words, "--columns", "fy, x") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["time,fy,x", "0,0,5"]
    assert run("simulate", "partly.txt", *words, "--columns", "fz") == 2
    assert "--columns: 'fz' is not one of x, y, fy, fx." in capsys.readouterr().err


@pytest.fixture
def yeast(tmp_path):
    (tmp_path / "yeast.txt").write_text("yeast' = r*yeast*(1 - yeast/K)")
    return [str(tmp_path / "yeast.txt"), str(EXAMPLES / "yeast.csv")]


def test_options_fix_and_bound_parameters(yeast, capsys):
    assert main(["fit", *yeast, "--fix", "K=665", "--bounds", "r=0,2", "--log", "r", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)["parameters"]
    assert result["K"]["estimate"] == 665
    assert 0.5 < result["r"]["estimate"] < 0.6


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--fix", "q=1"], "'q' is not a parameter"),
        (["--fix", "r"], "takes name=value"),
        (["--bounds", "r=1"], "takes name=low,high"),
        (["--log", "rr"], "Did you mean 'r'"),
        (["--random", "r"], "needs at least 3 subjects"),
    ],
)
def test_wrong_option_about_a_parameter_is_refused(yeast, capsys, words, message):
    assert main(["fit", *yeast, *words]) == 2
    assert message in capsys.readouterr().err


def test_predict_prints_or_writes_a_table(yeast, capsys, tmp_path):
    assert main(["predict", *yeast, "--to", "24", "--samples", "4"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[0] == "time,yeast,yeast_lower,yeast_upper"
    assert len(rows) == 6
    t, value, low, high = map(float, rows[-1].split(","))
    assert t == 24
    assert low < value < high
    assert main(["predict", *yeast, "--out", str(tmp_path / "p.csv")]) == 0
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 102
    assert main(["predict", *yeast, "--to", "-5"]) == 2


def test_trajectory_is_chosen_by_label_or_number(folder, capsys):
    rng = np.random.default_rng(0)
    times = np.linspace(0, 4, 40)
    rows = [
        f"{label},{t},{start * np.exp(-t) + 0.01 * rng.standard_normal()}"
        for label, start in (("low", 1.0), ("high", 5.0))
        for t in times
    ]
    (folder / "decay.txt").write_text("x' = -k*x\n")
    (folder / "decay.csv").write_text("\n".join(["id,time,x", *rows]) + "\n")

    def predict_first_value(*words):
        assert run("predict", "decay.txt", "decay.csv", "--trajectory", "id", "--samples", "2", *words) == 0
        return float(capsys.readouterr().out.splitlines()[1].split(",")[1])

    low, high = predict_first_value(), predict_first_value("--of", "high")
    assert low < 2 < high
    assert predict_first_value("--of", "0") == low
    assert predict_first_value("--of", "1") == high
    assert run("design", "decay.txt", "decay.csv", "--trajectory", "id", "--of", "1") == 0
    capsys.readouterr()
    assert run("predict", "decay.txt", "decay.csv", "--trajectory", "id", "--of", "2") == 2
    assert "number from 0, or a label" in capsys.readouterr().err


def test_column_of_another_name_is_used_with_a_note(folder, capsys):
    values = 0.9 ** np.arange(30) + 0.01 * np.random.default_rng(0).standard_normal(30)
    (folder / "one.txt").write_text("x' = -k*x\n")
    (folder / "one.csv").write_text("zeit,biomass\n" + "".join(f"{t},{x}\n" for t, x in enumerate(values)))
    assert run("fit", "one.txt", "one.csv") == 0
    assert "The column 'biomass' was taken for x, the only state." in " ".join(capsys.readouterr().out.split())


def test_measured_first_column_is_not_used_as_the_time(folder, capsys):
    rows = (folder / "data.csv").read_text().splitlines()
    (folder / "data.csv").write_text("\n".join(row.split(",", 1)[1] for row in rows))
    assert run("fit", "model.toml", "data.csv") == 2
    err = " ".join(capsys.readouterr().err.split())
    assert "the column 'hare' is measured, as hare of the model, and cannot be the time as well" in err
    assert "Traceback" not in err


def test_repeats_in_several_columns_give_the_same_fit_as_in_rows(folder, capsys):
    t = np.arange(12.0)
    repeats = 5 * np.exp(-0.3 * t) + 0.05 * np.random.default_rng(0).standard_normal((2, 12))
    (folder / "two.csv").write_text(
        "t,OD_1,OD_2\n" + "".join(f"{a:g},{b:.5f},{c:.5f}\n" for a, b, c in zip(t, *repeats, strict=True))
    )
    (folder / "two.toml").write_text('equations = "OD\' = -k*OD"\n[columns]\nOD = ["OD_1", "OD_2"]\n')
    assert run("fit", "two.toml", "two.csv", "--json") == 0
    result = json.loads(capsys.readouterr().out)["parameters"]["k"]
    rows = [f"{a:g},{x:.5f}\n" for a, *each in zip(t, *repeats, strict=True) for x in each]
    (folder / "long.csv").write_text("t,OD\n" + "".join(rows))
    (folder / "one.txt").write_text("OD' = -k*OD\n")
    assert run("fit", "one.txt", "long.csv", "--json") == 0
    assert json.loads(capsys.readouterr().out)["parameters"]["k"]["estimate"] == pytest.approx(result["estimate"])
    (folder / "two.toml").write_text('equations = "OD\' = -k*OD"\n[columns]\nOD = ["OD_1", 2]\n')
    assert run("fit", "two.toml", "two.csv") == 2
    assert "OD must be a column, or a list of columns" in capsys.readouterr().err


def test_into_without_doses_is_refused(folder, capsys):
    assert run("fit", "model.toml", "data.csv", "--into", "hare") == 2
    assert "give the table with --doses FILE" in capsys.readouterr().err


def test_report_with_the_suffix_of_another_format_is_refused(folder, capsys):
    assert run("fit", "model.toml", "data.csv", "--report", "fit.pdf") == 2
    assert "give a name such as fit.html" in capsys.readouterr().err
