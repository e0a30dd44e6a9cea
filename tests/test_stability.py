"""Files that version 1.0 wrote can be read, and every public name of 1.0 still exists (docs/stability.md)."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import weakform as wf
from weakform.experiments.cell_runner import perform_run
from weakform.experiments.executors import make_local_executor
from weakform.experiments.store import Store
from weakform.experiments.study import read_study
from weakform.experiments.sweep import sweep
from weakform.serve import page_tasks

KEPT = Path(__file__).parent / "kept"
EXPECTED = json.loads((KEPT / "expected.json").read_text())

sys.path.insert(0, str(KEPT))
from make import STUDY, public  # noqa: E402


@pytest.mark.parametrize("name", EXPECTED)
def test_saved_fits_are_read(name):
    fit = wf.FitResult.load(KEPT / f"{name}.json")
    expected = EXPECTED[name]
    assert fit.estimate.tolist() == expected["estimate"]
    assert fit.status.name == expected["status"]
    assert np.array_equal(fit.intervals(), np.array(expected["intervals"]))
    assert fit.model.parameters == tuple(p for p in fit.params)
    trajectory = fit.data.trajectories[0]
    assert np.isfinite(fit.predict(trajectory.times[1:3]).states).all()


def test_studies_are_read_and_resumed(tmp_path):
    shutil.copy(KEPT / "study.sqlite", tmp_path / "study.sqlite")
    (tmp_path / "study.toml").write_text(STUDY.replace("runs = 2", "runs = 3"))
    rows_before = Store(tmp_path / "study.sqlite").rows()
    assert len(rows_before) == 4
    summary = sweep(read_study(tmp_path / "study.toml"), tmp_path / "study.sqlite", make_local_executor(1, perform_run))
    assert (summary.already_done, summary.done, summary.failed) == (4, 2, 0)
    rows_after = Store(tmp_path / "study.sqlite").rows()
    assert len(rows_after) == 6
    assert [row for row in rows_after if row["run"] < 2] == rows_before


def test_projects_of_the_page_are_read(tmp_path):
    shutil.copy(KEPT / "project.weakform.json", tmp_path / "project.json")
    project = page_tasks.open_project(str(tmp_path))
    saved_fit = json.loads((KEPT / "project.weakform.json").read_text())["fits"][0]["saved"]["fit"]
    fit = wf.FitResult.load(project["saved"][0])
    assert fit.estimate.tolist() == saved_fit["estimate"]
    assert fit.status.name == saved_fit["status"]
    assert project["fits"][0]["result"]["success"] == fit.success
    assert "<table" in json.dumps(project["fits"][0]["result"])


def test_public_names_remain():
    public_before = set((KEPT / "public.txt").read_text().split("\n")) - {""}
    assert len(public_before) > 400
    assert not public_before - set(public())
