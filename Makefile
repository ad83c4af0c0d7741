# Every target makes the environment first where it is missing or older than what it is made from.
VENV := .venv
PYTHON ?= python3
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: install demo check test soak bench browser ray clean

install: $(READY)

$(READY): pyproject.toml constraints.txt nmt_cli/native/kernels.cpp
	$(PYTHON) -c 'import sys; sys.exit("nmt needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else 0'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

demo: install
	$(BIN)/nmt demo

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test: install
	$(BIN)/pytest -n 2

# The long tests, those of the browser and of Ray among them.
soak: install browser ray
	$(BIN)/pytest -n 2 --dist worksteal -m 'slow or soak or ray'

bench: install
	$(BIN)/python -m benchmarks --output benchmarks/latest.json

# Ray, for bulk translation and its tests: large, so nothing else installs it.
ray: install
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[ray]'

# Headless Chromium for the tests of the attention page; as root, on Debian.
browser:
	command -v chromedriver >/dev/null || { apt-get update -qq && apt-get install -qq -y --no-install-recommends \
		chromium chromium-driver fonts-noto-cjk fonts-dejavu-core >/dev/null; }

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
