# The commands of README.md and CONTRIBUTING.md. Needs Python 3.11 or newer with venv; everything else goes into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
ARGS ?=
WHAT ?=
TYPESCRIPT := clients/typescript
MODULES := $(TYPESCRIPT)/node_modules/.installed

.PHONY: run test test-peers check format coverage proof bench release clean help

run: $(VENV)/.run ## the service, from the checkout
	@exec $(BIN)/tmpmaild serve $(ARGS)

test: $(VENV)/.dev ## tests that need nothing but Python, make and git
	$(BIN)/python -m pytest -m "not needs" $(ARGS)

test-peers: $(VENV)/.dev $(if $(shell command -v npm),$(MODULES)) ## tests that start browsers, databases and other programs; says which are missing
	$(BIN)/python -m pytest -m needs $(ARGS)

check: $(VENV)/.dev ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff check --preview --select PLW1514 . # an encoding is named; a rule that ruff has in preview alone
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev ## what ruff changes by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

coverage: $(VENV)/.dev $(if $(shell command -v npm),$(MODULES)) ## lines and branches that both kinds of tests reach, with the daemons that they start
	$(BIN)/python tools/covered.py $(ARGS)

proof: $(VENV)/.proofs $(if $(shell command -v npm),$(MODULES)) ## what takes long, or WHAT="deb soak"; QUICK=1 for less of it
	$(BIN)/python tools/prove.py "$(WHAT)" $(ARGS)

bench: $(VENV)/.dev ## ratios against bare libraries; ARGS=scale for growth with what is stored; needs smtp-source and wrk
	$(BIN)/python tests/benchmarks $(ARGS)

release: $(VENV)/.proofs $(MODULES) ## builds the last commit in dist/; VERSION=1.2.3 checks and commits that version before
	$(BIN)/python tools/release.py $(VERSION) $(ARGS)

clean: ## removes all that these commands have made
	rm -rf $(VENV) build dist .coverage* .mypy_cache .ruff_cache .hypothesis $(TYPESCRIPT)/dist $(TYPESCRIPT)/node_modules tests/system/forms/node_modules

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile
	@echo 'system tests, make proof WHAT=…: what each shows, about how long it takes, what it needs'
	@$(PYTHON) tools/prove.py --list

# What the targets set up.

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tmpmaild needs Python 3.11 or newer; try make PYTHON=python3.12")'
	@echo "setting up $(VENV) …"
	@$(PYTHON) -m venv $(VENV)

# Nothing is installed, nor run to build it, whose hash is not in constraints/: tools/constraints.py.
define install
	@$(PIP) install --require-hashes --requirement constraints/build.txt
	@$(PIP) install --require-hashes --no-build-isolation --requirement constraints/$(1).txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
endef

PINS := pyproject.toml $(wildcard constraints/*.txt)

$(VENV)/.run: $(PINS) | $(BIN)/python
	$(call install,run)
	@touch $@

$(VENV)/.dev: $(PINS) | $(BIN)/python
	$(call install,dev)
	@touch $@ $(VENV)/.run

$(VENV)/.proofs: $(PINS) | $(BIN)/python
	$(call install,proofs)
	@touch $@ $(VENV)/.dev $(VENV)/.run

# What the TypeScript client is built and tested with, as its lock names it. Needs Node 18 or newer with npm.
$(MODULES): $(TYPESCRIPT)/package-lock.json
	cd $(TYPESCRIPT) && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@
