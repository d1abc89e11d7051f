"""What the image is and what it is not."""

import json
import subprocess

import pytest

from components.run_checker.code_version import code_version
from tests.containers.conftest import RESTRICTED, docker_run

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]


def _inside(image, *command, code=0):
    done = docker_run(*RESTRICTED, "--tmpfs=/tmp", image, *command)
    assert done.returncode == code, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def config(image):
    return json.loads(subprocess.check_output(["docker", "image", "inspect", image]))[0]["Config"]


def test_it_says_which_code_it_holds_and_starts_as_a_user_without_rights_who_has_a_home(image, config):
    assert config["Labels"]["detflow.code-version"] == code_version()
    program = "from components.run_checker.code_version import code_version; print(code_version())"
    assert _inside(image, "python", "-c", program).strip() == code_version()
    assert config["User"] == "1000:1000"
    program = "import getpass, pathlib; print(getpass.getuser(), pathlib.Path.home())"
    assert _inside(image, "python", "-c", program).split() == ["detflow", "/tmp"]


def test_nothing_to_build_with_is_in_it_but_model_makers_names_and_letters_of_many_scripts(image):
    names = "pip gcc cc clang make"
    assert _inside(image, "sh", "-c", f"for n in {names}; do command -v $n; done; true") == ""
    modules = "('pip', 'setuptools', 'tfx', 'kfp')"
    program = f"from importlib.util import find_spec; print([m for m in {modules} if find_spec(m)])"
    assert _inside(image, "python", "-c", program).strip() == "[]"
    assert _inside(image, "python", "-c", "import detflow; print(detflow.__file__)").startswith(
        "/opt/detflow/detflow/"
    )
    program = "from detection_core.evaluation.drawing import text_font; print(text_font(14).getname()[0])"
    assert _inside(image, "python", "-c", program).strip() == "DejaVu Sans"


def test_all_of_it_is_compiled(image):
    program = """
import importlib.util, pathlib
sources = [p for folder in ("/opt/venv/lib", "/opt/detflow") for p in pathlib.Path(folder).rglob("*.py")]
left = [str(p) for p in sources if not pathlib.Path(importlib.util.cache_from_source(str(p))).exists()]
print(len(sources), len(left), left[:5])
"""
    count, left = _inside(image, "python", "-c", program).split()[:2]
    assert int(count) > 5000 and left == "0"


def test_a_mistake_of_the_caller_is_exit_code_2(image):
    step = ("python", "-m", "components.example_gen")
    _inside(image, *step, "--examples", "/tmp/out", "--data_path", "/nowhere", code=2)


def test_quick_steps_do_not_load_tensorflow(image):
    for component in ("run_checker", "baseline_resolver", "example_gen", "pusher"):
        program = f"import sys, components.{component}.run; print('tensorflow' in sys.modules)"
        assert _inside(image, "python", "-c", program).strip() == "False", component


def test_beam_runs_without_what_was_left_out(image):
    program = """
import apache_beam as beam
from apache_beam.runners.worker import worker_pool_main
with beam.Pipeline(runner="DirectRunner") as p:
    p | beam.Create([1, 2]) | beam.Map(lambda x: x + 1) | beam.CombineGlobally(sum) | beam.Map(print)
"""
    assert _inside(image, "python", "-c", program).split() == ["5"]
