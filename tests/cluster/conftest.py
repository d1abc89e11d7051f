import functools
import os
from pathlib import Path

import pytest
import yaml

from tests.cluster.apiserver import ApiServer
from tests.pipeline.kubeflow.conftest import clean_environment, server  # noqa: F401

FOLDER = Path(os.environ.get("DETFLOW_CLUSTER", "/nowhere"))


def crds(*names: str) -> list[dict]:
    """Return the CustomResourceDefinitions of the projects, or those of some names."""
    found = [d for d in manifests() if d["kind"] == "CustomResourceDefinition"]
    return [d for d in found if not names or d["metadata"]["name"] in names]


@functools.cache
def manifests() -> list[dict]:
    """Return what crds.txt names."""
    # Some are of a megabyte, which takes Python's own parser a minute.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    texts = [p.read_text() for p in sorted((FOLDER / "crds").glob("*.yaml"))]
    return [d for text in texts for d in yaml.load_all(text, loader) if d]


@pytest.fixture(scope="session")
def api(tmp_path_factory):
    """A server without any kind but Kubernetes' own."""
    if "DETFLOW_CLUSTER" not in os.environ:
        pytest.skip("make test-cluster runs it")
    with ApiServer(FOLDER / "bin", tmp_path_factory.mktemp("apiserver")).running() as running:
        yield running


@pytest.fixture(scope="session")
def api_with_kinds(api):
    """The same server, with the kinds of all projects."""
    api.apply(crds())
    names = [f"crd/{c['metadata']['name']}" for c in crds()]
    api.run("wait", "--for=condition=established", "--timeout=120s", *names)
    return api
