# `make` alone lists what can be done here.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

# The Python to make .venv with; without it, the fastest of those at hand.
PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
# Given on the command line they win; otherwise the settings (VINTEM_DATA, VINTEM_HOST, VINTEM_PORT) do.
DEMO := $(if $(HOST),--host $(HOST)) $(if $(PORT),--port $(PORT)) $(if $(DATA),--data $(DATA))

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  \033[36m%-8s\033[0m %s\n", $$1, $$2}'

setup: $(VENV)/.synced ## Make .venv with every pinned dependency and the command .venv/bin/vintem

$(VENV)/.synced: requirements.lock pyproject.toml tools/setup
	@tools/setup "$(PYTHON)" "$(VENV)"
	@touch $@

run: setup ## Start the platform with a demo company on http://127.0.0.1:8080 (PORT=… HOST=… DATA=… to change)
	@exec $(BIN)/vintem demo $(DEMO)

test: check ## The same as check

check: setup ## Every check: format, lint, types, import contracts, tidy tests, tests
	@tools/check

bench: setup ## Measure the pipeline, creates, confirmations and webhooks against their yardsticks
	@tools/bench

fmt: setup ## Format the code and fix what the linter can fix
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

images: setup ## Take the pictures of docs/images again, in Chromium
	@$(BIN)/python tools/screenshots.py
	@$(BIN)/python tools/dashboard_pictures.py

lock: ## Resolve the pins of requirements.lock anew
	@tools/lock

.PHONY: help setup run test check bench fmt images lock
