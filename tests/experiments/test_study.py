"""Definitions of studies: seeds and cells, and one clear error for every mistake in a file."""

import sqlite3
from contextlib import closing

import pytest

from support import SMALL, inside, toml
from weakform.experiments.store import Store, StoreError
from weakform.experiments.study import Cell, compute_run_seed, list_built_in_studies, read_study
from weakform.experiments.summary import summarise
from weakform.experiments.sweep import sweep
from weakform.support.errors import ModelError


def test_all_methods_of_a_run_share_its_seed():
    study = read_study(SMALL)
    by_run = {}
    for run in study.runs:
        by_run.setdefault((run.cell, run.number), set()).add(run.seed)
    assert all(len(seeds) == 1 for seeds in by_run.values())
    assert len({next(iter(s)) for s in by_run.values()}) == len(by_run)
    assert study.methods == ("start", "wls", "mle")


def test_seeds_of_different_runs_differ():
    cells = [Cell("a", "gaussian", r, M, 1.0) for r in (0.01, 0.1) for M in (10, 100)]
    assert len({compute_run_seed(0, c, k) for c in cells for k in range(100)}) == 400


@pytest.mark.parametrize("name", list_built_in_studies())
def test_built_in_study_is_valid(name):
    assert len(read_study(name).runs) > 100


MODEL = """
equations = "N' = r*N*(1 - N/K)"
noise = "gaussian"
duration = 10
initial = { N = 0.1 }
[parameters]
r = { truth = 1.0, bounds = [0, 5] }
K = { truth = 2.0, bounds = [0.5, 9] }
"""


def test_study_of_a_model_file_stores_the_text_of_the_model(tmp_path):
    (tmp_path / "mine.toml").write_text(MODEL)
    study = {**SMALL, "runs": 2, "cells": [{"problems": ["mine.toml"], "noise": [0.02], "samples": [50]}]}
    (tmp_path / "study.toml").write_text(toml(study))
    outcome = sweep(read_study(tmp_path / "study.toml"), tmp_path / "s", inside)
    assert outcome.failed == 0
    (tmp_path / "mine.toml").unlink()  # the store keeps its text
    assert {s.method for s in summarise(Store(tmp_path / "s"))} == {"start", "wls", "mle"}
    assert max(s.coefficient_error for s in summarise(Store(tmp_path / "s")) if s.method == "mle") < 0.2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param({"runs": 0}, "whole number, at least 1", id="no runs"),
        pytest.param({"runs": 10**9}, "more than 10,000,000", id="too many runs"),
        pytest.param({"rnus": 3}, "Did you mean 'runs'", id="misspelt key"),
        pytest.param({"methods": ["mel"]}, "Did you mean 'mle'", id="misspelt method"),
        pytest.param(
            {"methods": {"x": {"method": "mle", "options": {"tolerance": 3}}}}, "between 0 and 1", id="options"
        ),
        pytest.param({"start": "best"}, "'random' or 'default'", id="start"),
        pytest.param({"cells": []}, "at least one", id="no cells"),
        pytest.param(
            {"cells": [{"problems": ["lorentz"], "noise": 0.1, "samples": 50}]},
            "Did you mean 'lorenz'",
            id="misspelt problem",
        ),
        pytest.param(
            {"cells": [{"problems": ["lorenz"], "noise": -0.1, "samples": 50}]}, "at least 0", id="negative noise"
        ),
        pytest.param({"cells": [{"problems": ["lorenz"], "noise": 0.1, "samples": 3}]}, "at least 7", id="few samples"),
        pytest.param(
            {"cells": [{"problems": ["lorenz"], "noise": 0.1, "durations": [3]}]}, "step must be", id="no step"
        ),
        pytest.param(
            {"cells": [{"problems": ["lorenz"], "noise": 0.1, "samples": 50}] * 2}, "occurs twice", id="cell twice"
        ),
        pytest.param(
            {"cells": [{"problems": ["none.toml"], "noise": 0.1, "samples": 50}]}, "no model file", id="no model file"
        ),
        pytest.param(
            {"cells": [{"problems": ["lorenz"], "noise": 0.1, "samples": 50, "kind": "cauchy"}]},
            "kind must be",
            id="unknown noise",
        ),
    ],
)
def test_invalid_study_is_refused_with_the_reason(change, words):
    with pytest.raises(ModelError, match=words):
        read_study({**SMALL, **change})


def test_unusable_study_file_or_store_is_refused_with_the_reason(tmp_path):
    with pytest.raises(ModelError, match="The built-in studies are accuracy, edges, lorenz, paper"):
        read_study("lorens")
    (tmp_path / "bad.toml").write_text("runs = = 3")
    with pytest.raises(ModelError, match=r"not valid TOML.*line 1"):
        read_study(tmp_path / "bad.toml")
    with pytest.raises(StoreError, match="no study file"):
        Store(tmp_path / "none.sqlite")
    (tmp_path / "text.sqlite").write_text("not a database, " * 100)
    with pytest.raises(StoreError, match="cannot be read as a study"):
        Store(tmp_path / "text.sqlite")
    with closing(sqlite3.connect(tmp_path / "other.sqlite")) as db:
        db.execute("CREATE TABLE something (x)")
    with pytest.raises(StoreError, match="is a database, but not a study file"):
        Store(tmp_path / "other.sqlite")
    with pytest.raises(StoreError, match="no folder"):
        sweep(read_study(SMALL), tmp_path / "none" / "s.sqlite", inside)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("../evil", id="above"),
        pytest.param("/evil", id="absolute"),
        pytest.param("", id="empty"),
        pytest.param(".hidden", id="hidden"),
        pytest.param(3, id="number"),
    ],
)
def test_name_of_a_study_cannot_point_outside_its_folder(name):
    cell = {"problems": ["logistic"], "noise": [0.1], "samples": [32]}
    study = {"name": name, "runs": 1, "methods": ["wls"], "cells": [cell]}
    with pytest.raises(ModelError, match="name of a file"):
        read_study(study)
