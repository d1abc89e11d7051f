"""The compiled digits workflow under KFP's own local runner, each step in a container."""

import contextlib
import dataclasses
import io
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.end_to_end.conftest import ROOT, SMALL, environment

USER = 13579


@dataclasses.dataclass(frozen=True)
class Run:
    """What a run left behind."""

    folder: Path  # of its steps' outputs; one that is not there where no step made any
    log: str  # what the steps and the runner wrote
    failed: str  # the runner's message when a step failed; "" otherwise

    @property
    def executed(self) -> set[str]:
        """Ids of the steps that a container was started for; the cache answered for the others."""
        return {line.split("'")[1] for line in self.log.splitlines() if "Executing task" in line}

    def output(self, step: str, name: str) -> Path:
        """Return an artifact of a step that was executed."""
        return self.folder / step / name

    def decision(self) -> dict:
        """Return what Pusher wrote."""
        return json.loads((self.output("pusher", "pushed_model") / "pushed.json").read_text())


class LocalPipeline:
    """The digits workflow, compiled for an image; its folders stay from run to run, and so does the cache."""

    def __init__(self, folder: Path, scenes: Path, image: str):
        self.image, self.scenes = image, scenes
        self.pushed, self.work, self._root = (folder / n for n in ("pushed", "work", "root"))
        for place in (self.pushed, self.work, self._root):
            place.mkdir(mode=0o777)

    def compile(self, *overrides: str) -> Path:
        """Compile the workflow with further settings, and return the package."""
        sets = (
            f"data.path={self.scenes}",
            f"kubeflow.image={self.image}",
            "kubeflow.image_parameter=false",  # KFP's local runner takes no image from a parameter
            "kubeflow.schedule_time=false",  # and breaks where a scheduled time is asked for
            f"kubeflow.work_dir={self.work}",
            f"push.destination={self.pushed}",
            "kubeflow.steps={trainer: {retries: 1, retry_delay: 0s}}",
        )
        package = self.work.parent / f"pipeline{len(overrides)}.yaml"
        settings = ROOT / "examples" / "digits" / "settings.yaml"
        command = [sys.executable, "-m", "pipeline.cli", "compile", settings, "-o", package]
        flags = [f"--set={s}" for s in (*SMALL, *sets, *overrides)]
        subprocess.run([*command, *flags], check=True, timeout=120, env=environment())
        return package

    @property
    def pointer(self) -> dict:
        """The push destination's pointer to the deployed version."""
        return json.loads((self.pushed / "current.json").read_text())

    @property
    def record(self) -> dict:
        """What Pusher wrote down about the deployed version."""
        return json.loads((self.pushed / "versions" / f"{self.pointer['version']}.json").read_text())

    def run(self, package: Path, watch=None, **arguments) -> Run:
        """Run a package to its end, with parameters of the pipeline that differ from its defaults.

        `watch` is called with the log so far, in a thread, again and again until it returns True.
        """
        from kfp import components, local

        import docker

        mounts = [
            docker.types.Mount(str(place), str(place), type="bind", read_only=place == self.scenes)
            for place in (self.scenes, self.pushed, self.work)
        ]
        rights = {"read_only": True, "user": str(USER), "cap_drop": ["ALL"], "tmpfs": {"/tmp": "mode=1777"}}
        rights |= {"network_mode": "none", "security_opt": ["no-new-privileges"]}
        runner = local.DockerRunner(**rights, mounts=mounts)
        local.init(runner=runner, pipeline_root=str(self._root), enable_caching=True)
        pipeline = components.load_component_from_file(str(package))
        before, log, failed = set(self._runs()), io.StringIO(), ""
        with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log), _watching(log, watch):
            try:
                pipeline(**arguments)
            except (RuntimeError, ValueError) as e:
                # A container that ends at once may be gone before the runner asks for its exit code, which it
                # then takes for 0; what it notices is that the step's outputs are missing.
                failed = f"{type(e).__name__}: {e}"
        made = set(self._runs()) - before
        return Run(made.pop() if made else self._root / "none", log.getvalue(), failed)

    def _runs(self) -> list[Path]:
        return [path for path in self._root.iterdir() if path.is_dir() and not path.name.startswith(".")]


@contextlib.contextmanager
def _watching(log, watch):
    over = threading.Event()

    def look():
        while not over.is_set() and not watch(log.getvalue()):
            time.sleep(0.1)

    thread = threading.Thread(target=look)
    if watch:
        thread.start()
    try:
        yield
    finally:
        over.set()
        if watch:
            thread.join()
