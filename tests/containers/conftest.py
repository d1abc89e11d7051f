"""Containers as a cluster runs them: any user, no capabilities, a read-only file system, no network."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.containers.local_runner import USER
from tests.end_to_end.conftest import scenes  # noqa: F401
from tests.pipeline.kubeflow.conftest import package_path  # noqa: F401
from tests.pipeline.kubeflow.conftest import server as kfp_server  # noqa: F401
from tests.support.executor_input import Cluster

RESTRICTED = (f"--user={USER}", *["--rm", "--cap-drop=ALL", "--read-only", "--network=none"])
RESTRICTED += ("--security-opt=no-new-privileges",)


def docker_run(*words, timeout=200):
    """Run a container to its end, and return the end with what it wrote."""
    command = ["docker", "run", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)


def _built(variable):
    name = os.environ.get(variable)
    if not name:
        pytest.skip("the image is not built: run make test-containers")
    return name


@pytest.fixture(scope="session")
def image():
    return _built("DETFLOW_IMAGE")


@pytest.fixture(scope="session")
def cli_image():
    return _built("DETFLOW_CLI_IMAGE")


@pytest.fixture(scope="session", autouse=True)
def open_folders():
    """What this process makes is written to by the containers' user."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def cluster(image, tmp_path):
    root = tmp_path / "cluster"
    for place in (tmp_path, root, root / "tmp", root / "minio"):
        place.mkdir(exist_ok=True)
        place.chmod(0o777)
    folders = {tmp_path: tmp_path, root / "tmp": Path("/tmp"), root / "minio": Path("/minio")}
    mounts = [f"--volume={here}:{there}" for here, there in folders.items()]
    return Cluster(root=root, prefix=("docker", "run", *RESTRICTED, *mounts, image), in_container=True)
