"""PEtab: the official test suite passes, gradients are right, problems are fitted, and errors name their cause."""

import csv
import json
import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import yaml

import weakform as wf
from support import EXAMPLES
from weakform.cli.main import main
from weakform.files.formats.translation import TASKS
from weakform.files.petab.maximum_likelihood import _screen_draws
from weakform.files.petab.petab_objective import PetabObjective
from weakform.files.petab.petab_priors import PRIOR_ARGUMENTS, PetabPrior
from weakform.support.errors import FitError, ModelError

pytestmark = pytest.mark.usefixtures("translate_in_process")

SUITES = Path(__file__).parent.parent / "data" / "petab"
BERTOZZI = EXAMPLES / "bertozzi" / "problem.yaml"
CASES = sorted(path.parent for version in ("v1", "v2") for path in SUITES.glob(f"{version}/*/_*_solution.yaml"))


@pytest.fixture(autouse=True)
def translate_in_process(request, monkeypatch):
    """Read the tables in this process: a child process for each would take seconds."""
    if "own_process" in request.node.name:
        return

    def run(task, text, where):
        return json.loads(json.dumps(TASKS[task](text, where)))

    monkeypatch.setattr("weakform.files.petab.petab_problem.run_in_subprocess", run)


def yaml_of(folder):
    """Return the YAML file of a case of the suite."""
    return folder / f"_{folder.name}.yaml"


@cache
def table(path):
    """Return the rows of a table."""
    with path.open() as file:
        return list(csv.DictReader(file, delimiter="\t"))


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_official_suite(folder):
    expected = yaml.safe_load((folder / f"_{folder.name}_solution.yaml").read_text())
    problem = wf.read_petab(yaml_of(folder))
    assert problem.log_likelihood() == pytest.approx(expected["llh"], abs=expected["tol_llh"])
    assert problem.chi2() == pytest.approx(expected["chi2"], abs=expected["tol_chi2"])
    expected_simulations = [float(row["simulation"]) for row in table(folder / "_simulations.tsv")]
    np.testing.assert_allclose(problem.simulate()["simulation"], expected_simulations, atol=expected["tol_simulations"])
    if "log_prior" in expected:
        assert problem.log_priors() == pytest.approx(expected["log_prior"], abs=1e-12)
        assert problem.log_posterior() == pytest.approx(expected["unnorm_log_posterior"], abs=1e-3)


def test_official_suite_is_complete():
    assert len(CASES) == 20 + 31


@pytest.mark.parametrize(
    "folder",
    [
        SUITES / "v1" / "0006",
        SUITES / "v1" / "0007",
        SUITES / "v1" / "0010",
        SUITES / "v1" / "0015",
        SUITES / "v1" / "0018",
        SUITES / "v2" / "0010",
        SUITES / "v2" / "0018",
        SUITES / "v2" / "0021",
        SUITES / "v2" / "0026",
        SUITES / "v2" / "0028",
        SUITES / "v2" / "0031",
        SUITES / "boehm",
        BERTOZZI.parent,
    ],
    ids=lambda folder: f"{folder.parent.name}-{folder.name}",
)
def test_gradient_agrees_with_differences(folder):
    problem = wf.read_petab(next(f for f in folder.glob("*.yaml") if "solution" not in f.name))
    theta = problem._collect_quantities({n: v * 1.1 for n, v in problem.nominal.items()})
    likelihood = problem.likelihood
    gradient, _ = likelihood.compute_derivatives(likelihood.predict(theta, True))
    for k, q in enumerate(problem.found.quantities):
        h = 1e-5 * max(abs(theta[k]), 1e-4)
        ends = [likelihood.compute_value(likelihood.predict(theta + s * h * np.eye(len(theta))[k])) for s in (1, -1)]
        assert gradient[k] == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-3, abs=1e-3 / h * 1e-5), q.name


@pytest.mark.parametrize(
    ("path", "nllh"), [(SUITES / "boehm" / "Boehm_JProteomeRes2014.yaml", 138.22199), (BERTOZZI, 158.86427)]
)
def test_likelihood_of_published_problems(path, nllh):
    assert -wf.read_petab(path).log_likelihood() == pytest.approx(nllh, abs=1e-3)


def test_noise_is_solved_for_inside_with_exact_gradient():
    problem = wf.read_petab(SUITES / "boehm" / "Boehm_JProteomeRes2014.yaml")
    objective = PetabObjective(problem.likelihood)
    assert objective.noise == ["sd_pSTAT5A_rel", "sd_pSTAT5B_rel", "sd_rSTAT5A_rel"]
    theta = problem._collect_quantities(None)
    at_nominal = objective(objective.extract_coordinates(theta), 2)
    assert at_nominal.value <= -problem.log_likelihood() + 1e-9
    x = objective.extract_coordinates(problem._collect_quantities({"k_phos": 8000.0, "k_exp_homo": 0.01}))
    evaluated = objective(x, 2)
    for k in range(len(x)):
        h = 1e-5
        ends = [objective(x + s * h * np.eye(len(x))[k], 0).value for s in (1, -1)]
        assert evaluated.gradient[k] == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-3, abs=1e-3)


PRIOR_TABLE = """parameterId\tparameterScale\tlowerBound\tupperBound\tnominalValue\testimate{header}
k1\t{scale}\t0.01\t10\t0.8\t1{prior}
a0\tlin\t0\t10\t1.0\t0{empty}
b0\tlin\t0\t10\t0.0\t0{empty}
k2\tlin\t0\t10\t0.6\t0{empty}
"""


@pytest.mark.parametrize(("scale", "base"), [("log10", 10.0), ("log", np.e), ("lin", None)])
def test_gradient_of_a_prior_on_the_scale_of_its_parameter(scale, base, tmp_path):
    """A prior N(m, s²) of log_b θ adds (log_b θ - m)/(s² ln b) to the gradient by ln θ, and 1/(s ln b)² to the Hessian.

    On the linear scale it adds (θ - m)/s² and 1/s².
    """
    mean, spread, theta = -0.3, 0.4, 2.5
    prior = {
        "header": "\tobjectivePriorType\tobjectivePriorParameters",
        "prior": f"\tparameterScaleNormal\t{mean};{spread}",
        "empty": "\t\t",
    }
    evaluated = {}
    for name, cells in (("with", prior), ("without", dict.fromkeys(prior, ""))):
        folder = tmp_path / name / "0001"
        shutil.copytree(SUITES / "v1" / "0001", folder)
        (folder / "_parameters.tsv").write_text(PRIOR_TABLE.format(scale=scale, **cells))
        objective = PetabObjective(wf.read_petab(yaml_of(folder)).likelihood)
        evaluated[name] = objective(np.array([np.log(theta) if base else theta]), 2)
    on_scale, pace = (np.log(theta) / np.log(base), 1 / np.log(base)) if base else (theta, 1.0)
    added = evaluated["with"].gradient[0] - evaluated["without"].gradient[0]
    assert added == pytest.approx((on_scale - mean) / spread**2 * pace, rel=1e-6)
    added = evaluated["with"].hessian[0, 0] - evaluated["without"].hessian[0, 0]
    assert added == pytest.approx(pace**2 / spread**2, rel=1e-3)


def test_scale_and_offset_are_solved_for_inside():
    objective = PetabObjective(wf.read_petab(yaml_of(SUITES / "v1" / "0004")).likelihood)
    assert objective.linear == ["scaling_A", "offset_A"]
    x = np.array([1.2, 0.1, 0.7, 0.5])
    evaluated = objective(x, 2)
    # No scale and offset on a grid inside the bounds give a higher likelihood than those solved for.
    grid = [
        objective.likelihood.compute_value(objective.likelihood.predict(np.array([*x, a, b])))
        for a in np.linspace(0, 10, 41)
        for b in np.linspace(0, 10, 41)
    ]
    assert evaluated.value <= min(grid) + 1e-9


def test_fit_reaches_published_optimum():
    problem = wf.read_petab(BERTOZZI)
    fit = problem.fit(time_limit=20)
    assert -fit.log_likelihood < 158.8643 + 0.01
    assert fit.at_bound == ("R0_NY",)
    assert fit.agreed >= 2
    assert "R0_NY" in str(fit)
    assert fit.to_frame().loc["I0_NY", "estimate"] == pytest.approx(3632, rel=0.01)
    assert fit.startpoints().shape[1] == len(problem.nominal)


@pytest.mark.slow
def test_fit_is_reproducible():
    problem = wf.read_petab(BERTOZZI)
    first, second = (problem.fit(time_limit=20) for _ in range(2))
    assert first.parameters == second.parameters


def test_command_line_checks_and_fits_problems(capsys):
    path = str(BERTOZZI)
    assert main(["check", path]) == 0
    assert "-158.8643" in capsys.readouterr().out
    main(["fit", path, "--json", "--time-limit", "10"])
    printed = json.loads(capsys.readouterr().out)
    assert printed["log_likelihood"] > -158.88
    assert main(["fit", path, "--report", "page.html"]) == 2
    assert "leave out --report" in capsys.readouterr().err


def copy_with_change(folder, to, file, old, new):
    """Copy a case of the suite with one text in one of its files replaced; return its YAML file."""
    shutil.copytree(folder, to)
    text = (to / file).read_text()
    assert old in text
    (to / file).write_text(text.replace(old, new, 1))
    return to / f"_{folder.name}.yaml"


@pytest.mark.parametrize(
    ("case", "file", "old", "new", "words"),
    [
        ("v1/0002", "_parameters.tsv", "lin", "cube", "parameterScale of .* is 'cube'"),
        ("v1/0002", "_parameters.tsv", "\t1\n", "\tmaybe\n", "must be 0 or 1"),
        ("v1/0002", "_observables.tsv", "\tA\t", "\tA +\t", "observableFormula of obs_a"),
        ("v1/0002", "_observables.tsv", "\tA\t", "\tQ\t", "unknown name 'Q'"),
        ("v1/0002", "_measurements.tsv", "obs_a", "obs_z", "observable 'obs_z', which does not exist"),
        ("v1/0002", "_measurements.tsv", "\tc0\t", "\tc9\t", "condition 'c9', which does not exist"),
        ("v1/0002", "_conditions.tsv", "a0", "zz", "sets 'zz', which the model does not have"),
        ("v1/0002", "_0002.yaml", "format_version: 1", "format_version: 7", "versions 1 and 2 are read"),
        ("v1/0002", "_0002.yaml", "_model.xml", "../other.xml", "outside of its folder"),
        ("v1/0002", "_0002.yaml", "_model.xml", "other.xml", "does not exist"),
        ("v1/0002", "_0002.yaml", "problems:", "problems: [", "not valid YAML"),
        ("v1/0002", "_measurements.tsv", "0.7", "lots", "must be a number"),
        ("v1/0007", "_measurements.tsv", "obs_b\tc0\t10\t0.", "obs_b\tc0\t10\t-0.", "must be positive"),
        ("v2/0021", "_observables.tsv", "normal", "cauchy", "noiseDistribution of 'obs_a' is 'cauchy'"),
        ("v2/0024", "_parameters.tsv", "\trayleigh", "\tweibull", "prior 'weibull' is not known"),
        ("v2/0010", "_experiments.tsv", "preeq_c0", "nowhere", "condition 'nowhere', which does not exist"),
    ],
)
def test_error_names_its_cause(case, file, old, new, words, tmp_path):
    with pytest.raises(ModelError, match=words):
        wf.read_petab(copy_with_change(SUITES / case, tmp_path / Path(case).name, file, old, new))


def test_unknown_parameter_is_refused():
    problem = wf.read_petab(yaml_of(SUITES / "v1" / "0001"))
    with pytest.raises(FitError, match="not in the parameter table"):
        problem.log_likelihood({"k_one": 3.0})
    assert problem.log_likelihood({"k1": 0.7}) != problem.log_likelihood()


def test_problem_is_read_in_its_own_process():
    assert wf.read_petab(yaml_of(SUITES / "v1" / "0001")).chi2() == pytest.approx(0.79184, abs=1e-3)


@pytest.mark.parametrize("kind", PRIOR_ARGUMENTS)
def test_prior_is_normalised_with_right_slope(kind):
    prior = PetabPrior(kind, (1.5, 2.5)[: PRIOR_ARGUMENTS[kind]], 0.2, 4.0)
    grid = np.linspace(0.2, 4.0, 20001)
    density = np.exp([prior.compute_log_density(x) for x in grid])
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=2e-3)
    x = 2.0
    assert prior.compute_slope(x) == pytest.approx(
        (prior.compute_log_density(x + 1e-5) - prior.compute_log_density(x - 1e-5)) / 2e-5, abs=1e-4
    )


@pytest.mark.parametrize(("lower", "upper"), [("", ""), ("", "-60"), ("60", "")])
def test_starts_of_parameters_without_bounds_are_finite_and_inside(lower, upper):
    objective = PetabObjective(wf.read_petab(yaml_of(SUITES / "v1" / "0004")).likelihood)
    objective.lower[0] = float(lower or -np.inf)
    objective.upper[0] = float(upper or np.inf)
    draws = _screen_draws(objective, 5, 0, lambda: True)
    assert len(draws) == 5
    assert all(np.isfinite(x).all() and (x >= objective.lower).all() and (x <= objective.upper).all() for x in draws)
