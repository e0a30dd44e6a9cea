"""Tables: separators, roles of columns, and errors with the line number."""

import numpy as np
import pandas as pd
import pytest

import weakform as wf
from support import GROWN, TIMES, T, U
from weakform.support.errors import DataError


@pytest.mark.parametrize(
    "separator", [pytest.param(",", id="comma"), pytest.param(";", id="semicolon"), pytest.param("\t", id="tab")]
)
def test_csv_and_frame_give_the_same_data(tmp_path, separator):
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
        pytest.param("t,x\n0,1\n1,oops\n", "line 3, column 'x': 'oops' is not a number", id="a word"),
        pytest.param("t,x\n0,1,2\n", "line 2: 3 values for 2 columns", id="a value too many"),
        pytest.param("t,t\n0,1\n", "all names must differ", id="column twice"),
        pytest.param("", "needs a header row", id="empty"),
        pytest.param("t\n" + "\n".join(map(str, range(9))), "only the time column", id="time alone"),
    ],
)
def test_csv_errors_name_the_line(tmp_path, text, message):
    path = tmp_path / "data.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        wf.Dataset.from_csv(path)


def test_missing_column_or_file_is_refused(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("t,x\n0,1\n1,2\n")
    with pytest.raises(DataError, match=r"No column 'z'.*its columns are: t, x"):
        wf.Dataset.from_csv(path, names=["z"])
    with pytest.raises(DataError, match="Cannot read"):
        wf.Dataset.from_csv(tmp_path / "none.csv")


def test_columns_take_their_roles(tmp_path):
    frame = pd.DataFrame(
        {
            "who": ["x"] * 12 + ["y"] * 12,
            "when": np.tile(np.arange(12.0), 2),
            "Pelts of hare": np.random.default_rng(1).uniform(1, 2, 24),
            "se": 0.1,
            "heat": np.arange(24.0),
        }
    )
    file = tmp_path / "t.csv"
    frame.to_csv(file, index=False)
    roles = {
        "time": "when",
        "names": {"hare": "Pelts of hare"},
        "sigma": {"hare": "se"},
        "inputs": ["heat"],
        "trajectory": "who",
    }
    for data in (wf.Dataset.from_csv(file, **roles), wf.Dataset.from_frame(frame, **roles)):
        assert data.names == ("hare",)
        assert [q.label for q in data.trajectories] == ["x", "y"]
        assert data.trajectories[1].inputs.values[0, 0] == 12
        assert np.allclose(data.trajectories[0].scale * data.sigma, 0.1)
    backwards = wf.Dataset.from_frame(frame.iloc[::-1], **roles)
    assert any("have been sorted" in note for note in backwards.notes)
    assert (np.diff(backwards.trajectories[0].times) > 0).all()


def test_numeric_labels_of_trajectories_stay_distinct(tmp_path):
    rows = [f"{i},{t},{v}" for i, v in ((1234561, 1), (1234562, 2)) for t, v in enumerate(np.arange(12) * v + v)]
    (tmp_path / "d.csv").write_text("who,t,x\n" + "\n".join(rows))
    data = wf.Dataset.from_csv(tmp_path / "d.csv", trajectory="who")
    assert [q.label for q in data.trajectories] == ["1234561", "1234562"]
    (tmp_path / "e.csv").write_text("who,t,x\n" + "\n".join(rows) + "\n,5,6\n")
    with pytest.raises(DataError, match="tells trajectories apart"):
        wf.Dataset.from_csv(tmp_path / "e.csv", trajectory="who")


def test_table_without_a_header_is_refused(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("\n".join(f"{t},{n}" for t, n in zip(TIMES, GROWN, strict=True)))
    with pytest.raises(wf.WeakformError, match="header"):
        wf.Dataset.from_csv(path)


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda: wf.Dataset.from_frame(np.c_[T, U]), id="an array"),
        pytest.param(lambda: wf.Dataset.from_frame(pd.DataFrame()), id="an empty frame"),
        pytest.param(
            lambda: wf.Dataset.from_frame(pd.DataFrame({"t": T, "Ny": U[:, 0]}), names="Ny"), id="names as text"
        ),
        pytest.param(lambda: wf.Dataset.from_csv(5), id="a number for a file"),
    ],
)
def test_every_refusal_is_a_weakform_error(build):
    with pytest.raises(wf.WeakformError):
        build()
