"""Every public object has a short representation."""

import numpy as np
import pytest

import weakform as wf
from weakform.support.progress import Progress
from weakform.support.progress_bar import ProgressBar


@pytest.fixture(scope="module")
def fit():
    problem = wf.problems.get("lotka-volterra")
    return wf.fit(problem.model, problem.simulate(M=80, noise=0.03, seed=1), bounds=problem.bounds)


def test_reprs_are_short_and_show_no_arrays_or_addresses(fit):
    problem = wf.problems.get("lotka-volterra")
    fit.intervals(kind="profile")
    solved = wf.simulate(problem.model, problem.parameters, problem.initial, np.linspace(0, 1, 50))
    shown = {
        "problem": problem,
        "model": problem.model,
        "function": problem.model.function(),
        "data": fit.data,
        "trajectory": fit.data.trajectories[0],
        "options": wf.Options(time_limit=10.0),
        "local": wf.Local(radius=2.0),
        "orthonormal": wf.Orthonormal(),
        "parameter": wf.Parameter(bounds=(0, 1), log=True),
        "doses": wf.Doses("x", [0.0], [1.0]),
        "simulation": solved,
        "quantity": fit["p1"],
        "prediction": fit.trajectory(),
        "profile": fit.profiles["p1"],
        "goodness": fit.goodness,
        "start": fit.starts[0],
        "initial": fit.initial,
        "states": fit.states,
        "progress": Progress(),
    }
    for name, value in shown.items():
        text = repr(value)
        assert len(text) < 330, (name, text)
        assert "array(" not in text, (name, text)
        assert "object at 0x" not in text, (name, text)
    assert repr(shown["parameter"]) == "Parameter(bounds=(0, 1), log=True)"
    assert repr(shown["options"]) == "Options(time_limit=10)"
    assert repr(problem.model).startswith("<Model: states u1, u2; parameters p1, p2, p3, p4>\n")
    assert repr(fit["p1"]).startswith("<p1 = ")
    comparison = wf.compare({"a": fit, "b": fit})
    assert repr(comparison).startswith("<Comparison of 2 models>")


def test_arrays_follow_the_order_of_parameters_in_the_repr(fit):
    model = wf.Model.from_text("x' = b10*x - a2*x^2 + a10")
    assert repr(model).splitlines()[0] == "<Model: states x; parameters a2, a10, b10>"
    t = np.linspace(0, 3, 40)
    data = wf.Dataset(t, 1 + 0.1 * np.cos(t) + 0.001 * np.sin(40 * t))
    ordered = wf.fit(model, data, bounds=[(0, 1), (2, 3), (4, 5)], start=[0.5, 2.5, 4.5], starts=1)
    assert ordered.bounds.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert dict(zip(model.parameters, ordered.starts[0].start, strict=True)) == {"a2": 0.5, "a10": 2.5, "b10": 4.5}


def test_a_notebook_shows_a_picture_and_a_bar(fit, monkeypatch):
    import sys
    import types

    assert fit._repr_html_().count("<svg") == 2
    shown_texts = []

    class Handle:
        def update(self, data, raw):
            shown_texts.append(data["text/plain"])

    def display(data, raw, display_id):
        shown_texts.append(data["text/plain"])
        return Handle()

    module = types.ModuleType("IPython.display")
    module.display = display
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    bar = ProgressBar()
    bar(Progress("search", 1, 4, 3.0, 1.0))
    bar(Progress("search", 2, 4, 3.0, 2.5))
    bar(Progress("search", 3, 4, 2.0, 3.5))
    bar.close()
    assert shown_texts[0] == "weakform: search, start 2 of 4, objective 3, 2 s"
    assert shown_texts[1].startswith("weakform: search, start 3 of 4")
    assert shown_texts[-1] == ""
