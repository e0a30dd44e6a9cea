"""Datasets: what is accepted, and one clear error for each thing that is not."""

import numpy as np
import pandas as pd
import pytest

import weakform as wf
from weakform.data.matching import for_model
from weakform.support.errors import DataError

T = np.linspace(0, 5, 30)
U = np.column_stack([np.sin(T) + 2, np.cos(T) + 2])


def changed(array, index, value):
    array = array.copy()
    array[index] = value
    return array


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((T, U[:-1]), "one row for each time"),
        ((T, U.T), "transposed"),
        ((T[:, None], U), "one row for each time"),
        ((T, [["a"] * 2] * 30), "must be numbers"),
        ((T, changed(U, (4, 1), np.inf)), "not a number"),
        ((changed(T, 3, np.nan), U), "Time number 4 is not"),
        ((T[::-1], U), "unsorted, rows 1 and 2"),
        ((T[:5], U[:5]), "At least 8 samples"),
        ((T, changed(U, (slice(None), 0), 3.0)), "column 1 never varies"),
        ((T, U, "normal"), "'gaussian' or 'lognormal'"),
        ((T, U, ["gaussian"]), "one for each of 2 states"),
        ((T, -U, "lognormal"), "needs positive values"),
        ((T, U, "gaussian", -1.0), "not negative"),
        ((T, U, "gaussian", [1.0, 2.0, 3.0]), "one for each of 2 states"),
    ],
)
def test_one_clear_error(arguments, message):
    with pytest.raises(DataError, match=message):
        wf.Dataset(*arguments)


def test_a_single_state_may_be_a_vector():
    data = wf.Dataset(T, U[:, 0], sigma=0.1)
    assert (data.D, data.samples, data.sigma.shape) == (1, 30, (1,))


def test_noise_by_state():
    assert wf.Dataset(T, U, ["gaussian", "lognormal"]).noise == ("gaussian", "lognormal")


def test_non_positive_rows_at_the_ends_are_dropped_and_said():
    data = wf.Dataset(T, changed(changed(U, (0, 0), 0.0), (-1, 1), -2.0), "lognormal")
    assert data.samples == 28
    assert "2 rows" in data.notes[0]
    assert "t = 0, 5" in data.notes[0]
    assert wf.Dataset(T, changed(U, (0, 0), 0.0)).samples == 30


def test_the_data_given_are_not_changed_and_not_shared():
    values = U.copy()
    data = wf.Dataset(T, values)
    values[0, 0] = 99.0
    assert data.trajectories[0].values[0, 0] == U[0, 0]


def model(*states):
    return wf.Model.from_text("\n".join(f"{s}' = -k*{s}" for s in states))


def test_columns_are_matched_to_states_by_name():
    data = wf.Dataset(T, U, ["gaussian", "lognormal"], [0.1, 0.2], names=["b", "a"])
    picked = for_model(data, model("a", "b"))
    assert np.array_equal(picked.trajectories[0].values, U[:, ::-1])
    assert picked.noise == ("lognormal", "gaussian")
    assert np.array_equal(picked.sigma, [0.2, 0.1])
    with pytest.raises(DataError, match="state 'c' has no column"):
        for_model(data, model("a", "c"))
    with pytest.raises(DataError, match="3 states"):
        for_model(wf.Dataset(T, U), model("a", "b", "c"))


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_csv_and_frame(tmp_path, separator):
    frame = pd.DataFrame({"time": T, "x": U[:, 0], "y": U[:, 1], "unused": 1.0})
    path = tmp_path / "data.csv"
    path.write_text("\ufeff" + frame.to_csv(index=False, sep=separator), encoding="utf-8")
    from_csv = wf.Dataset.from_csv(path, names=["y", "x"], noise="lognormal")
    from_frame = wf.Dataset.from_frame(frame, time="time", names=["y", "x"], noise="lognormal")
    for data in (from_csv, from_frame):
        assert data.names == ("y", "x")
        assert np.allclose(data.trajectories[0].values, U[:, ::-1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t,x\n0,1\n1,oops\n", "line 3, column 'x': 'oops' is not a number"),
        ("t,x\n0,1,2\n", "line 2: 3 values for 2 columns"),
        ("t,t\n0,1\n", "must be there and differ"),
        ("", "needs a header row"),
        ("t\n" + "\n".join(map(str, range(9))), "only the time column"),
    ],
)
def test_csv_errors_name_the_line(tmp_path, text, message):
    path = tmp_path / "data.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        wf.Dataset.from_csv(path)


def test_csv_missing_column_and_file(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("t,x\n0,1\n1,2\n")
    with pytest.raises(DataError, match=r"No column 'z'.*its columns are: t, x"):
        wf.Dataset.from_csv(path, names=["z"])
    with pytest.raises(DataError, match="Cannot read"):
        wf.Dataset.from_csv(tmp_path / "none.csv")
