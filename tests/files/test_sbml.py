"""SBML and Antimony: the same equations in and out, and errors name what cannot be translated."""

import numpy as np
import pandas as pd
import pytest

import weakform as wf
from support import ALL, MATH
from weakform.cli.main import main
from weakform.files.formats.sbml import from_antimony, from_sbml, read_sbml, to_antimony, to_sbml
from weakform.files.model_file import read_model
from weakform.forward.solver import simulate
from weakform.support.errors import ModelError

pytestmark = pytest.mark.usefixtures("translate_in_process")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if k % 2 else ()) for k, n in enumerate(ALL)])
def test_round_trip_keeps_right_hand_side(name):
    problem = wf.problems.get(name)
    model = problem.model
    values, initial = (
        dict(zip(n, v, strict=True)) for n, v in ((model.parameters, problem.truth), (model.states, problem.initial))
    )
    text = to_antimony(model, values, initial)
    for file in (from_antimony(text), from_sbml(to_sbml(text))):
        assert file.model.states == model.states
        assert file.model.parameters == model.parameters
        rng = np.random.default_rng(1)
        u, p = rng.uniform(0.5, 2, (6, len(model.states))), rng.uniform(0.5, 2, len(model.parameters))
        assert np.allclose(file.model(np.arange(6.0), u, p), model(np.arange(6.0), u, p), rtol=1e-13)
        assert file.initial == pytest.approx(initial)
        assert file.said("start") == pytest.approx(values)


REACTIONS = """
function hill(x, K, n)
  x^n/(K^n + x^n)
end
model cascade()
  compartment cell = 2.0;
  species A in cell, B in cell, $E in cell;
  A = 4; B = 0.5; E = 3;
  k = 0.3; K = 1.5; n = 2;
  total := A + B;
  J1: A -> 2 B; cell*k*E*A;
  J2: B -> ; cell*hill(B, K, n)*total;
end
"""


def test_reactions_compartments_constants_rules_and_functions():
    file = from_antimony(REACTIONS)
    assert file.model.states == ("A", "B")
    assert file.said("fixed") == {"E": 3.0}
    assert file.said("start") == {"k": 0.3, "K": 1.5, "n": 2.0}
    A, B, E, k, K, n = 4.0, 0.5, 3.0, 0.3, 1.5, 2.0
    hill = B**n / (K**n + B**n)
    values = {"k": k, "K": K, "n": n, "E": E}
    rates = file.model(0.0, [A, B], [values[p] for p in file.model.parameters])
    assert np.allclose(rates, [-k * E * A, 2 * k * E * A - hill * (A + B)])


def test_amounts_and_local_parameters():
    sbml = """<?xml version="1.0" encoding="UTF-8"?>
    <sbml xmlns="http://www.sbml.org/sbml/level3/version1/core" level="3" version="1"><model id="m">
    <listOfCompartments><compartment id="c" size="5" constant="true"/></listOfCompartments>
    <listOfSpecies><species id="S" compartment="c" initialAmount="10" hasOnlySubstanceUnits="true"
      boundaryCondition="false" constant="false"/>
      <species id="P" compartment="c" initialAmount="10" hasOnlySubstanceUnits="false"
      boundaryCondition="false" constant="false"/></listOfSpecies>
    <listOfReactions><reaction id="r" reversible="false" fast="false">
      <listOfReactants><speciesReference species="S" stoichiometry="1" constant="true"/></listOfReactants>
      <listOfProducts><speciesReference species="P" stoichiometry="1" constant="true"/></listOfProducts>
      <kineticLaw><math xmlns="http://www.w3.org/1998/Math/MathML"><apply><times/><ci>k</ci><ci>S</ci></apply></math>
      <listOfLocalParameters><localParameter id="k" value="0.4"/></listOfLocalParameters></kineticLaw>
    </reaction></listOfReactions></model></sbml>"""
    file = from_sbml(sbml)
    assert file.model.parameters == ("r_k",)
    assert file.initial == {"S": 10.0, "P": 2.0}
    assert np.allclose(file.model(0.0, [10.0, 2.0], [0.4]), [-4.0, 0.8])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("model a() x' = -k*x; k = 1; x = 1; at 2 after (x < 0.5): x = 1; end", "delay", id="late"),
        pytest.param("model a() x' = floor(x)*k; x = 1; k = 1; end", "floor", id="floor"),
        pytest.param(
            "model a() compartment V; V := 2*p; p = 1; species S in V; S = 4; J: S -> ; 0; at (time > 1): p = 2; end",
            "compartment 'V' jumps",
            id="compartment that jumps by a rule",
        ),
        pytest.param(
            "model a() x' = 1; x = 0; y := piecewise(1, x < 2, 7); at (y > 5): x = 100; end",
            "piecewise",
            id="event on a piecewise rule",
        ),
        pytest.param("model a() x' = delay(x, 1)*k; x = 1; k = 1; end", "delay", id="delay"),
        pytest.param("model a() x = 1; end", "nothing changes", id="nothing changes"),
        pytest.param("model a() x' = k*y; y := z; z := y; k = 1; x = 1; end", "circle|not valid", id="circle"),
        pytest.param("nonsense(", "not valid Antimony", id="nonsense"),
        pytest.param('import "other.ant"\nmodel a() x\' = 1; end', "imports another file", id="import"),
    ],
)
def test_error_names_what_cannot_be_translated(text, words):
    with pytest.raises(ModelError, match=words):
        from_antimony(text)


TIMES = np.array([0.0, 0.5, 1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("text", "name", "exact"),
    [
        pytest.param(
            "model a() x' = -x; x = 1; at (time > 0.9): x = x + 1; end",
            "x",
            np.exp(-TIMES) + np.where(TIMES >= 0.9, np.exp(-(TIMES - 0.9)), 0.0),
            id="event at a time",
        ),
        pytest.param(
            "model a() x' = p; p = 1; x = 0; at (x > 1.2): p = 0; end",
            "x",
            np.minimum(TIMES, 1.2),
            id="event by a state",
        ),
        pytest.param(
            "model a() x' = piecewise(1, time < 1.5, -1); x = 0; end", "x", 1.5 - np.abs(TIMES - 1.5), id="piecewise"
        ),
        pytest.param(
            "model a() compartment c = 1; c' = 1; species S in c; S = 6; J: S -> ; 0; end",
            "S",
            6 / (1 + TIMES),
            id="growing compartment",
        ),
        pytest.param(
            "model a() compartment c = 2; species S in c; S = 6; J: S -> ; 0; at (time > 0.7): c = 6; end",
            "S",
            np.where(TIMES >= 0.7, 2.0, 6.0),
            id="compartment that jumps",
        ),
        pytest.param(
            "model a() compartment c; c := 1 + time; species S in c; S = 6; J: S -> ; 0; end",
            "S",
            6 / (1 + TIMES),
            id="compartment by a rule",
        ),
        pytest.param("model a() x' = -x; x = 1; y' = rateOf(x); y = 1; end", "y", np.exp(-TIMES), id="rateOf"),
        pytest.param("model a() x' = max(1, 2 - x); x = 1; end", "x", 1 + TIMES, id="max"),
        pytest.param("model a() x' = min(1, 2 + x, 3); x = 1; end", "x", 1 + TIMES, id="min of three"),
        pytest.param(
            "model a() species S; S = 10; J: S -> ; S; x = 0; x' = rateOf(S); end",
            "x",
            10 * np.exp(-TIMES) - 10,
            id="rateOf a species",
        ),
        pytest.param(
            "model a() c = 1; b = 2; z = 0; z' = 1; at (time >= 1.4): c = b; at (time >= 1.4): b = c; end",
            "b",
            np.where(TIMES >= 1.4, 1.0, 2.0),
            id="events of one moment",
        ),
        pytest.param(
            "model a() y = 0; z = 0; z' = 1; at (z >= 1.3): z = 0; at (z >= 1.3): y = y + 1; end",
            "y",
            np.floor(TIMES / 1.3),
            id="none is lost",
        ),
    ],
)
def test_events_and_switches_match_exact_solution(text, name, exact):
    file = from_antimony(text)
    u0 = [file.initial[s] for s in file.model.states]
    p = [
        file.parameters[n].fixed if file.parameters[n].fixed is not None else file.parameters[n].start
        for n in file.model.parameters
    ]
    solved = wf.simulate(file.model, p, u0, TIMES)
    np.testing.assert_allclose(solved.states[:, file.model.states.index(name)], exact, rtol=1e-6, atol=1e-7)


ALGEBRAIC = """<sbml xmlns="http://www.sbml.org/sbml/level3/version1/core" level="3" version="1"><model id="m">
<listOfParameters><parameter id="x" value="1" constant="false"/><parameter id="y" constant="false"/>
<parameter id="k" value="1" constant="true"/></listOfParameters>
<listOfRules><rateRule variable="x"><math xmlns="http://www.w3.org/1998/Math/MathML"><apply><minus/><apply><times/>
<ci>k</ci><ci>y</ci></apply></apply></math></rateRule><algebraicRule>
<math xmlns="http://www.w3.org/1998/Math/MathML"><apply><minus/><apply><times/><cn>2</cn><ci>x</ci></apply>
<ci>y</ci></apply></math></algebraicRule></listOfRules></model></sbml>"""


def test_algebraic_rules_are_solved_for_one_symbol():
    file = from_sbml(ALGEBRAIC)
    solved = wf.simulate(file.model, [1.0], [1.0], TIMES)
    np.testing.assert_allclose(solved.states[:, 0], np.exp(-2 * TIMES), rtol=1e-6)
    np.testing.assert_allclose(solved.observables["y"], 2 * np.exp(-2 * TIMES), rtol=1e-6)


def test_conversion_factors():
    text = ALGEBRAIC.replace('id="m"', 'id="m" conversionFactor="f"')
    a, b = text.index("<listOfParameters>"), text.index("</model>")
    text = (
        text[:a]
        + """<listOfCompartments><compartment id="c" size="2" constant="true"/></listOfCompartments>
<listOfSpecies><species id="A" compartment="c" initialConcentration="1" hasOnlySubstanceUnits="false"
boundaryCondition="false" constant="false"/></listOfSpecies><listOfParameters>
<parameter id="f" value="3" constant="true"/>
</listOfParameters><listOfReactions><reaction id="r" reversible="false" fast="false"><listOfProducts>
<speciesReference species="A" stoichiometry="1" constant="true"/></listOfProducts><kineticLaw>
<math xmlns="http://www.w3.org/1998/Math/MathML"><cn>4</cn></math></kineticLaw></reaction></listOfReactions>"""
        + text[b:]
    )
    file = from_sbml(text)
    assert wf.simulate(file.model, [3.0], [1.0], [0.0, 1.0]).states[1, 0] == pytest.approx(1 + 3 * 4 / 2)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("<sbml/>", id="no model"),
        pytest.param("<sbml", id="open tag"),
        pytest.param("\0", id="zero byte"),
        pytest.param('<!DOCTYPE x [<!ENTITY a "b">]><sbml/>', id="entity"),
        pytest.param("<html></html>", id="HTML"),
    ],
)
def test_invalid_sbml_is_refused(text):
    with pytest.raises(ModelError):
        from_sbml(text)


def test_initial_values_can_be_formulas():
    text = "model m() k = 2; q = 3*k; y := x + q; x = y0 + k; y0 = 1; x' = -k*x*y; z = sqrt(-k); z' = z; end"
    file = from_antimony(text)
    assert file.said("start") == {"k": 2.0, "y0": 1.0}  # q is a formula of k and follows it
    assert file.model([0.0], [[3.0, 1.0]], [4.0, 1.0])[0][0] == pytest.approx(-4 * 3 * (3 + 12))
    assert file.initial == {"x": 3.0}  # the root of a negative number has no value
    assert {state: str(expr) for state, expr in file.model.initial.items()} == {"x": "k + y0"}


def test_rules_can_be_measured_and_initial_assignments_are_initial_values():
    file = from_antimony("""
        model m
          J1: A -> B; k1*A
          J2: B -> ; k2*B
          A = A0; A0 = 10; B = A/4; k1 = 0.3; k2 = 0.1
          glow := s*B + 1; s = 2
          total := A + B
        end
    """)
    model = file.model
    assert {"glow", "total"} <= set(model.observables)
    assert {state: str(expr) for state, expr in model.initial.items()} == {"A": "A0", "B": "(1/4)*A0"}
    t = np.linspace(0, 20, 40)
    truth = {"k1": 0.3, "k2": 0.1, "A0": 8.0, "s": 2.0}
    states = wf.simulate(model, [truth[name] for name in model.parameters], [8.0, 2.0], t).states
    values = 2 * states[:, 1] + 1 + 0.05 * np.random.default_rng(0).standard_normal(40)
    fit = wf.fit(model, wf.Dataset(t, values, names=["glow"]), fixed={"s": 2.0}, start=file.said("start"))
    assert fit.success
    for name in ("k1", "k2", "A0"):
        assert abs(fit[name].value - truth[name]) < 4 * fit[name].error


def test_names_of_mathematical_constants_can_be_parameters():
    file = from_antimony("model m() E = 10; a = 2; y0 = exp(a); x = y0 + E; I = 3; x' = -E*x + I*a; end")
    assert file.said("start") == {"E": 10.0, "a": 2.0, "I": 3.0}
    assert file.initial["x"] == pytest.approx(np.exp(2) + 10)


def test_size_of_compartment_can_be_formula():
    file = from_antimony("compartment c; c = v0*2; v0 = 4; species x in c; x = 1; J: x -> ; k*x; k = 1;")
    values = {**file.said("start"), **file.said("fixed")}
    assert file.model([0.0], [[1.0]], [values[p] for p in file.model.parameters]) == pytest.approx(-1 / 8)
    assert (file.said("start"), file.said("fixed")) == ({"k": 1.0}, {"v0": 4.0})  # what only determines a size is fixed
    # A parameter that is also a rate stays free, and the size follows it.
    file = from_antimony("compartment c; c = 2 + k; species x in c; x = 1; J: x -> ; k*x; k = 3;")
    assert file.said("start") == {"k": 3.0}
    assert file.model([0.0], [[1.0]], [5.0]) == pytest.approx(-5 / 7)


def test_parameter_that_cancels_is_dropped():
    assert from_antimony("model m() a = 1; k = 2; x = 1; x' = -k*x + a - a; end").said("start") == {"k": 2.0}


def test_exponent_of_number_is_not_a_name():
    """The e of 1e-05 is not a name."""
    file = from_antimony("model m() k1 = 2; k2 = 1e-05*k1; x = 1; x' = -k2*x + k1; end")
    assert file.said("start") == {"k1": 2.0}
    assert file.model([0.0], [[1.0]], [3.0]) == pytest.approx(3 - 3e-5)
    assert from_antimony("model m() e := 1e-05*x; k = 1; x = 1; x' = -k*x + e; end").model.parameters == ("k",)
    assert from_antimony("model m() e = 3; k = 1; x = 1; x' = -k*x*1e-05; end").model.parameters == ("k",)


def test_initial_value_that_cannot_be_computed_is_left_out():
    file = from_antimony("model m() k = y*2; y := piecewise(1, x > 2, 3); x = 1; x' = -k*x; end")
    assert file.said("start") == {}


@pytest.mark.parametrize(
    "reference",
    [
        pytest.param(
            '<speciesReference species="A"><stoichiometryMath>'
            + '<math xmlns="http://www.w3.org/1998/Math/MathML"><cn type="rational"> 1 <sep/> 2 </cn></math>'
            + "</stoichiometryMath></speciesReference>",
            id="formula",
        ),
        pytest.param('<speciesReference species="A" stoichiometry="0.5"/>', id="number"),
    ],
)
def test_fractional_stoichiometry(reference):
    text = f"""<sbml xmlns="http://www.sbml.org/sbml/level2/version4" level="2" version="4"><model id="m">
    <listOfCompartments><compartment id="c" size="4"/></listOfCompartments>
    <listOfSpecies><species id="A" compartment="c" initialConcentration="2"/></listOfSpecies>
    <listOfParameters><parameter id="k" value="3"/></listOfParameters>
    <listOfReactions><reaction id="J" reversible="false"><listOfReactants>{reference}</listOfReactants>
    <kineticLaw>{MATH}<apply><times/><ci>k</ci><ci>A</ci></apply></math></kineticLaw></reaction></listOfReactions>
    </model></sbml>"""
    assert from_sbml(text).model([0.0], [[2.0]], [3.0]) == pytest.approx(-0.5 * 3 * 2 / 4)


LOCAL = """<sbml xmlns="http://www.sbml.org/sbml/level3/version1/core" level="3" version="1"><model id="m">
<listOfCompartments><compartment id="c" size="2" constant="true"/></listOfCompartments>
<listOfSpecies>
<species id="A" compartment="c" initialAmount="4" hasOnlySubstanceUnits="false" boundaryCondition="false"
 constant="false"/>
<species id="B" compartment="c" initialConcentration="1" hasOnlySubstanceUnits="false" boundaryCondition="false"
 constant="false"/></listOfSpecies>
<listOfParameters><parameter id="J_k" value="7" constant="true"/></listOfParameters>
<listOfReactions>
<reaction id="J" reversible="false" fast="false">
<listOfReactants><speciesReference species="A" stoichiometry="1" constant="true"/></listOfReactants>
<listOfProducts><speciesReference species="B" stoichiometry="1" constant="true"/></listOfProducts>
<kineticLaw><math xmlns="http://www.w3.org/1998/Math/MathML"><apply><times/><ci>c</ci><ci>k</ci><ci>A</ci></apply></math>
<listOfLocalParameters><localParameter id="k" value="3"/></listOfLocalParameters></kineticLaw></reaction>
<reaction id="K" reversible="false" fast="false">
<listOfReactants><speciesReference species="B" stoichiometry="1" constant="true"/></listOfReactants>
<kineticLaw><math xmlns="http://www.w3.org/1998/Math/MathML">
<apply><times/><ci>c</ci><ci>J_k</ci><ci>B</ci></apply></math></kineticLaw></reaction>
</listOfReactions></model></sbml>"""


def test_local_parameter_does_not_replace_global_one():
    file = from_sbml(LOCAL)
    assert file.said("start") == {"J_k": 7.0, "J_k_": 3.0}
    assert file.initial == {"A": 2.0, "B": 1.0}
    p = [file.said("start")[name] for name in file.model.parameters]
    assert file.model([0.0], [[1.0, 1.0]], p)[0] == pytest.approx([-3.0, -4.0])


@pytest.mark.parametrize("version", [1, 3, 4])
def test_sbml_level_two(version):
    text = f"""<sbml xmlns="http://www.sbml.org/sbml/level2{f"/version{version}" if version > 1 else ""}" level="2"
    version="{version}"><model id="m"><listOfCompartments><compartment id="c" size="4"/></listOfCompartments>
    <listOfSpecies><species id="A" compartment="c" initialAmount="8"/></listOfSpecies>
    <listOfParameters><parameter id="k" value="3"/></listOfParameters>
    <listOfReactions><reaction id="J" reversible="false">
    <listOfReactants><speciesReference species="A"/></listOfReactants>
    <kineticLaw>{MATH}<apply><times/><ci>k</ci><ci>A</ci></apply></math></kineticLaw></reaction></listOfReactions>
    </model></sbml>"""
    file = from_sbml(text)
    assert file.initial == {"A": 2.0}
    assert file.model([0.0], [[2.0]], [3.0]) == pytest.approx(-3 * 2 / 4)


def test_rate_of_reaction_can_be_used_in_rules():
    file = from_antimony("model m() species A, B; A = 1; B = 1; k = 2; J: A -> ; k*A; B' = 0.5*J; end")
    assert file.model([0.0], [[3.0, 1.0]], [2.0])[0] == pytest.approx([-6.0, 3.0])


def test_unused_untranslatable_rule_is_ignored():
    file = from_antimony("model m() x = 1; k = 1; x' = -k*x; shown := piecewise(1, x > 0.5, 0); end")
    assert file.model.parameters == ("k",)


@pytest.mark.parametrize(
    "text", [pytest.param("model a() x' = -k*x; \u00e9 = 1 end", id="accent"), pytest.param("\x80", id="control")]
)
def test_antimony_refuses_non_ascii_characters(text):
    with pytest.raises(ModelError, match="not valid Antimony"):
        from_antimony(text)


def test_files_are_read_and_fitted_on_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.ant").write_text(REACTIONS)
    (tmp_path / "m.xml").write_text(to_sbml(REACTIONS))
    assert read_model("m.ant").model.states == read_sbml("m.xml").model.states
    file = read_model("m.xml")
    p = [{**file.said("start"), **file.said("fixed")}[name] for name in file.model.parameters]
    t = np.linspace(0, 4, 60)
    u = simulate(file.model, p, [4.0, 0.5], t).states
    noisy = u + 0.02 * np.random.default_rng(1).standard_normal(u.shape)
    pd.DataFrame({"t": t, "A": noisy[:, 0], "B": noisy[:, 1]}).to_csv("d.csv", index=False)
    assert main(["fit", "m.xml", "d.csv"]) == 0
    assert "fixed" in capsys.readouterr().out
    (tmp_path / "bad.xml").write_text("<sbml>")
    assert main(["fit", "bad.xml", "d.csv"]) == 2


def test_fitted_model_is_exported():
    problem = wf.problems.get("lotka-volterra")
    fit = wf.fit(problem.model, problem.simulate(M=60, noise=0.02), bounds=problem.bounds)
    file = from_antimony(fit.to_antimony())
    assert [file.said("start")[p] for p in fit.model.parameters] == pytest.approx(fit.estimate.tolist())
    assert from_sbml(fit.to_sbml()).model.states == fit.model.states


def test_toml_file_takes_equations_from_sbml(tmp_path):
    (tmp_path / "m.xml").write_text(to_sbml(REACTIONS))
    toml = tmp_path / "m.toml"
    toml.write_text('model = "m.xml"\nnoise = "lognormal"\n[parameters.k]\nbounds = [0, 2]\n[parameters.n]\nfixed = 2')
    file = read_model(toml)
    assert file.said("bounds") == {"k": (0.0, 2.0)}
    assert file.said("fixed") == {"E": 3.0, "n": 2.0}
    assert file.said("start") == {"k": 0.3, "K": 1.5}
    assert set(file.noise.values()) == {"lognormal"}
    toml.write_text('model = "m.xml"\n[parameters.E]\nbounds = [0, 5]')
    file = read_model(toml)
    assert file.said("fixed") == {}  # bounds in the TOML file free it
    assert file.said("start")["E"] == 3.0
    for wrong in ('"a\\u0000.xml"', f'"{"a" * 300}.xml"', '"../m.xml"', '"/etc/passwd"', '"m.toml"', "3"):
        toml.write_text(f"model = {wrong}")
        with pytest.raises(ModelError, match=r"model|Cannot read"):
            read_model(toml)
    toml.write_text('model = "m.xml"\nequations = "x\' = 1"')
    with pytest.raises(ModelError, match="either"):
        read_model(toml)


def test_reserved_names_of_antimony_get_underscores():
    model = wf.Model.from_text("S' = -beta*S*gamma - time_*DNA + exp(1)*at\nβ' = -max_*S")
    values = dict.fromkeys(model.parameters, 2.0)
    text = to_antimony(model, values, {"S": 1.0})
    file = from_antimony(text)
    assert "// gamma_ is gamma" in text
    u, p = np.array([[1.5, 0.5]]), [1.0 + k for k in range(len(model.parameters))]
    named = dict(zip(model.parameters, p, strict=True)) | {"gamma_": 0.0}
    named = {**named, "gamma_": named["gamma"], "DNA_": named["DNA"], "at_": named["at"]}
    rates = file.model([0.0], u, [named[name] for name in file.model.parameters])
    assert np.allclose(rates, model([0.0], u, p))


def test_exported_fit_has_time_zero_at_first_sample():
    model = wf.Model.from_text("x' = -k*x + sin(t)")
    t = np.linspace(10, 16, 80)
    u = simulate(model, [0.5], [2.0], t).states
    fit = wf.fit(model, wf.Dataset(t, u + 0.01 * np.random.default_rng(1).standard_normal(u.shape)))
    file = from_antimony(fit.to_antimony())
    states = simulate(file.model, [file.said("start")["k"]], [file.initial["x"]], t - 10).states
    assert np.abs(states - u).max() < 0.05
