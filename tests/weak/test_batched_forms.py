"""Batches of short trajectories give the same results as each trajectory alone, in the same order."""

from dataclasses import replace

import numpy as np
import pytest

import weakform as wf
from weakform.weak.batched_forms import batch_forms, standardise_forms
from weakform.weak.weak_problem import WeakProblem

MODEL = wf.Model.from_text("x' = a*x - b*x*y\ny' = -c*y + d*x*y")
P = np.array([1.0, 0.5, 0.7, 0.3])


def build_problem(spans, samples=25, **parts):
    rng = np.random.default_rng(0)
    data = [wf.Dataset(np.linspace(0, T, samples), rng.uniform(1, 3, (samples, 2)), names=["x", "y"]) for T in spans]
    return WeakProblem.build(MODEL, wf.Dataset.join(data), wf.Local(**parts))


@pytest.mark.parametrize("coarse", [False, True])
@pytest.mark.parametrize("parts", [{}, {"radius": 1.1}])
def test_batched_residuals_and_jacobians_equal_those_of_each_trajectory(coarse, parts):
    whole = build_problem([4.0, 5.0, 6.0, 4.0, 4.0], **parts)
    whole = whole.coarse_problem if coarse else whole
    assert len(batch_forms(whole.forms)) < len(whole.forms), "some trajectories must share a batch"
    single = [replace(whole, forms=(form,)) for form in whole.forms]
    assert np.allclose(whole.residual(P), np.concatenate([s.residual(P) for s in single]), rtol=1e-13, atol=1e-13)
    assert np.allclose(whole.jacobian(P), np.concatenate([s.jacobian(P) for s in single]), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(("samples", "filled"), [(25, False), (41, True), (50, True)])
def test_batched_covariances_states_and_scores_equal_those_of_each_trajectory(samples, filled):
    whole = build_problem([4.0, 5.0, 6.0, 4.0, 4.0], samples)
    batches = batch_forms(whole.forms)
    assert len(batches) < len(whole.forms), "some trajectories must share a batch"
    assert any(batch.form.functions.empty.any() for batch in batches if len(batch.members) > 1) == filled
    single = [replace(whole, forms=(form,)) for form in whole.forms]
    for of_all, of_each in zip(
        whole.build_whitened_functions(whole.factorise_covariances(P)),
        zip(*(s.build_whitened_functions(s.factorise_covariances(P)) for s in single), strict=True),
        strict=True,
    ):
        assert np.allclose(of_all(P), np.concatenate([part(P) for part in of_each]), rtol=1e-9, atol=1e-10)
    assert sum(f.logdet for f in whole.factorise_covariances(P)) == pytest.approx(
        sum(s.factorise_covariances(P)[0].logdet for s in single)
    )
    for states, form in zip(whole.denoise(P), whole.forms, strict=True):
        assert np.allclose(states, form.denoise(P), rtol=1e-10, atol=1e-12)
    for (centres, scores), form in zip(standardise_forms(whole.forms, P), whole.forms, strict=True):
        assert np.allclose(centres, form.standardise(P)[0])
        assert np.allclose(scores, form.standardise(P)[1], rtol=1e-10, atol=1e-12)


def test_long_or_driven_trajectories_are_not_batched():
    assert len(batch_forms(build_problem([4.0, 4.0], samples=600).forms)) == 2
    driven = wf.Model.from_text("x' = -a*x + q", inputs=["q"])
    t = np.linspace(0, 5, 30)
    parts = [wf.Dataset(t, np.exp(-t), names=["x"], inputs={"q": k + np.sin(t)}) for k in range(2)]
    assert len(batch_forms(WeakProblem.build(driven, wf.Dataset.join(parts), wf.Local()).forms)) == 2
