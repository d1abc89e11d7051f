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


def through_task_api(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What an artifact's metadata look like to the next step on Kubeflow Pipelines 3: as JSON keeps them.

    kubeflow/pipelines#13986 at 6585b5143d, below `backend/src`: the launcher sends them as protobuf values
    (`v2/component/launcher_v2.go:935`), the server keeps JSON (`apiserver/model/artifact.go:34`), and the
    next driver hands them on (`v2/driver/container.go:750`). Nothing is added or wrapped, and a bool stays
    one. Go's numbers are floats, which it writes without a fraction where they have none.
    """
    return json.loads(json.dumps(metadata, allow_nan=False), parse_float=_whole)


def _whole(text: str) -> float | int:
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < 1e21 else number


def launcher_refusals(outputs: Mapping[str, Any], written: Mapping[str, Any], find: Any) -> list[str]:
    """Return why the launcher or the server of Kubeflow Pipelines 3 fails a step that exited with 0.

    The same commit. `outputs` are those of the executor input, `written` the artifacts of the executor
    output; `find` gives the place of an artifact's URI on this machine.
    """
    refused = []
    for name, entry in outputs.items():
        [artifact] = entry["artifacts"]
        title = artifact["type"].get("schemaTitle", "")
        metadata = {**artifact.get("metadata", {}), **written.get(name, {}).get("metadata", {})}
        if title == "system.Metrics":
            # Each is a separate artifact, without a file (`v2/component/launcher_v2.go:908`).
            odd = [k for k, v in metadata.items() if isinstance(v, bool) or not isinstance(v, int | float)]
            refused += [f'metric value "{key}" must be a number' for key in odd]
            # `apiserver/model/artifact.go:30`, a column of 128 characters.
            refused += [f"Data too long for column 'Name': {key}" for key in metadata if len(key) > 128]
        elif title in ("system.ClassificationMetrics", "system.SlicedClassificationMetrics"):
            # `apiserver/server/artifact_server.go:841`
            refused += [] if metadata else [f"No metric or metadata was found for {title} artifact"]
        elif name != "executor-logs" and not find(artifact["uri"]).exists():
            # `v2/component/launcher_v2.go:958`; until 2.18 a warning.
            refused.append(f'declared output artifact "{name}" is missing')
    return refused


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
    keeps_tasks: bool = False  # whether driver and launcher are those of Kubeflow Pipelines 3

    def local(self, uri: str) -> Path:
        """Return where an artifact lies on this machine."""
        return self.root / uri.replace("://", "/")

    def artifact(self, uri: str, metadata: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return an input artifact as the driver gives it: without a type, metadata through the store.

        From 3.0 on with its output's name, an id and a type (`v2/driver/container.go:750`).
        """
        if self.keeps_tasks:
            return {
                "name": uri.rpartition("/")[2],
                "artifactId": "a0b1c2d3-0000-4000-8000-000000000000",
                "type": {"schemaTitle": "Artifact"},
                "uri": uri,
                "metadata": through_task_api(metadata or {}),
            }
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
        if self.keeps_tasks:
            # Beside the artifacts, in the root folder of the task (`v2/driver/driver.go:755`).
            root = "/minio" if self.in_container else str(self.root / "minio")
            place = f"{root}/{BUCKET.partition('://')[2]}/{task}/output_metadata.json"
            call["outputs"]["outputFile"] = place
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
        if self.keeps_tasks:
            written = self.local(f"{BUCKET}/{tmp.name}/output_metadata.json")
        report = json.loads(written.read_text()) if written.exists() else {}
        files = {name: tmp / "parameters" / name for name in outputs["parameters"]}
        artifacts = {n: entry["artifacts"][0] for n, entry in report.get("artifacts", {}).items()}
        if self.keeps_tasks and code == 0:
            refused = launcher_refusals(outputs["artifacts"], artifacts, self.local)
            code, log = int(bool(refused)), "\n".join([log, *refused])
        return Finished(
            code=code,
            log=log,
            artifacts=artifacts,
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
