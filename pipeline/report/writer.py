"""Write the report of a run."""

from __future__ import annotations

import dataclasses
import datetime
import os
from collections.abc import Callable
from functools import partial
from typing import Any

from detection_core.artifacts.box_profile import BOX_PROFILES
from detection_core.artifacts.data_findings import FINDINGS
from detection_core.artifacts.dataset_card import CARD, QUARANTINE
from detection_core.artifacts.evaluation import CURVES, MAP, MAP_50, METRICS, EvalReport
from detection_core.artifacts.parity import PARITY, ParityReport
from detection_core.artifacts.pictures import FALSE_POSITIVE, MISS, SIDE_BY_SIDE
from detection_core.artifacts.published import PUSHED, PushReport
from detection_core.artifacts.quantization import QUANTIZATION
from detection_core.artifacts.run_info import RunInfo, StepInfo
from detection_core.redaction import redact
from detection_core.report import formats
from detection_core.report.data_page import (
    SAMPLE_BYTES,
    DatasetSummary,
    FindingsSummary,
    embed_samples,
    read_dataset,
)
from detection_core.report.evaluation import EvaluationSummary, Metrics, curve_chart, metric_table
from detection_core.report.formats import seconds_between
from detection_core.report.page import render
from detection_core.report.pictures import PictureBudget
from detection_core.storage import files
from pipeline.report.run_artifacts import RunArtifacts, find, unless_damaged
from pipeline.report.trainings import trainings

_HERE = os.path.dirname(__file__)
RELOAD_SECONDS = 20


"""Seconds after which a browser reloads the page of an active run."""


def write_report(run: RunInfo, path: str) -> None:
    """Write one self-contained HTML page about a run, without scripts and external links.

    The browser reloads the page of an active run periodically. Unreached parts are omitted. Damaged parts are
    omitted with a warning. The available outputs of the run's steps are read.
    """
    files.write_text(path, redact(render_report(run)))


def render_report(run: RunInfo) -> str:
    """Return the page's HTML."""
    where = f"the outputs of the run {run.run_id}"
    page = unless_damaged(lambda: render("run.html", _context(run), folders=(_HERE,)), where, "")
    return page or render("run.html", _context(_without_outputs(run)), folders=(_HERE,))


def _without_outputs(run: RunInfo) -> RunInfo:
    return dataclasses.replace(run, steps=tuple(dataclasses.replace(s, outputs={}) for s in run.steps))


def _context(run: RunInfo) -> dict[str, Any]:
    artifacts = RunArtifacts(run)
    evaluated = evaluations(artifacts, PictureBudget())
    parity = find(PARITY, artifacts.folder("tflite_exporter", "parity"))
    pushed = find(PUSHED, artifacts.folder("pusher", "pushed_model"))
    columns = [*metric_columns(evaluated), *((f.file, f.metrics) for f in (parity.files if parity else ()))]

    def read(make: Callable[[RunArtifacts], Any], component: str, otherwise: Any = None) -> Any:
        return unless_damaged(lambda: make(artifacts), f"what {component} wrote", otherwise)

    return {
        "run": dataclasses.asdict(run),
        "reload_seconds": RELOAD_SECONDS if run.status == "running" else 0,
        "written": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "steps": step_summary(run),
        "headline": _headline(run, pushed),
        "tiles": unless_damaged(lambda: _tiles(evaluated, parity), "what is measured", []),
        "evaluations": evaluated,
        "metric_table": metric_table(columns) if columns else None,
        "map_50": MAP_50,
        "map_all": MAP,
        "trainings": read(trainings, "trainer", []),
        "dataset": read(_dataset, "example_gen"),
        "validation": read(_validation, "data_validator"),
        "quantization": find(QUANTIZATION, artifacts.folder("quantization_rewriter", "quantization")),
        "parity": parity,
    }


def _dataset(artifacts: RunArtifacts) -> DatasetSummary | None:
    """Return the data section of DataValidator, or of ExampleGen without it."""
    validated = artifacts.folder("data_validator", "anomalies")
    if find(CARD, validated) is not None:
        return read_dataset(validated)
    folder = artifacts.folder("example_gen", "examples")
    card = find(CARD, folder)
    if card is None:
        return None
    samples, smallest = embed_samples(validated, PictureBudget(SAMPLE_BYTES))
    return DatasetSummary(
        card=card,
        samples=samples,
        smallest=smallest,
        quarantined=QUARANTINE.read_whole_lines(folder),
        folder=folder,
        profiles=find(BOX_PROFILES, folder),
    )


def _validation(artifacts: RunArtifacts) -> FindingsSummary | None:
    folder = artifacts.folder("data_validator", "anomalies")
    found = find(FINDINGS, folder)
    return FindingsSummary(found=found, folder=folder) if found else None


def _headline(run: RunInfo, pushed: PushReport | None) -> dict[str, str]:
    failed = [s for s in run.steps if s.state == "failed"]
    if failed:
        return {"tone": "bad", "text": f"Failed at {failed[0].id}", "why": failed[0].error}
    if run.status != "succeeded":
        tone = "neutral" if run.status == "running" else "bad"
        return {"tone": tone, "text": run.status.capitalize(), "why": ""}
    if pushed is None:
        return {"tone": "neutral", "text": "Succeeded; nothing was to be published", "why": ""}
    why = "; ".join(str(r) for r in pushed.reasons)
    if pushed.pushed:
        return {"tone": "good", "text": f"Published as version {pushed.version}", "why": why}
    return {"tone": "neutral", "text": "Not published", "why": why}


def _tiles(evaluated: list[EvaluationSummary], parity: ParityReport | None) -> list[dict[str, str]]:
    tiles = []
    for entry in evaluated:
        metrics, images = entry.report.metrics, f"{entry.report.images} images of {entry.report.split}"
        tiles.append(
            {
                "name": f"{entry.title}, mAP@.50",
                "value": formats.metric(metrics.get(MAP_50)),
                "note": f"mAP {formats.metric(metrics.get(MAP))}, {images}",
            }
        )
    for file in parity.files if parity else []:
        speed = "".join(f", {ms:.1f} ms on {n} core{'s' * (n > 1)}" for n, ms in file.latencies[:1])
        tiles.append(
            {
                "name": f"{file.file}, mAP@.50",
                "value": formats.metric(file.metrics.get(MAP_50)),
                "note": f"{formats.size(file.size_bytes)}{speed}",
            }
        )
    return tiles


def step_summary(run: RunInfo) -> dict[str, Any]:
    """Return the steps with their time in percent of the longest one's, and the total time."""
    longest = max((s.seconds for s in run.steps), default=0.0) or 1.0
    rows = [{**dataclasses.asdict(s), "percent": round(100 * s.seconds / longest)} for s in run.steps]
    states = [s.state for s in run.steps]
    return {
        "rows": rows,
        "seconds": seconds_between(run.started, run.finished) or sum(s.seconds for s in run.steps),
        "executed": states.count("executed"),
        "cached": states.count("cached"),
        "failed": states.count("failed"),
    }


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
