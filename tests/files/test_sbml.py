"""SBML, Antimony and PEtab: the same equations in and out, and what cannot be translated is named."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import weakform as wf
from support import ALL
from weakform.cli.main import main
from weakform.files.formats.petab import read_petab
from weakform.files.formats.sbml import from_antimony, from_sbml, read_sbml, to_antimony, to_sbml
from weakform.files.model_file import read_model
from weakform.forward.solve import simulate
from weakform.support.errors import ModelError


@pytest.mark.parametrize("name", ALL)
def test_round_trip_gives_the_same_right_hand_side(name):
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
    found = file.model(0.0, [A, B], [values[p] for p in file.model.parameters])
    assert np.allclose(found, [-k * E * A, 2 * k * E * A - hill * (A + B)])


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
        ("model a() x' = -k*x; k = 1; x = 1; at (x < 0.5): x = 1; end", "event"),
        ("model a() x' = piecewise(1, x > 1, 0)*k; x = 1; k = 1; end", "piecewise"),
        ("model a() x' = delay(x, 1)*k; x = 1; k = 1; end", "delay"),
        ("model a() x = 1; end", "nothing changes"),
        ("model a() compartment c; c' = 1; species S in c; S -> ; S; end", "changes its size"),
        ("model a() x' = k*y; y := z; z := y; k = 1; x = 1; end", "circle|not valid"),
        ("nonsense(", "not valid Antimony"),
        ('import "other.ant"\nmodel a() x\' = 1; end', "imports another file"),
    ],
)
def test_what_cannot_be_translated_is_named(text, words):
    with pytest.raises(ModelError, match=words):
        from_antimony(text)


@pytest.mark.parametrize(
    "text", ["", "<sbml/>", "<sbml", "\0", '<!DOCTYPE x [<!ENTITY a "b">]><sbml/>', "<html></html>"]
)
def test_what_is_not_sbml(text):
    with pytest.raises(ModelError):
        from_sbml(text)


HEAD = '<sbml xmlns="http://www.sbml.org/sbml/level3/version1/core" level="3" version="1"><model id="m">'
MATH = '<math xmlns="http://www.w3.org/1998/Math/MathML">'
PARAMETER = '<listOfParameters><parameter id="x" value="1" constant="false"/></listOfParameters>'


def rate_rule(formula, before=""):
    rule = f'<listOfRules><rateRule variable="x">{MATH}{formula}</math></rateRule></listOfRules>'
    return f"{HEAD}{before}{PARAMETER}{rule}</model></sbml>"


def doubling_functions(n):
    """Each calls the one before it twice: short to write, 2ⁿ long when put in place."""
    call = "<apply><ci>f{0}</ci><ci>a</ci></apply>"
    bodies = ["<ci>a</ci>", *(f"<apply><plus/>{call.format(k) * 2}</apply>" for k in range(n))]
    lines = [
        f'<functionDefinition id="f{k}">{MATH}<lambda><bvar><ci>a</ci></bvar>{body}</lambda></math>'
        "</functionDefinition>"
        for k, body in enumerate(bodies)
    ]
    before = f"<listOfFunctionDefinitions>{''.join(lines)}</listOfFunctionDefinitions>"
    return rate_rule(f"<apply><ci>f{n}</ci><ci>x</ci></apply>", before)


def test_a_chain_of_operators_is_not_deep():
    """MathML nests what a person writes in a row."""
    n = 300
    text = rate_rule("<apply><plus/>" * n + "<ci>x</ci>" + "<ci>x</ci></apply>" * n)
    assert from_sbml(text).model([0.0], [[2.0]], []) == pytest.approx(2.0 * (n + 1))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (rate_rule("<apply><minus/>" * 100_000 + "<ci>x</ci>" + "</apply>" * 100_000), "could not be read"),
        (HEAD.replace(">", "><notes>", 2)[:-7] + "<p>" * 200_000 + "</p>" * 200_000 + "</model></sbml>", "read|valid"),
        (rate_rule("<apply><exp/>" * 150 + "<ci>x</ci>" + "</apply>" * 150), "nested"),
        (doubling_functions(30), "more than 100000 parts"),
    ],
    ids=["deep", "deep notes", "nested", "doubling"],
)
def test_bombs_are_refused(text, words):
    with pytest.raises(ModelError, match=words):
        from_sbml(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "model m0() x' = -k*x; x=1; k=1; end\n"
        + "".join(f"model m{i}() a: m{i - 1}(); b: m{i - 1}(); end\n" for i in range(1, 26)),
        "model m() x=1; x' = " + "+".join(["x"] * 100_000) + "; end",
    ],
    ids=["submodels", "a long sum"],
)
def test_bombs_that_take_memory_or_time_are_refused(text):
    with pytest.raises(ModelError, match="could not be read"):
        from_antimony(text)


def test_rules_that_double_are_refused():
    n = 40
    sums = [f"<apply><plus/><ci>y{k - 1}</ci><cn>{c}</cn></apply>" for k in range(1, n) for c in (1, 2)]
    formulas = ["<ci>x</ci>", *(f"<apply><times/>{a}{b}</apply>" for a, b in zip(sums[::2], sums[1::2], strict=True))]
    rules = "".join(
        f'<assignmentRule variable="y{k}">{MATH}{text}</math></assignmentRule>' for k, text in enumerate(formulas)
    )
    parameters = "".join(f'<parameter id="y{k}" constant="false"/>' for k in range(n))
    text = rate_rule(f"<ci>y{n - 1}</ci>").replace("<listOfRules>", "<listOfRules>" + rules)
    with pytest.raises(ModelError, match="terms and operations"):
        from_sbml(text.replace("</listOfParameters>", parameters + "</listOfParameters>"))


@pytest.mark.parametrize(
    "text",
    [
        'x = 1; import "other.ant"',
        'import // why\n "other.ant"',
        'import /* a\n b */ "other.ant"\nx\' = 1',
        'import\\\n"other.ant"',
        'im\\\nport "other.ant"',
        '/*\n// */ import "other.ant"',
        's = "//"; import "other.ant"',
    ],
)
def test_no_other_file_is_opened(text):
    with pytest.raises(ModelError, match="imports another file"):
        from_antimony(text)


def test_initial_values_may_be_formulas():
    text = "model m() k = 2; q = 3*k; y := x + q; x = y0 + k; y0 = 1; x' = -k*x*y; z = sqrt(-k); z' = z; end"
    file = from_antimony(text)
    assert file.said("start") == {"k": 2.0}  # q is defined by k, and follows it
    assert file.model([0.0], [[3.0, 1.0]], [4.0])[0][0] == pytest.approx(-4 * 3 * (3 + 12))
    assert file.initial == {"x": 3.0}  # the root of a negative number is not known


def test_names_of_constants_are_names():
    file = from_antimony("model m() E = 10; a = 2; y0 = exp(a); x = y0 + E; I = 3; x' = -E*x + I*a; end")
    assert file.said("start") == {"E": 10.0, "a": 2.0, "I": 3.0}
    assert file.initial["x"] == pytest.approx(np.exp(2) + 10)


def test_the_size_of_a_compartment_may_be_a_formula():
    file = from_antimony("compartment c; c = v0*2; v0 = 4; species x in c; x = 1; J: x -> ; k*x; k = 1;")
    values = {**file.said("start"), **file.said("fixed")}
    assert file.model([0.0], [[1.0]], [values[p] for p in file.model.parameters]) == pytest.approx(-1 / 8)
    assert (file.said("start"), file.said("fixed")) == ({"k": 1.0}, {"v0": 4.0})  # what only tells a size is known
    # A parameter that is also a rate stays free, and the size follows it.
    file = from_antimony("compartment c; c = 2 + k; species x in c; x = 1; J: x -> ; k*x; k = 3;")
    assert file.said("start") == {"k": 3.0}
    assert file.model([0.0], [[1.0]], [5.0]) == pytest.approx(-5 / 7)


def test_a_parameter_may_cancel():
    assert from_antimony("model m() a = 1; k = 2; x = 1; x' = -k*x + a - a; end").said("start") == {"k": 2.0}


def test_small_numbers_are_numbers():
    """The e of 1e-05 is not a name."""
    file = from_antimony("model m() k1 = 2; k2 = 1e-05*k1; x = 1; x' = -k2*x + k1; end")
    assert file.said("start") == {"k1": 2.0}
    assert file.model([0.0], [[1.0]], [3.0]) == pytest.approx(3 - 3e-5)
    assert from_antimony("model m() e := 1e-05*x; k = 1; x = 1; x' = -k*x + e; end").model.parameters == ("k",)
    assert from_antimony("model m() e = 3; k = 1; x = 1; x' = -k*x*1e-05; end").model.parameters == ("k",)


def test_what_cannot_be_translated_has_no_value():
    file = from_antimony("model m() k = y*2; y := piecewise(1, x > 2, 3); x = 1; x' = -k*x; end")
    assert file.said("start") == {}


@pytest.mark.parametrize(
    "reference",
    [
        '<speciesReference species="A"><stoichiometryMath>'
        + '<math xmlns="http://www.w3.org/1998/Math/MathML"><cn type="rational"> 1 <sep/> 2 </cn></math>'
        + "</stoichiometryMath></speciesReference>",
        '<speciesReference species="A" stoichiometry="0.5"/>',
    ],
)
def test_half_a_molecule(reference):
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


def test_a_local_parameter_does_not_take_the_place_of_another():
    file = from_sbml(LOCAL)
    assert file.said("start") == {"J_k": 7.0, "J_k_": 3.0}
    assert file.initial == {"A": 2.0, "B": 1.0}
    p = [file.said("start")[name] for name in file.model.parameters]
    assert file.model([0.0], [[1.0, 1.0]], p)[0] == pytest.approx([-3.0, -4.0])


@pytest.mark.parametrize("version", [1, 3, 4])
def test_level_two(version):
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


def test_the_rate_of_a_reaction_may_be_used():
    file = from_antimony("model m() species A, B; A = 1; B = 1; k = 2; J: A -> ; k*A; B' = 0.5*J; end")
    assert file.model([0.0], [[3.0, 1.0]], [2.0])[0] == pytest.approx([-6.0, 3.0])


def test_what_is_not_needed_may_be_anything():
    file = from_antimony("model m() x = 1; k = 1; x' = -k*x; shown := piecewise(1, x > 0.5, 0); end")
    assert file.model.parameters == ("k",)


@pytest.mark.parametrize("text", ["model a() x' = -k*x; \u00e9 = 1 end", "\x80"])
def test_characters_that_antimony_does_not_know(text):
    with pytest.raises(ModelError, match="not valid Antimony"):
        from_antimony(text)


def test_files_and_the_command_line(tmp_path, monkeypatch, capsys):
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


def test_a_fitted_model_goes_back_to_antimony():
    problem = wf.problems.get("lotka-volterra")
    fit = wf.fit(problem.model, problem.simulate(M=60, noise=0.02), bounds=problem.bounds)
    file = from_antimony(fit.to_antimony())
    assert [file.said("start")[p] for p in fit.model.parameters] == pytest.approx(fit.estimate.tolist())
    assert from_sbml(fit.to_sbml()).model.states == fit.model.states


def test_a_toml_file_may_take_its_equations_from_sbml(tmp_path):
    (tmp_path / "m.xml").write_text(to_sbml(REACTIONS))
    toml = tmp_path / "m.toml"
    toml.write_text('model = "m.xml"\nnoise = "lognormal"\n[parameters.k]\nbounds = [0, 2]\n[parameters.n]\nfixed = 2')
    file = read_model(toml)
    assert file.said("bounds") == {"k": (0.0, 2.0)}
    assert file.said("fixed") == {"E": 3.0, "n": 2.0}
    assert file.said("start") == {"k": 0.3, "K": 1.5}
    assert file.noise == ("lognormal", "lognormal")
    toml.write_text('model = "m.xml"\n[parameters.E]\nbounds = [0, 5]')
    file = read_model(toml)
    assert file.said("fixed") == {}  # what is said of it makes it unknown
    assert file.said("start")["E"] == 3.0
    for wrong in ('"a\\u0000.xml"', f'"{"a" * 300}.xml"', '"../m.xml"', '"/etc/passwd"', '"m.toml"', "3"):
        toml.write_text(f"model = {wrong}")
        with pytest.raises(ModelError, match=r"model|Cannot read"):
            read_model(toml)
    toml.write_text('model = "m.xml"\nequations = "x\' = 1"')
    with pytest.raises(ModelError, match="either"):
        read_model(toml)


def test_names_that_antimony_keeps_for_itself():
    model = wf.Model.from_text("S' = -beta*S*gamma - time_*DNA + exp(1)*at\nβ' = -max_*S")
    values = dict.fromkeys(model.parameters, 2.0)
    text = to_antimony(model, values, {"S": 1.0})
    file = from_antimony(text)
    assert "// gamma_ is gamma" in text
    u, p = np.array([[1.5, 0.5]]), [1.0 + k for k in range(len(model.parameters))]
    named = dict(zip(model.parameters, p, strict=True)) | {"gamma_": 0.0}
    named = {**named, "gamma_": named["gamma"], "DNA_": named["DNA"], "at_": named["at"]}
    found = file.model([0.0], u, [named[name] for name in file.model.parameters])
    assert np.allclose(found, model([0.0], u, p))


def test_an_exported_fit_starts_its_clock_at_the_first_sample():
    model = wf.Model.from_text("x' = -k*x + sin(t)")
    t = np.linspace(10, 16, 80)
    u = simulate(model, [0.5], [2.0], t).states
    fit = wf.fit(model, wf.Dataset(t, u + 0.01 * np.random.default_rng(1).standard_normal(u.shape)))
    file = from_antimony(fit.to_antimony())
    again = simulate(file.model, [file.said("start")["k"]], [file.initial["x"]], t - 10).states
    assert np.abs(again - u).max() < 0.05


def petab_folder(folder, scale="lin", **change):
    """A small PEtab problem: two conditions that differ in a feed."""
    model = "model m()\n x = 1; y = 1; k = 0.5; c = 0.3; feed = 1;\n x' = feed - k*x;\n y' = k*x - c*y;\nend\n"
    (folder / "model.xml").write_text(to_sbml(model))
    model_ = from_antimony(model).model
    rows = []
    for condition, feed in (("low", 1.0), ("high", 3.0)):
        values = {"k": 0.5, "c": 0.3, "feed": feed}
        t = np.linspace(0, 8, 30)
        u = simulate(model_, [values[p] for p in model_.parameters], [1.0, 1.0], t).states
        u = u * np.exp(0.02 * np.random.default_rng(1).standard_normal(u.shape))
        for d, name in enumerate(("obs_x", "obs_y")):
            rows += [(name, condition, float(v), float(s)) for v, s in zip(u[:, d], t, strict=True)]
    columns = ["observableId", "simulationConditionId", "measurement", "time"]
    pd.DataFrame(rows, columns=columns).to_csv(folder / "m.tsv", sep="\t", index=False)
    pd.DataFrame({"conditionId": ["low", "high"], "feed": [1.0, 3.0]}).to_csv(folder / "c.tsv", sep="\t", index=False)
    observables = {
        "observableId": ["obs_x", "obs_y"],
        "observableFormula": ["x", "y"],
        "observableTransformation": ["log", "log"],
        "noiseFormula": ["0.02", "0.02"],
        **change,
    }
    pd.DataFrame(observables).to_csv(folder / "o.tsv", sep="\t", index=False)
    parameters = {
        "parameterId": ["k", "c"],
        "parameterScale": [scale] * 2,
        "lowerBound": [0.01] * 2,
        "upperBound": [5.0] * 2,
        "nominalValue": [0.5, 0.3],
        "estimate": [1, 1],
    }
    pd.DataFrame(parameters).to_csv(folder / "p.tsv", sep="\t", index=False)
    (folder / "problem.yaml").write_text(
        "format_version: 1\nparameter_file: p.tsv\nproblems:\n- sbml_files: [model.xml]\n  condition_files: [c.tsv]\n"
        "  measurement_files: [m.tsv]\n  observable_files: [o.tsv]\n"
    )
    return folder / "problem.yaml"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scale", ["lin", "log10"])
def test_petab(tmp_path, scale):
    problem = read_petab(petab_folder(tmp_path, scale))
    assert [q.label for q in problem.data.trajectories] == ["high", "low"]
    assert problem.data.noise == ("lognormal", "lognormal")
    assert problem.file.said("fixed") == {"feed_high": 3.0, "feed_low": 1.0}
    assert problem.file.said("log") == ({"k": True, "c": True} if scale == "log10" else {})
    fit = problem.fit()
    assert fit["k"].value == pytest.approx(0.5, rel=0.05)
    assert fit["c"].value == pytest.approx(0.3, rel=0.05)
    assert fit.goodness.chi_square_p > 1e-4


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"observableFormula": ["x + y", "y"]}, "only states themselves"),
        ({"observableFormula": ["x", "x"]}, "two observables"),
        ({"noiseDistribution": ["laplace", "normal"]}, "only normal can be translated"),
    ],
)
def test_petab_that_goes_beyond(tmp_path, change, words):
    with pytest.raises(ModelError, match=words):
        read_petab(petab_folder(tmp_path, **change))


def rewritten(folder, file, **columns):
    """A table of a problem with columns replaced, dropped (None) or added."""
    table = pd.read_csv(folder / file, sep="\t")
    for name, values in columns.items():
        if values is None:
            table = table.drop(columns=name)
        else:
            table[name] = values
    table.to_csv(folder / file, sep="\t", index=False)


def test_petab_takes_the_row_of_the_condition_that_was_measured(tmp_path):
    path = petab_folder(tmp_path)
    table = pd.read_csv(tmp_path / "m.tsv", sep="\t")
    table[table["simulationConditionId"] == "high"].to_csv(tmp_path / "m.tsv", sep="\t", index=False)
    problem = read_petab(path)
    assert problem.file.said("fixed") == {"feed": 3.0}
    assert problem.fit()["k"].value == pytest.approx(0.5, rel=0.05)


def test_petab_noise(tmp_path):
    """Formulas of noise parameters, by measurement; parameters with values; parameters to be estimated."""
    path = petab_folder(tmp_path, observableTransformation=["lin", "log10"])
    rewritten(tmp_path, "o.tsv", noiseFormula=["noiseParameter1_obs_x*2 + s", "0.02"])
    rewritten(tmp_path, "m.tsv", noiseParameters=["0.01", "0.02"] * 60)
    table = pd.read_csv(tmp_path / "p.tsv", sep="\t")
    table.loc[2] = ["s", "lin", 0.001, 1.0, 0.005, 0]
    table.to_csv(tmp_path / "p.tsv", sep="\t", index=False)
    data = read_petab(path).data
    assert data.noise == ("gaussian", "lognormal")
    for q in data.trajectories:
        sigma = q.scale * data.sigma
        assert np.allclose(sigma[::2, 0], 0.025)
        assert np.allclose(sigma[1::2, 0], 0.045)
        assert np.allclose(sigma[:, 1], 0.02 * np.log(10))
    rewritten(tmp_path, "p.tsv", estimate=1)
    data = read_petab(path).data
    assert data.sigma is None
    assert "obs_x is to be estimated" in data.notes[-1]


def test_petab_uniform_priors_are_bounds(tmp_path):
    path = petab_folder(tmp_path, scale="log10")
    rewritten(
        tmp_path,
        "p.tsv",
        objectivePriorType=["uniform", "parameterScaleUniform"],
        objectivePriorParameters=["0.2;0.7", "-1;0"],
    )
    assert read_petab(path).file.said("bounds") == {"k": (0.2, 0.7), "c": (0.1, 1.0)}
    rewritten(tmp_path, "p.tsv", objectivePriorType=None, objectivePriorParameters=["-1;0", "-1;0"])
    assert read_petab(path).file.said("bounds") == {"k": (0.1, 1.0), "c": (0.1, 1.0)}


def test_petab_names_and_definitions(tmp_path):
    """A parameter with a name of ours, and one that the model computes from another."""
    path = petab_folder(tmp_path)
    model = "model m()\n x = 1; y = 1; t = 0.5; c = 0.6*t; feed = 1;\n x' = feed - t*x;\n y' = t*x - c*y;\nend\n"
    (tmp_path / "model.xml").write_text(to_sbml(model))
    rewritten(tmp_path, "p.tsv", parameterId=["t", "c"])
    with pytest.raises(ModelError, match="'c', which the model computes"):
        read_petab(path)
    table = pd.read_csv(tmp_path / "p.tsv", sep="\t")
    table.iloc[:1].to_csv(tmp_path / "p.tsv", sep="\t", index=False)
    problem = read_petab(path)
    assert problem.file.said("bounds") == {"t_": (0.01, 5.0)}
    assert problem.fit()["t_"].value == pytest.approx(0.5, rel=0.05)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("file", "columns", "words"),
    [
        ("p.tsv", {"parameterId": ["k", "cc"]}, "'cc', which nothing uses. Did you mean 'c'"),
        ("p.tsv", {"parameterScale": ["log2", "lin"]}, "only lin, log, log10"),
        ("p.tsv", {"estimate": [1, np.nan]}, "must be 0 or 1"),
        ("p.tsv", {"upperBound": [5.0, np.nan]}, "lacks a bound"),
        ("p.tsv", {"objectivePriorType": ["normal", "uniform"]}, "lacks its parameters"),
        ("p.tsv", {"objectivePriorType": ["laplace", "normal"]}, "only uniform"),
        ("o.tsv", {"observableTransformation": ["Log10", "lin"]}, "only lin, log, log10"),
        ("o.tsv", {"noiseFormula": ["0.1*x", "0.02"]}, "depends on states"),
        ("o.tsv", {"noiseFormula": None}, "noiseFormula"),
        ("o.tsv", {"noiseFormula": ["noiseParameter1_obs_x", "0.02"]}, "lacks its noise parameter"),
        ("m.tsv", {"observableId": ["obs_x"] * 119 + ["obs_z"]}, "'obs_z', which is not an observable"),
        ("m.tsv", {"time": ["soon"] + [1.0] * 119}, "PEtab problem|broken"),
        ("c.tsv", {"feed": ["k", 1.0]}, "not a number"),
    ],
)
def test_petab_with_one_thing_wrong(tmp_path, file, columns, words):
    path = petab_folder(tmp_path)
    rewritten(tmp_path, file, **columns)
    with pytest.raises(ModelError, match=words) as caught:
        read_petab(path)
    assert "\n" not in str(caught.value)


def test_petab_of_another_version(tmp_path):
    path = petab_folder(tmp_path)
    path.write_text(path.read_text().replace("format_version: 1", "format_version: 2.0.0"))
    with pytest.raises(ModelError, match="version 1 is read"):
        read_petab(path)


@pytest.mark.filterwarnings("ignore")
def test_petab_that_is_broken(tmp_path):
    path = petab_folder(tmp_path)
    (tmp_path / "m.tsv").unlink()
    with pytest.raises(ModelError, match="not a PEtab problem"):
        read_petab(path)
    with pytest.raises(ModelError, match="no PEtab problem"):
        read_petab(tmp_path / "none.yaml")


LIMITED = """
import socket
from weakform.files.formats.isolated import _limit
_limit()
connect = lambda: socket.create_connection(("localhost", 9))
for attempt in (connect, lambda: socket.socket(), lambda: bytearray(3 << 30)):
    try:
        attempt()
    except (OSError, MemoryError) as error:
        print(type(error).__name__, error)
"""


def test_the_process_of_the_libraries_has_no_network_and_little_memory():
    said = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=True).stdout
    assert said.count("nothing is fetched") == 2
    assert "MemoryError" in said


def test_petab_on_the_command_line(tmp_path, capsys):
    path = str(petab_folder(tmp_path))
    assert main(["check", path]) == 0
    assert "30 samples" in capsys.readouterr().out
    assert main(["fit", path, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["parameters"]["k"]["estimate"] == pytest.approx(0.5, rel=0.05)
    assert main(["fit", path, "d.csv"]) == 2
    assert "leave out d.csv" in capsys.readouterr().err
    assert main(["fit", path, "--noise", "poisson"]) == 2
    (tmp_path / "m.txt").write_text("x' = -k*x")
    assert main(["fit", str(tmp_path / "m.txt")]) == 2
    assert "No table is given" in capsys.readouterr().err


def test_the_word_import_in_a_comment_is_harmless():
    file = from_antimony("model m() // import of glucose\n  x = 1; k = 1; x' = -k*x; // the import\nend")
    assert file.model.states == ("x",)
