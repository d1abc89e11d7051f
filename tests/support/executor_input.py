"""A step as Kubeflow Pipelines' driver and launcher run it: what they hand over and what they read back.

`run_step` takes the command and arguments from the component's YAML. Without a container it runs them with
this Python, or in this process, object stores redirected below a folder; `prefix` puts `docker run ... IMAGE`
in front, where the folder's `minio` is mounted as `/minio` and `tmp` as the container's `/tmp`.
"""

import contextlib
import dataclasses
import io
import json
import logging
import os
import runpy
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

from component_specs.kfp_yaml import FOLDER

BUCKET = "minio://mlpipeline/v2/artifacts/digits/run-1"
# What KFP adds to a task whose image comes from a parameter, though its component declares neither.
IMAGE_PARAMETERS = {
    "base_image": "{{$.inputs.parameters['pipelinechannel--image']}}",
    "pipelinechannel--image": "detflow:0.1.0",
}


def through_metadata_store(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What an artifact's metadata look like to the next step: KFP's conversion to ML Metadata and back.

    As a run on KFP 2.17.0 showed: a bool is stored as an int and arrives as 0 or 1, every other number as a
    double; the list `confidenceMetrics` arrives as {"list": ...}, the map `confusionMatrix` as
    {"struct": ...}.
    """

    def convert(value: Any) -> Any:
        if value is None:
            raise ValueError("the metadata store takes no null")
        if isinstance(value, str):
            return value
        if isinstance(value, int | float):
            return int(value) if isinstance(value, bool) else float(value)
        return {"list": value} if isinstance(value, list) else {"struct": value}

    added = {"display_name": "made", "store_session_info": '{"Provider":"minio"}'}
    return {**{name: convert(value) for name, value in metadata.items()}, **added}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finished:
    """A step that has run."""

    code: int  # exit code
    log: str  # standard error
    # output name to the artifact in the executor output; empty where none was written
    artifacts: Mapping[str, Mapping[str, Any]]
    parameters: Mapping[str, str]  # output parameter to the text in its file
    folder: Mapping[str, Path]  # output name to where it lies on this machine


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cluster:
    """The places of a pretended cluster."""

    root: Path  # folder below which `minio` and `tmp` lie
    prefix: Sequence[str] = ()  # what runs the YAML's command; empty: this Python
    in_process: bool = False  # whether steps run in this process, where TensorFlow is imported already
    source: str = ""  # folder with the packages to run; empty: this checkout
    # whether the prefix starts a container, with `minio` and `tmp` at their real places
    in_container: bool = False
    scheduled_time: str = "2026-11-21T03:00:00Z"  # what the driver knows of the run's slot
    run_id: str = "5f0e6f6e-5a7e-4d4c-9d0e-3f1f1a7f6a10"  # of the run on the server

    def local(self, uri: str) -> Path:
        """Return where an artifact lies on this machine."""
        return self.root / uri.replace("://", "/")

    def artifact(self, uri: str, metadata: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return an input artifact as the driver gives it: without a type, metadata through the store."""
        return {
            "name": "7",
            "type": {"instanceSchema": ""},
            "uri": uri,
            "metadata": through_metadata_store(metadata or {}),
        }

    def run_step(
        self,
        component: str,
        parameters: Mapping[str, Any],
        inputs: Mapping[str, Mapping[str, Any]] | None = None,
        task: str = "",
    ) -> Finished:
        """Run a component's YAML; inputs are from `artifact`, and the task has its name unless given one."""
        spec = yaml.safe_load((FOLDER / f"{component}.yaml").read_text(encoding="utf-8"))
        (body,) = spec["components"].values()
        container = spec["deploymentSpec"]["executors"][body["executorLabel"]]["container"]
        return self.run_task(body, container, parameters, inputs or {}, task or component)

    def run_task(
        self,
        body: Mapping[str, Any],
        container: Mapping[str, Any],
        parameters: Mapping[str, Any],
        inputs: Mapping[str, Mapping[str, Any]],
        task: str,
    ) -> Finished:
        """Run the executor of a component, whose interface is `body`, as in a compiled pipeline."""
        tmp = Path("/tmp") if self.in_container else self.root / "tmp"
        call = executor_input(body, parameters, inputs, f"{BUCKET}/{task}", str(tmp / task))
        for entry in call["outputs"]["artifacts"].values():
            self.local(entry["artifacts"][0]["uri"]).parent.mkdir(parents=True, exist_ok=True)
        command = self._command(container, call)
        if self.in_process:
            return self._finished(call, *_run_here(command[2], command[3:]), self.root / "tmp" / task)
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=600, check=False, cwd=self.source or None
        )
        return self._finished(call, done.returncode, done.stderr, self.root / "tmp" / task)

    def _command(self, container: Mapping[str, Any], call: Mapping[str, Any]) -> list[str]:
        command, arguments = list(container["command"]), list(container["args"])
        if not self.in_container:
            command[0] = sys.executable
            arguments += ["--root", str(self.root)]
        text = json.dumps(call, separators=(",", ":"))
        return [*self.prefix, *command, *(a.replace("{{$}}", text) for a in arguments)]

    def _finished(self, call: Mapping[str, Any], code: int, log: str, tmp: Path) -> Finished:
        outputs = call["outputs"]
        written = tmp / "outputs" / "executor_output.json"
        report = json.loads(written.read_text()) if written.exists() else {}
        files = {name: tmp / "parameters" / name for name in outputs["parameters"]}
        return Finished(
            code=code,
            log=log,
            artifacts={n: entry["artifacts"][0] for n, entry in report.get("artifacts", {}).items()},
            parameters={name: path.read_text() for name, path in files.items() if path.exists()},
            folder={n: self.local(e["artifacts"][0]["uri"]) for n, e in outputs["artifacts"].items()},
        )


def executor_input(
    body: Mapping[str, Any],
    parameters: Mapping[str, Any],
    inputs: Mapping[str, Mapping[str, Any]],
    uri: str,
    tmp: str,
) -> dict[str, Any]:
    """Return the JSON that stands for `{{$}}`.

    The driver puts defaults in for parameters that the caller does not set, whole numbers as floats. Outputs
    lie below `uri`; the output file and parameters in `tmp`, where neither is made beforehand.
    """
    taken, given = body.get("inputDefinitions", {}), body.get("outputDefinitions", {})
    defaults = {n: p["defaultValue"] for n, p in taken.get("parameters", {}).items() if "defaultValue" in p}
    outputs = {
        name: {"name": name, "type": a["artifactType"], "uri": f"{uri}/{name}", "metadata": {}}
        for name, a in given.get("artifacts", {}).items()
    }
    log = {"name": "executor-logs", "type": {"schemaTitle": "system.Artifact"}, "uri": f"{uri}/executor-logs"}
    outputs["executor-logs"] = log
    return {
        "inputs": {
            "parameterValues": {**defaults, **parameters, **IMAGE_PARAMETERS},
            "artifacts": {name: {"artifacts": [artifact]} for name, artifact in inputs.items()},
        },
        "outputs": {
            "artifacts": {name: {"artifacts": [artifact]} for name, artifact in outputs.items()},
            "parameters": {n: {"outputFile": f"{tmp}/parameters/{n}"} for n in given.get("parameters", {})},
            "outputFile": f"{tmp}/outputs/executor_output.json",
        },
    }


def _run_here(module: str, arguments: Sequence[str]) -> tuple[int, str]:
    """Run a step's module as its process would; return exit code and log."""
    log, code, root = io.StringIO(), 0, logging.getLogger()
    handler, level = logging.StreamHandler(log), root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    with (
        mock.patch.dict(os.environ),
        mock.patch.object(sys, "argv", [module, *arguments]),
        mock.patch.object(sys, "excepthook", sys.excepthook),
        contextlib.redirect_stderr(log),
    ):
        try:
            runpy.run_module(module, run_name="__main__")
        except SystemExit as e:
            code = int(e.code or 0)
        except Exception:
            log.write(traceback.format_exc())
            code = 1
        finally:
            root.removeHandler(handler)
            root.setLevel(level)
    return code, log.getvalue()
