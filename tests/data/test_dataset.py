"""Datasets: accepted arguments, and one clear error for each argument that is not."""

import numpy as np
import pandas as pd
import pytest

import weakform as wf
from support import T, U
from weakform.support.errors import DataError

NINE = np.arange(9.0)


def changed(array, index, value):
    array = array.copy()
    array[index] = value
    return array


@pytest.mark.parametrize(
    ("arguments", "more", "message"),
    [
        pytest.param((T, U[:-1]), {}, "one row for each time", id="a value short"),
        pytest.param((T, U.T), {}, "transposed", id="transposed"),
        pytest.param((T[:, None], U), {}, "one row for each time", id="times in a column"),
        pytest.param((T, [["a"] * 2] * 30), {}, "must be numbers", id="text"),
        pytest.param((T, changed(U, (4, 1), np.inf)), {}, "not a number", id="an infinite value"),
        pytest.param((changed(T, 3, np.nan), U), {}, "Time number 4 is not", id="a time missing"),
        pytest.param((T[:2], U[:2]), {}, "At least 3 samples", id="too few"),
        pytest.param((T, U, "normal"), {}, "'gaussian' or 'lognormal'", id="unknown noise"),
        pytest.param((T, U, ["gaussian"]), {}, "one for each of 2 states", id="noise of one state"),
        pytest.param((T, -U, "lognormal"), {}, "needs positive values", id="log-normal and negative"),
        pytest.param((T, U, "gaussian", -1.0), {}, "not negative", id="negative sigma"),
        pytest.param((T, U, "gaussian", [1.0, 2.0, 3.0]), {}, "one for each of 2 states", id="three sigmas"),
        pytest.param(([0, 1, 2] * 4, np.arange(12.0)), {}, "Dataset.join", id="times that begin again"),
        pytest.param((NINE, np.r_[1.0, np.full(8, np.nan)]), {}, "received 1", id="one value"),
        pytest.param((NINE, NINE), {"sigma": np.ones((3, 2))}, "sigma of the points", id="sigma of other points"),
        pytest.param((NINE, np.ones((9, 2))), {"sigma": [[1, 2], [2, 1]]}, "positive definite", id="indefinite sigma"),
        pytest.param((NINE, NINE), {"inputs": {"q": np.ones(4)}}, "one value for each time", id="a short input"),
        pytest.param((NINE, NINE), {"inputs": {"q": np.full(9, np.nan)}}, "must be known", id="an unknown input"),
    ],
)
def test_wrong_argument_gives_one_clear_error(arguments, more, message):
    with pytest.raises(DataError, match=message):
        wf.Dataset(*arguments, **more)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param(changed(U, (slice(None), 0), 3.0), "x never varies", id="constant"),
        pytest.param(changed(U, (slice(None), 1), np.nan), "y has no measured value", id="no value of a state"),
    ],
)
def test_fit_refuses_column_that_is_constant_or_empty(values, message):
    model = wf.Model.from_text("x' = -a*x\ny' = a*x - b*y")
    with pytest.raises(DataError, match=message):
        wf.fit(model, wf.Dataset(T, values, names=["x", "y"]))


def test_rows_in_any_order_give_the_same_trajectory():
    order = np.random.default_rng(0).permutation(len(T))
    inputs = {"q": np.sin(T)}
    in_order, shuffled = (
        wf.Dataset(T[i], U[i], sigma=1.0 + np.abs(U[i]), inputs={"q": inputs["q"][i]})
        for i in (np.arange(len(T)), order)
    )
    assert any("sorted" in note for note in shuffled.notes)
    for a, b in zip(vars(in_order.trajectories[0]).values(), vars(shuffled.trajectories[0]).values(), strict=True):
        if isinstance(a, np.ndarray):
            assert np.array_equal(a, b)
    assert np.array_equal(in_order.trajectories[0].inputs.values, shuffled.trajectories[0].inputs.values)


def test_masked_integers_are_missing_values():
    counts = np.ma.masked_array(np.arange(30), mask=np.arange(30) == 4)
    assert np.isnan(wf.Dataset(T, counts).trajectories[0].values).sum() == 0
    assert wf.Dataset(T, counts).samples == 29


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda: wf.Dataset(1.0, U), id="one time"),
        pytest.param(lambda: wf.Dataset(T, U, noise=None), id="no noise"),
        pytest.param(lambda: wf.Dataset(T, U, noise=0.1), id="noise as a number"),
        pytest.param(lambda: wf.Dataset(T, U, names=5), id="names as a number"),
        pytest.param(lambda: wf.Dataset(T, U[:, 0], names=[5]), id="a number as a name"),
        pytest.param(lambda: wf.Dataset(T, U + 0j), id="complex"),
        pytest.param(lambda: wf.Dataset(pd.date_range("2020", periods=30), U), id="dates"),
        pytest.param(
            lambda: wf.Dataset(T, 5 * np.exp(-0.6 * T) - 3, noise="lognormal"), id="log-normal and partly negative"
        ),
    ],
)
def test_every_refusal_is_a_weakform_error(build):
    with pytest.raises(wf.WeakformError):
        build()


def test_single_state_may_be_a_vector():
    data = wf.Dataset(T, U[:, 0], sigma=0.1)
    assert (data.D, data.samples, data.sigma.shape) == (1, 30, (1,))


def test_each_state_may_have_its_kind_of_noise():
    assert wf.Dataset(T, U, ["gaussian", "lognormal"]).noise == ("gaussian", "lognormal")


def test_non_positive_rows_at_the_ends_are_dropped_and_reported():
    data = wf.Dataset(T, changed(changed(U, (0, 0), 0.0), (-1, 1), -2.0), "lognormal")
    assert data.samples == 28
    assert "2 rows" in data.notes[0]
    assert "t = 0, 5" in data.notes[0]
    assert wf.Dataset(T, changed(U, (0, 0), 0.0)).samples == 30


def test_dataset_copies_its_arrays():
    values = U.copy()
    data = wf.Dataset(T, values)
    values[0, 0] = 99.0
    assert data.trajectories[0].values[0, 0] == U[0, 0]


def test_repeated_measurements_are_counted_by_state():
    """Three values of x at t = 1, two of them with y; two complete rows at t = 2: 2 + 1 repeats of x and 1 + 1 of y."""
    t = np.array([0.0, 1, 1, 1, 2, 2, 3])
    u = np.array([[1.0, 1], [2, 2], [3, 3], [4, np.nan], [5, 5], [6, 6], [7, 7]])
    first = wf.Dataset(t, u)
    assert first.repeated_measurements.tolist() == [3, 2]
    assert (first.measurements + first.repeated_measurements).tolist() == [7, 6]
    without = wf.Dataset([0, 1, 2], u[:3])
    assert without.repeated_measurements.tolist() == [0, 0]
    assert wf.Dataset.join([first, without, first]).repeated_measurements.tolist() == [6, 4]
