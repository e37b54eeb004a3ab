# The two commands of the README: `make trial` and `make test`. Both do all the set-up, and a second
# run installs nothing. Another interpreter: `make test PYTHON=python3.12`. On a machine without a
# GPU the CPU build of torch is smaller:
#   make trial PIP_ARGS="--extra-index-url https://download.pytorch.org/whl/cpu"
# Tests run in two processes of one torch thread each, because many of them wait for processes of
# theirs; `JOBS=0` runs them in one, for a debugger.

PYTHON ?= python3
PIP_ARGS ?=
PYTEST_ARGS ?=
JOBS ?= 2
TRIAL ?= examples/legal-moves/trial.toml

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install -qq --constraint constraints.txt $(PIP_ARGS)
comma := ,
say = @printf '[%s] %s\n' "$@" "$(1)"

.DEFAULT_GOAL := help
.PHONY: help trial test kills test-slow bench clean
.NOTPARALLEL:

help:
	@printf '%s\n' \
	  'make trial      install, then freeze and run the shipped trial and print its verdict' \
	  'make test       install, then lint, types and every test that is not slow' \
	  'make kills      kill view, supervisor and training at random moments (slow)' \
	  'make test-slow  every slow test but the kills' \
	  'make bench      the ratios of benchmarks/' \
	  'make clean      remove the virtual environment, caches and earlier runs'

$(BIN)/python:
	@printf '[venv] %s -m venv %s\n' "$(PYTHON)" "$(VENV)"
	@$(PYTHON) -m venv $(VENV)

# A stamp is newer than everything that decides what is installed. The package itself is installed
# as a link to src/, so that changing the source asks for no new installation.
$(VENV)/.installed-hf: pyproject.toml constraints.txt | $(BIN)/python
	@echo '[install] seatrial with torch, transformers, TRL and PEFT: minutes on the first run'
	@$(PIP) --editable '.[hf]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo '[install] seatrial with torch, transformers, TRL, PEFT and the test tools: minutes on the first run'
	@$(PIP) --editable '.[hf,dev]'
	@touch $@ $(VENV)/.installed-hf

# A fresh state folder each time: no earlier run can lend its record, cache or ledger. The folder
# stays, because the report is in it. The recipe ends with the exit code of the trial; make shows it
# (`Error 1`) and itself exits with 2 for every code but 0, as it always does.
trial: $(VENV)/.installed-hf
	$(call say,seatrial freeze $(TRIAL)$(comma) then seatrial run $(TRIAL))
	@rm -rf examples/legal-moves/out; mkdir -p .seatrial; \
	state=$$(mktemp -d "$$PWD/.seatrial/trial.XXXXXX") || exit 4; \
	export PATH="$$PWD/$(BIN):$$PATH" SEATRIAL_DIR="$$state"; \
	$(BIN)/seatrial freeze "$(TRIAL)" && $(BIN)/seatrial run "$(TRIAL)"; code=$$?; \
	report=$$(find "$$state" -name report.html -print -quit); \
	printf '[trial] exit code %s; report: %s\n' "$$code" "$${report:-none was written; see $$state}"; \
	exit $$code

test: $(VENV)/.installed-dev
	$(call say,ruff check)
	@$(BIN)/ruff check .
	$(call say,ruff format --check)
	@$(BIN)/ruff format --check .
	$(call say,mypy)
	@$(BIN)/mypy
	$(call say,pytest -m 'not slow')
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" -n $(JOBS) $(PYTEST_ARGS)

kills: $(VENV)/.installed-dev
	$(call say,200 random moments of a fake runner and 10 of the plain loop)
	@$(BIN)/python -m pytest -m slow tests/kills --timeout 3600 $(PYTEST_ARGS)

test-slow: $(VENV)/.installed-dev
	$(call say,pytest -m slow without the kills)
	@$(BIN)/python -m pytest -m slow --ignore tests/kills --timeout 3600 $(PYTEST_ARGS)

bench: $(VENV)/.installed-hf
	$(call say,ratios measured side by side; leave the machine alone meanwhile)
	@$(BIN)/python benchmarks/run.py
	@$(BIN)/python benchmarks/freeze.py
	@$(BIN)/python benchmarks/checkpoints.py
	@$(BIN)/python benchmarks/preflight.py

clean:
	rm -rf $(VENV) .seatrial .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist examples/*/out
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
