# Everything here needs Python 3.11 or newer and make; the rest is fetched into .venv.

PYTHON ?= python3
BIN := .venv/bin
SOURCE ?=
PORT ?= 8000
ARGS ?=
HOURS ?=
# Tests without processes of their own, of everything but the Lua core and the pages.
FAST := tests/checks tests/conf tests/declare tests/enqueue tests/job_types tests/operations \
  tests/runtime tests/serialization tests/workflows tests/public_api

.DEFAULT_GOAL := help
.PHONY: help demo admin test test-fast test-core test-worker test-admin nightly check \
  docs screenshots release-check format bench chaos machines matrix clean

help: ## say what can be made (this text)
	@echo "make TARGET, where TARGET is"
	@awk -F ':[^#]*## ' '/^[a-z-]+:[^#]*## / { printf "  %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "Variables"
	@echo "  PYTHON=python3.13   the interpreter that .venv is made with (make clean first)"
	@echo "  SOURCE=path         make demo: analyse the Python files below this path"
	@echo "  PORT=8000           make admin: where it can be seen"
	@echo "  HOURS=1             make machines: how long each of the three runs"
	@echo "  ARGS='-k pop -x'    make test, bench, chaos, matrix: passed on to the program"
	@echo "  COMBINATIONS='py3.11 py3.13'   make matrix: only those whose name begins so"
	@echo "  STRICT=1            make test, check: fail if anything was left out"

demo: .venv/embedded,hiredis.stamp ## see real work done: the standard library's source, analysed
	@$(BIN)/python example_project/demo.py $(if $(SOURCE),"$(SOURCE)")

admin: .venv/embedded,hiredis.stamp ## open the example in Django's admin, with a worker beside it
	@$(BIN)/python example_project/open_admin.py --port $(PORT)

test: .venv/test.stamp ## run all tests, and beside them the checks whose tool is there
	@$(BIN)/python -m tests.run all $(ARGS)

test-fast: .venv/test.stamp ## what to run after each edit: one client's view, a minute at most
	@$(BIN)/python -m tests.run tests $(FAST) $(ARGS)

test-core: .venv/test.stamp ## the tests of the Lua core and its client
	@$(BIN)/python -m tests.run tests tests/protocol tests/core tests/client $(ARGS)

test-worker: .venv/test.stamp ## the tests of workers and of what runs in them
	@$(BIN)/python -m tests.run tests tests/worker tests/runtime $(ARGS)

test-admin: .venv/test.stamp ## the tests of the admin's pages, and of pages in a browser
	@$(BIN)/python -m tests.run tests tests/admin $(ARGS)

nightly: .venv/test.stamp ## hours: all variants in random order, the matrix, chaos
	@QLESS_ALL_CELLS=1 QLESS_RANDOM_OPERATIONS=100000 $(BIN)/python -m tests.run all \
	  -p randomly --randomly-dont-reset-seed $(ARGS)
	@$(MAKE) --no-print-directory matrix
	@$(BIN)/python -m tests.chaos.run

check: .venv/dev.stamp .venv/test.stamp .venv/docs.stamp ## run the checks: format, lint, types, layers, Lua, the built core
	@$(BIN)/python -m tests.run checks

format: .venv/dev.stamp ## put Python and Lua into the format that the checks want
	@$(BIN)/python -m tests.run format

docs: .venv/docs.stamp ## build the documentation into build/docs, its reference from the code
	@$(BIN)/python docs/build_reference.py
	@$(BIN)/sphinx-build -W --keep-going -q docs build/docs
	@echo "Open build/docs/index.html"

screenshots: .venv/test,browser.stamp ## take the pictures of the documentation again
	@$(BIN)/python docs/screenshots.py

release-check: .venv/dev.stamp .venv/test.stamp ## build sdist and wheel, and follow the tutorial with the wheel
	@$(BIN)/python -m tests.release_check

bench: .venv/test.stamp ## measure, beside the floor: the figures of the README
	@$(BIN)/python -m benchmarks.run $(ARGS)

chaos: .venv/test.stamp ## break things under workers, for half an hour; counts in chaos-report.md
	@$(BIN)/python -m tests.chaos.run $(ARGS)

machines: .venv/test.stamp ## run the core beside models of it; HOURS=1: for that long
	@QLESS_MACHINES_HOURS=$(HOURS) $(BIN)/python -m tests.run tests tests/core/machines $(ARGS)

matrix: ## run the tests with each named combination of Python, Django and redis-py
	@$(PYTHON) -m tests.matrix $(ARGS)

clean: ## remove environments, tools, caches and builds; data in .qless stay
	rm -rf .venv .matrix .tools build dist .pytest_cache .mypy_cache .ruff_cache \
	  .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment with the extras that the stamp's name lists, made again when they change.
.venv/%.stamp: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing django_qless[$*] into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch '$@'
