"""`weakform batch`: every format gives the same fits, and every bad file gives one clear message before any fit."""

import os
import re
import signal
import time

import numpy as np
import pandas as pd
import pytest

import weakform as wf
from weakform.cli.main import main
from weakform.experiments import batch as batch_module
from weakform.files.batch_reader import parse_times

MODEL = """
equations = "x' = -k*x + u"
inputs = ["u"]
noise = "gaussian"
[parameters]
k = { bounds = [0.01, 5] }
"""
PLAIN = 'equations = "x\' = -k*x"\n[parameters]\nk = { bounds = [0.01, 5], log = true }\n'
TIMES = np.linspace(0, 4, 33)
RATES = np.array([[0.4, 0.5, 0.6], [0.7, 0.8, 0.9]])


def draw(seed=0):
    """Return noisy decays, `(2, 3, 33)`, of which one curve is missing and another has a gap."""
    Y = 2 * np.exp(-RATES[..., None] * TIMES) + 0.02 * np.random.default_rng(seed).standard_normal((2, 3, 33))
    Y[0, 1] = np.nan
    Y[1, 1, 5] = np.nan
    return Y


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.toml").write_text(PLAIN)
    (tmp_path / "driven.toml").write_text(MODEL)
    return tmp_path


def run(*words):
    return main(["batch", *map(str, words)])


def estimate(Y=None, **arguments):
    """Return the rates that `fit_batch` estimates."""
    model = wf.Model.from_text("x' = -k*x")
    Y = draw() if Y is None else Y
    return wf.fit_batch(model, TIMES, Y, bounds={"k": (0.01, 5)}, log=["k"], **arguments).estimate["k"]


def write_text(path, rows, separator=",", labels="id"):
    header = [labels, *(f"{t:g}" for t in TIMES)] if labels else [f"{t:g}" for t in TIMES]
    lines = [separator.join(header)]
    for k, row in enumerate(rows):
        cells = [f"w{k}"] * bool(labels) + ["" if np.isnan(v) else repr(float(v)) for v in row]
        lines.append(separator.join(cells))
    path.write_text("\n".join(lines) + "\n")


# Formats.


def test_array_is_fitted_with_times_of_a_file_or_a_range(folder, capsys):
    np.save("Y.npy", draw())
    np.save("t.npy", TIMES)
    pd.DataFrame({"time": TIMES}).to_csv("t.csv", index=False)
    for times in ("t.npy", "t.csv", "0:4:0.125"):
        assert run("model.toml", "Y.npy", "--times", times, "--out", "out.npz") == 0
        read = wf.BatchResult.load("out.npz")
        np.testing.assert_array_equal(read.estimate["k"], estimate())
        assert read.status[0, 1] is wf.Status.EMPTY
    out = capsys.readouterr().out
    assert "6 datasets (2, 3), 1 parameter" in out
    assert "5  CONVERGED    success" in out
    assert "Wrote out.npz" in out


@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 0, 1), (0, 2, 1)])
@pytest.mark.parametrize("engine", ["h5netcdf", "scipy"])
def test_netcdf_is_fitted_whatever_the_order_of_its_dimensions(folder, axes, engine):
    import xarray as xr

    dims = np.array(["y", "x", "time"])[list(axes)]
    coords = {"time": TIMES, "y": [0.5, 1.5]}
    data = xr.Dataset({"signal": (dims, draw().transpose(axes))}, coords=coords)
    data.time.attrs["units"] = "seconds since 2020-01-01"  # the numbers count, and not the dates
    data.to_netcdf("curves.nc", engine=engine)
    assert run("model.toml", "curves.nc", "--out", "maps.nc", "--quiet") == 0
    with xr.open_dataset("maps.nc") as maps:
        assert maps.k.dims == tuple(name for name in dims if name != "time")
        np.testing.assert_array_equal(maps.k.transpose("y", "x").values, estimate())
        np.testing.assert_array_equal(maps.y.values, [0.5, 1.5])


def test_archive_has_times_inputs_and_weights(folder):
    Y = draw()
    u = np.full(33, 0.3)
    Y += 0.3 * (1 - np.exp(-RATES[..., None] * TIMES)) / RATES[..., None]
    weights = np.where(TIMES < 2, 1.0, 0.0)
    np.savez("a.npz", times=TIMES, Y=Y, u=u, sigma=0.02, weights=weights)
    np.savez("b.npz", times=TIMES, x=Y, u=[0.3, 0.3], u_times=[0.0, 4.0], sigma=0.02, weights=weights)
    model = wf.Model.from_text("x' = -k*x + u", inputs=["u"])
    expected = wf.fit_batch(
        model, TIMES, Y, inputs={"u": u}, bounds={"k": (0.01, 5)}, sigma=0.02, weights=weights
    ).estimate["k"]
    np.testing.assert_allclose(expected[1], RATES[1], atol=0.1)
    for name in "ab":
        assert run("driven.toml", f"{name}.npz", "--out", "out.npz") == 0
        np.testing.assert_allclose(wf.BatchResult.load("out.npz").estimate["k"], expected, rtol=1e-8)


def test_frames_are_read_from_archive_and_netcdf(folder, capsys):
    import xarray as xr

    frames = np.column_stack([TIMES[:-1], TIMES[1:]])
    middle = frames.mean(axis=1)
    Y = (np.exp(-RATES[..., None] * frames[:, 0]) - np.exp(-RATES[..., None] * frames[:, 1])) / np.diff(frames).T
    Y = Y / RATES[..., None] + 0.005 * np.random.default_rng(0).standard_normal(Y.shape)
    np.savez("Y.npz", times=middle, Y=Y, frames=frames)
    np.savez("bad.npz", times=middle, Y=Y, frames=frames.T)
    data = xr.Dataset({"OD": (("y", "x", "time"), Y), "frames": (("time", "side"), frames)}, coords={"time": middle})
    data.to_netcdf("Y.nc", engine="h5netcdf")
    expected = wf.fit_batch(
        *(wf.Model.from_text("x' = -k*x"), middle, Y), frames=tuple(frames.T), bounds={"k": (0.01, 5)}, log=["k"]
    ).estimates
    for name in ("Y.npz", "Y.nc"):
        assert run("model.toml", name, "--out", "out.npz") == 0
        np.testing.assert_array_equal(wf.BatchResult.load("out.npz").estimates, expected)
    assert run("model.toml", "bad.npz") == 2
    assert "frames must have a row for each time" in capsys.readouterr().err


def test_inputs_come_from_a_table_or_an_array(folder):
    np.save("Y.npy", draw())
    pd.DataFrame({"time": [0, 4], "u": [0.0, 0.0]}).to_csv("u.csv", index=False)
    np.save("u.npy", np.zeros((2, 3, 33)))
    np.save("mask.npy", RATES > 0.45)
    expected = estimate()
    for source in ("u.csv", "u.npy"):
        words = ("driven.toml", "Y.npy", "--times", "0:4:0.125", "--inputs", f"u={source}", "--mask", "mask.npy")
        assert run(*words, "--out", "out.npz") == 0
        read = wf.BatchResult.load("out.npz")
        np.testing.assert_allclose(read.estimate["k"][1], expected[1], rtol=1e-4)
        assert read.status[0, 0] is wf.Status.EMPTY
    (folder / "model.txt").write_text("x' = -k*x + u")
    assert run("model.txt", "Y.npy", "--times", "0:4:0.125", "--inputs", "u=u.csv") == 0


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("labels", ["id", ""])
def test_table_has_the_times_in_its_header(folder, capsys, separator, labels):
    write_text(folder / "curves.csv", draw().reshape(6, -1), separator, labels)
    assert run("model.toml", "curves.csv", "--out", "out.csv") == 0
    read = pd.read_csv("out.csv")
    np.testing.assert_allclose(read.k, estimate(draw().reshape(6, -1)), rtol=1e-14)  # old pandas rounds the last digit
    assert list(read.status)[:2] == ["CONVERGED", "EMPTY"]
    if labels:
        assert list(read.id) == [f"w{k}" for k in range(6)]


def test_parquet_has_the_times_in_its_header_and_keeps_labels(folder):
    frame = pd.DataFrame(draw().reshape(6, -1), columns=[f"{t:g}" for t in TIMES])
    frame.insert(0, "well", list("abcdef"))
    frame["plate"] = range(6)
    frame.to_parquet("curves.parquet")
    for out in ("out.parquet", "out.npz", "out.nc"):
        assert run("model.toml", "curves.parquet", "--out", out) == 0
    read = pd.read_parquet("out.parquet")
    np.testing.assert_array_equal(read.k, estimate(draw().reshape(6, -1)))
    assert list(read.well) == list("abcdef")
    assert list(wf.BatchResult.load("out.npz").to_frame().plate) == list(range(6))


def test_image_is_fitted_inside_its_mask(folder, capsys):
    nibabel = pytest.importorskip("nibabel")
    affine = np.diag([2.0, 2.0, 3.0, 1.0])
    image = nibabel.Nifti1Image(draw()[:, :, None].astype(np.float32), affine)
    image.header.set_zooms((2, 2, 3, 0.125))
    nibabel.save(image, "dce.nii.gz")
    nibabel.save(nibabel.Nifti1Image((RATES > 0.45)[..., None].astype(np.uint8), affine), "mask.nii.gz")
    assert run("model.toml", "dce.nii.gz") == 2
    assert "--times 0:4:0.125" in capsys.readouterr().err
    words = ("model.toml", "dce.nii.gz", "--times", "0:4:0.125", "--mask", "mask.nii.gz")
    assert run(*words, "--out", "maps.nii.gz") == 0
    assert "5 of 6 datasets are in the mask" in capsys.readouterr().out
    k = nibabel.load("maps_k.nii.gz")
    np.testing.assert_array_equal(k.affine, affine)
    np.testing.assert_allclose(k.get_fdata()[1, :, 0], estimate()[1], rtol=1e-4)
    assert np.isnan(k.get_fdata()[0, 0, 0])
    assert run(*words, "--out", "maps.nc") == 0
    (folder / "bad.nii.gz").write_bytes(b"no image")
    assert run("model.toml", "bad.nii.gz", "--times", "0:4:0.125") == 2
    assert "cannot be read as a NIfTI image" in capsys.readouterr().err
    assert run("model.toml", "mask.nii.gz", "--times", "0:4:0.125") == 2
    assert "must have four axes" in capsys.readouterr().err


# What is measured.

PAIR = "u' = -a*u\nv' = a*u - b*v\ntotal = u + v\n"


@pytest.fixture
def pair(folder):
    """Curves of two states, `(4, 33, 2)`."""
    (folder / "pair.txt").write_text(PAIR)
    model = wf.Model.from_text(PAIR)
    rng = np.random.default_rng(0)
    curves = [wf.simulate(model, [0.5 + 0.1 * k, 0.3], [2.0, 0.5], TIMES).states for k in range(4)]
    return np.array(curves) + 0.01 * rng.standard_normal((4, 33, 2))


def test_columns_are_named_by_option_archive_model_file_or_variables(folder, pair):
    import xarray as xr

    np.save("Y.npy", pair)
    np.savez("named.npz", times=TIMES, Y=pair, names=["u", "v"])
    np.savez("arrays.npz", times=TIMES, v=pair[..., 1], u=pair[..., 0])
    coords = {"time": TIMES, "channel": ["u", "v"]}
    xr.Dataset({"Y": (("n", "time", "channel"), pair)}, coords=coords).to_netcdf("column.nc", engine="h5netcdf")
    variables = {"v": (("n", "time"), pair[..., 1]), "u": (("time", "n"), pair[..., 0].T)}
    xr.Dataset(variables, coords={"time": TIMES}).to_netcdf("variables.nc", engine="h5netcdf")
    (folder / "mapped.toml").write_text(f"equations = '''{PAIR}'''\n[columns]\nu = 'u'\nv = 'v'\n")
    expected = wf.fit_batch(wf.Model.from_text(PAIR), TIMES, pair, names=["u", "v"]).estimates
    times = ("--times", "0:4:0.125")
    for words in (
        ("pair.txt", "Y.npy", *times, "--names", "u,v"),
        ("mapped.toml", "Y.npy", *times),
        ("pair.txt", "named.npz"),
        ("pair.txt", "arrays.npz"),
        ("pair.txt", "column.nc"),
        ("pair.txt", "variables.nc"),
    ):
        assert run(*words, "--out", "out.npz", "--quiet") == 0
        np.testing.assert_allclose(wf.BatchResult.load("out.npz").estimates, expected, rtol=1e-6)


def test_columns_of_a_plate_are_datasets(folder):
    import xarray as xr

    signal = xr.Dataset({"OD": (("row", "column", "time"), draw())}, coords={"time": TIMES, "row": ["x", "B"]})
    signal.to_netcdf("plate.nc", engine="h5netcdf")
    assert run("model.toml", "plate.nc", "--out", "out.npz") == 0
    read = wf.BatchResult.load("out.npz")
    assert read.dims == ("row", "column")
    np.testing.assert_array_equal(read.estimate["k"], estimate())


def test_netcdf_has_sigma_weights_and_inputs_of_its_own_times(folder, pair):
    import xarray as xr

    weights = np.where(TIMES < 2, 1.0, 0.0)
    u = np.array([[0.3, 0.3], [0.2, 0.2], [0.1, 0.1], [0.0, 0.0]])
    (folder / "both.toml").write_text(f'inputs = [\'w\']\nequations = """{PAIR.replace("- b*v", "- b*v + w")}"""\n')
    data = {
        "Y": (("n", "time", "channel"), pair),
        "sigma": (("channel",), [0.01, 0.02]),
        "weights": (("time",), weights),
        "w": (("n", "clock"), u),
    }
    coords = {"time": TIMES, "channel": ["u", "v"], "clock": [0.0, 4.0]}
    xr.Dataset(data, coords=coords).to_netcdf("all.nc", engine="h5netcdf")
    assert run("both.toml", "all.nc", "--out", "out.npz") in (0, 1)
    model = wf.Model.from_text(PAIR.replace("- b*v", "- b*v + w"), inputs=["w"])
    expected = wf.fit_batch(
        *(model, TIMES, pair),
        names=["u", "v"],
        inputs={"w": (np.array([0.0, 4.0]), u)},
        sigma=np.array([0.01, 0.02]),
        weights=weights[:, None],
    )
    np.testing.assert_allclose(wf.BatchResult.load("out.npz").estimates, expected.estimates, rtol=1e-6)


def test_one_of_several_columns_is_fitted(folder, pair):
    import xarray as xr

    np.save("u.npy", pair[..., 0])
    coords = {"time": TIMES, "channel": ["u", "v"]}
    xr.Dataset({"Y": (("n", "time", "channel"), pair)}, coords=coords).to_netcdf("column.nc", engine="h5netcdf")
    expected = wf.fit_batch(wf.Model.from_text(PAIR), TIMES, pair[..., :1], names=["u"], fixed={"b": 0.3})
    for words in (("u.npy", "--times", "0:4:0.125"), ("column.nc",)):
        assert run("pair.txt", *words, "--names", "u", "--fix", "b=0.3", "--out", "out.npz") in (0, 1)
        np.testing.assert_array_equal(wf.BatchResult.load("out.npz").estimates, expected.estimates)


def test_settings_of_the_model_file_and_the_command_line_are_used(folder):
    Y = np.abs(draw()[1]) + 0.1
    np.savez("Y.npz", times=TIMES, Y=Y)
    (folder / "full.toml").write_text(
        'equations = "x\' = -k*x + c"\nnoise = "lognormal"\nsigma = 0.1\nmissing = [0.0]\n'
        '[parameters]\nk = { bounds = [0.01, 5], prior = ["lognormal", 0.5, 0.2] }\nc = 0.1\n'
    )
    model = wf.Model.from_text("x' = -k*x + c")
    common = {"noise": "lognormal", "priors": {"k": ("lognormal", 0.5, 0.2)}, "sigma": 0.1, "fixed": {"c": 0.1}}
    expected = wf.fit_batch(model, TIMES, Y, bounds={"k": (0.01, 5)}, **common).estimates
    run("full.toml", "Y.npz", "--out", "out.npz")
    np.testing.assert_array_equal(wf.BatchResult.load("out.npz").estimates, expected)
    run("full.toml", "Y.npz", "--out", "out.npz", "--bounds", "k=0.01,0.3", "--noise", "gaussian")
    assert (wf.BatchResult.load("out.npz").estimates <= 0.3).all()
    assert run("full.toml", "Y.npz", "--bounds", "q=0,1") == 2


def test_missing_numbers_and_words_are_left_out(folder):
    Y = draw()[1]
    Y[0, 7] = np.nan
    np.savez("nan.npz", times=TIMES, Y=Y)
    np.savez("coded.npz", times=TIMES, Y=np.where(np.isnan(Y), -99.0, Y))
    write_text(folder / "words.csv", Y)
    text = (folder / "words.csv").read_text().replace(",,", ",LOD,")
    (folder / "words.csv").write_text(text)
    (folder / "missing.toml").write_text('missing = [-99, "LOD"]\n' + PLAIN)
    for name in ("nan.npz", "coded.npz", "words.csv"):
        assert run("missing.toml", name, "--out", "out.npz") == 0
        np.testing.assert_array_equal(wf.BatchResult.load("out.npz").estimate["k"], estimate(Y))


def test_doses_are_the_same_for_all_datasets(folder):
    (folder / "dosed.txt").write_text("x' = -k*x\nx(0) = 0\n")
    pd.DataFrame({"time": [0.0], "amount": [2.0]}).to_csv("doses.csv", index=False)
    np.savez("Y.npz", times=TIMES, Y=draw()[1])
    assert run("dosed.txt", "Y.npz", "--doses", "doses.csv", "--into", "x", "--out", "out.npz") == 0
    np.testing.assert_allclose(wf.BatchResult.load("out.npz").estimate["k"], RATES[1], atol=0.05)
    assert run("dosed.txt", "Y.npz", "--into", "x") == 2


# Outcome and interruption.


def test_exit_code_is_one_if_no_fit_succeeded(folder, capsys):
    np.savez("Y.npz", times=TIMES, Y=np.full((2, 33), np.nan))
    assert run("model.toml", "Y.npz") == 1
    assert "EMPTY" in capsys.readouterr().out


def test_interrupted_batch_writes_what_is_done_and_resumes(folder, capsys, monkeypatch):
    monkeypatch.setattr(batch_module, "MAX_CHUNK_SETS", 32)
    Y = np.repeat(draw()[1, :1], 96, axis=0) + 0.01 * np.random.default_rng(0).standard_normal((96, 33))
    np.savez("Y.npz", times=TIMES, Y=Y)
    words = ("model.toml", "Y.npz", "--out", "out.csv", "--checkpoint", "c.npz", "--workers", "1")
    begun = []
    with monkeypatch.context() as patch:

        def fit_chunk(plan, data, original=batch_module.fit_chunk):
            begun.append(1)
            if len(begun) == 2:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.05)
            return original(plan, data)

        patch.setattr(batch_module, "fit_chunk", fit_chunk)
        assert run(*words) == 130
    printed = capsys.readouterr()
    assert "Interrupted: 64 datasets were not fitted." in printed.out
    assert "The finished fits are in out.csv. Run the same command again to continue from c.npz." in printed.err
    assert (pd.read_csv("out.csv").status == "INTERRUPTED").sum() == 64
    assert run(*words) == 0
    np.testing.assert_allclose(pd.read_csv("out.csv").k, estimate(Y), rtol=1e-14)
    assert run(*words, "--seed", "7") == 2
    assert "belongs to another run: the settings differ" in capsys.readouterr().err


# Errors.


def prepare_files():
    """Write good and bad files."""
    import xarray as xr

    Y = draw()
    np.save("Y.npy", Y)
    np.savez("Y.npz", times=TIMES, Y=Y)
    np.savez("untimed.npz", Y=Y)
    np.savez("misspelt.npz", time=TIMES, times=TIMES, Y=Y)
    np.savez("empty.npz", times=TIMES)
    np.savez("matrix.npz", times=np.ones((2, 2)), Y=Y)
    np.savez("falling.npz", times=TIMES[::-1], Y=Y)
    np.save("complex.npy", Y.astype(complex))
    np.save("objects.npy", np.array([{}, {}], dtype=object), allow_pickle=True)
    np.savez("objects.npz", times=TIMES, Y=np.array([{}], dtype=object))
    np.save("mask.npy", np.ones((3, 2)))
    np.save("none.npy", np.zeros((2, 3)))
    np.save("words.npy", np.array([["a"] * 3] * 2))
    for name in ("text.npy", "text.npz", "text.nc", "text.parquet"):
        with open(name, "w") as file:
            file.write("text")
    with open("zip.npy", "wb") as file:
        file.write(b"PK\x03\x04 not really")
    with open("wide.csv", "w") as file:
        file.write("id,a,b\n1,2,3\n")
    with open("cell.csv", "w") as file:
        file.write("id,0,1,2\nw,1,x,3\n")
    with open("ragged.csv", "w") as file:
        file.write("id,0,1,2\nw,1,3\n")
    with open("two.csv", "w") as file:
        file.write("a,b\n1,2\n")
    xr.Dataset({"a": (("n", "clock"), Y[0])}).to_netcdf("clock.nc", engine="h5netcdf")
    xr.Dataset({"a": (("n", "time"), Y[0])}).to_netcdf("untimed.nc", engine="h5netcdf")
    coords = {"time": TIMES}
    both = {"a": (("n", "time"), Y[0]), "b": (("n", "time"), Y[0])}
    xr.Dataset(both, coords=coords).to_netcdf("both.nc", engine="h5netcdf")
    xr.Dataset({"a": (("n",), [1.0])}, coords=coords).to_netcdf("flat.nc", engine="h5netcdf")
    os.mkdir("folder.npz")


RANGE = ("--times", "0:4:0.125")
ERRORS = {
    "missing file": (("none.npz",), "Cannot read none.npz: No such file"),
    "missing model": (("Y.npz", "--names", "y"), "'y' is neither a state nor a named expression of the model.*: x"),
    "unknown ending": (("Y.mat",), r"files that end in \.npy, \.npz, .*; received '\.mat'"),
    "unreadable array": (("text.npy", *RANGE), "text.npy is not an array of numbers"),
    "damaged zip": (("zip.npy", *RANGE), "zip.npy is not an array of numbers .* has the ending .npz"),
    "unreadable archive": (("text.npz",), "text.npz is not an archive of arrays"),
    "unreadable netcdf": (("text.nc",), "text.nc cannot be read as NetCDF"),
    "unreadable parquet": (("text.parquet",), "text.parquet cannot be read as a table"),
    "folder": (("folder.npz",), "Cannot read folder.npz"),
    "pickled array": (("objects.npy", *RANGE), "objects.npy is not an array of numbers"),
    "pickled archive": (("objects.npz",), "objects.npz is not an archive of arrays"),
    "complex numbers": (("complex.npy", *RANGE), "must be real numbers; received the type complex128"),
    "missing times": (("Y.npy",), "Y.npy has no times of the samples. Give them with --times"),
    "missing times of an archive": (("untimed.npz",), "untimed.npz has no times of the samples"),
    "missing times of netcdf": (("untimed.nc",), "untimed.nc has no times of the samples"),
    "missing dimension": (("clock.nc",), "has no dimension 'time'; its dimensions are: n, clock"),
    "missing variable": (("flat.nc",), "has no variable with the dimension 'time'"),
    "ambiguous variables": (("both.nc",), "several variables with the dimension 'time': a, b.*under .columns."),
    "missing curves": (("empty.npz",), "neither the array 'Y' nor an array for each measured name"),
    "misspelt array": (("misspelt.npz",), "the array 'time' has no meaning. Did you mean 'times'"),
    "too few times": (("Y.npy", "--times", "0:4:0.5"), r"time, \(\.\.\., 9\), for the 9 times of --times; received"),
    "times with two axes": (("matrix.npz",), "times must be one axis"),
    "times that fall": (("falling.npz",), "times must be finite and increase"),
    "wrong range": (("Y.npy", "--times", "0:4:0"), "begin:end:step with a positive step"),
    "words as range": (("Y.npy", "--times", "a:b:c"), "begin:end:step with a positive step"),
    "endless range": (("Y.npy", "--times", "0:1e9:1e-3"), "at most 1,000,000 are taken"),
    "missing file of times": (("Y.npy", "--times", "t.npy"), "--times: there is no file t.npy"),
    "file of times with three axes": (("Y.npy", "--times", "Y.npy"), "must be one axis of times"),
    "mask of the wrong shape": (
        ("Y.npz", "--mask", "mask.npy"),
        r"the shape of the datasets, \(2, 3\); received \(3, 2\)",
    ),
    "empty mask": (("Y.npz", "--mask", "none.npy"), "leaves out every dataset"),
    "mask of words": (("Y.npz", "--mask", "words.npy"), "the mask must be real numbers"),
    "mask of another format": (("Y.npz", "--mask", "mask.csv"), "--mask takes a file that ends in"),
    "missing mask": (("Y.npz", "--mask", "no.npy"), "Cannot read no.npy"),
    "table without times": (("wide.csv",), "one row for each dataset, and the times .* its columns are: id, a, b"),
    "table with a word": (("cell.csv",), "cell.csv, line 2, column '1': 'x' is not a number"),
    "ragged table": (("ragged.csv",), "ragged.csv, line 2: 3 values for 4 columns"),
    "input without a file": (("Y.npz", "--inputs", "u="), "--inputs takes a name, or NAME=FILE"),
    "wrong output": (("Y.npz", "--out", "maps.pdf"), r"written to a file that ends in .*received 'maps\.pdf'"),
    "output folder": (("Y.npz", "--out", "folder.npz"), "folder.npz is a folder"),
    "output in place of the data": (("Y.npz", "--out", "./Y.npz"), "--out and the data are the same file"),
    "checkpoint as output": (
        ("Y.npz", "--out", "c.npz", "--checkpoint", "c.npz"),
        "--checkpoint and --out are the same",
    ),
    "workers": (("Y.npz", "--workers", "0"), "workers must be a whole number"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_bad_files_and_options_give_one_clear_message(folder, capsys, monkeypatch, case):
    prepare_files()
    monkeypatch.setattr(batch_module, "fit_chunk", None)
    words, message = ERRORS[case]
    assert run("model.toml", *words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("weakform: ")
    assert re.search(message, printed.err), printed.err
    assert "Traceback" not in printed.err


def test_missing_and_wrong_inputs_are_named(folder, capsys):
    prepare_files()
    for words, message in (
        (("Y.npz",), "Y.npz has no values of the input 'u'"),
        (("Y.npz", "--inputs", "u=two.csv"), "two.csv must have the columns time and u; it has: a, b"),
        (("Y.npz", "--inputs", "u=mask.npy"), "The input 'u' must be"),
    ):
        assert run("driven.toml", *words) == 2
        assert message in capsys.readouterr().err


def test_expressions_that_may_be_measured_must_be_named(folder, pair, capsys):
    np.save("u.npy", pair[..., 0])
    write_text(folder / "u.csv", pair[..., 0])
    assert run("pair.txt", "u.npy", "--times", "0:4:0.125") == 2
    assert "does not name what was measured, which may be any of u, v, total. Give --names" in capsys.readouterr().err
    assert run("pair.txt", "u.csv", "--names", "u,v") == 2
    assert "has one measured value for each dataset and time, but u, v are measured" in capsys.readouterr().err
    assert run("pair.txt", "u.npy", "--names", "u,u", "--times", "0:4:0.125") == 2
    assert "must occur once" in capsys.readouterr().err
    assert run("pair.txt", "u.npy", "--names", "u,v", "--times", "0:4:0.125") == 2
    assert "two axes must be time and column, (..., 33, 2)" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "count", "last"), [("0:1:0.1", 11, 1.0), ("0:1:0.3", 4, 0.9), ("-2:2:1", 5, 2.0)])
def test_range_includes_its_end(text, count, last):
    times = parse_times(text)
    assert len(times) == count
    assert times[-1] == pytest.approx(last)
