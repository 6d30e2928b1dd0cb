# Two commands do everything on a fresh Debian or Ubuntu machine with Python: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := demo

.PHONY: env demo test check real-tree benchmark docs clean

env: $(VENV)/ready

# Debian's python3 has no ensurepip until python3-venv is installed; compilers come with build-essential.
$(VENV)/ready: pyproject.toml
	@command -v c++ >/dev/null || { echo "no C++ compiler: sudo apt-get install build-essential"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "no venv: sudo apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable . --group test --group check --group benchmark
	@touch $@

demo: env
	@$(BIN)/python examples/demo.py $(DEMO)

test: env
	$(BIN)/python -m pytest -m "not real_tree" $(PYTEST_ARGS)

check: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

real-tree: env
	$(BIN)/python -m pytest tests/real_tree -m real_tree $(PYTEST_ARGS)

benchmark: env
	$(BIN)/python -m pytest benchmarks --benchmark-only

docs: env
	$(BIN)/python -m torchwheel.settings.reference > docs/settings.md

clean:
	rm -rf $(VENV) $(DEMO) build dist
