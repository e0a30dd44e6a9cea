"""Several trajectories share parameters, independent of their order and noise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weakform as wf
from support import LV, relative_error, values_at
from weakform.forward.solver import simulate


def test_several_trajectories_share_parameters():
    parts = []
    for k, start in enumerate(([1.0, 1.0], [2.0, 3.0], [8.0, 1.5])):
        t = np.linspace(0, 3 + k, 40 + 10 * k)
        u = simulate(LV.model, LV.parameters, start, t).states
        parts.append(wf.Dataset(t, u + 0.1 * np.random.default_rng(k).standard_normal(u.shape), names=["u1", "u2"]))
    joint = wf.fit(LV.model, wf.Dataset.join(parts, ["a", "b", "c"]), bounds=LV.bounds)
    separate = [wf.fit(LV.model, part, bounds=LV.bounds) for part in parts]
    assert len(joint.denoised) == len(joint.basis) == 3
    assert (joint.errors < np.min([fit.errors for fit in separate], axis=0)).all()
    assert relative_error(LV, joint) < 0.03
    assert "c: 60 samples" in str(joint)
    for k in range(3):
        assert np.allclose(joint.trajectory(k).states[0], joint.denoised[k][0])


@settings(max_examples=6)
@given(order=st.permutations(range(3)))
def test_order_of_trajectories_does_not_matter(order):
    t, _ = LV.solution(150)
    noisy = values_at(LV, t, 0.05, 3)
    parts = [wf.Dataset(t[k : k + 50], noisy[k : k + 50]) for k in (0, 50, 100)]
    in_order = wf.fit(LV.model, wf.Dataset.join(parts), bounds=LV.bounds)
    permuted = wf.fit(LV.model, wf.Dataset.join([parts[k] for k in order]), bounds=LV.bounds)
    assert np.allclose(in_order.estimate, permuted.estimate, rtol=1e-5)


def test_trajectories_may_have_separate_noise():
    t, u = LV.solution(120)
    rng = np.random.default_rng(1)
    quiet, loud = u + 0.05 * rng.standard_normal(u.shape), u + 1.0 * rng.standard_normal(u.shape)
    parts = [wf.Dataset(t, quiet), wf.Dataset(t, loud)]
    shared = wf.fit(LV.model, wf.Dataset.join(parts), bounds=LV.bounds)
    separate = wf.fit(LV.model, wf.Dataset.join(parts, own_noise=True), bounds=LV.bounds)
    assert (separate.errors < 0.4 * shared.errors).all()
    assert (np.abs(separate.estimate - LV.parameters) < 4 * separate.errors).all()
    with_sigma = [wf.Dataset(t, quiet, sigma=0.05), wf.Dataset(t, loud, sigma=1.0)]
    known_sigma = wf.fit(LV.model, wf.Dataset.join(with_sigma), bounds=LV.bounds)
    assert np.allclose(known_sigma.estimate, separate.estimate, atol=separate.errors.max())
    assert known_sigma.goodness.chi_square_p > 1e-3


@pytest.mark.parametrize(
    ("build", "message"),
    [
        pytest.param(lambda: wf.Dataset.join([]), "list of datasets", id="none"),
        pytest.param(
            lambda: wf.Dataset.join([LV.simulate(M=20), wf.problems.get("logistic").simulate(M=20)]),
            "other names",
            id="other names",
        ),
        pytest.param(
            lambda: wf.Dataset.join([LV.simulate(M=20)] * 2, ["a", "a"]), "different labels", id="a label twice"
        ),
    ],
)
def test_join_refuses_datasets_that_do_not_fit_together(build, message):
    with pytest.raises(wf.WeakformError, match=message):
        build()


@pytest.mark.parametrize("sigmas", [([0.0], [0.1]), ([0.1], [0.0])], ids=["first", "second"])
def test_join_refuses_noise_free_data_beside_noisy_ones(sigmas):
    parts = [wf.Dataset(np.arange(9.0), np.arange(9.0), sigma=sigma) for sigma in sigmas]
    with pytest.raises(wf.WeakformError, match="cannot be joined with noisy ones"):
        wf.Dataset.join(parts)
