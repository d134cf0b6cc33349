# The commands in README.md and CONTRIBUTING.md. Needs Python 3.11 or newer with venv; everything else goes into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
ARGS ?=
WHAT ?=
TYPESCRIPT := clients/typescript
MODULES := $(TYPESCRIPT)/node_modules/.installed

.PHONY: run test test-peers check format coverage proof bench release clean help

run: $(VENV)/.run ## runs the service from the checkout
	@exec $(BIN)/tmpmaild serve $(ARGS)

test: $(VENV)/.dev ## runs the tests that need only Python, make and git
	$(BIN)/python -m pytest -m "not needs" $(ARGS)

test-peers: $(VENV)/.dev $(if $(shell command -v npm),$(MODULES)) ## runs the tests that start browsers, databases and other programs; lists missing programs
	$(BIN)/python -m pytest -m needs $(ARGS)

check: $(VENV)/.dev ## runs ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff check --preview --select PLW1514 . # files are opened with an encoding; a preview rule of ruff
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev ## applies ruff's fixes and formatting
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

coverage: $(VENV)/.dev $(if $(shell command -v npm),$(MODULES)) ## measures the lines and branches that both kinds of tests reach, including in the daemons that they start
	$(BIN)/python tools/covered.py $(ARGS)

proof: $(VENV)/.proofs $(if $(shell command -v npm),$(MODULES)) ## runs the system tests, or WHAT="deb soak"; QUICK=1 shortens them
	$(BIN)/python tools/prove.py "$(WHAT)" $(ARGS)

bench: $(VENV)/.dev ## measures ratios against bare libraries; ARGS=scale for growth with the stored data; needs smtp-source and wrk
	$(BIN)/python tests/benchmarks $(ARGS)

release: $(VENV)/.proofs $(MODULES) ## builds the last commit in dist/; VERSION=1.2.3 first checks and commits that version
	$(BIN)/python tools/release.py $(VERSION) $(ARGS)

clean: ## removes everything that these commands have created
	rm -rf $(VENV) build dist .coverage* .mypy_cache .ruff_cache .hypothesis $(TYPESCRIPT)/dist $(TYPESCRIPT)/node_modules tests/system/forms/node_modules

help: ## prints this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile
	@echo 'system tests, make proof WHAT=…: what each shows, about how long it takes, what it needs'
	@$(PYTHON) tools/prove.py --list

# The virtual environments that the targets use.

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tmpmaild needs Python 3.11 or newer; try make PYTHON=python3.12")'
	@echo "setting up $(VENV) …"
	@$(PYTHON) -m venv $(VENV)

# Every package that is installed or used in a build has its hash in constraints/ (tools/constraints.py).
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

# Install the packages that build and test the TypeScript client from its lock file. Needs Node 18 or newer with npm.
$(MODULES): $(TYPESCRIPT)/package-lock.json
	cd $(TYPESCRIPT) && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@
