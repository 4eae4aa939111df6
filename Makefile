# The tasks of this checkout; `make help` lists them. Each target does the set-up that it needs.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CACHE := $(or $(SIMSTREAM_CACHE),$(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME)/simstream,$(HOME)/.cache/simstream))
export SIMSTREAM_CACHE := $(CACHE)
unexport PYTHONDONTWRITEBYTECODE  # images for containers set it: each start would compile all of the sources again
INPUT ?=
TESTS ?=
WORKERS ?= 2
BENCH ?=
CORPORA ?= $(or $(SIMSTREAM_CORPORA),$(abspath ../shared/corpora))
OUT ?= build/evaluate

PORT =
DATA =
SEED ?=
ROUNDS ?=
SPEED ?=
ONLY ?=

.PHONY: help demo docs feed-demo cluster-demo test watch test-all lowest chaos fuzz audit locks lint dist bench evaluate broker registry clean
.DEFAULT_GOAL := help

help:  ## Print this list.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

demo: $(VENV)/.run  ## Judge about a hundred bundled pages with the whole service (INPUT="files" for yours).
	@$(BIN)/simstream demo $(INPUT)

feed-demo: $(VENV)/.feed kernels jars  ## Show the news page over replayed pages until Ctrl-C (SPEED=pages a second).
	@$(BIN)/python -m deploy.feed_demo $(if $(SPEED),--speed $(SPEED)) --corpora $(CORPORA)

cluster-demo: $(VENV)/.run kernels jars  ## Run one stream on nine processes, kill one of each kind, check all verdicts (SPEED=).
	@$(BIN)/python -m deploy.cluster_demo $(if $(SPEED),--speed $(SPEED)) --corpora $(CORPORA)

test: $(VENV)/.test kernels jars  ## Run all but the long tests (TESTS=FILE: all of one file; WORKERS=1: one by one).
	@echo "== tests"
	$(if $(TESTS),$(BIN)/python -m pytest $(TESTS),$(COVERED) -m pytest --short $(AT_ONCE))
	$(if $(TESTS),,@$(BIN)/python -c '$(SAY_COVERAGE)')

COVERED = mkdir -p build && $(BIN)/python -m slipcover --json --out build/coverage.json
SAY_COVERAGE = import json; print("== coverage: %(percent_covered_display)s %% of lines and branches (build/coverage.json)" % \
	json.load(open("build/coverage.json"))["summary"])

watch: $(VENV)/.test  ## Run the tests in TESTS=FILE again whenever a source changes, until Ctrl-C.
	@test -n "$(TESTS)" || { echo "make: name a file: make watch TESTS=tests/unit/test_verdict.py"; exit 2; }
	$(BIN)/watchfiles "$(BIN)/python -m pytest $(TESTS)" stream tests deploy

test-all: $(VENV)/.test kernels jars  ## Run all tests, as CI does; tests on a real Kafka broker need Java 17 and Maven.
	@echo "== all tests"
	$(BIN)/python -m pytest $(AT_ONCE)

AT_ONCE = $(if $(filter-out 0 1,$(WORKERS)),-n $(WORKERS) --dist loadfile --no-loadscope-reorder)

LOWEST_TESTS := $(patsubst %,tests/unit/test_%.py,archives page sources parquet decode settings frame verdict position kafka_cluster cli)
lowest: $(VENV)/bin/python  ## Run some tests with the lowest versions that pyproject.toml allows (five minutes).
	$(BIN)/python -m venv build/lowest
	$(BIN)/python -m deploy.lowest parquet > build/lowest/constraints.txt
	build/lowest/bin/python -m pip install --quiet --disable-pip-version-check -c build/lowest/constraints.txt -e '.[parquet]' pytest hypothesis jieba==0.42.1
	build/lowest/bin/python -m pytest -p no:cacheprovider $(LOWEST_TESTS)

chaos: $(VENV)/.test kernels jars  ## Break real brokers for at least half an hour (SEED=, ROUNDS=, SECONDS=, ONLY=kills).
	$(BIN)/python -m tests.chaos $(if $(SEED),--seed $(SEED)) $(if $(ROUNDS),--rounds $(ROUNDS)) \
		$(if $(SECONDS),--seconds $(SECONDS)) $(foreach name,$(ONLY),--only $(name))

fuzz: $(VENV)/.test kernels  ## Give hostile bytes to readers for SECONDS=600 (ONLY=frames for one, SEED= repeats).
	$(BIN)/python -m tests.fault.fuzz $(if $(SEED),--seed $(SEED)) $(if $(SECONDS),--seconds $(SECONDS)) \
		$(foreach name,$(ONLY),--only $(name))

audit: $(VENV)/.test  ## Write LICENSES.md, and look for known vulnerabilities (asks api.osv.dev).
	$(BIN)/python -m deploy.licenses
	$(PYTHON) -m venv build/tools
	build/tools/bin/pip install --quiet --disable-pip-version-check pip-audit==2.10.1
	build/tools/bin/pip-audit --strict --vulnerability-service osv --disable-pip --require-hashes -r requirements-test.txt

locks: $(VENV)/.test  ## Write the lock files and the bill of materials from .venv (needs the index).
	$(PYTHON) -m venv build/tools
	build/tools/bin/pip install --quiet --disable-pip-version-check uv==0.13.9 cyclonedx-bom==7.5.0
	$(BIN)/python -m pip freeze --all --exclude pip --exclude-editable \
		| sed "s/^backports[.-]zstd==.*/& ; python_version < '3.14'/" > build/pins.txt  # Python 3.14 has it itself
	$(COMPILE) build/pins.txt --no-deps -o requirements-test.txt
	$(COMPILE) pyproject.toml -c build/pins.txt -o requirements.txt
	$(COMPILE) pyproject.toml -c build/pins.txt --extra feed --extra query -o requirements-image.txt
	$(COMPILE) pyproject.toml -c build/pins.txt --extra msk -o requirements-msk.txt
	$(COMPILE) pyproject.toml -c build/pins.txt --extra registry -o requirements-registry.txt
	$(COMPILE) pyproject.toml -c build/pins.txt --extra tracing -o requirements-tracing.txt
	build/tools/bin/cyclonedx-py requirements requirements-image.txt --pyproject pyproject.toml --output-reproducible --of JSON -o deploy/sbom.cdx.json

COMPILE = UV_CUSTOM_COMPILE_COMMAND='make locks' build/tools/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-annotate --no-emit-find-links --no-emit-index-url --quiet

lint: $(VENV)/.test  ## Run ruff, mypy --strict and import-linter.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

dist: $(VENV)/.test  ## Build the sdist and the wheel of a release into dist/.
	$(BIN)/python -m build --no-isolation

bench: $(VENV)/.test kernels jars  ## Check answers, then measure speed beside named peers (BENCH="--help" lists options).
	$(BIN)/python -m tests.bench $(BENCH)

docs: $(VENV)/.test  ## Build the documentation in build/docs; a broken link or anchor is an error.
	$(BIN)/zensical build --clean --strict

evaluate: $(VENV)/.test kernels  ## Measure every figure of quality on the pages in CORPORA, into OUT (about 20 minutes).
	@test -f $(CORPORA)/zh_lctt_revisions/docs.jsonl.xz || { echo "make: $(CORPORA) has no labelled pages: set CORPORA to their folder (your own: simstream evaluate)"; exit 2; }
	@echo "== the default recipe beside its peers"
	$(EVALUATE) --peers -o $(OUT)/default
	@echo "== what each of its settings brings: means of 8 seeds"
	$(EVALUATE) --seeds 8 --distance 8-9 --recipe default $(patsubst %,--recipe %,$(sort $(wildcard tests/studies/recipes/*.toml))) -o $(OUT)/choices
	@echo "== pages as they are"
	SIMSTREAM_CORPORA=$(CORPORA) $(BIN)/python -m tests.studies --out $(OUT)/studies
	@echo "== the results are in $(OUT): default/index.html, choices/index.html, studies/studies.md"

EVALUATE = $(BIN)/simstream evaluate $(foreach name,lctt_revisions msdocs_revisions news_xwlb,$(CORPORA)/zh_$(name)/docs.jsonl.xz) \
	--pairs $(CORPORA)/zh_lctt_revisions/pairs.jsonl.xz --pairs $(CORPORA)/zh_msdocs_revisions/pairs.jsonl.xz --strip-front-matter

broker: $(VENV)/.run jars  ## Run Kafka until Ctrl-C, with its tools in .venv/bin (PORT=9092, DATA=DIR).
	@$(BIN)/python -m deploy.kafka.tools $(BIN)
	$(BIN)/python -m deploy.kafka.broker $(if $(PORT),--port $(PORT)) $(if $(DATA),--data $(DATA))

registry: $(VENV)/.run  ## Run a schema registry until Ctrl-C; it keeps nothing (PORT=8081).
	$(BIN)/python -m deploy.registry.registry $(if $(PORT),--port $(PORT))

clean:  ## Remove the virtual environment and all that was built; keep the cache folder.
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage build dist stream/*.egg-info

.PHONY: kernels jars
kernels:
	@echo "== kernels: compiled on first use, which takes about two minutes"
	@$(BIN)/python deploy/warm.py >/dev/null

jars:
	@echo "== broker: jars from Maven Central into $(CACHE), once (about 55 MB)"
	@$(BIN)/python -m deploy.kafka.broker --prepare

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 14) else "make: Python 3.11 to 3.14 is needed, this is %d.%d: set PYTHON=python3.11" % v)'
	@echo "== virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(VENV)/bin/python pyproject.toml requirements.txt
	@echo "== dependencies: about a minute"
	@$(LOCKED) -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

$(VENV)/.feed: $(VENV)/.run requirements-image.txt
	@echo "== what the news page needs"
	@$(LOCKED) -r requirements-image.txt
	@touch $@

$(VENV)/.test: $(VENV)/.run requirements-test.txt
	@echo "== what tests need: about a minute"
	@$(LOCKED) -r requirements-test.txt
	@touch $@

LOCKED = $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes
