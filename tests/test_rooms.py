"""Imports go one way: a module imports only from its own subpackage ("room") or from those below it."""

import ast
from pathlib import Path

import pytest

import weakform

ROOT = Path(weakform.__file__).parent
ROOMS = (
    *("support", "linalg", "noise", "model", "data", "parameters", "forward", "basis", "weak", "optimize"),
    *("collocation", "results", "estimators", "diagnostics", "engine", "fitting", "inference", "analysis"),
    *("report", "problems", "files", "experiments", "serve", "cli"),
)
"""The subpackages from the lowest to the highest."""
FACADES = {
    ("model.model", "report"): "Model._repr_html_ shows itself in a notebook",
    ("model.model", "forward"): "a steady state as initial value must be solved for",
    ("data.dataset", "report"): "Dataset._repr_html_ shows itself in a notebook",
    ("results.fit_result", "inference"): "methods of FitResult compute intervals, profiles, predictions",
    (
        "results.fit_result",
        "analysis",
    ): "FitResult.missing_terms runs fits; .metrics and .r_squared compute accuracy metrics",
    ("results.fit_result", "report"): "FitResult prints, draws and reports itself",
    ("results.fit_result", "files"): "FitResult.save, .load, .to_antimony and .to_sbml",
    ("results.batch_result", "report"): "BatchResult.to_frame and .to_xarray",
    ("results.batch_result", "files"): "BatchResult.save and .load",
    ("inference.posterior", "report"): "Posterior.plot draws itself",
    ("inference.experiment_design", "report"): "Design.plot draws itself",
}
"""Modules that may import from a subpackage above their own, inside a function, with the reason."""


def list_modules():
    """Return the path of each module by its dotted name without the package, such as `model.model`."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted(ROOT.rglob("*.py"))
        if path.parent != ROOT or path.name not in ("__init__.py", "__main__.py")
    }


def find_type_only_lines(tree):
    """Return the lines under `if TYPE_CHECKING`, which are never executed."""
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def iterate_imports(name, path, everywhere=True):
    """Yield the modules of this package that a module imports: anywhere, or only when it is loaded."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = find_type_only_lines(tree)
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(tree) if everywhere else tree.body:
        if getattr(node, "lineno", 0) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            target = [*base, *(node.module.split(".") if node.module else [])]
            for alias in node.names:
                yield ".".join([*target, alias.name]) if not target or not node.module else ".".join(target)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            whole = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
            assert not str(whole).startswith("weakform"), f"{name}: absolute import of the package itself"


def get_subpackage(module):
    """Return the subpackage of a module: the first part of its name."""
    return module.split(".")[0]


def test_every_module_is_in_a_listed_subpackage():
    assert {get_subpackage(name) for name in list_modules()} == set(ROOMS)


def test_imports_go_to_lower_subpackages():
    upward = {
        (name, get_subpackage(target))
        for name, path in list_modules().items()
        for target in iterate_imports(name, path)
        if ROOMS.index(get_subpackage(target)) > ROOMS.index(get_subpackage(name))
    }
    assert upward == set(FACADES), "a module imports from a subpackage above its own; only those in FACADES may"


def test_upward_imports_are_inside_functions():
    for name, above in FACADES:
        tree = ast.parse(list_modules()[name].read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.level:
                assert above not in ast.unparse(node).split("import")[0], f"{name} loads {above} when it is imported"


def test_imports_have_no_cycle():
    names = set(list_modules())
    graph = {
        name: {t for t in iterate_imports(name, path, False) if t in names} for name, path in list_modules().items()
    }
    done: set[str] = set()

    def visit(name, path):
        assert name not in path, f"an import cycle: {' -> '.join([*path, name])}"
        if name not in done:
            for target in sorted(graph[name]):
                visit(target, [*path, name])
            done.add(name)

    for name in graph:
        visit(name, [])


@pytest.mark.parametrize("name", sorted(list_modules()))
def test_no_call_has_more_than_six_positional_arguments(name):
    text = list_modules()[name].read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            assert len(node.args) <= 6, f"{name}, line {node.lineno}: name the arguments"
        if isinstance(node, ast.Attribute):
            assert ast.unparse(node) != "object.__new__", f"{name}, line {node.lineno}: use the constructor"


def test_no_module_compares_the_name_of_a_method():
    for name, path in list_modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare) and "method" in ast.unparse(node.left):
                assert not any(isinstance(c, ast.Constant) and isinstance(c.value, str) for c in node.comparators), (
                    f"{name}, line {node.lineno}: use a property of the estimator"
                )


def test_no_module_compares_the_identity_of_an_estimator():
    """What an estimator can do is an attribute; where a strategy stands in its ladder says nothing."""
    for name, path in list_modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare) and any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
                sides = [ast.unparse(side) for side in (node.left, *node.comparators)]
                compared = [side for side in sides if side.split(".")[-1] in ("estimator", "ESTIMATOR")]
                assert not compared or "None" in sides, f"{name}, line {node.lineno}: ask what the estimator can do"


def test_no_module_has_the_name_of_a_public_function():
    functions = {"fit", "fit_many", "simulate", "read_model"}
    assert not functions & {part for name in list_modules() for part in name.split(".")}
