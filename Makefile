# Every target makes the environment first where it is missing or older than what it is made from.
VENV := .venv
PYTHON ?= python3
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ACTIVATE := echo 'To use nmt in this shell, activate its environment first: source $(VENV)/bin/activate'
OLDEST := .venv-oldest
DIST := .venv-dist

# On Linux the small build of PyTorch, without CUDA, is taken from PyTorch's own index. `make install TORCH=cuda` takes
# the build for NVIDIA GPUs in its place; TORCH=cpu changes it back. Without TORCH, what is installed stays.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
TORCH :=

# Compiled once, not by each of the thousand processes that the tests start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: FORCE install demo check site test slow oldest soak bench chromium browser compilers shells man dist audit ray wasm clean

install: $(READY)

$(READY): pyproject.toml setup.py constraints.txt nmt_cli/ops/kernels.cpp $(if $(TORCH),FORCE)
	@$(PYTHON) -c 'import sys; old = sys.version_info < (3, 11); sys.exit(f"nmt needs Python 3.11 or newer, but $(PYTHON) is {sys.version.split()[0]}. Name a newer one: make PYTHON=python3.12 install" if old else 0)'
	@echo 'Installing nmt and all that it needs into the directory $(VENV). Nothing outside this directory changes.'
	@echo 'Downloads are about 350 MB, and $(VENV) takes 1.5 GB, most of it PyTorch. A PyTorch with CUDA takes gigabytes more.'
	@echo 'Without the downloads this takes one to two minutes. The lines below are from pip.'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python scripts/install_torch.py --index '$(TORCH_INDEX)' --build '$(TORCH)'
	@$(BIN)/python -m pip install --constraint constraints.txt --editable '.[dev]'
	@$(BIN)/python -c 'from nmt_cli.ops import native; print("nmt is installed, with compiled kernels." if native.is_built() else "nmt is installed, but without compiled kernels, so it is slower. They need a C++ compiler.")'
	@$(ACTIVATE)
	@touch $(READY)

demo: install
	@$(BIN)/nmt demo
	@$(ACTIVATE)

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python scripts/docs.py --check
	$(BIN)/mkdocs build --strict --quiet

# The pages as a web site, in the directory `site`; `.venv/bin/mkdocs serve` shows them in a browser.
site: install
	$(BIN)/python scripts/docs.py
	$(BIN)/mkdocs build --strict --quiet
	@echo 'Open site/index.html in a browser.'

test: install
	$(BIN)/pytest -n 2 --dist worksteal

# The marked tests that run in CI.
slow: install chromium shells
	$(BIN)/pytest -n 2 --dist worksteal --durations 20 -m '(slow or install) and not soak'

# With the oldest versions that pyproject.toml allows: the quick tests of the files behind which an outside library stands.
# PyTorch and the system are the same as everywhere. `make soak` runs all quick tests so.
BEHIND_DOORS := $(addprefix tests/unit/,config formats export data/test_tokenizer.py \
	$(addprefix serve/test_,app.py connection.py service.py) training/test_checkpoint_files.py test_plots.py test_scoring.py) \
	$(addprefix tests/end_to_end/test_,commands.py export.py score_command.py) \
	tests/end_to_end/test_train.py::test_tensorboard_is_written_if_asked \
	tests/properties/test_text.py tests/reliability/test_yesterdays_models.py

oldest: $(OLDEST)/.ready
	$(OLDEST)/bin/pytest -n 2 --dist worksteal $(BEHIND_DOORS)

$(OLDEST)/.ready: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python scripts/install_torch.py --index '$(TORCH_INDEX)'
	$(OLDEST)/bin/python -m pip install --quiet --constraint constraints-oldest.txt --editable '.[test]'
	touch $@

# The long tests, among them those of all browsers, of other compilers, of Ray and of installation; then all quick tests
# with the oldest versions.
soak: install browser compilers shells ray $(OLDEST)/.ready
	$(BIN)/pytest -n 2 --dist worksteal -m 'slow or soak or ray or install'
	$(OLDEST)/bin/pytest -n 2 --dist worksteal --hypothesis-profile all

bench: install
	$(BIN)/python -m benchmarks --output benchmarks/latest.json

# Ray, for bulk translation and its tests: large, so nothing else installs it.
ray: install
	@echo 'Installing Ray into $(VENV). Its download is about 80 MB, and it takes 250 MB of disk.'
	@$(BIN)/python -m pip install --constraint constraints.txt --editable '.[ray]'

# Headless Chromium for the tests of the pages; as root, on Debian.
chromium:
	command -v chromedriver || { apt-get update -qq && \
		apt-get install -qq -y --no-install-recommends chromium chromium-driver fonts-dejavu-core >/dev/null; }

# Firefox too, and letters that the pages show in `make soak`.
browser: chromium
	command -v firefox-esr || { apt-get update -qq && \
		apt-get install -qq -y --no-install-recommends firefox-esr fonts-noto-cjk >/dev/null; }

# The inner loops of the page for offline use. They stand in the repository compiled, by clang 14 and lld of Debian 12.
PAGE := nmt_cli/export/page
KERNELS := $(PAGE)/kernels.wasm

wasm:
	clang --target=wasm32 -std=c11 -O2 -fno-unroll-loops -msimd128 -fno-math-errno -fno-trapping-math -fno-builtin \
		-nostdlib -Wall -Wextra -Werror -Wl,--no-entry -Wl,--import-memory -Wl,--export=__heap_base -Wl,--strip-all \
		-o $(KERNELS) $(PAGE)/kernels.c
	chmod 644 $(KERNELS)

# Two of LLVM's compilers, its linker, one compiler for ARM and an emulator of it, for the tests of the kernels; as root,
# on Debian.
compilers:
	command -v clang++ clang++-19 wasm-ld aarch64-linux-gnu-g++ qemu-aarch64 | wc -l | grep -qx 5 || { apt-get update -qq && \
		apt-get install -qq -y --no-install-recommends \
		clang clang-19 lld libomp-dev g++-aarch64-linux-gnu qemu-user >/dev/null; }

# Shells whose completion is tested, and a reader of manual pages that is strict; as root, on Debian.
shells:
	command -v zsh fish mandoc setsid | wc -l | grep -qx 4 || { apt-get update -qq && \
		apt-get install -qq -y --no-install-recommends zsh fish mandoc util-linux >/dev/null; }

# Manual pages and completion scripts, from the help: build/share.
man: install
	$(BIN)/python scripts/make_man.py build
	@echo "To read a page: man -l build/share/man/man1/nmt.1"

# A release: source distribution, wheels, the list of libraries. The same commit gives the same bytes.
dist: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
dist: man $(DIST)/.ready
	$(DIST)/bin/python scripts/make_dist.py --share build/share
	$(BIN)/python scripts/make_sbom.py dist/sbom.cdx.json

# Asks PyPI for known faults of all libraries in constraints.txt. Fails if one is found, or could not be looked up.
audit: $(DIST)/.ready
	$(DIST)/bin/python -m pip install --quiet pip-audit==2.10.1
	$(DIST)/bin/pip-audit --strict --disable-pip --no-deps --requirement constraints.txt

$(DIST)/.ready: constraints-dist.txt
	$(PYTHON) -m venv $(DIST)
	$(DIST)/bin/python -m pip install --quiet --requirement constraints-dist.txt
	touch $@

clean:
	rm -rf $(VENV) $(OLDEST) $(DIST) build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
