"""What the terminal tells at the end of a run."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
from typing import Any

from detection_core.storage import files
from pipeline.local.run_record import RunRecord
from pipeline.tables import table

_logger = logging.getLogger(__name__)

_METRIC = "DetectionBoxes_Precision/mAP@.50IOU"
_MAIN_METRIC = "DetectionBoxes_Precision/mAP"


@dataclasses.dataclass(frozen=True)
class RunSummary:
    """A run in short.

    Attributes:
        text: for a terminal.
        data: the same for `--json`.
    """

    text: str
    data: dict[str, Any]


def summarise(record: RunRecord) -> RunSummary:
    """Return metrics, decision and places of a finished run; parts that did not happen are left out."""
    outputs = {step.id: step.outputs for step in record.steps}

    def read(step: str, output: str, name: str) -> dict[str, Any] | None:
        return _read(os.path.join(outputs.get(step, {}).get(output, ""), name))

    models = _model_rows(
        read("evaluator", "evaluation", "metrics.json"),
        read("quantized_evaluator", "evaluation", "metrics.json"),
        read("tflite_exporter", "parity", "parity.json"),
    )
    pushed = read("pusher", "pushed_model", "pushed.json")
    places = {
        "report": os.path.join(record.workspace, "runs", record.run_id, "report.html"),
        "model": outputs.get("trainer", {}).get("model", ""),
        "tflite": outputs.get("tflite_exporter", {}).get("tflite", ""),
        "published": (pushed or {}).get("path", ""),
    }
    data = {
        "run": record.run_id,
        "status": record.status,
        "steps": [{"id": s.id, "state": s.state, "seconds": round(s.seconds, 2)} for s in record.steps],
        "models": models,
        "spans": json.loads(record.checks.get("data_spans") or "{}"),
        "pushed": pushed,
        "places": {name: path for name, path in places.items() if path},
    }
    return RunSummary(text=_text(record, data), data=data)


def _read(path: str) -> dict[str, Any] | None:
    """Return a step's JSON; None where there is none, or where it is damaged."""
    if not os.path.isfile(path):
        return None
    try:
        found = json.loads(files.read_text(path))
        _check_shape(found)
    except (OSError, ValueError, RecursionError) as e:
        _logger.warning("run | %s is left out: %s; remove the step's folder and run again", path, e)
        return None
    return dict(found)


def _check_shape(found: Any) -> None:
    """Refuse what is no evaluation, parity report or push report, as far as the summary reads them."""
    if not isinstance(found, dict):
        raise ValueError(f"expected a JSON object, found a {type(found).__name__}")
    for name, kind in (("metrics", dict), ("files", list), ("reasons", list)):
        if not isinstance(found.get(name, kind()), kind):
            raise ValueError(f"expected {name} to be a {kind.__name__}, found {found[name]!r:.80}")
    for values in (found, *found.get("files", [])):
        numbers = values.get("metrics", {}).values() if isinstance(values, dict) else [None, "x"]
        if not all(value is None or isinstance(value, int | float) for value in numbers):
            raise ValueError("expected numbers in metrics, found something else")


def _model_rows(*reports: dict[str, Any] | None) -> list[dict[str, Any]]:
    evaluated, quantized, parity = reports
    rows = [
        {"model": name, "map_50": report["metrics"].get(_METRIC), "map": report["metrics"].get(_MAIN_METRIC)}
        | {"blessed": report["blessed"]}
        for name, report in (("SavedModel", evaluated), ("quantized SavedModel", quantized))
        if report
    ]
    rows += [
        {"model": f["file"], "map_50": f["metrics"].get(_METRIC), "map": f["metrics"].get(_MAIN_METRIC)}
        | {"blessed": f["passed"], "size_bytes": f["size_bytes"], "latency_ms": f["latency_ms"]}
        for f in (parity or {}).get("files", [])
    ]
    return rows


def _text(record: RunRecord, data: dict[str, Any]) -> str:
    steps = [("step", "state", "seconds")]
    steps += [(s.id, s.state, f"{s.seconds:.1f}") for s in record.steps]
    parts = [f"{record.pipeline_name} {record.run_id}: {record.status}", table(steps)]
    if data["spans"]:
        train, evaluate = (", ".join(data["spans"][name]) for name in ("train", "evaluate"))
        parts.append(f"spans: {train} to train on, {evaluate} for the other splits")
    if data["models"]:
        rows = [("model", "mAP@.50", "mAP@[.50:.95]", "gate")]
        rows += [
            (m["model"], _number(m["map_50"]), _number(m["map"]), "passed" if m["blessed"] else "refused")
            for m in data["models"]
        ]
        parts.append(table(rows))
    pushed = data["pushed"]
    if pushed:
        verdict = f"published as version {pushed['version']}" if pushed["pushed"] else "not published"
        parts.append(f"{verdict}: {'; '.join(pushed['reasons'])}")
    if data["places"]:
        parts.append(table([(name, path) for name, path in data["places"].items()]))
    return "\n\n".join(parts)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
