"""What the page sets is a model file, a command and a script, and all give the same fit."""

import json
import subprocess
import sys

import numpy as np
import pytest

import weakform as wf
from weakform.serve import examples, page_tasks, uploaded_tables
from weakform.serve.page_settings import Setup


def taken(name, tmp_path):
    found = page_tasks.take(name)
    (tmp_path / found["file"]).write_text(found["text"], encoding="utf-8")
    return {**found["setup"], "file": found["file"]}, tmp_path / found["file"]


def fitted(setup, table, tmp_path):
    told = []
    page_tasks.run_fit(
        setup, str(table), str(tmp_path / "fit.json"), lambda kind, what: told.append(what), lambda: False
    )
    return wf.FitResult.load(tmp_path / "fit.json"), told


@pytest.mark.parametrize("name", [pytest.param("lynx-hare", marks=pytest.mark.slow), "pk-one"])
def test_command_and_script_give_the_same_numbers(name, tmp_path):
    setup, table = taken(name, tmp_path)
    setup |= {"seed": 4, "starts": 3}
    fit, _ = fitted(setup, table, tmp_path)
    made = Setup.of(setup)
    (tmp_path / "model.toml").write_text(made.file_text, encoding="utf-8")
    (tmp_path / "fit.py").write_text(made.script(table), encoding="utf-8")
    command = made.command.replace("weakform", f"{sys.executable} -m weakform", 1) + " --json"
    # With exec the shell becomes the command, so that a timeout ends the command and not only the shell.
    done = subprocess.run(f"exec {command}", shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    told = json.loads(done.stdout)["parameters"]
    assert [told[p]["estimate"] for p in fit.model.parameters] == list(fit.estimate)
    code = (tmp_path / "fit.py").read_text(encoding="utf-8") + "\nprint([float(v) for v in fit.estimate])\n"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == list(fit.estimate)


def test_hostile_words_stay_words(tmp_path):
    """Names and texts of a table cannot leave the quotes of a model file or of a script."""
    table = tmp_path / "data.csv"
    column = 'x"""\n[parameters.k]\nfixed = 1'.replace("\n", " ")
    table.write_text(
        f'time,"{column.replace(chr(34), chr(34) * 2)}"\n' + "".join(f"{t},{np.exp(-t):.5f}\n" for t in range(9))
    )
    equations = "x' = -k*x # ''' \"\"\" \\ import os"
    made = Setup.of({"equations": equations, "columns": {"x": column, "time": "time"}, "file": "../../etc/passwd"})
    assert made.file == "passwd"
    assert made.model().columns["x"] == column
    assert "fixed" not in made.model().said("fixed")
    compile(made.script(table), "script", "exec")
    assert f"{column!r}" in made.script(table)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({}, "equations"),
        ({"equations": 3}, "equations"),
        ({"equations": "x' = -k*x", "method": "wendi"}, "No method"),
        ({"equations": "x' = -k*x", "seed": -1}, "whole number"),
        ({"equations": "x' = -k*x", "time_limit": 1e9}, "time limit"),
        ({"equations": "x' = -k*x", "parameters": {"k": {"bounds": ["a", 1]}}}, "number"),
        ({"equations": "x' = -k*x", "columns": {"x": 3}}, "columns"),
        ({"equations": "x' = -k*x", "starts": 100_000}, "Starts"),
    ],
)
def test_what_a_page_sends_is_checked(wrong, says):
    with pytest.raises(wf.WeakformError, match=says):
        Setup.of(wrong)


def test_a_column_that_is_not_time_is_not_taken_for_it(tmp_path):
    setup, _ = taken("pk-one", tmp_path)
    with pytest.raises(wf.WeakformError, match="No column is time"):
        Setup.of(setup | {"columns": {**setup["columns"], "time": ""}})


def test_every_model_of_the_gallery_fits_its_data(tmp_path):
    for entry in examples.listed():
        if entry["name"] in ("hindmarsh-rose", "goodwin"):  # seconds each
            continue
        setup, table = taken(entry["name"], tmp_path)
        assert all(line == line.strip() for line in setup["equations"].splitlines())
        assert page_tasks.check(setup, str(table))["wrong"] == []
    with pytest.raises(wf.ModelError, match="Did you mean 'lorenz'"):
        examples.opened("lorenzz")


def test_guesses_of_columns(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,day,hare (thousands),lynx,remark\n" + "".join(f"a,{k},{10 + k},{k},fine\n" for k in range(20)))
    found = uploaded_tables.look(path)
    assert [c["role"] for c in found["columns"]] == ["trajectory", "time", "measured", "measured", ""]
    assert found["columns"][2]["unit"] == "thousands"
    assert found["rows"] == 20


def test_odd_cells_are_named_by_their_row(tmp_path):
    path = tmp_path / "t.csv"
    rows = [[k, 30 + k, 4 + k] for k in range(30)]
    rows[16][1] = -999
    rows[20][2] = "broken"
    rows[25][1] = 1e9
    path.write_text("year,hare,lynx\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    said = [p["text"] for p in uploaded_tables.look(path)["problems"]]
    assert said == [
        "row 17, hare = −999 may stand for a missing value",
        "row 21, lynx = broken is not a number",
        "row 26, hare = 1000000000 lies far from the others",
    ]


def test_right_tables_have_no_problems(tmp_path):
    for entry in examples.listed():
        _, table = taken(entry["name"], tmp_path)
        assert uploaded_tables.look(table)["problems"] == [], entry["name"]


def test_missing_numbers_and_columns_left_out(tmp_path):
    table = tmp_path / "data.csv"
    t = np.arange(30.0)
    x = np.exp(-0.1 * t)
    x[7] = -999
    table.write_text("t,x,y\n" + "".join(f"{a},{b:.8f},{b:.8f}\n" for a, b in zip(t, x, strict=True)))
    made = Setup.of({"equations": "x' = -k*x\ny' = -k*y\ny(0) = 1", "missing": [-999], "columns": {"y": ""}})
    data = made.data(table)
    assert data.names == ("x",)
    assert 7.0 not in data.trajectories[0].times
    assert data.samples == 29
    assert Setup.of({**vars(made), "inputs": ()}).file_text == made.file_text
