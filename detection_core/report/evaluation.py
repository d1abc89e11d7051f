"""Evaluation results for a page: metrics, verdicts, curves, confusion matrix and mistakes."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from detection_core.artifacts import evaluation
from detection_core.bounded.plain_yaml import module_table
from detection_core.report.figures import SERIES, Chart, Line, line_chart
from detection_core.report.page import Picture

WORDS = dict(zip(evaluation.COCO_METRICS, module_table(__file__), strict=True))
"""COCO's metrics of boxes in words, in the order of the table."""
SHAPE_WORDS = {
    name: f"{what}, mAP{at}"
    for what, score, names in (
        ("masks", "IoU", evaluation.MASK_METRICS),
        ("keypoints", "OKS", evaluation.KEYPOINT_METRICS),
    )
    for name, at in zip(
        names, (f", {score} .50 to .95", f" at {score} .50", f" at {score} .75"), strict=False
    )
}
"""Metrics of masks and keypoints in words, for detectors that find these."""
_ERRORS = (
    "classification errors", "localization errors", "errors of class and place", "duplicates",
    "detections of background", "missed objects", "false positives", "false negatives",
)  # fmt: skip
TIDE_WORDS = {
    name: f"{what}mAP at IoU .50{more}"
    for what, names in zip(("", "masks, "), evaluation.TIDE_METRICS.values(), strict=True)
    for name, more in zip(names, (" by TIDE", *(f" gained without {e}" for e in _ERRORS)), strict=True)
}
"""TIDE's metrics in words, for evaluations that have them."""

_MAPS = {
    "": evaluation.MAP,
    ", masks": evaluation.MASK_METRICS[0],
    ", keypoints": evaluation.KEYPOINT_METRICS[0],
}
"""Shape in words to its mAP."""


Metrics = Mapping[str, float | None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationSummary:
    """An evaluation's section of a page.

    Attributes:
        id: anchor of the section.
        title: heading.
        report: the measured metrics.
        pictures: kind to pictures.
        folder: of all pictures; "" if the page's readers have no access to it.
        curves: of the classes, if any.
        chart: the curves as one chart, if any.
        left_out: number of classes without a line in the chart.
    """

    id: str
    title: str
    report: evaluation.EvalReport
    pictures: Mapping[str, Sequence[Picture]]
    folder: str = ""
    curves: evaluation.Curves | None = None
    chart: Chart | None = None
    left_out: int = 0

    @property
    def slices(self) -> list[dict[str, Any]]:
        """Rows of the table of slices, one for each shape whose mAP is measured."""
        found, report = [], self.report
        for one in report.slices:
            for shape, of in _MAPS.items():
                metric = evaluation.slice_metric(one.feature, one.value, of)
                row = {"words": f"{one.feature.replace('_', ' ')}: {one.value}{shape}", "slice": one}
                row |= {"map": report.metrics.get(metric), "interval": report.intervals.get(metric)}
                found += [row] * (metric in report.metrics)
        return found


def metric_table(
    columns: Sequence[tuple[str, Metrics]], names: Iterable[str] | None = None
) -> dict[str, Any]:
    """Return a table: one column per (title, metrics), one row per metric name.

    Without names these are the metrics of boxes, and TIDE's and those of shapes that a column has.
    """
    further = SHAPE_WORDS | TIDE_WORDS
    if names is None:
        names = [*WORDS, *(name for name in further if any(name in metrics for _, metrics in columns))]
    words = WORDS | further
    rows = [
        {
            "name": name,
            "words": words.get(name, name),
            "values": [metrics.get(name) for _, metrics in columns],
        }
        for name in names
    ]
    return {"columns": [title for title, _ in columns], "rows": rows}


def curve_chart(curves: evaluation.Curves, title: str) -> tuple[Chart | None, int]:
    """Return the chart of the weakest classes' curves, and the number of omitted classes."""
    drawn = [c for c in curves.classes if c.precision]
    weakest = sorted(drawn, key=lambda c: c.ap50 or 0.0)[:SERIES]
    kept = [c for c in drawn if c in weakest]
    lines = [Line(label=f"{c.name}  {c.ap50 or 0.0:.2f}", x=c.recall, y=c.precision) for c in kept]
    of_masks = " of masks" if curves.iou_type == "segm" else ""
    title = f"Precision over recall at IoU .50{of_masks}, {title.lower()}; AP beside the class"
    chart = line_chart(title, "recall", lines, unit_square=True) if lines else None
    return chart, len(drawn) - len(kept)
