"""The likelihood compared with differences and with the paper's formulas, and its invariances."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weakform as wf
from paper import Paper
from support import ALL, as_dense, form_of, local_form, points, with_functions
from weakform.weak.likelihood_derivatives import TRACE_POLICY
from weakform.weak.residual_covariance import build_covariance_weights
from weakform.weak.weak_likelihood import EvaluationStatus, WeakForm, WeakLikelihood


def likelihood(form: WeakForm, weight: float = 1.0) -> WeakLikelihood:
    return WeakLikelihood((form,), weight)


def compute_differences(f, p, relative_step):
    """Compute fourth-order central differences of f, one row for each parameter."""
    rows = []
    for j in range(len(p)):
        e = np.zeros(len(p))
        e[j] = relative_step * max(abs(p[j]), 1e-2)
        near, far = f(p + e) - f(p - e), f(p + 2 * e) - f(p - 2 * e)
        rows.append((8 * near - far) / (12 * e[j]))
    return np.array(rows)


def compute_relative_error(a, b):
    return np.max(np.abs(a - b)) / np.max(np.abs(b))


@pytest.mark.parametrize("weight", [1.0, 0.3, 0.0])
@pytest.mark.parametrize("name", ALL)
def test_gradient_and_hessian_match_differences(name, weight):
    ell = likelihood(local_form(name), weight)
    for p in points(name):
        exact = ell(p, 2)
        # Compared as p ∂/∂p, because the parameters differ by orders of magnitude.
        g = compute_differences(lambda q: ell(q).value, p, 1e-4)
        H = compute_differences(lambda q: ell(q, 1).gradient, p, 1e-4)
        assert compute_relative_error(exact.gradient * p, g * p) < 1e-6
        assert compute_relative_error(exact.hessian * np.outer(p, p), H * np.outer(p, p)) < 1e-6
        assert (
            np.array_equal(exact.hessian, exact.hessian.T)
            or compute_relative_error(exact.hessian, exact.hessian.T) < 1e-12
        )


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if k % 2 else ()) for k, n in enumerate(ALL)])
def test_probes_estimate_the_traces_of_the_hessian(name, monkeypatch):
    """The estimate for large models is close with the few probes in use, and converges with many."""
    form = local_form(name)
    p = points(name)[0]
    exact = likelihood(form)(p, 2)
    with monkeypatch.context() as patch:
        patch.setattr("weakform.weak.likelihood_derivatives.LikelihoodDerivatives._compute_traces", lambda self: 0.0)
        scale = np.abs(likelihood(form)(p, 2).hessian - exact.hessian).max()
    monkeypatch.setattr("weakform.weak.weak_form.TRACE_POLICY", replace(TRACE_POLICY, max_states_times_parameters=0))
    few = likelihood(form)(p, 2)
    assert few.value == exact.value
    assert np.array_equal(few.gradient, exact.gradient)
    assert np.abs(few.hessian - exact.hessian).max() < 0.7 * scale
    monkeypatch.setattr("weakform.weak.likelihood_derivatives.TRACE_POLICY", replace(TRACE_POLICY, probes=3000))
    assert np.abs(likelihood(form)(p, 2).hessian - exact.hessian).max() < 0.06 * scale


@pytest.mark.parametrize("name", ALL)
def test_block_tridiagonal_likelihood_equals_dense_one_with_the_same_bumps(name):
    form = local_form(name)
    dense = likelihood(with_functions(form, as_dense(form.functions)))
    assert form.functions.blocks > 2, "one block alone would compare nothing"
    for p in points(name):
        a, b = likelihood(form)(p, 2), dense(p, 2)
        assert abs(a.value - b.value) <= 1e-10 * abs(b.value)
        assert compute_relative_error(a.gradient, b.gradient) < 1e-10
        assert compute_relative_error(a.hessian, b.hessian) < 1e-10


@pytest.mark.parametrize("name", ALL)
def test_dense_likelihood_equals_the_formulas_of_the_paper(name):
    problem = wf.problems.get(name)
    data = problem.simulate(M=60, noise=0.05, seed=2)
    form = form_of(problem, data, wf.Orthonormal(max_functions=25))
    assert form.functions.blocks == 1
    p = points(name)[0]
    exact, paper = likelihood(form)(p, 2), Paper(form)
    assert abs(exact.value - paper.value(p)) <= 1e-10 * abs(exact.value)
    assert compute_relative_error(exact.gradient, paper.gradient(p)) < 1e-10
    assert compute_relative_error(exact.hessian, paper.hessian(p)) < 1e-10


@pytest.mark.parametrize("name", ALL)
def test_change_of_basis_adds_only_a_constant(name):
    form = local_form(name)
    phi, dphi = form.functions.to_dense()
    T = np.linalg.qr(np.random.default_rng(0).standard_normal((len(phi), len(phi))))[0]
    T *= np.linspace(0.5, 2.0, len(phi))
    changed = as_dense(form.functions)
    changed = type(changed)(
        (T @ phi)[None], (T @ dphi)[None], changed.start, changed.samples, len(phi), changed.radius, "changed"
    )
    original, transformed = likelihood(form), likelihood(with_functions(form, changed))
    constant = form.system.D * np.linalg.slogdet(T)[1]
    for p in points(name):
        a, b = original(p, 2), transformed(p, 2)
        assert abs(b.value - a.value - constant) <= 1e-8 * abs(a.value)
        assert compute_relative_error(b.gradient, a.gradient) < 1e-7
        assert compute_relative_error(b.hessian, a.hessian) < 1e-7


@pytest.mark.parametrize("name", ALL)
def test_covariance_is_positive_definite_if_the_status_is_ok(name):
    form = local_form(name)
    problem = wf.problems.get(name)
    paper = Paper(form)
    statuses = set()
    for seed in range(8):
        p = problem.start(seed)
        result = likelihood(form)(p, 2)
        statuses.add(result.status)
        if result.status is EvaluationStatus.OK:
            S = paper.covariance(p)
            assert np.linalg.eigvalsh(S)[0] > 0
            assert np.isfinite(result.value)
        else:
            assert result.value == np.inf
            assert result.gradient is None
    assert EvaluationStatus.OK in statuses


def test_blocks_equal_those_of_the_dense_covariance():
    form = local_form("lorenz")
    p = wf.problems.get("lorenz").parameters
    S = Paper(form).covariance(p)
    K, D, L = form.functions.count, form.system.D, form.functions.length
    F = dict(form.evaluate_tensors(p, ("fu",))["fu"])
    weights = build_covariance_weights(F, form.variances)
    cursor = 0
    for tile in form.covariance_map.iterate_tiles():
        diagonal, lower = form.covariance_map.compute_blocks(weights, tile)
        assert (
            np.array_equal(diagonal, diagonal.transpose(0, 2, 1))
            or compute_relative_error(diagonal, diagonal.transpose(0, 2, 1)) < 1e-14
        )
        for m, block in enumerate(diagonal):
            k = tile.start + m
            used = np.arange(k * L, min((k + 1) * L, K))
            rows = (np.arange(D)[:, None] * K + used).ravel()
            ours = block.reshape(D, L, D, L)[:, : len(used), :, : len(used)].reshape(len(rows), -1)
            assert compute_relative_error(ours, S[np.ix_(rows, rows)]) < 1e-12
            cursor += len(used)
        for m, block in enumerate(lower):
            k = max(tile.start, 1) + m
            used, before = np.arange(k * L, min((k + 1) * L, K)), np.arange((k - 1) * L, k * L)
            rows = (np.arange(D)[:, None] * K + used).ravel()
            columns = (np.arange(D)[:, None] * K + before).ravel()
            ours = block.reshape(D, L, D, L)[:, : len(used)].reshape(len(rows), -1)
            assert compute_relative_error(ours, S[np.ix_(rows, columns)]) < 1e-12
    assert cursor == K


@pytest.mark.parametrize("radius", [3.0, 4.3, 7.25, 10.0, 16.5])
@pytest.mark.parametrize("overlap", [2.0, 3.7, 6.0])
def test_likelihood_equals_dense_one_for_any_radius_and_stride(radius, overlap):
    """Uneven blocks, blocks that are copies and a short last block give the same likelihood."""
    problem = wf.problems.get("fitzhugh-nagumo")
    data = problem.simulate(M=97, noise=0.05, seed=3)
    step = data.trajectories[0].mean_step
    form = form_of(problem, data, wf.Local(radius * step, max(radius / overlap, 1.0) * step))
    p = problem.parameters * 1.05
    a = likelihood(form)(p, 2)
    b = likelihood(with_functions(form, as_dense(form.functions)))(p, 2)
    assert abs(a.value - b.value) <= 1e-9 * abs(b.value)
    assert compute_relative_error(a.gradient, b.gradient) < 1e-8
    assert compute_relative_error(a.hessian, b.hessian) < 1e-8


def test_likelihood_equals_the_paper_if_noise_differs_by_state_and_sample():
    form = local_form("lotka-volterra")
    rng = np.random.default_rng(1)
    varied = WeakForm(form.system, form.times, form.u, rng.uniform(0.01, 0.3, form.u.shape), form.functions)
    p = wf.problems.get("lotka-volterra").parameters * 1.1
    a, paper = likelihood(varied)(p, 2), Paper(varied)
    assert abs(a.value - paper.value(p)) <= 1e-10 * abs(a.value)
    assert compute_relative_error(a.gradient, paper.gradient(p)) < 1e-9
    assert compute_relative_error(a.hessian, paper.hessian(p)) < 1e-9


def test_likelihood_is_the_sum_over_trajectories():
    first, second = local_form("logistic", seed=1), local_form("logistic", seed=2)
    p = np.array([1.1, 0.9])
    both = WeakLikelihood((first, second))(p, 2)
    a, b = likelihood(first)(p, 2), likelihood(second)(p, 2)
    assert both.value == pytest.approx(a.value + b.value, rel=1e-14)
    assert np.allclose(both.hessian, a.hessian + b.hessian, rtol=1e-13)


def test_zero_noise_is_reported_as_a_status():
    form = local_form("lorenz")
    noise_free = WeakForm(form.system, form.times, form.u, np.zeros(3), form.functions)
    result = likelihood(noise_free)(wf.problems.get("lorenz").parameters)
    assert result.status is EvaluationStatus.NOT_POSITIVE_DEFINITE
    assert result.value == np.inf


def test_right_hand_side_that_is_not_finite_is_reported_as_a_status():
    model = wf.Model.from_text("u' = p1 / (u - u*p2)")
    form = local_form("logistic")
    broken = WeakForm(model.system(("gaussian",)), form.times, form.u, form.variance, form.functions)
    result = likelihood(broken)(np.array([1.0, 1.0]), 2)
    assert result.status is EvaluationStatus.NOT_FINITE
    assert result.value == np.inf


@given(scale=st.floats(1e-6, 1e6), time=st.floats(1e-6, 1e6))
def test_units_of_states_and_time_add_only_a_constant(scale, time):
    """With other units of u and t, the likelihood changes by a constant and its minimum by the units."""
    base = local_form("logistic")
    system = base.system
    functions = base.functions
    moved = type(functions)(
        functions.phi,
        functions.dphi / time,
        functions.start,
        functions.samples,
        functions.count,
        functions.radius * time,
        "moved",
    )
    rescaled = WeakForm(system, base.times * time, base.u * scale, base.variance * scale**2, moved)
    units = np.array([1 / time, 1 / (time * scale)])
    p, q = np.array([1.1, 0.9]), np.array([0.7, 1.2])
    a = likelihood(base)(p).value - likelihood(base)(q).value
    b = likelihood(rescaled)(p * units).value - likelihood(rescaled)(q * units).value
    assert b == pytest.approx(a, rel=1e-8)


def test_no_array_of_size_KD_by_MD_is_allocated():
    """With a dense basis at M = 2000 the peak of memory stays well below one KD × MD array."""
    problem = wf.problems.get("lorenz")
    data = problem.simulate(M=2000, noise=0.05, seed=1)
    form = form_of(problem, data, wf.Local(radius=0.5, stride=0.05))
    dense = with_functions(form, as_dense(form.functions))
    p = problem.parameters
    likelihood(dense)(p)
    tracemalloc.start()
    likelihood(dense)(p)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    KD, MD = dense.size, data.samples * 3
    squares = 8 * KD * KD
    assert peak < 6 * squares + 0.5 * 8 * KD * MD
