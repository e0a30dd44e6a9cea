"""Automatic profiles obey the time limit of the fit, and run only for fits whose intervals can be used."""

import itertools
import time
from dataclasses import replace

import numpy as np
import pytest

import weakform as wf
from support import EXAMPLES
from weakform.results.records import LateResults
from weakform.results.status import Status

HARES = wf.Model.from_text("hare' = a*hare - b*hare*lynx\nlynx' = -c*lynx + d*hare*lynx")
PELTS = wf.Dataset.from_csv(EXAMPLES / "lynx_hare.csv", noise="lognormal")
FIT = wf.fit(HARES, PELTS)
CHAIN = wf.Model.from_text("x' = -a*x\nw' = a*x - b*w")
ENDED = "Wald: the time limit ended its profile"


def hidden_fit():
    """A fit of a chain whose first state is hidden, with few samples: its default intervals are all by profiles."""
    t = np.linspace(0, 9, 10)
    w = wf.simulate(CHAIN, [0.5, 0.3], [2.0, 0.4], t).states[:, 1]
    data = wf.Dataset(t, w + 0.1 * np.random.default_rng(1).standard_normal(10), names=["w"])
    return wf.fit(CHAIN, data, bounds={"a": (0, 5), "b": (0, 5)})


HIDDEN = hidden_fit()


def with_time_limit(fit, seconds):
    """Return the same fit with another time limit and nothing computed yet."""
    return replace(fit, options=replace(fit.options, time_limit=seconds), late=LateResults())


def with_status(fit, status):
    """Return the same fit with another status and nothing computed yet."""
    return replace(fit, status=status, late=LateResults())


def notes(fit):
    return [fit[name].note for name in fit]


class SteppingClock:
    """A clock that moves on by one second whenever it is read."""

    def __init__(self):
        self.reads = itertools.count()

    def __call__(self):
        return float(next(self.reads))


def seconds_needed(monkeypatch, fit):
    """Return how often the clock is read while all default intervals of a fit are computed."""
    fit = with_time_limit(fit, np.inf)
    monkeypatch.setattr(time, "monotonic", SteppingClock())
    fit.intervals()
    return fit.late.profile_seconds


@pytest.mark.parametrize("fit", [FIT, HIDDEN], ids=["all states measured", "a hidden state"])
def test_default_intervals_are_walds_if_the_time_limit_ends_their_profiles(fit):
    assert "by its profile" in notes(with_time_limit(fit, 200.0))
    hurried = with_time_limit(fit, 1e-9)
    assert np.array_equal(hurried.intervals(), fit.intervals(kind="wald"))
    assert np.array_equal(hurried.errors, fit.wald_errors)
    assert notes(hurried) == [ENDED] * len(fit.model.parameters)
    assert hurried.late.curves == {}
    assert str(hurried).count(ENDED) >= len(fit.model.parameters)


def test_a_method_that_solves_the_equations_obeys_the_time_limit():
    fit = with_time_limit(wf.fit(HARES, PELTS, method="output-error"), 1e-9)
    assert np.array_equal(fit.intervals(), fit.intervals(kind="wald"))
    assert notes(fit) == [ENDED] * 4


def test_a_parameter_at_its_bound_has_no_interval_if_the_time_limit_ends_its_profile():
    problem = wf.problems.get("logistic")
    fit = wf.fit(problem.model, problem.simulate(M=200, noise=0.05, seed=1), bounds={"p1": (0, 0.98)})
    hurried = with_time_limit(fit, 1e-9)
    assert np.isnan(hurried["p1"].interval).all()
    assert hurried["p1"].note == "at its bound, no interval: the time limit ended its profile"


@pytest.mark.parametrize("fit", [FIT, HIDDEN], ids=["all states measured", "a hidden state"])
def test_profiles_that_are_finished_in_time_are_used(fit, monkeypatch):
    """Half of the time that all profiles need ends the work on the way: between two refits, or in one."""
    needed = seconds_needed(monkeypatch, fit)
    half = with_time_limit(fit, 0.5 * needed)
    monkeypatch.setattr(time, "monotonic", SteppingClock())
    kinds = notes(half)
    assert kinds[-1] == ENDED
    # One read more notices that the time is over, and one more counts it.
    assert half.late.profile_seconds <= 0.5 * needed + 2
    almost = with_time_limit(fit, needed)  # nine tenths of it are for profiles
    monkeypatch.setattr(time, "monotonic", SteppingClock())
    kinds = notes(almost)
    assert kinds[0] == "by its profile"
    assert kinds[-1] == ENDED
    whole = with_time_limit(fit, np.inf).intervals()
    assert almost.intervals()[0] == pytest.approx(whole[0], rel=1e-12)
    assert np.array_equal(almost.intervals()[-1], fit.intervals(kind="wald")[-1])


def test_the_time_limit_counts_for_all_automatic_profiles_together(monkeypatch):
    fit = with_time_limit(FIT, 1.5 * seconds_needed(monkeypatch, FIT))
    monkeypatch.setattr(time, "monotonic", SteppingClock())
    assert ENDED not in notes(fit)
    spent = fit.late.profile_seconds
    ends, wald = fit.intervals(0.9), fit.intervals(0.9, "wald")
    assert fit.late.automatic[0.9][1][-1] == ENDED
    assert np.array_equal(ends[-1], wald[-1])
    assert spent < fit.late.profile_seconds <= fit.options.time_limit


def test_default_intervals_are_computed_once_even_if_the_time_limit_ended_them():
    fit = with_time_limit(FIT, 1e-9)
    fit.intervals()
    spent = fit.late.profile_seconds
    str(fit)
    assert fit.late.profile_seconds == spent


@pytest.mark.parametrize("fit", [FIT, HIDDEN], ids=["all states measured", "a hidden state"])
def test_requested_profiles_always_run_and_serve_the_default_intervals_afterwards(fit):
    hurried = with_time_limit(fit, 1e-9)
    assert notes(hurried) == [ENDED] * len(fit.model.parameters)
    requested = hurried.intervals(kind="profile")
    assert np.array_equal(requested, with_time_limit(fit, 200.0).intervals(kind="profile"))
    assert set(hurried.profiles) == set(fit.model.parameters)
    assert notes(hurried) == ["by its profile"] * len(fit.model.parameters)
    assert np.array_equal(hurried.intervals(), requested)


@pytest.mark.parametrize("status", Status)
def test_automatic_profiles_run_only_if_the_intervals_can_be_used(status):
    fit = with_status(FIT, status)
    fit.intervals()
    runs = status in (Status.CONVERGED, Status.UNDETERMINED)
    assert bool(fit.late.curves) == runs
    assert ("by its profile" in notes(fit)) == runs
    if not runs:
        assert np.array_equal(fit.intervals(), fit.intervals(kind="wald"))
        assert notes(fit) == [""] * 4
        assert np.isfinite(fit.intervals(kind="profile")).all()


@pytest.mark.parametrize("status", [Status.REJECTED, Status.MISSTATED])
def test_printing_a_fit_that_is_not_to_be_trusted_starts_no_profiles(status):
    fit = with_status(HIDDEN, status)
    assert "by its profile" not in str(fit)
    assert fit.late.curves == {}
    assert fit.late.bands == {}
    assert fit.late.profile_seconds == 0.0


def test_initial_values_are_linearised_if_the_time_limit_ends_their_profiles():
    plain, hurried = with_time_limit(HIDDEN, 200.0), with_time_limit(HIDDEN, 1e-9)
    assert plain.initial["x"].note == "by its profile"
    assert hurried.initial["x"].note == ENDED
    # The delta method's interval is symmetric.
    low, high = hurried.initial["x"].interval
    assert low + high == pytest.approx(2 * hurried.initial["x"].value)


def test_automatic_bands_are_linearised_if_the_time_limit_ends_them():
    times = np.array([0.0, 3.0, 9.0])
    hurried = with_time_limit(HIDDEN, 1e-9)
    # Wald's intervals give no reason to look at the likelihood, requested profiles do.
    hurried.intervals(kind="profile")
    assert with_time_limit(HIDDEN, 200.0).predict(times).kind == "profile"
    band = hurried.predict(times)
    assert band.kind == "delta"
    assert "The time limit ended the band" in band.note
    assert band["x"] == pytest.approx(hurried.predict(times, kind="delta")["x"])


def test_requested_bands_always_run():
    times = np.array([0.0, 3.0, 9.0])
    bands = [
        fit.predict(times, kind="profile")["x"]
        for fit in (with_time_limit(HIDDEN, 1e-9), with_time_limit(HIDDEN, 200.0))
    ]
    assert np.array_equal(*bands)
