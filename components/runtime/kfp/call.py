"""A call of a step by Kubeflow Pipelines: read its executor input as a Job, and write its result.

Until 2.18 the metadata store changes an input's metadata. A bool comes back as 1 or 0, and an int as a float.
A list comes back as {"list": [...]}, a map as {"struct": {...}}. Each further step wraps lists and maps once
more. A text comes back unchanged. From 3.0 on they come back as written; all numbers are floats for Go.
"""

import argparse
import dataclasses
import json
import logging
import math
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from component_specs import JOBS
from component_specs.annotations import Input, job_fields
from component_specs.kfp_outputs import CURVES, KFP_OUTPUTS, find_mismatch
from components.runtime.bind import ABSENT, fill_job
from components.runtime.kfp.views import Drawn, draw_view
from detection_core.errors import ContractError
from detection_core.storage import files
from detection_core.training.memory import PEAK_MEMORY, peak_host_memory

_logger = logging.getLogger(__name__)

EXECUTOR_INPUT = "--executor_input"
# Keys of the artifact's type, and of its exact properties as one JSON text.
TYPE, PROPERTIES = "artifact_type", "properties"
# Set for an absent artifact; see `bind.ABSENT`.
IS_ABSENT = "absent"

_FOLDERS = {"gs": "gcs", "s3": "s3", "minio": "minio"}
_WORKSPACE = "_kfp_workspace"
_ADDED_BY_KFP = ("display_name", "store_session_info")

Artifact = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class KfpCall:
    """The call of a step.

    Attributes:
        component: key of `JOBS`.
        job: the filled Job.
        artifacts: output or view name to KFP's artifact, if both sides know the name.
        paths: output or view name to its local path.
        result_files: output parameter to its file.
        output_file: file for the executor output.
    """

    component: str
    job: Any
    artifacts: Mapping[str, Artifact]
    paths: Mapping[str, str]
    result_files: Mapping[str, str]
    output_file: str


def is_kfp_call(argv: Sequence[str]) -> bool:
    """Tell whether the arguments are those of KFP."""
    return any(a.split("=")[0] == EXECUTOR_INPUT for a in argv)


def bind_call(component: str, argv: Sequence[str]) -> KfpCall:
    """Read the arguments with which KFP starts a step.

    Raises:
        ConfigError: for an invalid parameter.
        ContractError: when the component YAML does not fit this image, or inputs are missing or wrong.
        SystemExit: from argparse, for an unknown argument.
    """
    parser = argparse.ArgumentParser(description="A step of a Kubeflow pipeline.")
    parser.add_argument(EXECUTOR_INPUT, required=True, help="KFP's executor input, JSON")
    parser.add_argument("--interface", required=True, help="the component's interface, JSON")
    parser.add_argument("--root", default="/", help="folder below which object stores appear, for tests")
    arguments = parser.parse_args(argv)
    mismatch = find_mismatch(_parse(arguments.interface, "--interface"), component)
    if mismatch:
        raise ContractError(
            f"expected a component YAML that fits this image, found that {mismatch}; use the YAML and the"
            " image of one version",
            where=component,
        )
    return _bind(component, _parse(arguments.executor_input, EXECUTOR_INPUT), arguments.root)


def _parse(text: str, where: str) -> dict[str, Any]:
    try:
        return dict(json.loads(text))
    except (TypeError, ValueError) as e:
        raise ContractError(f"expected a JSON object, found {text[:80]!r} ({e})", where=where) from e


def _bind(component: str, executor_input: Mapping[str, Any], root: str) -> KfpCall:
    job_type = JOBS[component]
    fields = job_fields(job_type)
    inputs, outputs = executor_input.get("inputs", {}), executor_input["outputs"]
    carried = inputs.get("parameterValues", {})
    missing = [name for name, p in fields.parameters.items() if carried.get(name) is None and p.required]
    given = {name: entry["artifacts"][0] for name, entry in outputs.get("artifacts", {}).items()}
    missing += [name for name in fields.outputs if name not in given]
    if missing:
        raise ContractError(
            f"expected {', '.join(missing)} in KFP's executor input, found nothing", where=component
        )
    taken = {
        name: _input(name, fields.inputs[name], entry["artifacts"][0], root)
        for name, entry in inputs.get("artifacts", {}).items()
        if name in fields.inputs and entry.get("artifacts")
    }
    # Other outputs that KFP adds, such as the step's log, are written by KFP.
    ours = {n: a for n, a in given.items() if n in fields.outputs or n in KFP_OUTPUTS[component].views}
    paths = {name: local_path(artifact, root) for name, artifact in ours.items()}
    results = outputs.get("parameters", {})
    return KfpCall(
        component=component,
        job=fill_job(job_type, carried, taken, paths),
        artifacts=ours,
        paths=paths,
        result_files={n: results[n]["outputFile"] for n in KFP_OUTPUTS[component].results if n in results},
        output_file=outputs["outputFile"],
    )


def _input(name: str, role: Input, artifact: Artifact, root: str) -> str:
    """Return the path of an input, "" for an absent one."""
    metadata = plain_metadata(artifact)
    kind = metadata.get(TYPE, role.type.name)  # an imported artifact has no type
    if kind != role.type.name:
        raise ContractError(
            f"expected the input {name} to be an artifact of the type {role.type.name}, found one of the type"
            f" {kind}; wire the output that has it",
            where=str(artifact.get("uri", "")),
        )
    path = "" if metadata.get(IS_ABSENT) else local_path(artifact, root)
    _logger.info("input | %s | %s | %s", name, path or "absent", read_properties(artifact))
    return path


def prepare(call: KfpCall) -> None:
    """Empty the output folders, which the local runner may reuse, and make HOME writable."""
    for name, path in call.paths.items():
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.exists(path):
            os.remove(path)
        is_folder = name not in KFP_OUTPUTS[call.component].views
        os.makedirs(path if is_folder else os.path.dirname(path), exist_ok=True)
    if not os.access(os.path.expanduser("~"), os.W_OK):
        os.environ["HOME"] = tempfile.gettempdir()


def write_output(call: KfpCall, report: Mapping[str, Any] | None) -> None:
    """Write views, output parameters and, last and atomically, the executor output."""
    report = report or {}
    metadata = {**_describe_outputs(call, report), **_draw_views(call, report)}
    # Keep KFP's uri, or the launcher would not find the files to upload. List every output, because the local
    # runner knows only listed ones.
    artifacts: dict[str, Any] = {}
    for name, artifact in call.artifacts.items():
        identity = {key: artifact[key] for key in ("name", "uri") if key in artifact}
        artifacts[name] = {"artifacts": [{**identity, "metadata": metadata[name]}]}
    codecs = KFP_OUTPUTS[call.component].results
    for name, path in call.result_files.items():
        value = codecs[name].encode(report[name])
        # KFP reads texts unchanged, everything else as JSON.
        files.write_text(path, value if isinstance(value, str) else json.dumps(value, allow_nan=False))
    files.write_text(call.output_file, json.dumps({"artifacts": artifacts}, allow_nan=False))


def _describe_outputs(call: KfpCall, report: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return each artifact's metadata and the step's peak memory; `run`'s result is of the first one."""
    described, properties, peak = {}, dict(report), peak_host_memory()
    for name, role in job_fields(JOBS[call.component]).outputs.items():
        is_absent = os.path.exists(os.path.join(call.paths[name], ABSENT))
        metadata = make_metadata(role.type.name, {IS_ABSENT: 1} if is_absent else properties)
        described[name] = {PEAK_MEMORY: peak, **metadata}
        properties = {}
    return described


def _draw_views(call: KfpCall, report: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    metadata: dict[str, Mapping[str, Any]] = {}
    for name, declared in KFP_OUTPUTS[call.component].views.items():
        if name not in call.paths:
            continue
        view = Drawn(metadata={}, content="This view could not be drawn; the log of the step says why.\n")
        try:
            view = draw_view(call.component, name, call.job, report)
        except Exception:
            # Never fail the step because its visualisation failed.
            _logger.exception("view | %s could not be drawn", name)
        # From 3.0 on a declared file must exist, and classification metrics have metadata
        # (`v2/component/launcher_v2.go:958`, `apiserver/server/artifact_server.go:841`).
        files.write_text(call.paths[name], view.content)
        is_bare = declared.kfp == CURVES and not view.metadata
        metadata[name] = {"note": "nothing to show"} if is_bare else view.metadata
    return metadata


def local_path(artifact: Artifact, root: str = "/") -> str:
    """Return the local path of an artifact in the container.

    Object stores are mounted below `root`, which is not `/` in tests only.
    """
    if artifact.get("customPath"):
        return str(artifact["customPath"])
    uri = str(artifact.get("uri", ""))
    scheme, separator, rest = uri.partition("://")
    if scheme in _FOLDERS and separator:
        path = os.path.join(_FOLDERS[scheme], rest)
    elif scheme == "oci" and separator:
        path = os.path.join("oci", rest.replace("/", "_"), "models")
    else:
        return uri  # KFP's local runner passes paths
    if plain_metadata(artifact).get(_WORKSPACE):
        path = os.path.join("kfp-workspace", ".artifacts", path)
    return os.path.join(root, path)


def plain_metadata(artifact: Artifact) -> dict[str, Any]:
    """Undo the metadata store's changes to an input artifact's metadata."""
    metadata = artifact.get("metadata") or {}
    return {name: _plain(value) for name, value in metadata.items() if name not in _ADDED_BY_KFP}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        if value.keys() in ({"list"}, {"struct"}):
            return _plain(next(iter(value.values())))
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def read_properties(artifact: Artifact) -> dict[str, Any]:
    """Return an input artifact's properties: exact if our steps made it, else from its metadata."""
    metadata = plain_metadata(artifact)
    try:
        return dict(json.loads(metadata[PROPERTIES]))
    except (KeyError, TypeError, ValueError):
        return {name: value for name, value in metadata.items() if name not in (TYPE, PROPERTIES)}


def make_metadata(artifact_type: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of an output: its type, and its properties for users and for the next step.

    Of the properties, only texts, bools and finite numbers are kept.
    """
    kept = {
        name: value
        for name, value in properties.items()
        if isinstance(value, str | bool) or (isinstance(value, int | float) and math.isfinite(value))
    }
    return {TYPE: artifact_type, **kept, PROPERTIES: json.dumps(kept, allow_nan=False)}
