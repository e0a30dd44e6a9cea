"""Extreme but valid data, interrupts and long runs give a result or a clear error in bounded time."""

import os
import signal
import subprocess
import sys
import time
import tracemalloc
from contextlib import suppress

import numpy as np
import pytest

import weakform as wf
from large_models import dataset as large_dataset
from weakform.estimators import ESTIMATORS
from weakform.report.verdict_text import judge_fit
from weakform.results.status import Status
from weakform.support.errors import WeakformError
from weakform.weak.weak_problem import WeakProblem

LV = wf.problems.get("lotka-volterra")
METHODS = sorted(ESTIMATORS)
T = np.linspace(0, 5, 60)
"""Sample times of most series."""


def fit_within_limit(model, make, limit=4, **arguments):
    """Return a fit, or None if weakform refuses it; fail if it takes more than five times its time limit.

    `make` builds the dataset, so that an error of `Dataset` counts as a refusal; `limit` is in seconds.
    """
    begin, fit = time.process_time(), None
    with suppress(WeakformError):
        fit = wf.fit(model, make(), options={"time_limit": limit}, **arguments)
    assert time.process_time() - begin < 5 * limit
    return fit


def decay(n=60, sigma=0.02):
    """Return times and noisy values of an exponential decay."""
    t = np.linspace(0, 5, n)
    return t, np.exp(-t) + sigma * np.random.default_rng(1).standard_normal(n)


DECAY = wf.Model.from_text("x' = -k*x")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12])
def test_fit_works_at_any_scale_of_state(method, scale):
    t, x = decay()
    fit = fit_within_limit(DECAY, lambda: wf.Dataset(t, scale * x), method=method)
    assert fit["k"].value == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("time_scale", "scale"), [(1e6, 1.0), (1e-6, 1.0), (1.0, 1e6), (1.0, 1e-6)])
def test_estimates_scale_with_units(method, time_scale, scale):
    """With states or time in other units, the estimates change only by the factors of these units."""
    q = LV.simulate(M=80, noise=0.03, seed=2).trajectories[0]
    base = wf.fit(LV.model, wf.Dataset(q.times, q.values), method=method, options={"tolerance": 1e-11})
    scaled = wf.fit(
        LV.model, wf.Dataset(q.times * time_scale, q.values * scale), method=method, options={"tolerance": 1e-11}
    )
    units = np.array([1, 1 / scale, 1, 1 / scale]) / time_scale
    assert np.allclose(scaled.estimate / units, base.estimate, rtol=1e-6)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: wf.Dataset(T, np.full(60, 3.0)), id="constant"),
        pytest.param(lambda: wf.Dataset(T, np.r_[3.0, np.full(59, 2.0)]), id="constant but one"),
        pytest.param(lambda: wf.Dataset(T, np.full(60, np.nan)), id="empty"),
        pytest.param(lambda: wf.Dataset(T, 1e300 * np.exp(-T)), id="1e300"),
        pytest.param(lambda: wf.Dataset(T, 1e-300 * np.exp(-T)), id="1e-300"),
        pytest.param(lambda: wf.Dataset(T, np.zeros(60) + 1e-320 * np.arange(60)), id="denormal"),
        pytest.param(lambda: wf.Dataset(T + 1e15, np.exp(-T)), id="late"),
        pytest.param(lambda: wf.Dataset(1e-300 * T, np.exp(-T)), id="short time"),
        pytest.param(lambda: wf.Dataset(T[:8], np.exp(-T[:8])), id="eight samples"),
        pytest.param(lambda: wf.Dataset(T[:1], [1.0]), id="one sample"),
        pytest.param(lambda: wf.Dataset(T, np.r_[1.0, np.full(59, np.nan)]), id="one value"),
        pytest.param(lambda: wf.Dataset(T, np.r_[1.0, 0.5, np.full(58, np.nan)]), id="two values"),
        pytest.param(lambda: wf.Dataset(T, np.r_[np.exp(-T[:-1]), 1e6]), id="huge outlier", marks=pytest.mark.slow),
        pytest.param(lambda: wf.Dataset(T, np.random.default_rng(1).standard_normal(60)), id="noise alone"),
        pytest.param(
            lambda: wf.Dataset(T, np.where(np.arange(60) % 2, 1.0, -1.0)), id="alternating", marks=pytest.mark.slow
        ),
        pytest.param(
            lambda: wf.Dataset(np.sort(np.random.default_rng(1).exponential(1, 60)) ** 6, np.linspace(1, 2, 60)),
            id="uneven times",
            marks=pytest.mark.slow,
        ),
        pytest.param(lambda: wf.Dataset(np.repeat(T[:2], 30), np.arange(60.0)), id="two times"),
    ],
)
@pytest.mark.parametrize(
    "method", ["wendy", "mle", "wls", *(pytest.param(m, marks=pytest.mark.slow) for m in ("output-error", "hybrid"))]
)
@pytest.mark.filterwarnings("error")
def test_extreme_series_give_result_or_error(make, method):
    for model in (DECAY, wf.Model.from_text("x' = r*x*(1 - x/K)"))[: 1 if method == "hybrid" else 2]:
        fit = fit_within_limit(model, make, 2, method=method)
        if fit is not None:
            assert np.isfinite(fit.estimate).all()
            assert str(fit)


@pytest.mark.parametrize("seed", range(40))
def test_fit_with_random_times(seed):
    """At random times neighbouring blocks of test functions may have no sample in common."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0, 8, 60))
    fit = wf.fit(DECAY, wf.Dataset(t, 5 * np.exp(-0.5 * t) + 0.1 * rng.standard_normal(60)))
    assert abs(fit["k"].value - 0.5) < 5 * fit["k"].error


def with_outliers():
    """Return a series with six values in a row multiplied by six."""
    q = LV.simulate(M=200, noise=0.02, seed=1).trajectories[0]
    values = q.values.copy()
    values[50:56] *= 6
    return wf.Dataset(q.times, values)


UNTRUSTWORTHY = {
    "outliers": (LV.model, with_outliers),
    "noise alone": (
        LV.model,
        lambda: wf.Dataset(np.linspace(0, 5, 80), np.random.default_rng(3).standard_normal((80, 2))),
    ),
    "constants": (LV.model, lambda: wf.Dataset(T, 3 + 0.1 * np.random.default_rng(5).standard_normal((60, 2)))),
    "a wrong model": (DECAY, lambda: wf.Dataset(T, np.sin(T) + 0.02 * np.random.default_rng(1).standard_normal(60))),
    "noise-free and wrong": (DECAY, lambda: wf.Dataset(T, 5 / (1 + T), sigma=[0.0])),
    "not determined": (wf.Model.from_text("x' = -(a + b)*x"), lambda: wf.Dataset(*decay(200))),
}
"""Models and data whose fits no method may report as a success."""


SLOW_PAIRS = [
    ("noise alone", "relaxed"),
    ("outliers", "relaxed"),
    ("outliers", "output-error"),
    ("noise alone", "output-error"),
    ("noise alone", "wendy"),
    ("constants", "relaxed"),
    ("outliers", "hybrid"),
    ("noise alone", "hybrid"),
    ("outliers", "wendy"),
]
PAIRS = [
    pytest.param(case, method, marks=pytest.mark.slow if (case, method) in SLOW_PAIRS else ())
    for case in UNTRUSTWORTHY
    for method in METHODS
]


@pytest.mark.parametrize(("case", "method"), PAIRS)
def test_untrustworthy_fit_does_not_succeed(case, method):
    model, make = UNTRUSTWORTHY[case]
    fit = fit_within_limit(model, make, method=method)
    assert fit is None or not fit.success
    assert fit is None or judge_fit(fit).kind != "good"


@pytest.mark.parametrize("method", METHODS)
def test_good_fit_succeeds(method):
    """The checks that reject bad fits accept good ones."""
    fits = [fit_within_limit(DECAY, lambda: wf.Dataset(*decay(200)), method=method)]
    data = LV.simulate(M=200, noise=0.02, seed=1)
    fits.append(fit_within_limit(LV.model, lambda: data, bounds=LV.bounds, method=method))
    assert all(fit.success for fit in fits)


def test_weak_signal_in_many_samples_succeeds():
    """Single samples are nearly all noise; the decay shows only over many of them."""
    t = np.linspace(0, 20, 2001)
    for seed in range(3):
        noise = 1.5 * np.random.default_rng(seed).standard_normal(2001)
        assert fit_within_limit(DECAY, lambda noise=noise: wf.Dataset(t, 2 * np.exp(-0.5 * t) + noise)).success


def test_undetermined_parameters_are_named():
    fit = fit_within_limit(wf.Model.from_text("x' = -(a + b)*x"), lambda: wf.Dataset(*decay(200)))
    assert fit.status is Status.UNDETERMINED
    assert "Not determined: a, b" in " ".join(judge_fit(fit).reasons)


def test_fit_with_twenty_states():
    model, data, truth = large_dataset(20)
    fit = wf.fit(model, data, bounds=dict.fromkeys(model.parameters, (0.02, 10.0)), starts=1)
    assert fit.success
    assert np.mean(np.abs(fit.estimate - truth) < 4 * fit.errors) > 0.97


@pytest.mark.slow
def test_fit_with_fifty_states():
    model, data, truth = large_dataset(50)
    bounds = dict.fromkeys(model.parameters, (0.02, 10.0))
    fit = wf.fit(model, data, bounds=bounds, method="irls", starts=1)
    assert fit.converged
    assert np.median(np.abs(fit.estimate / truth - 1)) < 0.05
    near = dict(zip(model.parameters, fit.estimate, strict=True))
    fit = wf.fit(model, data, bounds=bounds, start=near, starts=1)
    assert fit.success
    assert np.mean(np.abs(fit.estimate - truth) < 4 * fit.errors) > 0.97


def test_time_limit_returns_best_so_far():
    model, data, _ = large_dataset(20)
    fit = wf.fit(model, data, bounds=dict.fromkeys(model.parameters, (0.02, 10.0)), options={"time_limit": 0.02})
    assert fit.status is Status.TIME
    assert not fit.success
    assert "time limit" in fit.message
    assert np.isfinite(fit.estimate).all()


def test_memory_grows_slowly_with_states():
    """No array has D²J² entries, whose number would grow sixteenfold from 10 to 20 states."""
    peaks = []
    for D in (10, 20):
        model, data, truth = large_dataset(D)
        likelihood = WeakProblem.build(model, data, wf.Local()).likelihood()
        likelihood(truth, 2)
        tracemalloc.start()
        likelihood(truth, 2)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 6 * peaks[0]


def test_ctrl_c_returns_best_so_far():
    problem = wf.problems.get("hindmarsh-rose")
    data = problem.simulate(M=32768, noise=0.05, seed=1)
    interrupted = []

    def interrupt(progress):
        # Interrupt once, when the search has a first estimate: a timer would depend on the speed of the machine.
        if not interrupted and np.isfinite(progress.objective):
            interrupted.append(progress)
            signal.raise_signal(signal.SIGINT)

    start = problem.start(3)
    fit = wf.fit(problem.model, data, bounds=problem.bounds, method="mle", start=start, starts=1, callback=interrupt)
    assert interrupted
    assert fit.status is Status.INTERRUPTED
    assert "stopped by the user" in fit.message
    assert np.isfinite(fit.estimate).all()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


FIT_SCRIPT = """
import weakform as wf
problem = wf.problems.get("goodwin")
fit = wf.fit(problem.model, problem.simulate(M=200, noise=0.05, seed=1), bounds=problem.bounds)
print(fit.estimate.tobytes().hex(), fit.covariance.tobytes().hex())
"""


def test_results_do_not_depend_on_number_of_threads():
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    printed = {
        threads: subprocess.run(
            [sys.executable, "-c", FIT_SCRIPT],
            env={**os.environ, **dict.fromkeys(names, threads)},
            capture_output=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    }
    assert printed["1"] == printed["2"]


def measure_memory_growth(fits):
    """Return the growth of the resident memory in MB over many small fits, some with new models."""
    with open("/proc/self/statm") as statm:
        before = int(statm.read().split()[1])
    for k in range(fits):
        model = wf.Model.from_text(f"x' = -k*x + {k % 7}*0.001") if k % 10 == 0 else DECAY
        t, x = decay(40)
        wf.fit(model, wf.Dataset(t, x))
    with open("/proc/self/statm") as statm:
        return (int(statm.read().split()[1]) - before) * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_stays_constant():
    measure_memory_growth(40)  # fills caches and loads libraries, whose memory is not a leak
    assert measure_memory_growth(200) < 25


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_stays_constant_over_ten_thousand_fits():
    measure_memory_growth(200)
    first = measure_memory_growth(1000)
    assert measure_memory_growth(10_000) < 60 + 2 * max(first, 0)
