"""How good the detectors are: metrics, verdicts, curves, confusion and mistakes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

from detection_core.artifacts.coco_names import MAP, MAP_50
from detection_core.artifacts.evaluation import CURVES, METRICS, Confusion, Curves, ThresholdVerdict
from detection_core.artifacts.parity import ParityReport
from detection_core.artifacts.pictures import FALSE_POSITIVE, MISS, SIDE_BY_SIDE
from pipeline.report.artifacts import RunArtifacts, find, unless_damaged
from pipeline.report.charts import MAX_LINES, ChartOptions, Line, line_chart
from pipeline.report.pictures import PictureBudget

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
_FULL = {SIDE_BY_SIDE: 12, FALSE_POSITIVE: 12, MISS: 12}
_SHORT = {SIDE_BY_SIDE: 4, FALSE_POSITIVE: 6, MISS: 6}


def evaluations(artifacts: RunArtifacts, budget: PictureBudget) -> list[dict[str, Any]]:
    """Return what each Evaluator of the run found, for the page."""
    found: list[dict[str, Any]] = []
    for step in artifacts.steps_of("evaluator"):
        folder = step.outputs.get("evaluation", "")
        report = find(METRICS, folder)
        if report is None:
            continue
        title, limits = TITLES.get(step.id, step.id), _SHORT if found else _FULL
        pictures = unless_damaged(partial(budget.embed, folder, limits), f"{folder}/pictures", {})
        curves = find(CURVES, folder)
        entry = {
            "title": title,
            "folder": folder,
            "metrics": report,
            "verdicts": [_short(v) for v in report.thresholds],
            **(_curves(curves, title) if curves else {}),
        }
        found.append({"id": step.id, **entry, "pictures": pictures})
    return found


def _short(verdict: ThresholdVerdict) -> ThresholdVerdict:
    """Take the metric's name off the text, which stands below it."""
    return dataclasses.replace(verdict, text=verdict.text.removeprefix(f"{verdict.metric} "))


def metric_table(evaluated: list[dict[str, Any]], parity: ParityReport | None) -> dict[str, Any] | None:
    """Return columns of detectors and rows of metrics; None where nothing was measured."""
    columns: list[tuple[str, Mapping[str, float | None]]] = []
    for entry in evaluated:
        columns.append((entry["title"], entry["metrics"].metrics))
        baseline = entry["metrics"].baseline
        # The quantized detector's baseline is the float one, which has a column already.
        if baseline and entry is evaluated[0]:
            columns.append(("Deployed baseline", baseline))
    columns += [(f.file, f.metrics) for f in (parity.files if parity else [])]
    if not columns:
        return None
    rows = [
        {"name": name, "words": words, "values": [metrics.get(name) for _, metrics in columns]}
        for name, words in METRIC_ROWS.items()
    ]
    return {"columns": [title for title, _ in columns], "rows": rows}


def _curves(curves: Curves, title: str) -> dict[str, Any]:
    drawn = [c for c in curves.classes if c.precision]
    weakest = sorted(drawn, key=lambda c: c.ap50 or 0.0)[:MAX_LINES]
    kept = [c for c in drawn if c in weakest]
    lines = [
        Line(label=f"{c.name}  {c.ap50 or 0.0:.2f}", x=c.recall, y=c.precision, series=i)
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
        "classes": curves.classes,
        "score_threshold": curves.score_threshold,
        "pr_chart": line_chart(lines, options) if lines else "",
        "pr_left_out": len(drawn) - len(kept),
        "confusion": _confusion(curves.confusion),
    }


def _confusion(confusion: Confusion | None) -> dict[str, Any] | None:
    """Return the matrix with each count's share of its row, which shades its cell."""
    if not confusion or len(confusion.labels) > 32:
        return None
    rows = []
    for k, (label, counts) in enumerate(zip(confusion.labels, confusion.matrix, strict=True)):
        total = max(sum(counts), 1)
        cells = [
            {"count": count, "share": round(100 * count / total), "right": k == j}
            for j, count in enumerate(counts)
        ]
        rows.append({"label": label, "cells": cells})
    return {"labels": confusion.labels, "rows": rows}
