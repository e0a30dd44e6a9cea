"""Results of `fit_batch` as tables, arrays and files; checkpoints, interruptions and Dask."""

import json
import os
import signal
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

import weakform as wf
from weakform.experiments import batch as batch_module
from weakform.experiments import batch_checkpoint
from weakform.files.batch_archive import check_output, save_batch

MODEL = wf.Model.from_text("x' = -k*x")
TIMES = np.linspace(0, 4, 30)


def draw_curves(shape, seed=0):
    """Return noisy decays of different rates, `(*shape, time)`."""
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.4, 0.9, shape)
    return 2 * np.exp(-rates[..., None] * TIMES) + 0.02 * rng.standard_normal((*shape, len(TIMES)))


@pytest.fixture(scope="module")
def image():
    """The fit of an image of 2 by 3 voxels, of which the last one has no data."""
    Y = draw_curves((2, 3))
    Y[1, 2] = np.nan
    return wf.fit_batch(MODEL, TIMES, Y, log=["k"], seed=0)


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of 32 datasets, and a checkpoint that is written after each of them."""
    monkeypatch.setattr(batch_module, "MAX_CHUNK_SETS", 32)
    monkeypatch.setattr(batch_checkpoint, "WRITE_INTERVAL", 0.0)
    monkeypatch.setattr(batch_checkpoint, "MAX_WRITE_SHARE", 1e9)


def assert_same(one, other):
    for name in ("estimates", "covariance", "sigmas", "p_value", "log_likelihood", "bias", "status_code", "starts"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


# Tables and arrays.


def test_frame_has_a_row_for_each_dataset(image):
    frame = image.to_frame()
    assert list(frame.index.names) == ["axis_0", "axis_1"]
    assert list(frame.columns) == [
        *("k", "k_error", "k_lower", "k_upper", "sigma", "p_value", "log_likelihood", "status", "starts")
    ]
    row = frame.loc[(1, 0)]
    assert row.k == image.estimate["k"][1, 0]
    assert row.k_error == image.standard_errors["k"][1, 0]
    np.testing.assert_array_equal([row.k_lower, row.k_upper], image.interval("k")[1, 0])
    assert list(frame.status.iloc[[0, -1]]) == ["CONVERGED", "EMPTY"]
    wider = image.to_frame(0.99)
    assert (wider.k_upper > frame.k_upper)[:5].all()


def test_frame_of_one_axis_has_its_name_and_labels(image):
    one = wf.fit_batch(MODEL, TIMES, draw_curves((3,)))
    assert one.to_frame().index.name == "dataset"
    labelled = replace(one, dims=("well",), coords={"well": (("well",), ["A1", "A2", "B1"])})
    assert list(labelled.to_frame().index) == ["A1", "A2", "B1"]
    single = wf.fit_batch(MODEL, TIMES, draw_curves(()))
    assert len(single.to_frame()) == 1
    tagged = replace(image, coords={"slice": (("axis_1",), [7, 8, 9]), "depth": (("axis_0",), [0.5, 1.5])})
    assert list(tagged.to_frame().slice) == [7, 8, 9, 7, 8, 9]
    assert list(tagged.to_frame().depth) == [0.5, 0.5, 0.5, 1.5, 1.5, 1.5]


def test_arrays_have_the_axes_of_the_datasets_and_flags(image):
    data = image.to_xarray()
    assert all(variable.dims == ("axis_0", "axis_1") for variable in data.data_vars.values())
    np.testing.assert_array_equal(data.k.values, image.estimate["k"])
    np.testing.assert_array_equal(data.k_lower.values, image.interval("k")[..., 0])
    names = dict(zip(data.status.flag_values.tolist(), data.status.flag_meanings.split(), strict=True))
    assert names[int(data.status[1, 2])] == "EMPTY"
    assert names == {k: status.name for k, status in enumerate(wf.Status)}
    located = replace(image, dims=("y", "x"), coords={"y": (("y",), [0.5, 1.5])})
    assert located.to_xarray().sel(y=1.5).k.dims == ("x",)


def test_parameter_keeps_its_name_beside_a_quantity_of_the_same_name():
    model = wf.Model.from_text("x' = -k*x + k_error")
    batch = wf.fit_batch(model, TIMES, draw_curves((2,)))
    frame = batch.to_frame()
    np.testing.assert_array_equal(frame["k_error"], batch.estimate["k_error"])
    np.testing.assert_array_equal(frame["k_error_"], batch.standard_errors["k"])


@pytest.mark.parametrize(
    ("library", "method", "extra"),
    [("pandas", "to_frame", "table"), ("xarray", "to_xarray", "batch")],
)
def test_missing_library_is_reported_with_its_extra(image, monkeypatch, library, method, extra):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(wf.WeakformError, match=rf"needs {library}; install it with: pip install 'weakform\[{extra}\]'"):
        getattr(image, method)()


# Files.


@pytest.fixture
def labelled(image):
    coords = {"y": (("y",), np.array([0.5, 1.5])), "tissue": (("x",), np.array(["a", "b", "c"], dtype=object))}
    return replace(image, dims=("y", "x"), coords=coords, notes=("a note",))


def test_archive_is_read_back_without_pickle(labelled, tmp_path):
    path = labelled.save(tmp_path / "new" / "maps.npz")
    read = wf.BatchResult.load(path)
    assert_same(read, labelled)
    assert (read.parameters, read.columns, read.shape, read.dims) == (("k",), ("x",), (2, 3), ("y", "x"))
    assert read.notes == ("a note",)
    assert str(read) == str(labelled)
    assert read.to_frame().equals(labelled.to_frame())
    with pytest.raises(wf.FitError, match="holds no data"):
        read[0, 0]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_table_files_hold_the_frame(labelled, tmp_path, ending):
    import pandas as pd

    path = labelled.save(tmp_path / f"maps.{ending}")
    read = pd.read_csv(path) if ending == "csv" else pd.read_parquet(path).reset_index()
    expected = labelled.to_frame().reset_index()
    assert list(read.columns) == list(expected.columns)
    np.testing.assert_allclose(read.k, expected.k, rtol=1e-14)  # old pandas rounds the last digit of a text
    assert list(read.tissue) == ["a", "b", "c"] * 2
    assert list(read.status) == list(expected.status)


def test_netcdf_file_holds_the_arrays(labelled, tmp_path):
    import xarray as xr

    with xr.open_dataset(labelled.save(tmp_path / "maps.nc"), engine="h5netcdf") as read:
        np.testing.assert_array_equal(read.k.values, labelled.estimate["k"])
        assert read.k.dims == ("y", "x")
        assert list(read.tissue.values) == ["a", "b", "c"]
        assert read.status.flag_meanings.split()[0] == "CONVERGED"
    single = wf.fit_batch(MODEL, TIMES, draw_curves(()))
    with xr.open_dataset(single.save(tmp_path / "one.nc"), engine="h5netcdf") as read:
        assert float(read.k) == single.estimates[0]


def test_images_are_written_for_each_quantity(labelled, tmp_path):
    nibabel = pytest.importorskip("nibabel")
    affine = np.diag([2.0, 3.0, 4.0, 1.0])
    save_batch(labelled, tmp_path / "maps.nii.gz", affine)
    names = {path.name for path in tmp_path.iterdir()}
    maps = {f"maps_{name}.nii.gz" for name in ("k", "k_error", "p_value", "status")}
    assert names == {*maps, "maps_status.json"}
    k = nibabel.load(tmp_path / "maps_k.nii.gz")
    np.testing.assert_array_equal(k.affine, affine)
    np.testing.assert_allclose(k.get_fdata()[..., 0], labelled.estimate["k"], rtol=1e-6)
    codes = json.loads((tmp_path / "maps_status.json").read_text())
    assert codes[str(int(nibabel.load(tmp_path / "maps_status.nii.gz").get_fdata()[1, 2, 0]))] == "EMPTY"
    four = wf.fit_batch(MODEL, TIMES, draw_curves((1, 1, 1, 2)))
    with pytest.raises(wf.DataError, match="up to three axes"):
        four.save(tmp_path / "four.nii")


def test_wrong_output_is_refused(image, tmp_path, monkeypatch):
    with pytest.raises(wf.DataError, match=r"ends in \.npz, \.nc, .*; received 'maps.pdf'"):
        image.save(tmp_path / "maps.pdf")
    (tmp_path / "folder.nc").mkdir()
    with pytest.raises(wf.DataError, match="is a folder"):
        image.save(tmp_path / "folder.nc")
    for library, name, extra in (
        ("xarray", "a.nc", "batch"),
        ("h5netcdf", "a.nc", "batch"),
        ("pandas", "a.parquet", "table"),
        ("nibabel", "a.nii.gz", "nibabel"),
    ):
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(wf.WeakformError, match=f"needs {library}; install it with: pip install '?.*{extra}"):
            check_output(tmp_path / name)
        monkeypatch.delitem(sys.modules, library)


def test_damaged_archive_is_refused(image, tmp_path):
    path = image.save(tmp_path / "good.npz")
    for name in ("text.npz", "cut.npz"):
        (tmp_path / name).write_bytes(b"text" if name == "text.npz" else path.read_bytes()[:300])
        with pytest.raises(wf.DataError, match="is not a file of results"):
            wf.BatchResult.load(tmp_path / name)
    np.save(tmp_path / "array.npz.npy", np.ones(3))
    (tmp_path / "array.npz.npy").rename(tmp_path / "array.npz")
    with pytest.raises(wf.DataError, match="a single array"):
        wf.BatchResult.load(tmp_path / "array.npz")
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    with pytest.raises(wf.DataError, match="has no header"):
        wf.BatchResult.load(tmp_path / "other.npz")
    np.savez(tmp_path / "objects.npz", header=np.array([{}], dtype=object))
    with pytest.raises(wf.DataError, match="damaged"):
        wf.BatchResult.load(tmp_path / "objects.npz")
    with pytest.raises(wf.DataError, match="No such file"):
        wf.BatchResult.load(tmp_path / "none.npz")
    with pytest.raises(wf.DataError, match=r"xarray\.open_dataset"):
        wf.BatchResult.load(tmp_path / "maps.nc")
    with pytest.raises(wf.DataError, match="must be a text or a Path"):
        wf.BatchResult.load(7)


def test_checkpoint_is_no_file_of_results(tmp_path):
    wf.fit_batch(MODEL, TIMES, draw_curves((2,)), checkpoint=tmp_path / "c.npz")
    with pytest.raises(wf.DataError, match="it is a checkpoint"):
        wf.BatchResult.load(tmp_path / "c.npz")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("estimates", np.ones((2, 3, 2)), "estimates has the shape"),
        ("status_code", np.full((2, 3), 99), "status code is unknown"),
        ("log_scale", np.ones(1), "log_scale"),
        ("coordinate.y", np.ones(5), "does not fit the datasets"),
    ],
)
def test_archive_whose_parts_disagree_is_refused(labelled, tmp_path, name, value, message):
    with np.load(labelled.save(tmp_path / "good.npz")) as archive:
        arrays = {**archive, name: value}
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(wf.DataError, match=message):
        wf.BatchResult.load(tmp_path / "bad.npz")


def test_archive_of_another_format_is_refused(labelled, tmp_path):
    with np.load(labelled.save(tmp_path / "good.npz")) as archive:
        arrays = dict(archive)
    header = {**json.loads(str(arrays["header"])), "format": 99, "weakform": "9.0"}
    np.savez(tmp_path / "new.npz", **{**arrays, "header": np.array(json.dumps(header))})
    with pytest.raises(wf.DataError, match=r"has format 99; .* written by weakform '9\.0'"):
        wf.BatchResult.load(tmp_path / "new.npz")


# Checkpoints and interruptions.


def interrupt_after(monkeypatch, count):
    """Press Ctrl-C after some chunks; return the list of all chunks that are begun."""
    sizes = []

    def fit_chunk(plan, data, original=batch_module.fit_chunk):
        result = original(plan, data)
        sizes.append(data.sets)
        if len(sizes) == count + 1:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
        return result

    monkeypatch.setattr(batch_module, "fit_chunk", fit_chunk)
    return sizes


# The interrupt may come between opening the checkpoint and the statement that closes it; then it is closed later.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("workers", [1, 2])
def test_interrupted_fits_are_kept_and_resumed(small_chunks, monkeypatch, tmp_path, workers):
    Y, path = draw_curves((20, 32)), tmp_path / "new" / "c.npz"
    whole = wf.fit_batch(MODEL, TIMES, Y, seed=3, workers=1)
    with monkeypatch.context() as patch:
        interrupt_after(patch, 2)
        first = wf.fit_batch(MODEL, TIMES, Y, seed=3, workers=workers, checkpoint=path)
    assert first.interrupted
    assert any("Interrupted" in note and "continues from the checkpoint" in note for note in first.notes)
    done = first.status != wf.Status.INTERRUPTED
    assert 64 <= done.sum() < 640
    np.testing.assert_array_equal(first.estimates[done], whole.estimates[done])
    assert np.isnan(first.estimates[~done]).all()
    with monkeypatch.context() as patch:
        sizes = interrupt_after(patch, 99)
        second = wf.fit_batch(MODEL, TIMES, Y, seed=3, workers=workers, checkpoint=path)
        assert sum(sizes) == 640 - done.sum()
        third = wf.fit_batch(MODEL, TIMES, Y, seed=3, workers=workers, checkpoint=path)
        assert sum(sizes) == 640 - done.sum()
    assert_same(second, whole)
    assert_same(third, whole)
    assert not second.interrupted
    assert [p.name for p in path.parent.iterdir()] == ["c.npz"]


def test_results_depend_neither_on_the_order_of_chunks_nor_on_an_interruption(small_chunks, monkeypatch, tmp_path):
    """Starts of hidden states are drawn once for all chunks, at the size of the data."""
    model = wf.Model.from_text("x' = -k*x\nseen = 2*x")
    Y = draw_curves((96,), seed=1)
    Y[:32] *= 1000
    arguments = {"names": ["seen"], "checkpoint": tmp_path / "c.npz"}
    whole = wf.fit_batch(model, TIMES, Y, names=["seen"], workers=1)
    assert_same(wf.fit_batch(model, TIMES, Y, names=["seen"], workers=3), whole)
    with monkeypatch.context() as patch:
        interrupt_after(patch, 1)
        wf.fit_batch(model, TIMES, Y, workers=1, **arguments)
    assert_same(wf.fit_batch(model, TIMES, Y, workers=1, **arguments), whole)


def test_interrupt_without_checkpoint_returns_what_is_done(small_chunks, monkeypatch):
    interrupt_after(monkeypatch, 1)
    batch = wf.fit_batch(MODEL, TIMES, draw_curves((160,)), workers=1)
    assert batch.count_statuses()[wf.Status.INTERRUPTED] == 128
    assert "checkpoint" not in " ".join(batch.notes)


def test_interrupted_single_fits_are_kept_and_resumed(small_chunks, monkeypatch, tmp_path):
    counts = np.random.default_rng(0).poisson(200 * np.exp(-0.5 * TIMES), (3, len(TIMES))).astype(float)
    counts[2] = 5.0  # a series that never varies is refused
    arguments = {"noise": "poisson", "checkpoint": tmp_path / "c.npz"}
    whole = wf.fit_batch(MODEL, TIMES, counts, noise="poisson")
    assert list(whole.status)[2] is wf.Status.EMPTY
    begun = []

    def fit(model, data, original=batch_module.fit, **settings):
        begun.append(data)
        if len(begun) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return original(model, data, **settings)

    monkeypatch.setattr(batch_module, "fit", fit)
    first = wf.fit_batch(MODEL, TIMES, counts, **arguments)
    assert first.interrupted
    assert [s.name for s in first.status][1:] == ["INTERRUPTED", "INTERRUPTED"]
    assert first.fitted_singly == 1
    second = wf.fit_batch(MODEL, TIMES, counts, **arguments)
    assert len(begun) == 4
    assert_same(second, whole)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_fixed_parameter_is_not_reported_by_single_fits():
    counts = np.random.default_rng(0).poisson(400 - 200 * np.exp(-TIMES), (1, len(TIMES))).astype(float)
    model = wf.Model.from_text("x' = -a*x + b")
    batch = wf.fit_batch(model, TIMES, counts, noise="poisson", fixed={"a": 1.0})
    assert batch.parameters == ("b",)
    assert batch.estimate["b"][0] == pytest.approx(400, abs=5 * batch.standard_errors["b"][0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "the settings differ"),
        ({"bounds": {"k": (0, 2)}}, "the settings differ"),
        ({"times": TIMES + 0.5}, "the times"),
        ({"Y": draw_curves((4,), seed=9)}, "the data differ"),
        ({"Y": draw_curves((5,))}, "the shape, the data differ"),
        ({"model": wf.Model.from_text("x' = -k*x**2")}, "the model differ"),
        ({"sigma": 0.02}, "the data differ"),
    ],
)
def test_checkpoint_of_another_run_is_refused(tmp_path, change, message):
    arguments = {"model": MODEL, "times": TIMES, "Y": draw_curves((4,)), "checkpoint": tmp_path / "c.npz"}
    wf.fit_batch(**arguments)
    before = (tmp_path / "c.npz").read_bytes()
    with pytest.raises(wf.DataError, match=f"belongs to another run: .*{message}"):
        wf.fit_batch(**{**arguments, **change})
    assert (tmp_path / "c.npz").read_bytes() == before


def test_checkpoint_of_other_inputs_is_refused(tmp_path):
    model, path = wf.Model.from_text("x' = -k*x + u", inputs=["u"]), tmp_path / "c.npz"
    Y = draw_curves((2,))
    wf.fit_batch(model, TIMES, Y, inputs={"u": np.zeros(30)}, checkpoint=path)
    with pytest.raises(wf.DataError, match="the inputs differ"):
        wf.fit_batch(model, TIMES, Y, inputs={"u": 0.01 * np.ones(30)}, checkpoint=path)


def test_equal_arguments_of_other_types_continue(tmp_path):
    Y = draw_curves((2,))
    path = tmp_path / "c.npz"
    wf.fit_batch(MODEL, TIMES, Y, bounds={"k": (0, 2)}, checkpoint=path)
    again = wf.fit_batch(MODEL, list(TIMES), Y.tolist(), bounds={"k": [0.0, 2.0]}, checkpoint=str(path))
    assert again.success.all()


def test_unusable_checkpoint_is_refused_before_the_fits(tmp_path, monkeypatch):
    Y = draw_curves((2,))
    monkeypatch.setattr(batch_module, "fit_chunk", None)
    (tmp_path / "text.npz").write_text("text")
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    for path, message in (
        (tmp_path, "is a folder"),
        (tmp_path / "text.npz", "is not a checkpoint"),
        (tmp_path / "other.npz", "not a checkpoint of fit_batch; it would be overwritten"),
        (tmp_path / "text.npz" / "c.npz", "cannot be written"),
    ):
        with pytest.raises(wf.DataError, match=message):
            wf.fit_batch(MODEL, TIMES, Y, checkpoint=path)


def test_damaged_checkpoint_is_refused(tmp_path):
    Y, path = draw_curves((2,)), tmp_path / "c.npz"
    wf.fit_batch(MODEL, TIMES, Y, checkpoint=path)
    with np.load(path) as archive:
        arrays = dict(archive)
    for name, value in (
        ("numbers", np.array([0, 7])),
        ("estimate", np.ones((2, 4))),
        ("status", np.array([0, 99])),
    ):
        np.savez(path, **{**arrays, name: value})
        with pytest.raises(wf.DataError, match=r"is damaged.*Delete it"):
            wf.fit_batch(MODEL, TIMES, Y, checkpoint=path)


def test_full_disk_costs_the_checkpoint_and_not_the_fits(small_chunks, monkeypatch, tmp_path):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(batch_checkpoint.np, "savez", fail)
    batch = wf.fit_batch(MODEL, TIMES, draw_curves((64,)), checkpoint=tmp_path / "c.npz", workers=1)
    assert batch.success.mean() > 0.9
    assert [note for note in batch.notes if "could not be written: No space left" in note] == list(batch.notes)
    assert list(tmp_path.iterdir()) == []


def test_memory_map_of_whole_numbers_is_read_in_pieces(tmp_path):
    Y = np.round(1000 * draw_curves((40,))).astype(np.int16)
    np.save(tmp_path / "Y.npy", Y)
    mapped = np.load(tmp_path / "Y.npy", mmap_mode="r")
    batch = wf.fit_batch(MODEL, TIMES, mapped)
    assert isinstance(batch.refit.source.Y, np.memmap)
    assert_same(batch, wf.fit_batch(MODEL, TIMES, Y.astype(float)))


def test_chunks_run_on_dask_workers(small_chunks):
    distributed = pytest.importorskip("distributed")
    Y = draw_curves((80,))
    Y[3] = np.nan
    here = wf.fit_batch(MODEL, TIMES, Y, workers=1)
    arguments = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**arguments, protocol="tcp") as cluster:
        there = wf.fit_batch(MODEL, TIMES, Y, scheduler=cluster.scheduler_address)
        counts = np.random.default_rng(0).poisson(200 * np.exp(-0.5 * TIMES), (3, len(TIMES))).astype(float)
        counts[1] = 5.0
        singly = wf.fit_batch(MODEL, TIMES, counts, noise="poisson", scheduler=cluster.scheduler_address)
    assert_same(here, there)
    assert [s.name for s in singly.status] == ["CONVERGED", "EMPTY", "CONVERGED"]


def test_chunks_that_workers_lose_are_fitted_here(small_chunks, monkeypatch):
    def lose(_, process_job):
        def execute(jobs):
            for k, job in enumerate(jobs):
                yield job, batch_module.LostRun("its worker died") if k == 1 else process_job(job)

        return execute

    monkeypatch.setattr(batch_module, "make_dask_executor", lose)
    Y = draw_curves((96,))
    there = wf.fit_batch(MODEL, TIMES, Y, scheduler="tcp://nowhere")
    assert any("1 of 3 chunks were lost" in note and "its worker died" in note for note in there.notes)
    assert_same(there, wf.fit_batch(MODEL, TIMES, Y, workers=1))


def test_single_curve_has_a_full_result(tmp_path):
    batch = wf.fit_batch(MODEL, TIMES, draw_curves(()), checkpoint=tmp_path / "c.npz")
    assert batch.estimate["k"].shape == ()
    assert batch[()]["k"].value == pytest.approx(float(batch.estimate["k"]), rel=1e-3)
