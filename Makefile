# Two commands on a fresh machine: `make demo` and `make test`.  Both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

# Python keeps what it has compiled, whatever the environment says: the tests start many processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo map constants queries test search test-cluster test-page figures test-serve test-r dist sbom docs docs-version gallery lint format reproduce tight field split geometry linear counts units unpenalised edges describe survival_curves ordinary panel lock clean

demo: $(READY)
	$(BIN)/dpinfer demo --out demo --force
	@echo "In this checkout the command is $(BIN)/dpinfer.  A desk with this table: $(BIN)/dpinfer demo --open"

# The whole gate: lint, strict typing, tests.  At the end it lists the modules with lines that no test has run, by
# themselves or in a worker; what a process of its own runs is not counted.  Before Python 3.12 that takes a third more
# time, so there it is left out unless asked for: `make test COVERAGE="--cov=dpinfer --cov=dpinfer_desk"`.  Servers in
# processes of their own and programs in R have targets of their own below: make test-serve test-r.
MONITORED := $(shell $(PYTHON) -c "import sys; print(*['--cov=dpinfer', '--cov=dpinfer_desk', '--cov-report=term:skip-covered'][:3 * (sys.version_info >= (3, 12))])")
COVERAGE ?= $(MONITORED)
test: lint
	$(BIN)/python -m pytest $(COVERAGE) --ignore=tests/network --ignore=tests/r

# The property tests of `make test` with ten times as many examples; another number: `make search SEARCH=100`.
SEARCH ?= 10
search: $(READY)
	SEARCH=$(SEARCH) $(BIN)/python -m pytest -m hypothesis

# The same fits on real clusters: two Dask workers and two Spark executors, each a process; one is killed in mid-pass.
# Spark needs Java 17 or 21; where there is none this says so, and the rest runs.
CLUSTER := .venv-cluster
test-cluster: $(CLUSTER)/.ready
	$(CLUSTER)/bin/python -m pytest -n 0 -rs tests/cluster

# The page of a desk in a browser: Debian's Chromium, which has to be there.
PAGE := .venv-page
test-page: $(PAGE)/.ready
	$(PAGE)/bin/python -m pytest -n 2 --dist=loadfile -rs tests/page

# The pictures of pages in docs/figures, of the bundled data; the same environment.
figures: $(PAGE)/.ready
	$(PAGE)/bin/python tools/figures.py

# A desk on a network: two processes, roles, a browser, clients in Python and in R; the same environment.
test-serve: $(PAGE)/.ready
	$(PAGE)/bin/python -m pytest -n 2 --dist=loadfile -rs tests/network

# What docs/howto/from-r.md says, in R with reticulate; where R or one of the packages is missing this says so.
test-r: $(READY)
	$(BIN)/python -m pytest -n 0 -rs tests/r

# The sdist and the wheel, in dist/; the wheel is tried in an empty environment, without extras and with them.
dist: $(READY)
	$(BIN)/python tools/dist.py

# What is installed with the wheel: a bill of materials (CycloneDX) and the licences, in dist/.
sbom: $(READY)
	$(BIN)/python tools/sbom.py

# The map in CONTRIBUTING.md, from the modules' docstrings.
map: $(READY)
	$(BIN)/python tests/map_of_rooms.py

constants: $(READY)
	$(BIN)/python tools/constants.py

# docs/queries.md, from the docstrings of the queries.
queries: $(READY)
	$(BIN)/python tools/queries.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $(READY)

$(CLUSTER)/.ready: requirements-cluster.lock pyproject.toml
	$(PYTHON) -m venv $(CLUSTER)
	$(CLUSTER)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-cluster.lock
	$(CLUSTER)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

$(PAGE)/.ready: requirements-page.lock pyproject.toml
	$(PYTHON) -m venv $(PAGE)
	$(PAGE)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-page.lock
	$(PAGE)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

# The documentation as a site, site/index.html, in an environment of its own; `make gallery` runs the notebooks anew.
DOCS := .venv-docs/bin
docs: .venv-docs/.ready
	NO_MKDOCS_2_WARNING=1 $(DOCS)/mkdocs build

# The same for this version, beside those of other versions: a folder each in site-versions, with a list of them.
docs-version: .venv-docs/.ready
	NO_MKDOCS_2_WARNING=1 $(DOCS)/python tools/docs_version.py

gallery: .venv-docs/.ready
	$(DOCS)/python docs/notebooks.py

.venv-docs/.ready: requirements-docs.lock
	$(PYTHON) -m venv .venv-docs
	$(DOCS)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-docs.lock
	# the sources as they are, and their version, which a page asks for
	site="$$($(DOCS)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" && \
	echo "$(CURDIR)/src" > "$$site/dpinfer.pth" && mkdir -p "$$site/dpinfer.dist-info" && \
	printf 'Metadata-Version: 2.1\nName: dpinfer\nVersion: %s\n' \
	"$$(sed -n 's/^__version__ = "\(.*\)"/\1/p' src/dpinfer/__init__.py)" > "$$site/dpinfer.dist-info/METADATA"
	touch $@

# The paper's tables and figures, then docs/reproduction.md.  Goes on where it stopped; FLAGS="--device cuda" for a GPU.
OUT ?= studies/paper/results
reproduce: $(READY)
	@test -n "$(DATA)" || { echo "name the data folder: make reproduce DATA=folder"; exit 2; }
	$(BIN)/python -m studies.paper --data "$(DATA)" --out "$(OUT)" $(FLAGS)

# The default recipe next to the paper's, then docs/tight.md.
tight: $(READY)
	@test -n "$(DATA)" || { echo "name the data folder: make tight DATA=folder"; exit 2; }
	$(BIN)/python -m studies.tight --data "$(DATA)"

# dpinfer beside other published methods (docs/field.md, docs/figures/field.png; ten minutes, goes on);
# diffprivlib is among them where it is installed.
field: $(READY)
	@test -n "$(DATA)" || { echo "name the data folder: make field DATA=folder"; exit 2; }
	$(BIN)/python -m studies.field --data "$(DATA)" $(FLAGS)

# The split of the budget (docs/split.md), the unpenalised target (docs/unpenalised.md), fits in a private geometry
# (docs/geometry-study.md; about an hour on 2 cores, goes on where it stopped), least squares and its rivals
# (docs/linear-study.md; half an hour, goes on), counts (docs/counts-study.md; a quarter of an hour, goes on), persons with several rows and sampling weights (docs/units-study.md; half
# an hour, goes on), effects of persons (docs/panel-study.md; an hour, goes on), Table 1 (docs/describe-study.md; goes on), survival curves (docs/survival-curves-study.md; goes on).
split geometry linear counts units describe survival_curves panel: $(READY)
	@test -n "$(DATA)" || { echo "name the data folder: make $@ DATA=folder"; exit 2; }
	$(BIN)/python -m studies.$@ --data "$(DATA)" $(FLAGS)

# ... and data that no regression can answer (docs/edges-study.md; ten minutes).
unpenalised edges: $(READY)
	$(BIN)/python -m studies.$@ $(FLAGS)

# Coverage of the ordinary coefficient on populations drawn for the purpose (docs/ordinary-study.md; all grids take an
# hour on 2 cores, and go on where they stopped): make ordinary FLAGS="--grids main wide".
ordinary: $(READY)
	$(BIN)/python -m studies.ordinary $(FLAGS)

# Re-resolve the pinned versions (needs uv on the path): the library, all extras, and the tools; then those of
# the cluster tests, of the tests of the page and of the documentation, with the same versions of what they share.
COMPILE := uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-strip-extras --no-header --upgrade --quiet
lock:
	$(COMPILE) --extra all --extra dev --output-file requirements.lock
	$(COMPILE) --extra all --extra dev --extra dask --extra spark --constraints requirements.lock \
		--output-file requirements-cluster.lock
	$(COMPILE) --extra page --constraints requirements.lock --output-file requirements-page.lock
	$(COMPILE) --extra docs --constraints requirements.lock --output-file requirements-docs.lock

clean:
	rm -rf .venv .venv-cluster .venv-page .venv-docs site site-versions dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.*
