"""PEtab: problems are read and fitted, and what is wrong or goes beyond is named."""

import json
from functools import cache

import numpy as np
import pandas as pd
import pytest

from weakform.cli.main import main
from weakform.files.formats.petab import read_petab
from weakform.files.formats.sbml import from_antimony, to_sbml
from weakform.files.formats.translate import TASKS
from weakform.forward.solve import simulate
from weakform.support.errors import ModelError

MODEL = "model m()\n x = 1; y = 1; k = 0.5; c = 0.3; feed = 1;\n x' = feed - k*x;\n y' = k*x - c*y;\nend\n"


@cache
def made():
    """The model as SBML and its measurements, once for all tests: each question to the libraries starts a process."""
    model, rows = from_antimony(MODEL).model, []
    for condition, feed in (("low", 1.0), ("high", 3.0)):
        values = {"k": 0.5, "c": 0.3, "feed": feed}
        t = np.linspace(0, 8, 30)
        u = simulate(model, [values[p] for p in model.parameters], [1.0, 1.0], t).states
        u = u * np.exp(0.02 * np.random.default_rng(1).standard_normal(u.shape))
        for d, name in enumerate(("obs_x", "obs_y")):
            rows += [(name, condition, float(v), float(s)) for v, s in zip(u[:, d], t, strict=True)]
    return to_sbml(MODEL), rows


@pytest.fixture
def here(monkeypatch):
    """The tables are read in this process, which has loaded the library: starting one takes seconds."""

    def ask(task, text, where):
        return json.loads(json.dumps(TASKS[task](text, where)))

    monkeypatch.setattr("weakform.files.formats.petab.ask", ask)


def petab_folder(folder, scale="lin", **change):
    """A small PEtab problem: two conditions that differ in a feed."""
    sbml, rows = made()
    (folder / "model.xml").write_text(sbml)
    columns = ["observableId", "simulationConditionId", "measurement", "time"]
    pd.DataFrame(rows, columns=columns).to_csv(folder / "m.tsv", sep="\t", index=False)
    pd.DataFrame({"conditionId": ["low", "high"], "feed": [1.0, 3.0]}).to_csv(folder / "c.tsv", sep="\t", index=False)
    observables = {
        "observableId": ["obs_x", "obs_y"],
        "observableFormula": ["x", "y"],
        "observableTransformation": ["log", "log"],
        "noiseFormula": ["0.02", "0.02"],
        **change,
    }
    pd.DataFrame(observables).to_csv(folder / "o.tsv", sep="\t", index=False)
    parameters = {
        "parameterId": ["k", "c"],
        "parameterScale": [scale] * 2,
        "lowerBound": [0.01] * 2,
        "upperBound": [5.0] * 2,
        "nominalValue": [0.5, 0.3],
        "estimate": [1, 1],
    }
    pd.DataFrame(parameters).to_csv(folder / "p.tsv", sep="\t", index=False)
    (folder / "problem.yaml").write_text(
        "format_version: 1\nparameter_file: p.tsv\nproblems:\n- sbml_files: [model.xml]\n  condition_files: [c.tsv]\n"
        "  measurement_files: [m.tsv]\n  observable_files: [o.tsv]\n"
    )
    return folder / "problem.yaml"


def rewritten(folder, file, **columns):
    """A table of a problem with columns replaced, dropped (None) or added."""
    table = pd.read_csv(folder / file, sep="\t")
    for name, values in columns.items():
        if values is None:
            table = table.drop(columns=name)
        else:
            table[name] = values
    table.to_csv(folder / file, sep="\t", index=False)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scale", ["lin", "log10"])
def test_petab(tmp_path, scale):
    problem = read_petab(petab_folder(tmp_path, scale))
    assert [q.label for q in problem.data.trajectories] == ["high", "low"]
    assert problem.data.noise == ("lognormal", "lognormal")
    assert problem.file.said("fixed") == {"feed_high": 3.0, "feed_low": 1.0}
    assert problem.file.said("log") == ({"k": True, "c": True} if scale == "log10" else {})
    fit = problem.fit()
    assert fit["k"].value == pytest.approx(0.5, rel=0.05)
    assert fit["c"].value == pytest.approx(0.3, rel=0.05)
    assert fit.goodness.chi_square_p > 1e-4


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param({"observableFormula": ["x + y", "y"]}, "only states themselves", id="a sum"),
        pytest.param({"observableFormula": ["x", "x"]}, "two observables", id="a state twice"),
        pytest.param({"noiseDistribution": ["laplace", "normal"]}, "only normal can be translated", id="Laplace noise"),
    ],
)
@pytest.mark.usefixtures("here")
def test_petab_that_goes_beyond(tmp_path, change, words):
    with pytest.raises(ModelError, match=words):
        read_petab(petab_folder(tmp_path, **change))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("here")
def test_petab_takes_the_row_of_the_condition_that_was_measured(tmp_path):
    path = petab_folder(tmp_path)
    table = pd.read_csv(tmp_path / "m.tsv", sep="\t")
    table[table["simulationConditionId"] == "high"].to_csv(tmp_path / "m.tsv", sep="\t", index=False)
    problem = read_petab(path)
    assert problem.file.said("fixed") == {"feed": 3.0}
    assert problem.fit()["k"].value == pytest.approx(0.5, rel=0.05)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("here")
def test_petab_noise(tmp_path):
    """Formulas of noise parameters, by measurement; parameters with values; parameters to be estimated."""
    path = petab_folder(tmp_path, observableTransformation=["lin", "log10"])
    rewritten(tmp_path, "o.tsv", noiseFormula=["noiseParameter1_obs_x*2 + s", "0.02"])
    rewritten(tmp_path, "m.tsv", noiseParameters=["0.01", "0.02"] * 60)
    table = pd.read_csv(tmp_path / "p.tsv", sep="\t")
    table.loc[2] = ["s", "lin", 0.001, 1.0, 0.005, 0]
    table.to_csv(tmp_path / "p.tsv", sep="\t", index=False)
    data = read_petab(path).data
    assert data.noise == ("gaussian", "lognormal")
    for q in data.trajectories:
        sigma = q.scale * data.sigma
        assert np.allclose(sigma[::2, 0], 0.025)
        assert np.allclose(sigma[1::2, 0], 0.045)
        assert np.allclose(sigma[:, 1], 0.02 * np.log(10))
    rewritten(tmp_path, "p.tsv", estimate=1)
    data = read_petab(path).data
    assert data.sigma is None
    assert "obs_x is to be estimated" in data.notes[-1]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("here")
def test_petab_uniform_priors_are_bounds(tmp_path):
    path = petab_folder(tmp_path, scale="log10")
    rewritten(
        tmp_path,
        "p.tsv",
        objectivePriorType=["uniform", "parameterScaleUniform"],
        objectivePriorParameters=["0.2;0.7", "-1;0"],
    )
    assert read_petab(path).file.said("bounds") == {"k": (0.2, 0.7), "c": (0.1, 1.0)}
    rewritten(tmp_path, "p.tsv", objectivePriorType=None, objectivePriorParameters=["-1;0", "-1;0"])
    assert read_petab(path).file.said("bounds") == {"k": (0.1, 1.0), "c": (0.1, 1.0)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("here")
def test_petab_names_and_definitions(tmp_path):
    """A parameter with a name of ours, and one that the model computes from another."""
    path = petab_folder(tmp_path)
    model = "model m()\n x = 1; y = 1; t = 0.5; c = 0.6*t; feed = 1;\n x' = feed - t*x;\n y' = t*x - c*y;\nend\n"
    (tmp_path / "model.xml").write_text(to_sbml(model))
    rewritten(tmp_path, "p.tsv", parameterId=["t", "c"])
    with pytest.raises(ModelError, match="'c', which the model computes"):
        read_petab(path)
    table = pd.read_csv(tmp_path / "p.tsv", sep="\t")
    table.iloc[:1].to_csv(tmp_path / "p.tsv", sep="\t", index=False)
    problem = read_petab(path)
    assert problem.file.said("bounds") == {"t_": (0.01, 5.0)}
    assert problem.fit()["t_"].value == pytest.approx(0.5, rel=0.05)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("file", "columns", "words"),
    [
        pytest.param(
            "p.tsv",
            {"parameterId": ["k", "cc"]},
            "'cc', which nothing uses. Did you mean 'c'",
            id="an unused parameter",
        ),
        pytest.param("p.tsv", {"parameterScale": ["log2", "lin"]}, "only lin, log, log10", id="an unknown scale"),
        pytest.param("p.tsv", {"estimate": [1, np.nan]}, "must be 0 or 1", id="neither free nor fixed"),
        pytest.param("p.tsv", {"upperBound": [5.0, np.nan]}, "lacks a bound", id="no bound"),
        pytest.param(
            "p.tsv",
            {"objectivePriorType": ["normal", "uniform"]},
            "lacks its parameters",
            id="a prior without parameters",
        ),
        pytest.param("p.tsv", {"objectivePriorType": ["laplace", "normal"]}, "only uniform", id="an unknown prior"),
        pytest.param(
            "o.tsv",
            {"observableTransformation": ["Log10", "lin"]},
            "only lin, log, log10",
            id="an unknown transformation",
        ),
        pytest.param("o.tsv", {"noiseFormula": ["0.1*x", "0.02"]}, "depends on states", id="noise of states"),
        pytest.param("o.tsv", {"noiseFormula": None}, "noiseFormula", id="no noise"),
        pytest.param(
            "o.tsv",
            {"noiseFormula": ["noiseParameter1_obs_x", "0.02"]},
            "lacks its noise parameter",
            id="no noise parameter",
        ),
        pytest.param(
            "m.tsv",
            {"observableId": ["obs_x"] * 119 + ["obs_z"]},
            "'obs_z', which is not an observable",
            id="an unknown observable",
        ),
        pytest.param("m.tsv", {"time": ["soon"] + [1.0] * 119}, "PEtab problem|broken", id="time as text"),
        pytest.param("c.tsv", {"feed": ["k", 1.0]}, "not a number", id="a condition as text"),
    ],
)
@pytest.mark.usefixtures("here")
def test_petab_with_one_thing_wrong(tmp_path, file, columns, words):
    path = petab_folder(tmp_path)
    rewritten(tmp_path, file, **columns)
    with pytest.raises(ModelError, match=words) as caught:
        read_petab(path)
    assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("here")
def test_petab_of_another_version(tmp_path):
    path = petab_folder(tmp_path)
    path.write_text(path.read_text().replace("format_version: 1", "format_version: 2.0.0"))
    with pytest.raises(ModelError, match="version 1 is read"):
        read_petab(path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("here")
def test_petab_that_is_broken(tmp_path):
    path = petab_folder(tmp_path)
    (tmp_path / "m.tsv").unlink()
    with pytest.raises(ModelError, match="not a PEtab problem"):
        read_petab(path)
    with pytest.raises(ModelError, match="no PEtab problem"):
        read_petab(tmp_path / "none.yaml")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("here")
def test_petab_on_the_command_line(tmp_path, capsys):
    path = str(petab_folder(tmp_path))
    assert main(["check", path]) == 0
    assert "30 samples" in capsys.readouterr().out
    assert main(["fit", path, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["parameters"]["k"]["estimate"] == pytest.approx(0.5, rel=0.05)
    assert main(["fit", path, "d.csv"]) == 2
    assert "leave out d.csv" in capsys.readouterr().err
    assert main(["fit", path, "--noise", "poisson"]) == 2
    (tmp_path / "m.txt").write_text("x' = -k*x")
    assert main(["fit", str(tmp_path / "m.txt")]) == 2
    assert "No table is given" in capsys.readouterr().err
