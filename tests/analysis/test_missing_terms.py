"""Missing terms: a term that was taken out ranks first, a right model lacks none, wrong candidates are refused."""

import numpy as np
import pytest

import weakform as wf
from weakform.support.errors import FitError


def fitted(text, name="lotka-volterra", seed=1, **more):
    """Fit a model `text` to simulated data of a benchmark problem."""
    problem = wf.problems.get(name)
    return wf.fit(wf.Model.from_text(text), problem.simulate(M=256, noise=0.05, seed=seed), **more)


@pytest.mark.parametrize(
    ("text", "name", "equation", "term"),
    [
        pytest.param(
            *("u1' = p1*(u2 - u1)\nu2' = u1*p2 - u2\nu3' = u1*u2 - p3*u3", "lorenz", "u2", "u1*u3"),
            marks=pytest.mark.slow,
        ),
        ("u1' = p1*u1 + p3*u2\nu2' = -p4*u1 + p5 + p6*u2", "fitzhugh-nagumo", "u1", "u1^3"),
    ],
)
def test_removed_term_ranks_first(text, name, equation, term):
    fit = fitted(text, name)
    assert not fit.success
    ranking = fit.missing_terms()
    best = ranking.found[0]
    assert (best.equation, best.term) == (equation, term)
    assert best.mends
    assert best.p_value < 1e-10
    assert f"{term} to the equation of {equation} makes the model fit" in ranking.sentence
    assert term in str(ranking)


@pytest.mark.parametrize("name", ["lotka-volterra", "fitzhugh-nagumo", "lorenz"])
def test_right_model_lacks_no_term(name):
    problem = wf.problems.get(name)
    finds = 0
    for seed in range(4):
        ranking = wf.fit(problem.model, problem.simulate(M=200, noise=0.05, seed=seed)).missing_terms()
        finds += bool(ranking.found)
    assert finds == 0
    assert "None of" in ranking.sentence


@pytest.mark.slow
def test_candidates_of_the_user_for_a_hidden_state_are_ranked():
    truth = wf.Model.from_text("x' = a*x - b*x*y\ny' = d*x*y - c*y\nx(0) = 1\ny(0) = 1")
    t = np.linspace(0, 6, 60)
    u = wf.simulate(truth, {"a": 3, "b": 1, "c": 2, "d": 1}, [1, 1], t).states
    data = wf.Dataset(t, u[:, :1] + 0.05 * np.random.default_rng(0).standard_normal((60, 1)), names=["x"])
    wrong = wf.Model.from_text("x' = a*x - b*x*y\ny' = d*x - c*y\nx(0) = 1\ny(0) = 1")
    fit = wf.fit(wrong, data, bounds=dict.fromkeys("abcd", (0, 10)))
    ranking = fit.missing_terms({"y": ["x*y", "1", "y^2"]})
    assert ranking.tried >= 2  # a constant changes nothing that is measured, or next to nothing
    assert ranking.found
    assert ranking.found[0].gain > 10
    assert list(ranking.to_frame()["equation"].unique()) == ["y"]


@pytest.mark.parametrize(
    ("truth", "wrong", "equation", "term", "sign"),
    [
        ("A' = -a*A\nB' = a*A - c*B", "A' = -a*A\nB' = -c*B", "B", "A*a", 1.0),
        ("A' = p - a*A\nB' = a*A - c*B", "A' = p\nB' = a*A - c*B", "A", "A*a", -1.0),
    ],
    ids=["arrives", "leaves"],
)
def test_flow_missing_in_one_equation_is_added_unchanged_with_the_right_sign(truth, wrong, equation, term, sign):
    """The flow a*A out of A is one into B: the term of one equation is added to the other with a coefficient of ±1."""
    model, t = wf.Model.from_text(truth), np.linspace(0, 10, 120)
    values = {"a": 0.5, "c": 0.3, "p": 1.0}
    u = wf.simulate(model, {name: values[name] for name in model.parameters}, [10.0, 1.0], t).states
    data = wf.Dataset(t, u + 0.05 * np.random.default_rng(0).standard_normal(u.shape), names=["A", "B"])
    ranking = wf.fit(wf.Model.from_text(wrong), data).missing_terms()
    flows = [row for row in ranking.found if (row.equation, row.term) == (equation, term)]
    assert [flow.coefficient for flow in flows] == [sign]
    assert flows[0].mends
    assert flows[0].gain > 100


def test_wrong_candidates_are_refused():
    fit = fitted("u1' = p1*u1 - p2*u1*u2\nu2' = -p3*u2 + p4*u1*u2")
    with pytest.raises(FitError, match="'w' has no equation"):
        fit.missing_terms({"w": ["u1"]})
    with pytest.raises(FitError, match="no candidates"):
        fit.missing_terms([])
    with pytest.raises(wf.WeakformError, match="zz"):
        fit.missing_terms(["zz*u1"])
    with pytest.raises(FitError, match="list of terms"):
        fit.missing_terms("u1")


@pytest.mark.slow
def test_missing_term_of_a_second_order_equation_ranks_first():
    t = np.linspace(0, 12, 100)
    truth = wf.Model.from_text("x'' = -w*x - c*x'")
    x = wf.simulate(truth, {"w": 2.0, "c": 0.2}, [1.0, 0.0], t).states[:, :1]
    data = wf.Dataset(t, x + 0.03 * np.random.default_rng(0).standard_normal((100, 1)), names=["x"])
    ranking = wf.fit(wf.Model.from_text("x'' = -w*x"), data).missing_terms()
    assert (ranking.found[0].equation, ranking.found[0].term) == ("x'", "x'")


def test_terms_that_the_model_already_has_are_not_tried():
    fit = fitted("u1' = p1*u1 - p2*u1*u2\nu2' = -p3*u2 + p4*u1*u2")
    assert "already has all of these terms" in fit.missing_terms({"u1": "u1"}).sentence


def test_simpler_of_two_terms_that_fit_equally_well_ranks_first():
    t = np.linspace(0, 5, 40)
    values = 3 + 2 * np.exp(-t) + 0.05 * np.random.default_rng(0).standard_normal(40)
    fit = wf.fit(wf.Model.from_text("u' = -k*u"), wf.Dataset(t, values, names=["u"]))
    ranking = fit.missing_terms(["7/2", "1"])
    assert [term.term for term in ranking.terms] == ["1", "7/2"]
    simple, double = ranking.terms
    assert simple.gain == pytest.approx(double.gain, abs=1e-6)
    assert simple.coefficient == pytest.approx(3.5 * double.coefficient, rel=1e-4)
