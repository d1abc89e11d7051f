"""Pages for Kubeflow Pipelines' user interface, made from the report's templates; one file each."""

from __future__ import annotations

import re
from collections.abc import Sequence

from detection_core.artifacts.box_profile import BoxProfiles
from detection_core.artifacts.dataset_card import DatasetCard
from detection_core.artifacts.evaluation import Curves, EvalReport
from detection_core.artifacts.pictures import SIDE_BY_SIDE
from detection_core.artifacts.pushed import PushReport
from detection_core.report.dataset import DatasetSummary
from detection_core.report.evaluation import EvaluationSummary, curve_chart, metric_table
from detection_core.report.page import render, shown
from detection_core.report.pictures import Picture


def evaluation_page(report: EvalReport, curves: Curves, pictures: Sequence[Picture]) -> str:
    """Return the page of an evaluation.

    Args:
        report: content of metrics.json.
        curves: content of curves.json.
        pictures: detections beside ground truth.
    """
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

    Args:
        card: the data in numbers.
        profiles: their boxes; None of examples that an older version made.
    """
    return render("dataset_page.html", {"dataset": DatasetSummary(card=card, profiles=profiles)})


def decision_text(pushed: PushReport) -> str:
    """Return what Pusher decided as Markdown, given what pushed.json holds."""
    heading = f"Published as version {pushed.version}" if pushed.pushed else "Not published"
    # Reasons name metrics and classes; underscores and asterisks in them are meant as they are.
    reasons = "".join(f"- {_plain_markdown(reason)}\n" for reason in pushed.reasons)
    location = f"\nAt {_code(pushed.path)}\n" if pushed.path else ""
    return f"# {_plain_markdown(heading)}\n\n{reasons}{location}"


def _plain_markdown(text: str) -> str:
    """Return one line in which nothing is markup."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>#|" else c for c in _line(text))


def _code(text: str) -> str:
    """Return one line as code, inside a fence that is longer than any in it."""
    line = _line(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"


def _line(text: str) -> str:
    return shown(text).replace("\n", "\\n").replace("\t", "\\t")
