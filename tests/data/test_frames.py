"""Columns of a pandas frame or series belong to states by name, never by position."""

import numpy as np
import pandas as pd
import pytest

import weakform as wf
from weakform import DataError

T = np.linspace(0, 5, 51)
MODEL = wf.Model.from_text("hare' = a*hare - b*hare*lynx\nlynx' = -c*lynx + d*hare*lynx")
STATES = wf.simulate(MODEL, [3, 1, 6, 1], [1, 1], T).states
FRAME = pd.DataFrame({"time": T, "hare": STATES[:, 0], "lynx": STATES[:, 1], "rain": np.sin(T)})


def test_order_of_columns_does_not_matter():
    for columns in (["hare", "lynx"], ["lynx", "hare"]):
        fit = wf.fit(MODEL, wf.Dataset(FRAME.time, FRAME[columns]))
        assert np.allclose(fit.estimate, [3, 1, 6, 1], rtol=1e-3)


def test_series_gives_its_name_to_the_column():
    assert wf.Dataset(FRAME.time, FRAME.hare).names == ("hare",)
    assert wf.Dataset(T, STATES).names is None


def test_name_that_is_no_state_is_refused_unless_names_give_positions():
    renamed = FRAME[["hare", "lynx"]].rename(columns={"lynx": "lynks"})
    with pytest.raises(DataError, match="Did you mean 'lynx'"):
        wf.fit(MODEL, wf.Dataset(FRAME.time, renamed))
    with pytest.raises(DataError, match="'rain' is neither a state"):
        wf.fit(MODEL, wf.Dataset(FRAME.time, FRAME[["lynx", "hare", "rain"]]))
    assert wf.fit(MODEL, wf.Dataset(FRAME.time, renamed, names=["hare", "lynx"])).converged
    assert wf.fit(MODEL, wf.Dataset(FRAME.time, renamed.to_numpy())).converged


def test_frame_with_numbered_columns_has_no_names():
    assert wf.Dataset(T, pd.DataFrame(STATES)).names is None


def test_further_columns_of_a_table_are_left_out_with_a_note():
    fit = wf.fit(MODEL, wf.Dataset.from_frame(FRAME, time="time"))
    assert any("rain" in note for note in fit.data.notes)


def test_single_trajectory_has_no_label():
    data = wf.Dataset(T, STATES, names=["hare", "lynx"])
    assert data.trajectories[0].label == ""
    assert "lynx:" not in repr(data)
    assert "lynx: 51" not in str(wf.fit(MODEL, data))
