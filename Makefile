# Two commands do everything: `make run` and `make test`.  Both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: run test shuffled mutants programs lint types docs snapshots pictures packages bench torture clean

run: .venv/run
	$(BIN)/dragoman demo --screen

# Tests start thousands of processes.  Without bytecode, which some machines tell Python not to write, each compiles all.
test: .venv/dev .venv-v2/ready programs
	@$(BIN)/python -m compileall -q src
	$(BIN)/pytest -n 2 $(if $(STRICT),--strict-skips)

# The whole suite in other orders; a seed that fails is run again by `pytest --shuffle SEED`.
shuffled: .venv/dev .venv-v2/ready programs
	for seed in $$(seq $(or $(RUNS),20)); do $(BIN)/pytest -n 2 --shuffle $$seed || exit 1; done

# Breaks the program on purpose, row by row, and fails unless the tests notice; SAMPLE=40 tries so many cheap rows.
# After an interruption, RESUME=1 leaves out the rows that were noticed and whose text, module and tests have not changed.
mutants: .venv/dev .venv-v2/ready programs
	PYTHONPATH=tests $(BIN)/python -m mutants $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(ONLY),--only '$(ONLY)') \
	    $(if $(RESUME),--resume) $(if $(JOBS),--jobs $(JOBS))

programs:
	@scripts/test-programs
	@scripts/typescript-sdk
	@scripts/language-servers
	@scripts/mcp-servers

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/dev
	$(BIN)/mypy

docs: .venv/dev
	$(BIN)/mkdocs build --strict
	@echo "open build/site/index.html"

# Writes anew what the views of the terminal screen look like; git diff shows what has become of them.
snapshots: .venv/dev
	REWRITE_SNAPSHOTS=1 $(BIN)/pytest -q tests/ui/tui/test_snapshots.py

pictures: .venv/dev
	$(BIN)/python scripts/pictures
	$(BIN)/python scripts/screen_pictures.py

packages: .venv/dev
	PYTHON=$(BIN)/python scripts/packages

bench: .venv/dev
	$(BIN)/python bench/run.py

torture: .venv/dev .venv-v2/ready programs
	$(BIN)/pytest -m torture -s --timeout 0 tests/torture

clean:
	rm -rf .venv .venv-v2 build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("Dragoman needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv

.venv/run: .venv/bin/python pyproject.toml
	$(BIN)/pip install --quiet --editable '.[reviewer,tui]' || $(BIN)/pip install --quiet --editable .
	@touch $@

.venv/dev: .venv/bin/python pyproject.toml
	$(BIN)/pip install --quiet --editable '.[dev]'
	@touch $@ .venv/run

# The official SDK's pre-release that speaks version 2 of the protocol, a peer of tests/v2.
.venv-v2/ready: .venv/bin/python
	$(BIN)/python -m venv .venv-v2
	.venv-v2/bin/pip install --quiet 'agent-client-protocol==1.0.0rc3' || echo "tests with the SDK of version 2 will be skipped"
	@touch $@
