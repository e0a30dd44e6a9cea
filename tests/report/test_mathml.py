"""Equations as MathML: well-formed, and no markup in names."""

import xml.etree.ElementTree as ET

import pytest

import weakform as wf
from support import ALL
from weakform.report.mathml import equations

MODELS = [
    "x' = 0.1234567890123456*a*x + 1e-30*x**2.5 - 3*x/7",
    "x' = -a*exp(-b*x**2)/(1 + x**n) + sqrt(x)*log(1 + c*x) - 2**x",
    "theta'' = -k*sin(theta) - c*theta' + tanh(theta)**2",
    "x' = atan(a*x) + erf(b*x) - abs(x)*pi + asinh(x)/(a - b)**2",
]


@pytest.mark.parametrize("text", [*MODELS, *ALL])
def test_mathml_is_well_formed(text):
    model = wf.problems.get(text).model if text in ALL else wf.Model.from_text(text)
    root = ET.fromstring(equations(model))
    assert len(root.findall(".//mtr")) == len(model.states) - len(model.hidden)


def test_names_cannot_smuggle_markup():
    # Names are identifiers, but labels of trajectories become names, too.
    model = wf.Model.from_text("x' = -a*x").localised({"a": ["<script>", "b"]})
    assert "<script>" not in equations(model.of(0))
