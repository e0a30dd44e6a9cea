"""Tables in common formats: long, compressed, with sheets, dates with a time zone, durations, an index as the time."""

import gzip
from datetime import date, timedelta

import numpy as np
import pytest

import weakform as wf

LONG = """id,time,name,value,sd
a,0,x,1.0,0.1
a,0,y,5.0,0.5
a,1,x,2.0,0.1
a,2,x,3.0,0.2
a,2,y,4.0,0.5
b,0,x,1.5,0.1
b,1,x,2.5,0.1
b,1,y,3.0,0.5
b,2,y,2.0,0.5
"""


def test_long_table_becomes_wide_with_one_trajectory_per_id(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text(LONG)
    data = wf.Dataset.from_csv(path)
    assert data.names == ("x", "y")
    assert [q.label for q in data.trajectories] == ["a", "b"]
    np.testing.assert_array_equal(data.trajectories[0].values, [[1, 5], [2, np.nan], [3, 4]])
    np.testing.assert_array_equal(data.trajectories[1].times, [0, 1, 2])
    assert any("long" in note for note in data.notes)
    renamed = wf.Dataset.from_csv(path, names={"prey": "x"})
    assert renamed.names == ("prey",)


def test_long_and_wide_table_give_the_same_values(tmp_path):
    rng = np.random.default_rng(0)
    t, u = np.arange(6.0), rng.normal(size=(6, 2))
    (tmp_path / "wide.csv").write_text(
        "time,x,y\n" + "".join(f"{a:.17g},{b:.17g},{c:.17g}\n" for a, (b, c) in zip(t, u, strict=True))
    )
    rows = [(a, "xy"[k], u[i, k]) for i, a in enumerate(t) for k in (0, 1)]
    rng.shuffle(rows)
    (tmp_path / "long.csv").write_text(
        "time,variable,value\n" + "".join(f"{float(a):.17g},{n},{float(v):.17g}\n" for a, n, v in rows)
    )
    wide, long = (wf.Dataset.from_csv(tmp_path / f"{name}.csv") for name in ("wide", "long"))
    order = [long.names.index(name) for name in wide.names]
    np.testing.assert_array_equal(long.trajectories[0].values[:, order], wide.trajectories[0].values)


def test_repeated_values_of_a_long_table_are_repeated_measurements(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("time,name,value\n0,x,1\n0,x,2\n1,x,3\n1,y,4\n2,x,5\n2,y,6\n")
    data = wf.Dataset.from_csv(path)
    assert list(data.trajectories[0].times) == [0, 1, 2]  # repeats are averaged, with weights
    assert data.trajectories[0].values[0, 0] == 1.5


def test_table_whose_value_column_is_requested_stays_wide(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("time,state,value\n0,NY,1\n1,NY,2\n2,NY,3\n")
    assert wf.Dataset.from_csv(path, names=["value"]).names == ("value",)


def test_compressed_text_is_read_and_damaged_one_is_refused(tmp_path):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(b"time,x\n0,1\n1,2\n2,3\n"))
    assert wf.Dataset.from_csv(path).samples == 3
    path.write_bytes(gzip.compress(b"time,x\n0,1\n1,2\n2,3\n")[:-9])
    with pytest.raises(wf.DataError, match="unpacked"):
        wf.Dataset.from_csv(path)
    path.write_bytes(b"time,x\n0,1\n")
    with pytest.raises(wf.DataError, match=r"table\.csv\.gz"):
        wf.Dataset.from_csv(path)


def test_sheet_is_chosen_by_name_and_first_by_default(tmp_path):
    import pandas as pd

    path = tmp_path / "book.xlsx"
    with pd.ExcelWriter(path) as book:
        pd.DataFrame({"time": [0, 1, 2], "x": [1.0, 2.0, 3.0]}).to_excel(book, sheet_name="first", index=False)
        pd.DataFrame({"time": [0, 1, 2], "y": [1.0, 2.0, 4.0]}).to_excel(book, sheet_name="second", index=False)
    first = wf.Dataset.from_csv(path)
    assert first.names == ("x",)
    assert any("'first'" in note for note in first.notes)
    assert wf.Dataset.from_csv(path, sheet="second").names == ("y",)
    with pytest.raises(wf.DataError, match=r"no sheet .secnd..*second"):
        wf.Dataset.from_csv(path, sheet="secnd")
    (tmp_path / "plain.csv").write_text("time,x\n0,1\n1,2\n2,3\n")
    with pytest.raises(wf.DataError, match="no sheets"):
        wf.Dataset.from_csv(tmp_path / "plain.csv", sheet="first")


def test_dates_with_a_time_zone_become_days(tmp_path):
    path = tmp_path / "zone.csv"
    path.write_text("date,x\n2024-03-30T12:00:00+01:00,1\n2024-03-31T12:00:00+02:00,2\n2024-04-01T12:00:00+02:00,3\n")
    np.testing.assert_allclose(wf.Dataset.from_csv(path).trajectories[0].times, [0, 23 / 24, 47 / 24])


def test_index_of_a_frame_is_the_time_if_it_looks_like_one():
    import pandas as pd

    zone = pd.date_range("2024-01-01", periods=4, freq="12h", tz="Europe/Berlin")
    x = np.array([1.0, 2.0, 3.0, 4.0])
    half_days = [0, 0.5, 1, 1.5]
    for frame in (
        pd.DataFrame({"when": zone, "x": x}),
        pd.DataFrame({"x": x}, index=zone),
        pd.DataFrame({"x": x}, index=pd.to_timedelta([0, 12, 24, 36], unit="h")),
        pd.DataFrame({"x": x}, index=pd.Index(half_days)),
        pd.DataFrame({"x": x}, index=pd.Index(half_days, name="day")),
        pd.DataFrame({"when": [timedelta(days=d) for d in half_days], "x": x}),
    ):
        data = wf.Dataset.from_frame(frame)
        assert data.names == ("x",)
        np.testing.assert_allclose(data.trajectories[0].times, half_days)
    days = pd.DataFrame({"when": [date(2024, 1, k) for k in (1, 2, 4)], "x": x[:3]})
    np.testing.assert_allclose(wf.Dataset.from_frame(days).trajectories[0].times, [0, 1, 3])
    # The index that remains after a selection of rows is not the time.
    frame = pd.DataFrame({"t": [0.0, 1.0, 2.0, 3.0], "x": x})
    assert list(wf.Dataset.from_frame(frame[frame.x > 1]).trajectories[0].times) == [1, 2, 3]


def test_polars_frame_is_read():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"time": [0.0, 1.0, 2.0], "x": [1.0, None, 3.0], "y": [1, 2, 3]})
    data = wf.Dataset.from_frame(frame)
    assert data.names == ("x", "y")
    np.testing.assert_array_equal(data.trajectories[0].values[:, 0], [1, np.nan, 3])


def test_index_of_a_parquet_file_is_the_time(tmp_path):
    import pandas as pd

    frame = pd.DataFrame({"x": [1, 2, 3, 5.0], "y": [1, 2, 3, 5.0]}, index=pd.Index([0, 0.5, 1, 1.5], name="time"))
    frame.to_parquet(tmp_path / "p.parquet")
    data = wf.Dataset.from_csv(tmp_path / "p.parquet")
    assert data.names == ("x", "y")
    assert list(data.trajectories[0].times) == [0, 0.5, 1, 1.5]


def test_index_that_may_be_the_time_is_never_ignored():
    import pandas as pd

    values = {"x": [1.0, 2, 3, 5], "y": [1.0, 2, 3, 5]}
    for index in (pd.Index([0, 5, 10, 15]), pd.Index([0, 5, 10, 15], name="foo"), pd.Index(list("abcd"))):
        with pytest.raises(wf.DataError, match="say which is the time"):
            wf.Dataset.from_frame(pd.DataFrame(values, index=index))
    dates = pd.DataFrame(values, index=["2024-03-01", "2024-03-02", "2024-03-04", "2024-03-05"])
    assert list(wf.Dataset.from_frame(dates).trajectories[0].times) == [0, 1, 3, 4]
    levels = pd.MultiIndex.from_product([["a", "b"], [0.0, 1.0, 2.0, 3.0]], names=["id", "time"])
    both = pd.DataFrame({"x": np.arange(8.0)}, index=levels)
    data = wf.Dataset.from_frame(both, trajectory="id")
    assert [q.label for q in data.trajectories] == ["a", "b"]
    with pytest.raises(wf.DataError, match="no rows"):
        wf.Dataset.from_frame(pd.DataFrame({"time": [], "x": []}))


def test_two_columns_together_tell_trajectories_of_a_long_table_apart(tmp_path):
    path = tmp_path / "long.csv"
    rows = [f"{s},{c},{t},x,{v}" for t in range(3) for s, c, v in (("A", "low", t + 1), ("A", "high", 100 * (t + 1)))]
    path.write_text("subject,condition,time,name,value\n" + "\n".join(rows) + "\n")
    data = wf.Dataset.from_csv(path)
    assert [q.label for q in data.trajectories] == ["A low", "A high"]
    np.testing.assert_array_equal(data.trajectories[1].values[:, 0], [100, 200, 300])
    chosen = wf.Dataset.from_csv(path, trajectory="condition")
    assert [q.label for q in chosen.trajectories] == ["low", "high"]


def test_order_of_rows_of_a_long_table_does_not_matter(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text(
        "time,name,value\n"
        + "".join(f"{t},{n},{t}\n" for n, times in (("x", (2, 0, 1)), ("y", (0.5, 3))) for t in times)
    )
    data = wf.Dataset.from_csv(path)
    assert list(data.trajectories[0].times) == [0, 0.5, 1, 2, 3]


@pytest.mark.parametrize(("first", "second"), [("Na", "K"), ("K", "Na"), ("101", "102"), ("NA", "None")])
def test_names_that_look_like_numbers_or_missing_values_stay_names(tmp_path, first, second):
    path = tmp_path / "long.csv"
    path.write_text("time,name,value\n" + "".join(f"{t},{n},{t}\n" for t in range(4) for n in (first, second)))
    assert wf.Dataset.from_csv(path).names == (first, second)


def test_errors_that_are_partly_missing_are_refused(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text(LONG.replace("a,2,y,4.0,0.5", "a,2,y,4.0,"))
    with pytest.raises(wf.DataError, match="1 values of 'y' have nothing in the column 'sd'"):
        wf.Dataset.from_csv(path)
    path.write_text(LONG)
    assert wf.Dataset.from_csv(path, sigma=5.0).names == ("x", "y")


def test_two_decimal_signs_in_one_column_are_refused(tmp_path):
    path = tmp_path / "table.tsv"
    path.write_text("t\tx\n0\t999.5\n1\t1,500\n2\t2,25\n")
    with pytest.raises(wf.DataError, match="another decimal sign"):
        wf.Dataset.from_csv(path)


def test_labels_keep_their_leading_zeros(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,time,x\n" + "".join(f"{i},{t},{t + k}\n" for k, i in enumerate(("01", "1")) for t in range(4)))
    assert [q.label for q in wf.Dataset.from_csv(path, trajectory="id").trajectories] == ["01", "1"]


def test_ambiguous_dates_are_reported_or_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("time,x\n20240301,1\n20240302,2\n20240401,3\n")
    assert any("look like dates" in note for note in wf.Dataset.from_csv(path).notes)
    path.write_text("time,x\n2024-03-01T00:00:00+01:00,1\n2024-03-02T00:00:00,2\n2024-03-03T00:00:00,3\n")
    with pytest.raises(wf.DataError, match="time zone and others have none"):
        wf.Dataset.from_csv(path)
    path.write_text("Zeit (Tage);x\n1.3.2024;1,5\n2.3.2024;2\n4.3.2024;3\n", encoding="cp1252")
    np.testing.assert_array_equal(wf.Dataset.from_csv(path).trajectories[0].times, [0, 1, 3])


def test_windows_1252_file_is_read_with_a_note(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("time;Größe\n0;1,5\n1;2,5\n2;3,5\n".encode("cp1252"))
    data = wf.Dataset.from_csv(path)
    assert data.names == ("Größe",)
    assert any("Windows-1252" in note for note in data.notes)


def test_errors_name_the_row_of_a_sheet_as_its_program_counts_it(tmp_path):
    """The header is row 1 and the first values are in row 2; an empty row is counted, and not read."""
    import pandas as pd

    times = [0, 1, None, 2, 3]
    for bad, line in ((0, 2), (1, 3), (3, 5), (4, 6)):
        values = [1.0, 2.0, None, 3.0, 4.0]
        values[bad] = "much"
        pd.DataFrame({"time": times, "x": values}).to_excel(tmp_path / "b.xlsx", index=False)
        with pytest.raises(wf.DataError, match=rf"line {line}\b.*much"):
            wf.Dataset.from_csv(tmp_path / "b.xlsx")


def test_sheets_may_have_empty_rows_and_words_for_missing_values(tmp_path):
    import pandas as pd

    frame = pd.DataFrame({"time": [0, 1, None, 2, 3], "x": [1.0, "-", None, 3.0, 4.0], "y": [1, 2, None, 3, 4]})
    frame.to_excel(tmp_path / "b.xlsx", index=False)
    data = wf.Dataset.from_csv(tmp_path / "b.xlsx")
    assert list(data.trajectories[0].times) == [0, 1, 2, 3]
    assert np.isnan(data.trajectories[0].values[1, 0])
    with pytest.raises(wf.DataError, match="name of a sheet"):
        wf.Dataset.from_csv(tmp_path / "b.xlsx", sheet=0)


def test_listed_words_and_numbers_are_missing_values(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("t,x,y\n0,1,1\n1,<LOD,1\n2,3,-999\n3,4,2\n")
    data = wf.Dataset.from_csv(path, missing=["<LOD", -999])
    np.testing.assert_array_equal(data.trajectories[0].values, [[1, 1], [np.nan, 1], [3, np.nan], [4, 2]])


def test_repeats_in_columns_equal_repeats_in_rows(tmp_path):
    """Repeats side by side give the same dataset as repeats in rows below each other; empty cells are left out."""
    (tmp_path / "wide.csv").write_text("hours,OD_1,OD_2,OD_3,pH\n0,1,3,2,7\n1,2,,4,\n2,5,6,7,6\n")
    (tmp_path / "rows.csv").write_text("hours,OD,pH\n0,1,7\n0,3,\n0,2,\n1,2,\n1,4,\n2,5,6\n2,6,\n2,7,\n")
    wide = wf.Dataset.from_csv(tmp_path / "wide.csv", names={"OD": ["OD_1", "OD_2", "OD_3"], "pH": "pH"})
    rows = wf.Dataset.from_csv(tmp_path / "rows.csv", names=["OD", "pH"])
    assert wide.names == ("OD", "pH")
    for by_column, by_row in zip(wide.trajectories, rows.trajectories, strict=True):
        for name in ("times", "values", "scales", "repeats", "within"):
            np.testing.assert_array_equal(getattr(by_column, name), getattr(by_row, name))
    single = wf.Dataset.from_csv(tmp_path / "wide.csv", names={"OD": ["OD_1"]})
    np.testing.assert_array_equal(single.trajectories[0].values[:, 0], [1, 2, 5])


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"names": {"OD": ["OD_1", "OD_22"]}}, r"names\['OD'\] must be a column, or a list .* Did you mean 'OD_2'"),
        ({"names": {"OD": []}}, "must be a column, or a list"),
        ({"names": {"OD": ["OD_1", "OD_1"]}}, "'OD_1' is named twice"),
        ({"names": {"OD": ["OD_1", "OD_2"], "P": "OD_1"}}, "'OD_1' is named twice"),
        ({"names": {"OD": ["OD_1", "OD_2"]}, "sigma": {"OD": "OD_2"}}, "'OD_2' is named twice"),
        ({"names": {"OD": ["OD_1", "OD_2"]}, "inputs": ["OD_2"]}, "'OD_2' is named twice"),
        ({"names": {"OD": ["OD_1", "hours"]}, "time": "hours"}, "'hours' is named twice"),
        ({"names": {"OD": ["OD_1", "OD_2"]}, "sigma": {"OD": ["pH"]}}, "sigma must name one column"),
        ({"names": [["OD_1", "OD_2"]]}, "names must be names of columns"),
        ({"names": {"OD": ["hours", "OD_1", "OD_2", "OD_3", "pH"]}}, "no column left for the time"),
    ],
)
def test_each_column_has_one_role(tmp_path, roles, message):
    (tmp_path / "wide.csv").write_text("hours,OD_1,OD_2,OD_3,pH\n0,1,3,2,7\n1,2,,4,\n2,5,6,7,6\n")
    with pytest.raises(wf.DataError, match=message):
        wf.Dataset.from_csv(tmp_path / "wide.csv", **roles)


def test_column_taken_as_the_time_is_reported(tmp_path):
    (tmp_path / "t.csv").write_text("stage,x\n0,1\n1,2\n2,3\n")
    (note,) = wf.Dataset.from_csv(tmp_path / "t.csv").notes
    assert note == "The column 'stage' was taken as the time, because no column is named like one."
    assert not wf.Dataset.from_csv(tmp_path / "t.csv", time="stage").notes
