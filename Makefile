PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow bench docs clean

demo: .venv/.run
	$(BIN)/weakform demo --out demo-output

test: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest

test-slow: .venv/.dev
	$(BIN)/pytest -m slow

bench: .venv/.dev
	$(BIN)/python benchmarks/likelihood.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/fits.py

docs: .venv/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

.venv/.python:
	$(PYTHON) -m venv .venv
	touch $@

# An editable install: the checkout is the package. Redone when its requirements change.
.venv/.run: .venv/.python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[plot]'
	touch $@

.venv/.dev: .venv/.python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch .venv/.run $@

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache demo-output site
