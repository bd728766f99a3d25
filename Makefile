# Every target builds the virtual environment it needs, so none has to be run first.
# PYTHON=/path/to/python chooses the interpreter for it.

PYTEST := .venv/bin/python -m pytest
# With GUARD=yes also the tests that are marked guard or proof.
GUARDING := $(if $(GUARD),-m "not peers and (proof or not thorough)") $(if $(MINUTES),--guard-minutes $(MINUTES))
PURE := tests/unit tests/property tests/simulation tests/traces tests/tidy
export PYTHON

.DEFAULT_GOAL := help
.PHONY: help demo test test-thorough check lint format notebooks bench bench-peers constraints options troubleshooting docs screens dist clean

help: ## show what there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "  make %-16s %s\n", $$1, $$2 }'

.venv/.installed: pyproject.toml constraints.txt scripts/bootstrap
	@scripts/bootstrap

demo: .venv/.installed ## the whole main job on this machine, in about three minutes (DOCS=N for more orders)
	@.venv/bin/snapshotter demo $(if $(DOCS),--docs $(DOCS))

test: .venv/.installed ## all tests, on a real MongoDB and Spark (a quarter of an hour on two cores); GUARD=yes SEED=random as in CI
	@$(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder --durations 30 $(if $(SEED),--seed $(SEED)) $(GUARDING)

test-thorough: .venv/.installed ## what that leaves out for its time: every strategy killed seven times, longer searches
	@$(PYTEST) -m "not peers and (thorough or guard)" --hypothesis-profile thorough
	@$(PYTEST) -q tests/property tests/integration/test_signals_fuzz.py --hypothesis-profile thorough

check: .venv/.installed ## lint, types, import rules and the pure tests, in about five minutes on two cores
	@$(MAKE) --no-print-directory lint
	@$(PYTEST) -q -n 2 $(PURE)

lint: .venv/.installed ## lint, types and import rules
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports

format: .venv/.installed ## put the code into its form, and fix what can be fixed without thinking
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

notebooks: .venv/.installed ## run the notebooks from top to bottom, and store their outputs (ONLY=2 for one of them)
	@.venv/bin/python -m notebooks.run $(ONLY)

bench: .venv/.installed ## our own figures (bench/README.md)
	@$(PYTEST) -s bench --benchmark-only -o timeout=3600

bench-peers: .venv/.installed ## the same work by other products, beside ours in one run
	@.venv/bin/python -m bench.peers

constraints: .venv/.installed ## write constraints.txt from what is installed
	@sed -n '/^#/p' constraints.txt > constraints.new
	@.venv/bin/python -m pip freeze --exclude-editable >> constraints.new
	@mv constraints.new constraints.txt && touch .venv/.installed

options: .venv/.installed ## write docs/options.md, the page of all options, from the code
	@.venv/bin/snapshotter config --options --markdown > docs/options.new
	@mv docs/options.new docs/options.md

troubleshooting: .venv/.installed ## write docs/troubleshooting.md, the page of all messages, from the code
	@.venv/bin/python -m scripts.troubleshooting > docs/troubleshooting.new
	@mv docs/troubleshooting.new docs/troubleshooting.md

docs: .venv/.installed ## build the documents as a site, in build/docs; what leads nowhere fails
	@.venv/bin/python -m sphinx -q -n -W --keep-going -c docs . build/docs
	@echo "build/docs/index.html"

dist: .venv/.installed ## build wheel and sdist, in dist
	@.venv/bin/python -m build --outdir dist .

screens: .venv/.installed ## take the pictures in docs/images anew: the terminal's, and the page's by a real browser
	@.venv/bin/python -m scripts.screens

clean: ## remove the environment and everything that was built
	@rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks
	@rm -rf spark-warehouse notebooks/spark-warehouse metastore_db derby.log
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
