"""Local parameters have a separate value for each trajectory or group of trajectories."""

import numpy as np
import pytest

import weakform as wf
from support import LOGISTIC, growth
from weakform.forward.solver import simulate
from weakform.support.errors import FitError, ModelError


def test_local_parameters_are_estimated_by_trajectory_and_by_group():
    model = wf.Model.from_text("N' = r*N*(1 - N/K)")
    parts, truth = [], {"a": 10.0, "b": 20.0, "c": 20.0}
    for k, K in enumerate(truth.values()):
        t = np.linspace(0, 12, 50)
        u = simulate(model, [K, 0.8], [1.0], t).states
        parts.append(wf.Dataset(t, u + 0.2 * np.random.default_rng(k).standard_normal(u.shape)))
    data = wf.Dataset.join(parts, list(truth))
    each = wf.fit(model, data, local=["K"], bounds={"K": (1, 100)})
    assert each.model.parameters == ("K_a", "K_b", "K_c", "r")
    for label, K in truth.items():
        assert each[f"K_{label}"].value == pytest.approx(K, rel=0.02)
    groups = wf.fit(model, data, local={"K": ["ten", "twenty", "twenty"]}, start={"K": 15.0, "r": 1.0}, starts=1)
    assert groups.model.parameters == ("K_ten", "K_twenty", "r")
    assert groups["K_twenty"].error < each["K_b"].error
    assert min(groups.r_squared.values()) > 0.98
    assert groups.predict([0.0, 12.0], trajectory=1).states[-1, 0] == pytest.approx(20, rel=0.05)
    with pytest.raises(FitError, match="several trajectories"):
        wf.fit(model, parts[0], local=["K"])


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param(["-1", "+1"], id="signs"),
        pytest.param(["α", "β"], id="Greek"),
        pytest.param(["dose -1", "dose +1"], id="doses"),
    ],
)
def test_labels_that_give_the_same_name_are_refused(labels):
    with pytest.raises(ModelError, match="both give the parameter name"):
        wf.fit(LOGISTIC, wf.Dataset.join([growth(1), growth(1.5)], labels), local=["r"])
