PYTHON ?= python3
BIN := .venv/bin
KERNELS := src/weakform/linalg/kernels.c src/weakform/engine/engine.c src/weakform/engine/lanes.h

.PHONY: demo test test-slow test-oldest test-mutants audit bench docs package clean

demo: .venv/.run
	$(BIN)/weakform demo --out demo-output

test: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy >.venv/types.txt & types=$$!; $(BIN)/pytest -n 3; tests=$$?; \
		wait $$types; types=$$?; cat .venv/types.txt; exit $$((tests + types))

test-slow: .venv/.dev
	$(BIN)/pytest -m slow

# The oldest versions that pyproject.toml allows, in an environment of their own.
test-oldest:
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet -c constraints-oldest.txt -e '.[plot,petab,dask,batch]' pytest pytest-xdist hypothesis
	.venv-oldest/bin/python -m pytest -W ignore::DeprecationWarning -n auto tests --ignore=tests/report \
		--ignore=tests/test_docs.py --ignore=tests/test_readme.py --ignore=tests/test_supply.py --ignore=tests/test_rooms.py

# Two hundred small faults, each put into a copy of the numerical code, to measure how many the tests notice.
test-mutants: .venv/.dev
	$(BIN)/python tests/mutants/run.py

audit: .venv/.dev
	$(BIN)/python -m pip install --quiet pip-audit
	$(BIN)/pip-audit --skip-editable

bench: .venv/.dev
	$(BIN)/python benchmarks/likelihood.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/fits.py

docs: .venv/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# What is shipped: built, checked, installed into an empty environment.
package: .venv/.dev
	packaging/check.sh

.venv/.python:
	$(PYTHON) -m venv .venv
	touch $@

# An editable install: the checkout is the package. Redone when its requirements change.
.venv/.run: .venv/.python pyproject.toml hatch_build.py $(KERNELS)
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -e '.[plot,serve,table]'
	touch $@

.venv/.dev: .venv/.python pyproject.toml hatch_build.py $(KERNELS)
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -e '.[dev]'
	touch .venv/.run $@

clean:
	rm -rf .venv .venv-oldest .mypy_cache .ruff_cache .pytest_cache demo-output site
