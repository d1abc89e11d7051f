"""Views of a step for Kubeflow Pipelines' user interface, drawn from its artifacts' files."""

import dataclasses
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from detection_core.artifacts.box_profile import BOX_PROFILES, BoxProfiles
from detection_core.artifacts.dataset_card import CARD, DatasetCard
from detection_core.artifacts.evaluation import CURVES, METRICS, ClassCurve, Curves, EvalReport, is_measured
from detection_core.artifacts.parity import PARITY
from detection_core.artifacts.pictures import SIDE_BY_SIDE
from detection_core.artifacts.published import PUSHED, PushReport
from detection_core.report.data_page import PAGE, DatasetSummary
from detection_core.report.evaluation import EvaluationSummary, curve_chart, metric_table
from detection_core.report.page import Picture, PictureBudget, render, shown
from detection_core.storage import files

# Artifact metadata must stay small; the confusion matrix of a thousand classes would be too large.
MATRIX_LABELS = 100
PICTURES, PICTURE_BYTES = 12, 2_200_000
NAME_CHARACTERS = 128


@dataclasses.dataclass(frozen=True, kw_only=True)
class Drawn:
    """A view: metadata entries for the user interface, and the content of its artifact's only file."""

    metadata: Mapping[str, Any]
    content: str


def draw_view(component: str, view: str, job: Any, report: Mapping[str, Any]) -> Drawn:
    """Draw a view of a finished step.

    `component` is a key of `component_specs.JOBS`, `view` one of its views, `report` the result of `run`.
    """
    return _VIEWS[component, view](job, report)


def finite_numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite numbers, without bools: every entry of the metadata is shown as a metric.

    Too long names are left out: from 3.0 on each names an artifact (`apiserver/model/artifact.go:30`).
    """
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if len(name) <= NAME_CHARACTERS
    }


def _metrics(values: Mapping[str, Any]) -> Drawn:
    numbers = finite_numbers(values)
    return Drawn(metadata=numbers, content=json.dumps(numbers, indent=1) + "\n")


def _evaluation_curves(job: Any) -> Drawn:
    curves = CURVES.read(job.evaluation)
    confusion = curves.confusion
    curve = _mean_curve(curves.classes)
    metadata: dict[str, Any] = {"confidenceMetrics": curve} if curve else {}
    if confusion and len(confusion.labels) <= MATRIX_LABELS:
        metadata["confusionMatrix"] = {
            "annotationSpecs": [{"displayName": label} for label in confusion.labels],
            "rows": [{"row": row} for row in confusion.matrix],
        }
    return Drawn(metadata=metadata, content=CURVES.format(curves))


def _mean_curve(classes: list[ClassCurve]) -> list[dict[str, float]]:
    """Return the mean of classes as a ROC curve, with 1 - precision for the undefined false positive rate."""
    measured = [c for c in classes if c.recall]
    return [
        {
            "confidenceThreshold": sum(c.scores[i] for c in measured) / len(measured),
            "falsePositiveRate": 1 - sum(c.precision[i] for c in measured) / len(measured),
            "recall": recall,
        }
        for i, recall in enumerate(measured[0].recall if measured else [])
    ]


def _evaluation_report(job: Any) -> Drawn:
    pictures = PictureBudget(PICTURE_BYTES).embed(job.evaluation, {SIDE_BY_SIDE: PICTURES})
    page = evaluation_page(METRICS.read(job.evaluation), CURVES.read(job.evaluation), pictures[SIDE_BY_SIDE])
    return Drawn(metadata={}, content=page)


def _parity_metrics(job: Any) -> Drawn:
    values: dict[str, Any] = {}
    for file in PARITY.read(job.parity).files:
        values[f"{file.name} drop of mAP@.50"] = file.drop
        values[f"{file.name} bytes"] = file.size_bytes
        for threads, milliseconds in file.latencies:
            values[f"{file.name} ms with {threads} threads"] = milliseconds
        for name, value in file.metrics.items():
            if is_measured(value):
                values[f"{file.name} {name}"] = value
    return _metrics(values)


_VIEWS: dict[tuple[str, str], Callable[[Any, Mapping[str, Any]], Drawn]] = {
    ("example_gen", "card"): lambda job, report: Drawn(
        metadata={}, content=dataset_page(CARD.read(job.examples), BOX_PROFILES.find(job.examples))
    ),
    ("data_validator", "report"): lambda job, report: Drawn(
        metadata={}, content=files.read_text(files.join(job.anomalies, PAGE))
    ),
    ("trainer", "metrics"): lambda job, report: _metrics(report),
    ("evaluator", "metrics"): lambda job, report: _metrics(
        {name: value for name, value in METRICS.read(job.evaluation).metrics.items() if is_measured(value)}
    ),
    ("evaluator", "curves"): lambda job, report: _evaluation_curves(job),
    ("evaluator", "report"): lambda job, report: _evaluation_report(job),
    ("quantization_rewriter", "metrics"): lambda job, report: _metrics(report),
    ("tflite_exporter", "metrics"): lambda job, report: _parity_metrics(job),
    ("pusher", "decision"): lambda job, report: Drawn(
        metadata={}, content=decision_text(PUSHED.read(job.pushed_model))
    ),
}


def evaluation_page(report: EvalReport, curves: Curves, pictures: Sequence[Picture]) -> str:
    """Return the page of an evaluation. The pictures show detections beside ground truth."""
    chart, left_out = curve_chart(curves, "Detector")
    summary = EvaluationSummary(
        id="evaluation",
        title="Detector",
        report=report,
        pictures={SIDE_BY_SIDE: pictures},
        curves=curves,
        chart=chart,
        left_out=left_out,
    )
    columns = [("model", report.metrics), *([("baseline", report.baseline)] if report.baseline else [])]
    return render(
        "evaluation_page.html", {"e": summary, "metric_table": metric_table(columns, report.metrics)}
    )


def dataset_page(card: DatasetCard, profiles: BoxProfiles | None = None) -> str:
    """Return the page of a dataset card.

    Examples of an older version have no box statistics.
    """
    return render("dataset_page.html", {"dataset": DatasetSummary(card=card, profiles=profiles)})


def decision_text(pushed: PushReport) -> str:
    """Return Pusher's decision as Markdown, from the content of pushed.json."""
    heading = f"Published as version {pushed.version}" if pushed.pushed else "Not published"
    # Underscores and asterisks in metric and class names are literal.
    reasons = "".join(f"- {_plain_markdown(reason)}\n" for reason in pushed.reasons)
    location = f"\nAt {_code(pushed.path)}\n" if pushed.path else ""
    return f"# {_plain_markdown(heading)}\n\n{reasons}{location}"


def _plain_markdown(text: str) -> str:
    return "".join(f"\\{c}" if c in "\\`*_[]<>#|" else c for c in _line(text))


def _code(text: str) -> str:
    """Return one line as code, inside a fence that is longer than any in it."""
    line = _line(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"


def _line(text: str) -> str:
    return shown(text).replace("\n", "\\n").replace("\t", "\\t")
