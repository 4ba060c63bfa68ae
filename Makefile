# Every target makes the virtual environment that it needs: only Python 3.11 or later, venv and make are asked of the machine.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
WORKERS ?= 2
# Each worker of the tests computes with one thread: together they keep the cores busy, and more would wait for each other.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 SCIPY_ARRAY_API=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal

.PHONY: run test campaign browser bench bench-test docs links lines dist dist-test lowest clean

run: $(VENV)/run  ## fit the embedded data set and print what came of it
	$(BIN)/sodalite demo

test: $(VENV)/test browser  ## style, types, tests and doctests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) --durations=40 --durations-min=2

campaign: $(VENV)/test browser  ## the tests that `make test` leaves out: its properties at further sizes, seeds and kinds
	$(PYTEST) -m campaign

browser:  ## Chromium, for the tests that look at a report
	sh scripts/browser.sh

bench: $(VENV)/bench  ## speed, as ratios measured in one run
	$(BIN)/python -m benchmarks

bench-test:  ## the tests that need PyTorch, GPyTorch, GPflow (which holds NumPy back, so apart), BoTorch and skl2onnx
	$(MAKE) VENV=.venv-peers .venv-peers/peers
	SCIPY_ARRAY_API=1 .venv-peers/bin/pytest tests/exports/test_exports_peers.py tests/core/test_namespaces.py

docs: $(VENV)/docs  ## the HTML documentation, in docs/_build/html
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html
	$(BIN)/python scripts/check_links.py docs/_build/html

links: $(VENV)/docs  ## whether the links to other sites still lead somewhere; it needs the network
	$(BIN)/sphinx-build -D plot_gallery=0 -b linkcheck docs docs/_build/links

lines:  ## how large each room of the package is; `make lines WRITE=1` writes the table into CONTRIBUTING.md
	$(PYTHON) scripts/lines.py $(if $(WRITE),--write)

dist: $(VENV)/test  ## a wheel and an sdist, in dist/
	rm -rf dist
	$(BIN)/python -m build

dist-test: dist  ## the tests of the sdist, with the wheel, in an environment of their own and away from this folder
	$(BIN)/python scripts/dist_test.py dist

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("Sodalite needs Python 3.11 or later." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/run: EXTRA = all
$(VENV)/test: EXTRA = test
$(VENV)/bench: EXTRA = bench
$(VENV)/docs: EXTRA = docs
$(VENV)/peers: EXTRA = peers
$(VENV)/run $(VENV)/test $(VENV)/bench $(VENV)/docs $(VENV)/peers: pyproject.toml $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRA)]'
	touch $@

lowest:  ## the tests again, with the oldest versions that pyproject.toml admits
	$(MAKE) VENV=.venv-lowest .venv-lowest/test
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check -r tests/lowest.txt
	.venv-lowest/bin/pytest -n $(WORKERS)

clean:
	rm -rf $(VENV) .venv-lowest .venv-peers dist docs/_build docs/api/generated docs/gallery .mypy_cache .pytest_cache .ruff_cache
