"""The relaxed model: its refinement on finer and finer meshes."""

from dataclasses import replace

import numpy as np

import weakform as wf
from weakform.estimators import relaxed_model


def test_residuals_belong_to_the_last_mesh_even_if_no_mesh_is_fine_enough(monkeypatch):
    model = wf.Model.from_text("A' = -k1*A\nB' = k1*A - k2*B\nC' = k2*B - k3*C\nA(0) = 1\nB(0) = 0\nC(0) = 0")
    t = np.linspace(0, 20, 25)
    exact = wf.simulate(model, [0.5, 0.3, 0.2], [1.0, 0.0, 0.0], t).states[:, 2:]
    data = wf.Dataset(
        t, exact + 0.005 * np.random.default_rng(0).standard_normal(exact.shape), names=["C"], sigma=0.005
    )
    plain = wf.fit(model, data, method="relaxed", start={"k1": 0.5, "k2": 0.3, "k3": 0.2}, starts=1)
    never_fine = replace(relaxed_model.DISCRETISATION, max_bias=-1.0)
    monkeypatch.setattr(relaxed_model, "DISCRETISATION", never_fine)
    forced = wf.fit(model, data, method="relaxed", start={"k1": 0.5, "k2": 0.3, "k3": 0.2}, starts=1)
    assert len(forced.nodes[0][0]) > len(plain.nodes[0][0])
    assert abs(forced.log_likelihood - plain.log_likelihood) < 0.01
    assert forced.status is plain.status
