"""Equations as MathML: well-formed, with all names escaped."""

import xml.etree.ElementTree as ET

import pytest

import weakform as wf
from support import ALL, MODELS
from weakform.report.mathml import render_equations


@pytest.mark.parametrize("name", [*MODELS, *ALL])
def test_mathml_is_well_formed(name):
    model = wf.problems.get(name).model if name in ALL else wf.Model.from_text(MODELS[name])
    root = ET.fromstring(render_equations(model))
    lines = len(model.states) - len(model.hidden) + len(model.observables) + len(model.initial)
    assert len(root.findall(".//mtr")) == lines


def test_labels_in_names_are_escaped():
    # Parameters are identifiers, but local ones get the labels of trajectories in their names.
    model = wf.Model.from_text("x' = -a*x").localise_parameters({"a": ["<script>", "b"]})
    assert "<script>" not in render_equations(model.for_trajectory(0))
