"""Putting the page together."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any

from detection_core.artifacts.coco_names import MAP, MAP_50
from detection_core.artifacts.evaluation import EvalReport
from detection_core.artifacts.parity import PARITY, ParityReport
from detection_core.artifacts.pushed import PUSHED, PushReport
from detection_core.html_page import CONTENT_SECURITY_POLICY, shown
from detection_core.redaction import redact
from detection_core.storage import files
from pipeline.local.run_record import RunRecord
from pipeline.report import facts, formats, quality
from pipeline.report.artifacts import RunArtifacts, find, unless_damaged
from pipeline.report.pictures import PictureBudget

_HERE = os.path.dirname(__file__)


def write_report(run: RunRecord, path: str) -> None:
    """Write one self-contained HTML page about a run: no script, no link to elsewhere.

    Whatever a run did not come to (a failed step, no quantization) is left out, and so is what is damaged,
    with a warning that names it.

    Args:
        run: the run; its steps' outputs are read where they are there.
        path: file to write.
    """
    files.write_text(path, redact(render_report(run)))


def render_report(run: RunRecord) -> str:
    """Return the page's HTML."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.ChainableUndefined,
        finalize=_text_of_others,
    )
    environment.filters |= {
        name: getattr(formats, name) for name in ("duration", "metric", "signed", "size", "whole", "moment")
    }
    template, place = environment.get_template("report.html"), f"the outputs of the run {run.run_id}"

    def render() -> str:
        try:
            return str(template.render(**_context(run)))
        except jinja2.TemplateError as error:
            raise ValueError(str(error)) from error

    return unless_damaged(render, place, "") or template.render(**_context(_without_outputs(run)))


def _text_of_others(value: Any) -> Any:
    """Return what a text becomes before it is escaped; what is markup already stays as it is."""
    return shown(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _without_outputs(run: RunRecord) -> RunRecord:
    return dataclasses.replace(run, steps=tuple(dataclasses.replace(s, outputs={}) for s in run.steps))


def _context(run: RunRecord) -> dict[str, Any]:
    artifacts = RunArtifacts(run)
    evaluated = quality.evaluations(artifacts, PictureBudget())

    def read(make: Callable[[RunArtifacts], Any], component: str, otherwise: Any = None) -> Any:
        return unless_damaged(lambda: make(artifacts), f"what {component} wrote", otherwise)

    parity = find(PARITY, artifacts.folder("tflite_exporter", "parity"))
    pushed = find(PUSHED, artifacts.folder("pusher", "pushed_model"))
    return {
        "run": dataclasses.asdict(run),
        "policy": CONTENT_SECURITY_POLICY,
        "style": files.read_text(os.path.join(_HERE, "style.css")),
        "steps": facts.steps(run),
        "headline": _headline(run, pushed),
        "tiles": unless_damaged(lambda: _tiles(evaluated, parity), "what is measured", []),
        "evaluations": evaluated,
        "metric_table": unless_damaged(
            lambda: quality.metric_table(evaluated, parity), "what is measured", None
        ),
        "trainings": read(facts.trainings, "trainer", []),
        "dataset": read(facts.dataset, "example_gen"),
        "quantization": read(facts.quantization, "quantization_rewriter"),
        "parity": parity,
        "push": pushed,
    }


def _headline(run: RunRecord, pushed: PushReport | None) -> dict[str, str]:
    """Return how the run ended, in a few words, and whether that is good."""
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


def _tiles(evaluated: list[dict[str, Any]], parity: ParityReport | None) -> list[dict[str, str]]:
    """Return the few numbers that most readers come for."""
    tiles = []
    for entry in evaluated:
        metrics = entry["metrics"].metrics
        tiles.append(
            {
                "name": f"{entry['title']}, mAP@.50",
                "value": formats.metric(metrics.get(MAP_50)),
                "note": f"mAP {formats.metric(metrics.get(MAP))}, {_measured_on(entry['metrics'])}",
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


def _measured_on(report: EvalReport) -> str:
    return f"{report.images} images of {report.split}"
