"""The command line in its own image, as a CronJob of the cluster starts it."""

import pytest
import yaml

from pipeline.cli import parser
from tests.containers.conftest import RESTRICTED, docker_run
from tests.end_to_end.conftest import ROOT

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def container():
    """The container of the CronJob's manifest."""
    job = yaml.safe_load((ROOT / "k8s/addons/retraining-cronjob/cronjob.yaml").read_text())
    [container] = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    return container


def _run(image, server, package, *command, mounts=()):
    restricted = [flag for flag in RESTRICTED if not flag.startswith("--network")]
    mounts = [f"--volume={package}:/pipeline/pipeline.yaml:ro", "--tmpfs=/tmp", *mounts]
    # The server of the test is on this machine.
    flags = ["--network=host", f"--env=KF_PIPELINES_ENDPOINT={server.url}"]
    return docker_run(*restricted, *mounts, *flags, image, *command, timeout=120)


def test_the_cronjobs_command_submits_waits_and_may_fail(cli_image, container, kfp_server, package_path):
    command = [*container["command"], "--param", "data_path=/data", "--poll", "0"]
    done = _run(cli_image, kfp_server, package_path, *command)
    assert done.returncode == 0, done.stderr
    [run] = kfp_server.state.runs.values()
    assert f"run {run['run_id']} succeeded" in done.stdout
    kfp_server.state.failing_step = "trainer"
    done = _run(cli_image, kfp_server, package_path, *command)
    assert done.returncode == 3 and "step trainer failed" in done.stderr


def test_it_compiles_as_the_project_does(cli_image, kfp_server, tmp_path):
    examples = f"--volume={ROOT / 'examples'}:/work/examples:ro"
    settings = "examples/kubeflow/settings.yaml"
    program = f"""
from pathlib import Path
from pipeline.cli import main
assert main(["compile", "/work/{settings}", "-o", "/tmp/pipeline.yaml"]) == 0
print(Path("/tmp/pipeline.yaml").read_text(), end="")
"""
    done = _run(cli_image, kfp_server, "/dev/null", "python", "-c", program, mounts=[examples])
    assert done.returncode == 0, done.stderr
    here = tmp_path / "pipeline.yaml"
    assert parser.main(["compile", str(ROOT / settings), "-o", str(here)]) == 0
    assert done.stdout.removeprefix("/tmp/pipeline.yaml\n") == here.read_text()


def test_it_holds_what_it_needs_and_says_its_version(cli_image, kfp_server, package_path):
    left_out = "('tensorflow', 'tfx', 'pip', 'setuptools')"
    program = f"""
from importlib.util import find_spec
from pipeline.cli import main
print([m for m in {left_out} if find_spec(m)])
main(["--version"])
"""
    done = _run(cli_image, kfp_server, package_path, "python", "-c", program)
    nothing, version = done.stdout.splitlines()
    assert nothing == "[]" and version.startswith("detflow 0."), done
