# Thin by intent: every target says in one line what it runs.
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
# In the order of tests/schedule.py.
PYTEST := $(PY) -m pytest --dist loadfile --no-loadscope-reorder

.PHONY: setup quickstart check test test-long test-all soak soak-day image test-image upgrade-check lint docs bench clean

setup: $(STAMP)
	@$(PY) -m headrace.plugins.interop.jvm.jars
	@$(PY) -m headrace.worker.engine.class_archive_writer
	@$(PY) -m headrace.connectors.java.class_path

$(STAMP): pyproject.toml
	@echo "headrace: setting up $(VENV) (the first time this downloads about 500 MB)"
	@python3 -m venv $(VENV)
	@$(PY) -m pip install --disable-pip-version-check --progress-bar on -q -e '.[dev]'
	@touch $(STAMP)

quickstart: setup
	@$(VENV)/bin/headrace quickstart

check: setup lint
	@$(PYTEST) -n 3 tests/unit tests/properties

test: setup
	@$(PYTEST) -n 3 -m "not (long or soak or image)"

test-long: setup
	@$(PYTEST) -n 3 -m "long and not soak" tests/spark tests/compat tests/integration tests/faults

test-all: setup
	@$(PYTEST) -n 3 -m "not (soak or image)"

soak: setup
	@$(PY) -m pytest -m hypothesis --hypothesis-profile=new tests/unit tests/properties
	@$(PY) -m pytest -m soak -o timeout=3600

soak-day: setup
	@$(PY) -m tests.soak $(ARGS)

image:
	@deploy/image/build.sh $(ARGS)

test-image: setup
	@$(PY) -m pytest -m image tests/image

upgrade-check: setup
	@$(PY) -m tests.upgrade_check $(ARGS)

lint: $(STAMP)
	@$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check . && $(VENV)/bin/mypy && $(VENV)/bin/hadolint Dockerfile deploy/strimzi/Dockerfile

docs: $(STAMP)
	@$(VENV)/bin/headrace settings > docs/settings.md

bench: setup
	@$(PY) -m tests.bench

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
