"""Columns are matched to states by name, in any order."""

import numpy as np
import pytest

import weakform as wf
from support import LV, T, U
from weakform.data.matching import match_all_states
from weakform.support.errors import DataError


def model(*states):
    return wf.Model.from_text("\n".join(f"{s}' = -k*{s}" for s in states))


def test_columns_are_matched_to_states_by_name():
    data = wf.Dataset(T, U, ["gaussian", "lognormal"], [0.1, 0.2], names=["b", "a"])
    matched = match_all_states(data, model("a", "b"))
    assert np.array_equal(matched.trajectories[0].values, U[:, ::-1])
    assert matched.noise == ("lognormal", "gaussian")
    assert np.array_equal(matched.sigma, [0.2, 0.1])
    with pytest.raises(DataError, match="'b' is neither a state"):
        match_all_states(data, model("a", "c"))
    with pytest.raises(DataError, match="3 states"):
        match_all_states(wf.Dataset(T, U), model("a", "b", "c"))


def test_columns_in_another_order_give_the_same_fit():
    problem = wf.problems.get("lotka-volterra")
    q = problem.simulate(M=150, noise=0.03, seed=2).trajectories[0]
    in_order = wf.fit(problem.model, wf.Dataset(q.times, q.values, names=["u1", "u2"]))
    swapped = wf.fit(problem.model, wf.Dataset(q.times, q.values[:, ::-1], names=["u2", "u1"]))
    assert np.allclose(in_order.estimate, swapped.estimate, rtol=1e-10)


def test_truth_follows_columns_in_another_order():
    data = LV.simulate(M=80, noise=0.02)
    swapped = wf.Model.from_text("u2' = -p3*u2 + p4*u1*u2\nu1' = p1*u1 - p2*u1*u2", parameters=["p1", "p2", "p3", "p4"])
    assert wf.fit(swapped, data, bounds=LV.bounds).metrics().forward_error < 0.05


def test_names_that_differ_only_by_case_are_reported():
    predators = wf.Model.from_text("hare' = a*hare - b*hare*lynx\nlynx' = -c*lynx + d*hare*lynx")
    with pytest.raises(DataError, match=r"'Lynx' is neither a state .* Did you mean 'lynx'"):
        match_all_states(wf.Dataset(T, U, names=["hare", "Lynx"]), predators)
    misspelt = wf.Model.from_text("hare' = a*hare - b*Hare*lynx\nlynx' = -c*lynx + d*hare*lynx")
    notes = match_all_states(wf.Dataset(T, U, names=["hare", "lynx"]), misspelt).notes
    assert notes == ("The parameter Hare looks like the state hare; is it a misspelling?",)
    assert not match_all_states(wf.Dataset(T, U, names=["hare", "lynx"]), predators).notes
