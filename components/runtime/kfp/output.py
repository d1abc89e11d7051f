"""Write the result of a step for Kubeflow Pipelines: executor output and output parameters."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from typing import Any

from component_specs import JOBS
from component_specs.annotations import job_fields
from component_specs.codecs import Scalar
from component_specs.kfp_outputs import KFP_OUTPUTS
from components.runtime.bind import ABSENT
from components.runtime.kfp.artifacts import IS_ABSENT, make_metadata
from components.runtime.kfp.call import KfpCall
from components.runtime.kfp.views import draw_view
from detection_core.storage import files
from detection_core.training.memory import PEAK_MEMORY, peak_host_memory

_logger = logging.getLogger(__name__)


def write_output(call: KfpCall, report: Mapping[str, Any] | None) -> None:
    """Write views, output parameters and, last and atomically, the executor output."""
    report = report or {}
    metadata = {**_describe_outputs(call, report), **_draw_views(call, report)}
    # Keep KFP's uri, or the launcher would not find the files to upload. List every output, because the local
    # runner knows only listed ones.
    artifacts = {
        name: {"artifacts": [{**_identity(artifact), "metadata": metadata[name]}]}
        for name, artifact in call.artifacts.items()
    }
    codecs = KFP_OUTPUTS[call.component].results
    for name, path in call.result_files.items():
        files.write_text(path, _result_text(codecs[name].encode(report[name])))
    files.write_text(call.output_file, json.dumps({"artifacts": artifacts}, allow_nan=False))


def _identity(artifact: Mapping[str, Any]) -> dict[str, Any]:
    return {key: artifact[key] for key in ("name", "uri") if key in artifact}


def _result_text(value: Scalar) -> str:
    """Return an output parameter as KFP reads it: texts unchanged, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, allow_nan=False)


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
    for name in KFP_OUTPUTS[call.component].views:
        if name not in call.paths:
            continue
        metadata[name] = {}
        try:
            view = draw_view(call.component, name, call.job, report)
            files.write_text(call.paths[name], view.content)
            metadata[name] = view.metadata
        except Exception:
            # Never fail the step because its visualisation failed.
            _logger.exception("view | %s could not be drawn", name)
    return metadata
