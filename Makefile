# Every target makes the environment first where it is missing or older than what it is made from.
VENV := .venv
PYTHON ?= python3
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ACTIVATE := echo 'To use nmt in this shell, activate its environment first: source $(VENV)/bin/activate'
OLDEST := .venv-oldest

# On Linux the small build of PyTorch, without CUDA, is taken from PyTorch's own index. `make install TORCH=cuda` takes
# the build for NVIDIA GPUs in its place; TORCH=cpu changes it back. Without TORCH, what is installed stays.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
TORCH :=

.PHONY: FORCE install demo check test oldest soak bench browser compilers node ray wasm clean

install: $(READY)

$(READY): pyproject.toml constraints.txt nmt_cli/ops/kernels.cpp $(if $(TORCH),FORCE)
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

test: install
	$(BIN)/pytest -n 2

# The quick tests again, with the oldest versions that pyproject.toml allows. PyTorch and the system are the same ones as
# everywhere, so the long tests of what only PyTorch computes and of what a training survives are left out.
AS_BEFORE := $(addprefix --ignore=tests/unit/,model ops search training translation/test_step_model.py) \
	$(addsuffix .py,$(addprefix --ignore=tests/end_to_end/test_,train captured_training path prefixes improve) \
	$(addprefix --ignore=tests/reliability/test_,disk signals refused))

oldest: $(OLDEST)/.ready
	$(OLDEST)/bin/pytest -n 2 $(AS_BEFORE)

$(OLDEST)/.ready: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python scripts/install_torch.py --index '$(TORCH_INDEX)'
	$(OLDEST)/bin/python -m pip install --quiet --constraint constraints-oldest.txt --editable '.[test]'
	touch $@

# The long tests, among them those of the browser, of other compilers, of Ray and of installation.
soak: install browser compilers node ray
	$(BIN)/pytest -n 2 --dist worksteal -m 'slow or soak or ray or install'

bench: install
	$(BIN)/python -m benchmarks --output benchmarks/latest.json

# Ray, for bulk translation and its tests: large, so nothing else installs it.
ray: install
	@echo 'Installing Ray into $(VENV). Its download is about 80 MB, and it takes 250 MB of disk.'
	@$(BIN)/python -m pip install --constraint constraints.txt --editable '.[ray]'

# Headless Chromium and Firefox for the tests of the pages; as root, on Debian.
browser:
	command -v chromedriver firefox-esr | wc -l | grep -qx 2 || { apt-get update -qq && \
		apt-get install -qq -y --no-install-recommends \
		chromium chromium-driver firefox-esr fonts-noto-cjk fonts-dejavu-core >/dev/null; }

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

# The library that ONNX exports need in Node.js, for their tests. Its own script would download code for GPUs.
node:
	test -d node_modules/onnxruntime-node || npm install --no-save --ignore-scripts onnxruntime-node@1.30.0

clean:
	rm -rf $(VENV) $(OLDEST) build dist *.egg-info node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis
