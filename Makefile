# Every target does its own set-up. `make demo` and `make test` are the two commands of README.md.
SHELL := /bin/sh
.DEFAULT_GOAL := help
DEMO := build/digits
PYTEST := .venv/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: help setup demo test test-slow test-changed test-mutants test-record test-all test-zoo test-faults test-browser test-mediapipe test-runtimes test-trackers test-engines test-containers test-install test-azure test-beam test-cluster
.PHONY: docs image wheelhouse lint lint-manifests audit protos specs reference lock image-lock clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

setup: ## make .venv from requirements.lock (needs Python 3.11 and nothing else)
	@PYTHON="$(PYTHON)" .ci/setup

demo: setup ## the whole workflow on scenes of scanned digits, about 10 minutes on 2 cores
	@.venv/bin/python examples/digits/compose.py $(DEMO)/scenes
	@.venv/bin/detflow run examples/digits/settings.yaml

test: setup ## the test suite; SLOW=1 with the tests of test-slow, in one run
	@$(PYTEST) -m "$(if $(SLOW),,not slow and )not zoo and not faults" $(PYTEST_ARGS)

test-slow: setup ## whole trainings, workflows and conversions; CI runs them with the others
	@$(PYTEST) -m "slow and not zoo and not faults" $(PYTEST_ARGS)

test-changed: setup ## the tests that need what changed since a commit, and a smoke test; SINCE=main
	@.venv/bin/python -m tests.support.changed_files $(or $(SINCE),HEAD) $(PYTEST_ARGS)

test-mutants: setup ## which small faults no test notices; MUTANTS=200 SEED=1 MINUTES=60, SINCE=main for changed files
	@.venv/bin/python -m tests.mutants --number $(or $(MUTANTS),200) --seed $(or $(SEED),1) \
		--minutes $(or $(MINUTES),60) --since "$(SINCE)" $(PYTEST_ARGS)

test-record: setup ## write down which test files run which module, for test-changed; the suite under coverage.py
	@.venv/bin/python -m tests.support.executed $(PYTEST_ARGS)

test-all: setup ## every test target that this machine can run, one table at the end; TARGETS="test test-zoo" names some
	@.venv/bin/python .ci/test_all.py $(TARGETS)

test-zoo: setup ## every configuration of the model zoo at full size, notebooks and pages that train (10 GB of memory)
	@.venv/bin/python -m pytest -m zoo $(PYTEST_ARGS)

test-browser: setup ## the HTML pages in Chromium, with hostile names; installs it where root can
	@.ci/test-browser $(PYTEST_ARGS)

test-mediapipe: setup ## our TensorFlow Lite files in MediaPipe's ObjectDetector, which it installs beside .venv
	@.ci/test-mediapipe $(PYTEST_ARGS)

test-runtimes: setup ## our SavedModels in ONNX Runtime, OpenVINO, OpenCV and converted to Core ML, beside .venv
	@.ci/test-runtimes $(PYTEST_ARGS)

# KILLS: how many, 8 to 9 seconds each on 2 idle cores; SEED: of their choice; FUZZ_SECONDS: for all readers together.
test-faults: setup ## kills, full disks and wrong clocks for every step, random and hostile files for every reader; about an hour
	@FUZZ_SECONDS=$(or $(FUZZ_SECONDS),180) .venv/bin/python -m pytest -q -s -m faults tests/faults tests/components/publishing $(PYTEST_ARGS)
	@HOSTILE_SEED=$(or $(SEED),1) .venv/bin/python -m pytest -q -s -m faults tests/hostile $(PYTEST_ARGS)
	@.venv/bin/python -m tests.faults.campaign --kills $(or $(KILLS),200) --seed $(or $(SEED),1)

test-trackers: setup ## trainings on MLflow's own server and in Weights & Biases offline, which it installs beside .venv
	@.ci/test-trackers $(PYTEST_ARGS)

test-engines: setup ## the Beam steps on Dask, a training on Ray, in worker processes; it installs them beside .venv
	@.ci/test-engines $(PYTEST_ARGS)

test-containers: setup ## the steps and the compiled pipeline in containers; makes Docker available where root can
	@.ci/test-containers $(PYTEST_ARGS)

test-install: setup ## a wheel in fresh environments by plain pip; INSTALL_PYTHONS=python3.11:python3.12 names interpreters
	@DETFLOW_INSTALL_PYTHONS="$(or $(INSTALL_PYTHONS),$(shell .venv/bin/python -c 'import sys; print(sys._base_executable)'))" \
		.venv/bin/python -m pytest -m install tests/install $(PYTEST_ARGS)

test-azure: setup ## the object stores on Azure's emulator, which npm installs to build/azurite
	@npm install --prefix build/azurite --no-audit --no-fund azurite@3.35.0 >/dev/null
	@AZURITE_BLOB=$$PWD/build/azurite/node_modules/.bin/azurite-blob .venv/bin/python -m pytest \
		tests/detection_core/storage/test_object_store.py $(PYTEST_ARGS)

test-beam: setup ## ExampleGen in Beam's worker processes, and on Prism, another Beam runner, where Go is at hand
	@.ci/test-beam $(PYTEST_ARGS)

test-cluster: setup ## k8s/ and `detflow doctor` against a real Kubernetes API server, where Go and etcd are at hand
	@.ci/test-cluster $(PYTEST_ARGS)

image: setup ## the container image of the steps; OFFLINE=1: from the wheelhouse, VARIANT=gpu: with CUDA, cli: to submit runs
	@docker/build

wheelhouse: setup ## download the image's packages to build/wheels
	@docker/wheelhouse

lint: setup ## ruff, mypy, import rules, generated files
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports
	@.venv/bin/python -m detection_core.protos.compile --check
	@.venv/bin/python -m component_specs.kfp_yaml --check
	@.venv/bin/python -m tests.docs.reference --check

lint-manifests: setup ## k8s/ through kube-score, which Go builds once
	@.ci/lint-manifests

audit: setup ## known vulnerabilities of the locked packages, where PyPI's database is reached
	@.venv/bin/python .ci/audit.py $(LOCKS)

protos: setup ## compile the .proto files again
	@.venv/bin/python -m detection_core.protos.compile

specs: setup ## render the components and the example for Kubeflow Pipelines again
	@.venv/bin/python -m component_specs.kfp_yaml
	@.venv/bin/python -m tests.pipeline.golden

docs: setup ## the site of docs/ in build/site; fails on a page or link that leads nowhere
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet

reference: setup ## write the generated pages again: docs/reference from the code, docs/settings.md from the models
	@.venv/bin/python -m tests.docs.reference
	@.venv/bin/python -m tests.docs.settings_reference

# pip-audit names pip, which .venv has already. `make lock UPGRADE=` adds what is new and moves nothing else.
UPGRADE := --upgrade
lock: setup ## resolve the dependencies of pyproject.toml anew
	@.venv/bin/uv pip compile pyproject.toml --extra dev --extra cluster --extra tfx --python-version 3.11 \
		--generate-hashes --no-header --no-annotate --no-emit-package pip $(UPGRADE) -o requirements.lock
	@$(MAKE) image-lock

# The same versions for the containers. Left out of them: what is needed to build only, and what TensorFlow Model
# Optimization and Beam name but need for data frames alone. Of matplotlib they have the font only.
image-lock: setup ## the container image's part of requirements.lock, for CPU, for GPU and to submit runs
	@for group in image image-gpu image-cli; do \
		.venv/bin/uv pip compile --no-config --group $$group --constraints requirements.lock --python-version 3.11 \
			--generate-hashes --no-header --no-annotate --quiet -o requirements-$$group.lock \
			--no-emit-package backports-strenum --no-emit-package libclang \
			--no-emit-package pyarrow \
			--no-emit-package contourpy --no-emit-package cycler --no-emit-package fonttools \
			--no-emit-package kiwisolver --no-emit-package setuptools --no-emit-package wheel >/dev/null; \
	done

clean: ## remove what the demo made
	@rm -rf build
