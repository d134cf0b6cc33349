# The commands of README.md and CONTRIBUTING.md. Needs Python 3.11 or newer with venv; everything else goes into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
ARGS ?=
QUICK ?=
MINUTES ?= 30
TYPESCRIPT := clients/typescript

.PHONY: deb proof-deb run test test-peers proof proof-tests proof-properties proof-systemd proof-fresh proof-wheel soak check format client typescript check-typescript bench attack site screenshots stable constraints release dist clean

run: $(VENV)/.run
	@exec $(BIN)/tmpmaild serve $(ARGS)

# What needs nothing but Python, make and git.
test: $(VENV)/.dev
	$(BIN)/python -m pytest -m "not needs" $(ARGS)

# What starts programs that are not ours, such as browsers and database servers; it says which are missing here.
test-peers: $(VENV)/.dev $(if $(shell command -v npm),typescript)
	$(BIN)/python -m pytest -m needs $(ARGS)

# What takes too long for each run of the tests: half an hour and more, or with QUICK=1 some minutes. Prints a table.
proof: $(VENV)/.proofs
	QUICK=$(QUICK) $(BIN)/python -m pytest -n0 tests/proofs $(ARGS)

# All tests, with those that take long for what they add, and stories on both engines.
proof-tests: $(VENV)/.proofs $(if $(shell command -v npm),typescript)
	$(BIN)/python -m pytest --proof $(ARGS)

# What Hypothesis tries with some examples in each run of the tests, with a thousand each.
proof-properties: $(VENV)/.dev
	$(BIN)/python -m pytest -m hypothesis --hypothesis-profile=thorough $(ARGS)

# The units and the documentation on a Debian 12 and a Debian 13 that boot in a container. As root; needs
# systemd-container and debootstrap, and once the network.
proof-systemd: $(VENV)/.dev
	BOOT=1 $(BIN)/python -m pytest tests/proofs/test_booted*.py tests/proofs/test_install.py -n0 -rs $(ARGS)

# The README's commands on a Debian 12 and 13 that nobody has prepared, as root and as a user: half an hour. As root;
# needs systemd-container, debootstrap and the network.
proof-fresh: $(VENV)/.dev
	FRESH=1 $(BIN)/python -m pytest tests/proofs/test_fresh.py -n0 -s -rs $(ARGS)

# The package for Debian 12 and 13, in dist/. Needs binutils. The same commit gives the same octets.
deb: $(VENV)/.run
	$(BIN)/python tools/deb.py

# It is installed, upgraded, removed and purged on a Debian 12 and a Debian 13 that boot, and Debian 12 is upgraded to 13 below
# it. As root; needs systemd-container, debootstrap, lintian, mandoc and the network.
proof-deb: $(VENV)/.dev
	BOOT=1 $(BIN)/python -m pytest tests/proofs/test_deb.py -n0 -rs $(ARGS)

# A steady load for so many minutes.
soak: $(VENV)/.dev
	SOAK_MINUTES=$(MINUTES) $(BIN)/python -m pytest -n0 tests/proofs/test_soak.py $(ARGS)

# All tests, with what a wheel installs that was built from the sdist; with QUICK=1 some of them.
proof-wheel: $(VENV)/.proofs
	QUICK=$(QUICK) $(BIN)/python -m pytest tests/proofs/test_wheel.py -n0 $(ARGS)

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/weigh.py

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# tmpmaild/client/sync.py, anew from aio.py; the types of the TypeScript client, anew from our OpenAPI document.
client: $(VENV)/.dev
	$(BIN)/python tools/sync_client.py
	$(BIN)/python tools/typescript_types.py

# Records what users can rely on from now on (docs/stability.md); makes config.example.toml and the keys of docs/configuration.md.
stable: $(VENV)/.dev
	$(BIN)/python tools/configuration.py
	$(BIN)/python tools/stable.py

# What the TypeScript client is built and tested with, as its lock names it. Needs Node 18 or newer with npm.
typescript: $(TYPESCRIPT)/node_modules/.installed

$(TYPESCRIPT)/node_modules/.installed: $(TYPESCRIPT)/package-lock.json
	cd $(TYPESCRIPT) && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

# Build and lint it; make test-peers runs its tests.
check-typescript: typescript
	cd $(TYPESCRIPT) && npm run build && npm run lint

# Ratios against bare libraries, in one run each. Needs smtp-source (Debian: postfix) and wrk. ARGS="reading memory"
# for some parts; ARGS=scale shows how cost grows with 200,000 inboxes.
bench: $(VENV)/.dev
	$(BIN)/python tests/benchmarks $(ARGS)

# Endless lines, bombs, a thousand idlers: what honest clients feel and the memory it takes. ARGS="2 7b" for some.
attack: $(VENV)/.dev
	$(BIN)/python tests/benchmarks/attacks.py $(ARGS)

# The pictures of README.md and docs/api.md. Needs Chromium, and a font that is pleasant to look at (Debian: fonts-noto-core).
screenshots: $(VENV)/.dev
	$(BIN)/python tests/browser/screenshots.py

# The documentation as one site, in build/site/html.
site: $(VENV)/.site
	$(BIN)/python tools/website.py

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tmpmaild needs Python 3.11 or newer; try make PYTHON=python3.12")'
	@echo "setting up $(VENV) …"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml constraints.txt | $(BIN)/python
	@$(PIP) install --constraint constraints.txt --editable '.[client]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@$(PIP) install --constraint constraints.txt --editable '.[client,dev]'
	@touch $@ $(VENV)/.run

$(VENV)/.proofs: pyproject.toml constraints.txt | $(BIN)/python
	@$(PIP) install --constraint constraints.txt --editable '.[client,dev,proofs]'
	@touch $@ $(VENV)/.dev $(VENV)/.run

$(VENV)/.site: pyproject.toml constraints.txt | $(BIN)/python
	@$(PIP) install --constraint constraints.txt --editable '.[site]'
	@touch $@

# Pin anew what pyproject.toml allows: a fresh venv, the newest of everything, frozen.
constraints: pyproject.toml
	rm -rf $(VENV)-pin && $(PYTHON) -m venv $(VENV)-pin
	$(VENV)-pin/bin/python -m pip --disable-pip-version-check --quiet install '.[client,dev,proofs]'
	{ echo '# Made by "make constraints" from pyproject.toml. Exact versions that the tests passed with.'; \
	  $(VENV)-pin/bin/python -m pip --disable-pip-version-check freeze --exclude tmpmaild; } > constraints.txt
	rm -rf $(VENV)-pin

# Checks, commits and builds a version: make release VERSION=1.2.3; see docs/releasing.md. Needs npm, and as root what
# make proof-fresh needs.
release: $(VENV)/.proofs typescript
	$(BIN)/python tools/release.py $(VERSION) $(ARGS)

# Builds the last commit as a release would, in dist/.
dist: $(VENV)/.proofs typescript
	$(BIN)/python tools/release.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .hypothesis $(TYPESCRIPT)/dist $(TYPESCRIPT)/node_modules
