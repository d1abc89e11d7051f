"""The evaluations of a run."""

from __future__ import annotations

import dataclasses
from functools import partial

from detection_core.artifacts.evaluation import CURVES, METRICS, EvalReport
from detection_core.artifacts.pictures import FALSE_POSITIVE, MISS, SIDE_BY_SIDE
from detection_core.artifacts.run_info import StepInfo
from detection_core.report.evaluation import EvaluationSummary, Metrics, curve_chart
from detection_core.report.pictures import PictureBudget
from pipeline.report.run_artifacts import RunArtifacts, find, unless_damaged

TITLES = {"evaluator": "Float detector", "quantized_evaluator": "Quantized detector"}
BASELINE = "Deployed baseline"
# The first detector is shown in full, others in short: their mistakes are mostly the same.
_FULL = {SIDE_BY_SIDE: 12, FALSE_POSITIVE: 12, MISS: 12}
_SHORT = {SIDE_BY_SIDE: 4, FALSE_POSITIVE: 6, MISS: 6}


def evaluations(artifacts: RunArtifacts, budget: PictureBudget) -> list[EvaluationSummary]:
    """Return the result of each Evaluator of the run."""
    found: list[EvaluationSummary] = []
    for step in artifacts.steps_of("evaluator"):
        report = find(METRICS, _folder(step))
        if report is not None:
            found.append(_summary(step, report, budget, _SHORT if found else _FULL))
    return found


def _folder(step: StepInfo) -> str:
    return step.outputs.get("evaluation", "")


def _summary(
    step: StepInfo, report: EvalReport, budget: PictureBudget, limits: dict[str, int]
) -> EvaluationSummary:
    folder, title = _folder(step), TITLES.get(step.id, step.id)
    summary = EvaluationSummary(
        id=step.id,
        title=title,
        report=report,
        pictures=unless_damaged(partial(budget.embed, folder, limits), f"{folder}/pictures", {}),
        folder=folder,
    )
    curves = find(CURVES, folder)
    if curves is None:
        return summary
    chart, left_out = curve_chart(curves, title)
    return dataclasses.replace(summary, curves=curves, chart=chart, left_out=left_out)


def metric_columns(evaluated: list[EvaluationSummary]) -> list[tuple[str, Metrics]]:
    """Return (title, metrics) of each detector, and of the deployed one that is the first one's baseline."""
    columns: list[tuple[str, Metrics]] = []
    for number, entry in enumerate(evaluated):
        columns.append((entry.title, entry.report.metrics))
        # The quantized detector's baseline is the float one, which already has a column.
        if entry.report.baseline and not number:
            columns.append((BASELINE, entry.report.baseline))
    return columns
