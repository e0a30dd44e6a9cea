"""Terms taken out of the benchmark problems one by one: does `fit.missing_terms` find them?

    python benchmarks/terms.py [SEEDS] [PROBLEM ...] [--whole]

M = 256, 5% noise. A model is looked at if the goodness test rejects it without the term. "In the library" are terms
that are a number times something that is tried; the others (a Hill function of order ten, `exp(-p t²)`) cannot be found
by name. False finds are those on the whole model; with `--whole` nothing else is looked at.
"""

from __future__ import annotations

import re
import sys
import time

import numpy as np
import symengine as se

import weakform as wf
from weakform.analysis.missing_terms import _fluxes, _library

REJECTED = 0.01


def additive(e: se.Basic) -> list[se.Basic]:
    """The terms of a right-hand side."""
    whole = se.expand(e)
    return list(whole.args) if whole.is_Add else [whole]


def same(model: wf.Model, term: se.Basic, text: str) -> bool:
    """Whether a candidate is a number times a term."""
    from weakform.model.expressions import parse_expression

    rng = np.random.default_rng(0)
    names = ("t", *model.states, *model.parameters)
    ratios = []
    p = {name: rng.uniform(0.5, 2) for name in model.parameters}
    for _ in range(4):
        at = {name: rng.uniform(0.5, 2) for name in ("t", *model.states)}
        values = [float(e.subs({**at, **p})) for e in (term, parse_expression(text, names, "a term"))]
        ratios.append(values[0] / values[1])
    return bool(np.ptp(ratios) < 1e-9 * abs(ratios[0]))


def main() -> None:
    words = [word for word in sys.argv[1:] if word != "--whole"]
    only_whole = "--whole" in sys.argv
    seeds = int(words.pop(0)) if words and re.fullmatch(r"\d+", words[0]) else 1
    chosen = words or wf.problems.names()
    print("| problem | whole models | false finds | rejected without a term | in the library | found first | CPU s |")
    print("|---|---|---|---|---|---|---|")
    sums = np.zeros(5, dtype=int)
    for name in chosen:
        problem, begin, row = wf.problems.get(name), time.process_time(), np.zeros(5, dtype=int)
        model = problem.model
        for seed in range(1, seeds + 1):
            data = problem.simulate(M=256, noise=0.05, seed=seed)
            whole = wf.fit(model, data, bounds=problem.bounds)
            row[0] += 1
            row[1] += bool(whole.missing_terms().found)
            if only_whole:
                continue
            library = [(one.equation, one.text) for one in _library(whole, model)]
            for d, state in enumerate(model.states):
                terms = additive(model.expressions[d])
                for term in terms:
                    f = list(model.expressions)
                    f[d] = se.Add(*[other for other in terms if other != term])
                    used = {str(s) for e in f for s in e.free_symbols}
                    names = [p for p in model.parameters if p in used]
                    if not names:
                        continue
                    bounds = {p: ends for p, ends in problem.bounds.items() if p in names}
                    less = wf.Model(f=f, states=model.states, parameters=names)
                    fit = wf.fit(less, data, bounds=bounds)
                    if fit.goodness is None or not fit.goodness.p_value < REJECTED:
                        continue
                    row[2] += 1
                    known = [*library, *((one.equation, one.text) for one in _fluxes(less))]
                    if not any(equation == state and same(model, term, text) for equation, text in known):
                        continue
                    row[3] += 1
                    found = fit.missing_terms().terms
                    right = bool(found) and found[0].equation == state and same(model, term, found[0].term)
                    row[4] += right
                    if not right:
                        best = f"{found[0].term} in {found[0].equation}'" if found else "nothing"
                        print(f"<!-- {name}, seed {seed}: {term} in {state}', found {best} -->", flush=True)
        sums += row
        print(f"| {name} | {' | '.join(map(str, row))} | {time.process_time() - begin:.0f} |", flush=True)
    print(f"| all | {' | '.join(map(str, sums))} | |")


if __name__ == "__main__":
    main()
