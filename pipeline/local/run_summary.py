"""Summary at the end of a run, for the terminal."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from detection_core.artifacts.data_findings import FINDINGS, DataFindings
from detection_core.artifacts.evaluation import MAP, MAP_50, METRICS, SHAPE_MAP_50, EvalReport
from detection_core.artifacts.json_file import JsonFile
from detection_core.artifacts.json_values import encode
from detection_core.artifacts.parity import PARITY, ParityReport
from detection_core.artifacts.published import PUSHED
from detection_core.artifacts.run_info import RunInfo
from pipeline.local.workspace import Workspace
from pipeline.tables import Page, Table

_Artifact = TypeVar("_Artifact")


def summarise(run: RunInfo) -> tuple[Page, dict[str, Any]]:
    """Return metrics, decision and paths of a finished run, without parts that it did not reach.

    The first form is for a terminal, the second for scripts.
    """
    outputs = {step.id: step.outputs for step in run.steps}

    def read(artifact: JsonFile[_Artifact], step: str, output: str) -> _Artifact | None:
        return artifact.find_usable(outputs.get(step, {}).get(output, ""))

    models = _model_rows(
        read(METRICS, "evaluator", "evaluation"),
        read(METRICS, "quantized_evaluator", "evaluation"),
        read(PARITY, "tflite_exporter", "parity"),
    )
    pushed = read(PUSHED, "pusher", "pushed_model")
    paths = {
        "report": Workspace(run.workspace).report_path(run.run_id),
        "model": outputs.get("trainer", {}).get("model", ""),
        "tflite": outputs.get("tflite_exporter", {}).get("tflite", ""),
        "published": pushed.path if pushed else "",
    }
    data = {
        "run": run.run_id,
        "status": run.status,
        "steps": [{"id": s.id, "state": s.state, "seconds": round(s.seconds, 2)} for s in run.steps],
        "validation": _validation(read(FINDINGS, "data_validator", "anomalies")),
        "models": models,
        "spans": json.loads(run.checks.get("data_spans") or "{}"),
        "pushed": encode(pushed) if pushed else None,
        "places": {name: path for name, path in paths.items() if path},
    }
    return _page(run, data), data


def _validation(found: DataFindings | None) -> dict[str, Any] | None:
    if found is None:
        return None
    findings = [{"id": f.id, "severity": f.severity, "message": f.message} for f in found.findings]
    return {"blessed": not found.reasons, "findings": findings}


def _model_rows(
    evaluated: EvalReport | None, quantized: EvalReport | None, parity: ParityReport | None
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {"model": name, **_measured(report.metrics), "blessed": report.blessed}
        for name, report in (("SavedModel", evaluated), ("quantized SavedModel", quantized))
        if report
    ]
    rows += [
        {"model": f.file, **_measured(f.metrics), "blessed": f.passed}
        | {"size_bytes": f.size_bytes, "latency_ms": f.latency_ms}
        for f in (parity.files if parity else [])
    ]
    return rows


def _measured(metrics: Mapping[str, float | None]) -> dict[str, float | None]:
    """Return mAP of boxes, and mAP@.50 of masks and keypoints where they were measured, by key."""
    shapes = {f"{what}_map_50": metrics[name] for what, name in SHAPE_MAP_50.items() if name in metrics}
    return {"map_50": metrics.get(MAP_50), "map": metrics.get(MAP), **shapes}


def _page(run: RunInfo, data: dict[str, Any]) -> Page:
    steps = [("step", "state", "seconds")]
    steps += [(s.id, s.state, f"{s.seconds:.1f}") for s in run.steps]
    parts: list[str | Table] = [f"{run.pipeline_name} {run.run_id}: {run.status}", Table(steps)]
    if data["spans"]:
        train, evaluate = (", ".join(data["spans"][name]) for name in ("train", "evaluate"))
        parts.append(f"spans: {train} to train on, {evaluate} for the other splits")
    if data["validation"]:
        found = [f"data, {f['severity']}: {f['message']}" for f in data["validation"]["findings"]]
        parts.append("\n".join(found) or "data: no problem was found")
    if data["models"]:
        columns = {"map_50": "mAP@.50", "map": "mAP@[.50:.95]"}
        shapes = {f"{what}_map_50": f"{what} mAP@.50" for what in SHAPE_MAP_50}
        columns |= {key: text for key, text in shapes.items() if any(key in m for m in data["models"])}
        rows: list[tuple[str, ...]] = [("model", *columns.values(), "gate")]
        rows += [
            (
                m["model"],
                *("-" if m.get(key) is None else f"{m[key]:.3f}" for key in columns),
                "passed" if m["blessed"] else "refused",
            )
            for m in data["models"]
        ]
        parts.append(Table(rows))
    pushed = data["pushed"]
    if pushed:
        verdict = f"published as version {pushed['version']}" if pushed["pushed"] else "not published"
        parts.append(f"{verdict}: {'; '.join(pushed['reasons'])}")
    if data["places"]:
        parts.append(Table(list(data["places"].items()), header=False))
    first, *rest = parts
    return Page((first, *(entry for part in rest for entry in ("", part))))
