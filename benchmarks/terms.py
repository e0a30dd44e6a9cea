"""Recovery of terms that are removed from the benchmark problems one by one, by `fit.missing_terms`.

    python benchmarks/terms.py [SEEDS] [PROBLEM ...] [--whole]

The settings are M = 256 and 5% noise. A reduced model counts if the goodness-of-fit test rejects it. "In the library"
are terms that are a number times a candidate. Other terms (a Hill function of order ten, `exp(-p t²)`) cannot be found
exactly. False suggestions are those for complete models; with `--whole` only complete models are tested.
"""

from __future__ import annotations

import re
import sys
import time

import numpy as np
import symengine as se

import weakform as wf
from weakform.analysis.missing_terms import _build_library, _find_fluxes

MAX_P_VALUE_OF_REJECTED = 0.01
"""p-value below which a reduced model counts as rejected."""


def additive(e: se.Basic) -> list[se.Basic]:
    """Return the additive terms of a right-hand side."""
    whole = se.expand(e)
    return list(whole.args) if whole.is_Add else [whole]


def same(model: wf.Model, term: se.Basic, text: str) -> bool:
    """Return True if a candidate is a number times a term, by their ratio at four random points."""
    from weakform.model.expressions import parse_expression

    rng = np.random.default_rng(0)
    names = ("t", *model.states, *model.parameters)
    ratios = []
    p = {name: rng.uniform(0.5, 2) for name in model.parameters}
    for _ in range(4):
        point = {name: rng.uniform(0.5, 2) for name in ("t", *model.states)}
        values = [float(e.subs({**point, **p})) for e in (term, parse_expression(text, names, "a term"))]
        ratios.append(values[0] / values[1])
    return bool(np.ptp(ratios) < 1e-9 * abs(ratios[0]))


def main() -> None:
    words = [word for word in sys.argv[1:] if word != "--whole"]
    only_whole = "--whole" in sys.argv
    seeds = int(words.pop(0)) if words and re.fullmatch(r"\d+", words[0]) else 1
    chosen = words or wf.problems.names()
    print("| problem | complete models | false suggestions | rejected | in the library | ranked first | CPU s |")
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
            library = [(candidate.equation, candidate.text) for candidate in _build_library(whole, model)]
            for d, state in enumerate(model.states):
                terms = additive(model.expressions[d])
                for term in terms:
                    f = list(model.expressions)
                    f[d] = se.Add(*[kept for kept in terms if kept != term])
                    used = {str(s) for e in f for s in e.free_symbols}
                    names = [p for p in model.parameters if p in used]
                    if not names:
                        continue
                    bounds = {p: ends for p, ends in problem.bounds.items() if p in names}
                    reduced = wf.Model(f=f, states=model.states, parameters=names)
                    fit = wf.fit(reduced, data, bounds=bounds)
                    if fit.goodness is None or not fit.goodness.p_value < MAX_P_VALUE_OF_REJECTED:
                        continue
                    row[2] += 1
                    fluxes = [(candidate.equation, candidate.text) for candidate in _find_fluxes(reduced)]
                    candidates = [*library, *fluxes]
                    if not any(equation == state and same(model, term, text) for equation, text in candidates):
                        continue
                    row[3] += 1
                    ranked = fit.missing_terms().terms
                    right = bool(ranked) and ranked[0].equation == state and same(model, term, ranked[0].term)
                    row[4] += right
                    if not right:
                        best = f"{ranked[0].term} in {ranked[0].equation}'" if ranked else "nothing"
                        print(f"<!-- {name}, seed {seed}: {term} in {state}', suggested {best} -->", flush=True)
        sums += row
        print(f"| {name} | {' | '.join(map(str, row))} | {time.process_time() - begin:.0f} |", flush=True)
    print(f"| all | {' | '.join(map(str, sums))} | |")


if __name__ == "__main__":
    main()
