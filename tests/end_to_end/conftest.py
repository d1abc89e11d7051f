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
from tests.support.python_traps import set_traps

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "examples" / "digits" / "compose.py"

# The digits workflow made small: what is tested is the way through it, not how well the model gets.
SMALL = (
    "model.ssd.image_resizer={fixed_shape_resizer {height: 96 width: 96}}",
    "train_config.batch_size=4",
    "train.overrides.train_config.num_steps=12",
    "quantize.overrides.train_config.num_steps=4",
    "evaluate.thresholds={}",
    "evaluate.quantized_thresholds={}",
    "export.max_map_drop=1.0",
    "evaluate.pictures=2",
)


class Workflow:
    """The digits example in a folder of its own, run as its user would, from a folder with traps."""

    def __init__(self, folder, scenes):
        self.workspace = folder / "workspace"
        self._cwd = folder / "started_in"
        self._executed = set_traps(self._cwd)
        self.settings = ROOT / "examples" / "digits" / "settings.yaml"
        self._places = (f"workspace={self.workspace}", f"data.path={scenes}")

    def command(self, verb, *arguments, overrides=(), as_json=True):
        sets = (
            [f"--set={o}" for o in (*self._places, *SMALL, *overrides)] if verb in ("run", "validate") else []
        )
        json_flag = ["--json"] if as_json else []
        return [*python_command("pipeline.cli"), verb, *map(str, arguments), *sets, *json_flag]

    def call(self, verb, *arguments, code=0):
        """Run a verb to its end in this process and return what it printed as JSON."""
        words, printed = [verb, *map(str, arguments), "--json"], io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.chdir(self._cwd):
            found = main(words)
        assert not self._executed.exists(), self._executed.read_text()
        assert found == code, f"exit {found}\n{printed.getvalue()}"
        return json.loads(printed.getvalue())

    def call_process(self, verb, *arguments, overrides=(), code=0):
        """Do so in a process of its own, as a user does."""
        done = subprocess.run(
            self.command(verb, *arguments, overrides=overrides),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            env=environment(),
            cwd=self._cwd,
        )
        assert not self._executed.exists(), self._executed.read_text()
        assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)

    def run(self, *overrides, code=0):
        return self.call_process("run", self.settings, overrides=overrides, code=code)

    def start(self, *overrides):
        """Start a run and return its process."""
        command = self.command("run", self.settings, overrides=overrides, as_json=False)
        return subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            cwd=self._cwd,
        )


def environment():
    return {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}


def states(summary):
    return {step["id"]: step["state"] for step in summary["steps"]}


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenes") / "scenes"
    counts = ["--train", "24", "--eval", "8", "--test", "8"]
    subprocess.run([sys.executable, str(COMPOSE), str(folder), *counts], check=True, timeout=120)
    return folder
