# Two commands do everything on a fresh Debian or Ubuntu machine with Python: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := demo
TORCH := .torch
TORCHES ?= cpu cuda
# The newest CUDA build on PyPI, with the packages of its CUDA release that make a toolkit with nvcc.
CUDA_TORCH := torch==2.14.1 'cuda-toolkit[nvcc,cudart,cublas,cusparse,cusolver,cccl,crt,nvrtc]==13.0.*'

.PHONY: all env demo unit another-user test check chaos field newest oldest real-tree real-wheel real-front arm real-builds torches extensions everything mutants fuzz benchmark docs clean

env: $(VENV)/ready

# Debian's python3 has no ensurepip without python3-venv and no headers without python3-dev; compilers and make come
# with build-essential.
$(VENV)/ready: pyproject.toml
	@command -v c++ >/dev/null || { echo "no C++ compiler: sudo apt-get install build-essential"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "no venv: sudo apt-get install python3-venv"; exit 1; }
	@$(PYTHON) -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null || \
	  { echo "no Python.h: sudo apt-get install python3-dev"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable . --group test --group check --group benchmark
	@touch $@

demo: env
	@$(BIN)/python examples/demo.py $(DEMO)

# What needs no compiler and builds no wheel: under a minute of processor time, so run it after every change. One process,
# because each further one spends ten seconds on importing and collecting; PYTEST_ARGS='-n auto' where cores are idle.
unit: env
	$(BIN)/python -m pytest tests/unit $(PYTEST_ARGS)

# The unit tests as a user who may not enter the folders that HOME and PATH name: needs root. A minute.
another-user: env
	PYTHONPATH=tests:tests/support $(BIN)/python tests/support/another_user.py $(PYTEST_ARGS)

# Two at a time: most of a build's time one core waits for the other. Ten minutes on two cores; LONG=1 runs the builds of
# minitorch and of extensions that take longest, too, in twice that time.
test: env
	$(BIN)/python -m pytest tests/unit tests/integration $(if $(LONG),,-m "not long") -n 2 --dist worksteal $(PYTEST_ARGS)

check: env
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy

# Builds that are killed, run out of disk and race each other, and random sequences of edits, moves and kills: one of most
# in about four minutes, CHAOS=full all, in hours.
chaos: env
	CHAOS=$(or $(CHAOS),short) $(BIN)/python -m pytest tests/chaos -m chaos -s $(PYTEST_ARGS)

# The main job by every front end, in many surroundings: ten minutes. FIELD=full: every pair of them, and random ones.
field: env
	FIELD=$(or $(FIELD),short) $(BIN)/python -m pytest tests/field -m field -n 2 --dist worksteal $(PYTEST_ARGS)

# The main jobs with whatever the package index has today, every build isolated and nothing pinned: six gigabytes for
# the first time. RELEASES=full: every project by every front end. RECORD=1 writes down the versions that pass.
newest: env
	$(BIN)/python -m pytest tests/releases/test_newest.py tests/releases/test_dates.py tests/releases/test_pairs.py -m releases -s $(PYTEST_ARGS)

# The lowest versions that pyproject.toml allows, with every Python; RELEASES=full runs the tests of `make unit`, too.
oldest: env
	$(BIN)/python -m pytest tests/releases/test_oldest.py -m releases -s $(PYTEST_ARGS)

real-tree: env
	$(BIN)/python -m pytest tests/real_tree -m real_tree $(PYTEST_ARGS)

# The real PyTorch 2.6.0 with CUDA in full, installed and tested: about six hours of processor time. Stopped and called
# again, it goes on. WHOLE=quick compiles without optimization.
real-wheel: env
	TEST_TORCHWHEEL_WHOLE_WHEEL=$(or $(WHOLE),full) $(BIN)/python -m pytest tests/real_tree/test_whole_wheel.py -s $(PYTEST_ARGS)

# The same sources for the CPU under a front of 2.14's generation, compared with setup.py's wheel: about three hours.
real-front: env
	TEST_TORCHWHEEL_WHOLE_WHEEL=$(or $(WHOLE),full) $(BIN)/python -m pytest tests/real_tree/test_whole_front.py -s $(PYTEST_ARGS)

# An emulated Arm machine, with PyTorch 2.6.0 configured on it: root, Debian, 15 GB of disk, and hours.
arm: env
	TEST_TORCHWHEEL_ARM=1 $(BIN)/python -m pytest tests/arm -m arm $(PYTEST_ARGS)

# Twenty public projects, built to see that diagnose finds no failure in what goes well.
real-builds: env
	TEST_TORCHWHEEL_REAL_BUILDS=all $(BIN)/python -m pytest tests/integration/diagnosis/test_real_builds.py $(PYTEST_ARGS)

# PyTorch without and with CUDA, each in an environment of its own: the second takes 6 GB and no GPU.
$(TORCH)/cpu/ready: pyproject.toml
	$(PYTHON) -m venv $(TORCH)/cpu
	$(TORCH)/cpu/bin/python -m pip install --quiet torch==2.13.0 numpy setuptools scikit-build-core cmake ninja pytest
	$(TORCH)/cpu/bin/python -m pip install --quiet --editable .
	@touch $@

$(TORCH)/cuda/ready: pyproject.toml
	$(PYTHON) -m venv $(TORCH)/cuda
	$(TORCH)/cuda/bin/python -m pip install --quiet $(CUDA_TORCH) numpy setuptools scikit-build-core cmake ninja pytest
	$(TORCH)/cuda/bin/python -m pip install --quiet --editable .
	@touch $@

torches: $(TORCHES:%=$(TORCH)/%/ready)

# TORCHES=cpu: without 6 GB for CUDA.
extensions: env torches
	$(if $(filter cpu,$(TORCHES)),TEST_TORCHWHEEL_TORCH='$(CURDIR)/$(TORCH)/cpu/bin/python') \
	$(if $(filter cuda,$(TORCHES)),TEST_TORCHWHEEL_CUDA_TORCH='$(CURDIR)/$(TORCH)/cuda/bin/python') \
	$(BIN)/python -m pytest -m torch -n 2 --dist worksteal $(PYTEST_ARGS)

# What continuous integration runs, and the longest tests.
all: LONG = 1
all: check test another-user field chaos oldest newest real-tree extensions

# All that is left out elsewhere for its size: CUDA from PyPI, the compilers of every CUDA release (gigabytes each),
# and the public projects of docs/compatibility.md. Hours.
everything: LONG = 1
everything: test real-tree arm real-builds extensions
	TEST_TORCHWHEEL_CUDA_FROM_PYPI=1 TEST_TORCHWHEEL_COMPILERS=1 \
	TEST_TORCHWHEEL_CUDA_TORCH='$(CURDIR)/$(TORCH)/cuda/bin/python' \
	$(BIN)/python -m pytest tests/integration/toolkit tests/integration/backend/test_cuda_from_pypi.py $(PYTEST_ARGS)
	TEST_TORCHWHEEL_COMPATIBILITY=all TEST_TORCHWHEEL_TORCH='$(CURDIR)/$(TORCH)/cpu/bin/python' \
	TEST_TORCHWHEEL_CUDA_TORCH='$(CURDIR)/$(TORCH)/cuda/bin/python' \
	$(BIN)/python -m pytest tests/integration/extension/compatibility $(PYTEST_ARGS)

# Small changes to the code, one at a time, and which of them no test notices. What is changed is in pyproject.toml;
# MUTANTS='torchwheel.plan.naming*' tries some.
mutants: env
	$(BIN)/python -m pip install --quiet --group mutants
	$(BIN)/python -m mutmut run $(MUTANTS)
	$(BIN)/python -m mutmut results

# Ten minutes of changed input for everything that reads what others wrote; what is found becomes a test.
fuzz: env
	$(BIN)/python -m pip install --quiet --group fuzz
	for name in wheel library log toml tree host text; do \
	  (cd tests && PYTHONPATH=support ../$(BIN)/python -m fuzz $$name 86) || exit 1; \
	done

benchmark: env
	$(BIN)/python -m pytest benchmarks --benchmark-only

# Everything in the documentation that is made by running something; tests compare all of it.
docs: env
	PYTHONPATH=tests/support $(BIN)/python -m docs.settings_page > settings.tmp && mv settings.tmp docs/settings.md
	PYTHONPATH=tests:tests/support $(BIN)/python -m replays.table > docs/replays.md
	PYTHONPATH=tests/support $(BIN)/python -m extension.compatibility.page > docs/compatibility.md
	PYTHONPATH=tests/support $(BIN)/python -m docs.exit_statuses > statuses.tmp && mv statuses.tmp docs/exit-statuses.md
	PYTHONPATH=tests/support $(BIN)/python -m diagnosis.examples
	PYTHONPATH=tests/support $(BIN)/python -m docs.blocks
	PYTHONPATH=tests/support $(BIN)/python -m docs.settings_schema > schema.tmp && mv schema.tmp src/torchwheel/settings/torchwheel.schema.json

clean:
	rm -rf $(VENV) $(TORCH) .field $(DEMO) build dist mutants
