"""The settings of the page: model file, command and script give the same fit; wrong settings and cells are named."""

import json
import subprocess
import sys

import numpy as np
import pytest

import weakform as wf
from weakform.serve import examples, page_tasks, uploaded_tables
from weakform.serve.page_settings import PageSettings


def write_example(name, tmp_path):
    example = page_tasks.open_example(name)
    (tmp_path / example["file"]).write_text(example["text"], encoding="utf-8")
    return {**example["setup"], "file": example["file"]}, tmp_path / example["file"]


def fit_settings(setup, table, tmp_path):
    reports = []
    page_tasks.run_fit(
        setup, str(table), str(tmp_path / "fit.json"), lambda kind, what: reports.append(what), lambda: False
    )
    return wf.FitResult.load(tmp_path / "fit.json"), reports


@pytest.mark.parametrize("name", [pytest.param("lynx-hare", marks=pytest.mark.slow), "pk-one"])
def test_command_and_script_give_the_same_numbers(name, tmp_path):
    setup, table = write_example(name, tmp_path)
    setup |= {"seed": 4, "starts": 3}
    fit, _ = fit_settings(setup, table, tmp_path)
    settings = PageSettings.from_request(setup)
    (tmp_path / "model.toml").write_text(settings.file_text, encoding="utf-8")
    (tmp_path / "fit.py").write_text(settings.write_script(table), encoding="utf-8")
    command = settings.command.replace("weakform", f"{sys.executable} -m weakform", 1) + " --json"
    # With exec the shell becomes the command, so that a timeout ends the command and not only the shell.
    process = subprocess.run(f"exec {command}", shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    parameters = json.loads(process.stdout)["parameters"]
    assert [parameters[p]["estimate"] for p in fit.model.parameters] == list(fit.estimate)
    code = (tmp_path / "fit.py").read_text(encoding="utf-8") + "\nprint([float(v) for v in fit.estimate])\n"
    process = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout.splitlines()[-1]) == list(fit.estimate)


def test_names_and_equations_cannot_escape_their_quotes(tmp_path):
    """Names and texts of a table cannot end the quotes of a model file or of a script."""
    table = tmp_path / "data.csv"
    column = 'x"""\n[parameters.k]\nfixed = 1'.replace("\n", " ")
    table.write_text(
        f'time,"{column.replace(chr(34), chr(34) * 2)}"\n' + "".join(f"{t},{np.exp(-t):.5f}\n" for t in range(9))
    )
    equations = "x' = -k*x # ''' \"\"\" \\ import os"
    settings = PageSettings.from_request(
        {"equations": equations, "columns": {"x": column, "time": "time"}, "file": "../../etc/passwd"}
    )
    assert settings.file == "passwd"
    assert settings.build_model_file().columns["x"] == column
    assert "fixed" not in settings.build_model_file().said("fixed")
    compile(settings.write_script(table), "script", "exec")
    assert f"{column!r}" in settings.write_script(table)


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({}, "equations"),
        ({"equations": 3}, "equations"),
        ({"equations": "x' = -k*x", "method": "wendi"}, "no method"),
        ({"equations": "x' = -k*x", "seed": -1}, "whole number"),
        ({"equations": "x' = -k*x", "time_limit": 1e9}, "time limit"),
        ({"equations": "x' = -k*x", "parameters": {"k": {"bounds": ["a", 1]}}}, "number"),
        ({"equations": "x' = -k*x", "columns": {"x": 3}}, "columns"),
        ({"equations": "x' = -k*x", "starts": 100_000}, "number of starts"),
    ],
)
def test_wrong_settings_are_refused(wrong, expected):
    with pytest.raises(wf.WeakformError, match=expected):
        PageSettings.from_request(wrong)


def test_settings_without_time_column_are_refused(tmp_path):
    setup, _ = write_example("pk-one", tmp_path)
    with pytest.raises(wf.WeakformError, match="No column is the time"):
        PageSettings.from_request(setup | {"columns": {**setup["columns"], "time": ""}})


def test_every_example_passes_the_check(tmp_path):
    for entry in examples.list_examples():
        if entry["name"] in ("hindmarsh-rose", "goodwin"):  # each takes seconds
            continue
        setup, table = write_example(entry["name"], tmp_path)
        assert all(line == line.strip() for line in setup["equations"].splitlines())
        assert page_tasks.check_settings(setup, str(table))["wrong"] == []
    with pytest.raises(wf.ModelError, match="Did you mean 'lorenz'"):
        examples.open_example("lorenzz")


def test_roles_and_units_of_columns_are_guessed(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,day,hare (thousands),lynx,remark\n" + "".join(f"a,{k},{10 + k},{k},fine\n" for k in range(20)))
    description = uploaded_tables.describe_table(path)
    assert [c["role"] for c in description["columns"]] == ["trajectory", "time", "measured", "measured", ""]
    assert description["columns"][2]["unit"] == "thousands"
    assert description["rows"] == 20


def test_suspicious_cells_are_listed_by_row(tmp_path):
    path = tmp_path / "t.csv"
    rows = [[k, 30 + k, 4 + k] for k in range(30)]
    rows[16][1] = -999
    rows[20][2] = "broken"
    rows[25][1] = 1e9
    path.write_text("year,hare,lynx\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    texts = [p["text"] for p in uploaded_tables.describe_table(path)["problems"]]
    assert texts == [
        "Row 17, hare = −999 may stand for a missing value",
        "Row 21, lynx = broken is not a number",
        "Row 26, hare = 1000000000 is far from the other values",
    ]


def test_examples_have_no_suspicious_cells(tmp_path):
    for entry in examples.list_examples():
        _, table = write_example(entry["name"], tmp_path)
        assert uploaded_tables.describe_table(table)["problems"] == [], entry["name"]


def test_missing_codes_and_unmeasured_columns_are_applied(tmp_path):
    table = tmp_path / "data.csv"
    t = np.arange(30.0)
    x = np.exp(-0.1 * t)
    x[7] = -999
    table.write_text("t,x,y\n" + "".join(f"{a},{b:.8f},{b:.8f}\n" for a, b in zip(t, x, strict=True)))
    settings = PageSettings.from_request(
        {"equations": "x' = -k*x\ny' = -k*y\ny(0) = 1", "missing": [-999], "columns": {"y": ""}}
    )
    data = settings.read_dataset(table)
    assert data.names == ("x",)
    assert 7.0 not in data.trajectories[0].times
    assert data.samples == 29
    assert PageSettings.from_request({**vars(settings), "inputs": ()}).file_text == settings.file_text
