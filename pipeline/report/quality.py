"""How good the detectors are: metrics, verdicts, curves, confusion and mistakes."""

from __future__ import annotations

from functools import partial
from typing import Any

from pipeline.report.artifacts import RunArtifacts, read_json, unless_damaged
from pipeline.report.charts import MAX_LINES, ChartOptions, Line, line_chart
from pipeline.report.pictures import PictureBudget

MAP = "DetectionBoxes_Precision/mAP"
MAP_50 = "DetectionBoxes_Precision/mAP@.50IOU"
# Rows of the table of metrics, in words.
METRIC_ROWS = {
    MAP: "mAP, IoU .50 to .95",
    MAP_50: "mAP at IoU .50",
    "DetectionBoxes_Precision/mAP@.75IOU": "mAP at IoU .75",
    "DetectionBoxes_Precision/mAP (small)": "mAP, small objects",
    "DetectionBoxes_Precision/mAP (medium)": "mAP, medium objects",
    "DetectionBoxes_Precision/mAP (large)": "mAP, large objects",
    "DetectionBoxes_Recall/AR@1": "recall, 1 detection an image",
    "DetectionBoxes_Recall/AR@10": "recall, 10 detections",
    "DetectionBoxes_Recall/AR@100": "recall, 100 detections",
    "DetectionBoxes_Recall/AR@100 (small)": "recall, small objects",
    "DetectionBoxes_Recall/AR@100 (medium)": "recall, medium objects",
    "DetectionBoxes_Recall/AR@100 (large)": "recall, large objects",
}
TITLES = {"evaluator": "Float detector", "quantized_evaluator": "Quantized detector"}
# The first detector is shown in full, further ones in short: their mistakes are mostly the same.
_FULL = {"side_by_side": 12, "false_positive": 12, "miss": 12}
_SHORT = {"side_by_side": 4, "false_positive": 6, "miss": 6}


def evaluations(artifacts: RunArtifacts, budget: PictureBudget) -> list[dict[str, Any]]:
    """Return what each Evaluator of the run found, for the page."""
    found: list[dict[str, Any]] = []
    for step in artifacts.steps_of("evaluator"):
        folder = step.outputs.get("evaluation", "")
        metrics = read_json(folder, "metrics.json")
        if metrics is None:
            continue
        title, limits = TITLES.get(step.id, step.id), _SHORT if found else _FULL
        entry = unless_damaged(partial(_evaluation, metrics, title, folder), f"{folder}/metrics.json", None)
        if entry is None:
            continue
        pictures = unless_damaged(partial(budget.embed, folder, limits), f"{folder}/pictures", {})
        curves = unless_damaged(partial(_curves, folder, title), f"{folder}/curves.json", {})
        found.append({"id": step.id, **entry, "pictures": pictures, **curves})
    return found


def _evaluation(metrics: dict[str, Any], title: str, folder: str) -> dict[str, Any]:
    for values in (metrics["metrics"], metrics.get("baseline") or {}):
        if not all(value is None or isinstance(value, int | float) for value in values.values()):
            raise ValueError("expected numbers in metrics")
    verdicts = [_short(v) for v in metrics.get("thresholds", [])]
    return {"title": title, "folder": folder, "metrics": metrics, "verdicts": verdicts}


def _short(verdict: dict[str, Any]) -> dict[str, Any]:
    """Take the metric's name off the text, which stands below it."""
    return verdict | {"text": str(verdict.get("text", "")).removeprefix(f"{verdict.get('metric')} ")}


def metric_table(evaluated: list[dict[str, Any]], parity: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return columns of detectors and rows of metrics; None where nothing was measured."""
    columns: list[tuple[str, dict[str, Any]]] = []
    for entry in evaluated:
        columns.append((entry["title"], entry["metrics"].get("metrics", {})))
        baseline = entry["metrics"].get("baseline")
        # The quantized detector's baseline is the float one, which has a column already.
        if baseline and entry is evaluated[0]:
            columns.append(("Deployed baseline", baseline))
    columns += [(f["file"], f["metrics"]) for f in (parity or {}).get("files", [])]
    if not columns:
        return None
    rows = [
        {"name": name, "words": words, "values": [metrics.get(name) for _, metrics in columns]}
        for name, words in METRIC_ROWS.items()
    ]
    return {"columns": [title for title, _ in columns], "rows": rows}


def _curves(folder: str, title: str) -> dict[str, Any]:
    curves = read_json(folder, "curves.json")
    if not curves:
        return {}
    classes = curves.get("classes", [])
    drawn = [c for c in classes if c.get("precision")]
    weakest = sorted(drawn, key=lambda c: c["ap50"])[:MAX_LINES]
    kept = [c for c in drawn if c in weakest]
    lines = [
        Line(label=f"{c['name']}  {c['ap50']:.2f}", x=c["recall"], y=c["precision"], series=i)
        for i, c in enumerate(kept)
    ]
    options = ChartOptions(
        title=f"Precision over recall at IoU .50, {title.lower()}; AP beside the class",
        x_label="recall",
        y_label="precision",
        unit_square=True,
        legend_outside=True,
        size=(7.2, 3.9),
    )
    return {
        "classes": classes,
        "score_threshold": curves.get("score_threshold"),
        "pr_chart": line_chart(lines, options) if lines else "",
        "pr_left_out": len(drawn) - len(kept),
        "confusion": _confusion(curves.get("confusion")),
    }


def _confusion(confusion: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the matrix with each count's share of its row, which shades its cell."""
    if not confusion or len(confusion["labels"]) > 32:
        return None
    rows = []
    for k, (label, counts) in enumerate(zip(confusion["labels"], confusion["matrix"], strict=True)):
        total = max(sum(counts), 1)
        cells = [
            {"count": count, "share": round(100 * count / total), "right": k == j}
            for j, count in enumerate(counts)
        ]
        rows.append({"label": label, "cells": cells})
    return {"labels": confusion["labels"], "rows": rows}
