"""The printed report shows settings, estimates, warnings and units."""

import weakform as wf
from support import LV


def test_report_shows_settings_and_correlated_parameters():
    problem = wf.problems.get("goodwin")
    data = problem.simulate(M=256, noise=0.05, seed=1)
    fit = wf.fit(problem.model, data, bounds=problem.bounds, method="mle")
    text = str(fit)
    for piece in ("95% interval", "local bumps, radius 3.125", "sigma (estimated)", "weak residuals", "Correlations"):
        assert piece in text
    assert "p1 and p3 can hardly be told apart" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 110


def test_report_shows_units():
    data = LV.simulate(M=60, noise=0.05)
    assert "1/day" in str(wf.fit(LV.model, data, bounds=LV.bounds, units={"p1": "1/day", "time": "days"}))
