import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from detection_core.python_process import python_command
from pipeline.cli.parser import main
from tests.support.command_line import FEW_UPDATES
from tests.support.python_traps import set_traps

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "examples" / "digits" / "compose.py"

# The digits workflow made small: what is tested is the way through it, not how well the model gets.
SMALL = (
    "model.ssd.feature_extractor.type=ssd_mobilenet_v1_fpn_keras",  # half the layers of version 2
    "model.ssd.image_resizer={fixed_shape_resizer {height: 64 width: 64}}",
    *FEW_UPDATES,
    "evaluate.pictures=2",
)
# Leaves out what a test is not about.
SHORT = ("quantize.enabled=false", "export.formats=[float32]")


class Workflow:
    """The digits example in a separate folder, run as a user would, from a folder with traps."""

    def __init__(self, folder, scenes):
        self.workspace = folder / "workspace"
        self._cwd = folder / "started_in"
        self._executed = set_traps(self._cwd)
        self.settings = ROOT / "examples" / "digits" / "settings.yaml"
        self._places = (f"workspace={self.workspace}", f"data.path={scenes}")

    def sets(self, *overrides):
        return [f"--set={change}" for change in (*self._places, *SMALL, *overrides)]

    def call(self, verb, *arguments, code=0):
        """Run a verb to its end in this process and return what it printed as JSON."""
        words, printed = [verb, *map(str, arguments), "--json"], io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.chdir(self._cwd):
            found = main(words)
        assert not self._executed.exists(), self._executed.read_text()
        assert found == code, f"exit {found}\n{printed.getvalue()}"
        return json.loads(printed.getvalue())

    def call_process(self, verb, *arguments, code=0):
        """Run it in a child process, as a user does."""
        process = self.start(verb, *arguments, "--json", stdout=subprocess.PIPE)
        out, error = process.communicate(timeout=900)
        assert not self._executed.exists(), self._executed.read_text()
        assert process.returncode == code, f"exit {process.returncode}\n{out}\n{error}"
        return json.loads(out)

    def run(self, *overrides, code=0):
        return self.call("run", self.settings, *self.sets(*overrides), code=code)

    def start(self, verb, *arguments, stdout=subprocess.DEVNULL):
        """Start a verb and return its process."""
        command = [*python_command("pipeline.cli"), verb, *map(str, arguments)]
        pipes = {"stdout": stdout, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, **pipes, env=environment(), cwd=self._cwd)


def environment():
    return {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}


def states(summary):
    return {step["id"]: step["state"] for step in summary["steps"]}


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenes") / "scenes"
    counts = ["--train", "12", "--eval", "8", "--test", "4"]
    subprocess.run([sys.executable, str(COMPOSE), str(folder), *counts], check=True, timeout=900)
    return folder
