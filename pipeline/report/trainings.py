"""The trainings of a run: losses, learning rates and reports."""

from __future__ import annotations

import datetime
import os
from typing import Any

from detection_core.artifacts.detector import PIPELINE_CONFIG
from detection_core.artifacts.evaluation import MAP, MAP_50
from detection_core.artifacts.json_file import JsonFile
from detection_core.artifacts.model_run import (
    HISTORY,
    QUANTIZATION_REPORT,
    TRAIN_REPORT,
    VALIDATIONS,
    HistoryLine,
    ValidationLine,
)
from detection_core.artifacts.pictures import PictureEntry, list_pictures
from detection_core.artifacts.run_info import RunInfo
from detection_core.report.figures import Chart, Line, line_chart
from detection_core.report.pictures import Picture, PictureBudget
from pipeline.report.run_artifacts import RunArtifacts, find, read_text

TRAININGS: dict[str, tuple[str, str, JsonFile[Any]]] = {
    "trainer": ("Training", "model_run", TRAIN_REPORT),
    "quantization_rewriter": ("Quantization-aware training", "quantized_run", QUANTIZATION_REPORT),
}
_STEPS_SHOWN, _PICTURE_BYTES = 3, 900_000
_TOTAL_LOSS = "Loss/total_loss"
_VALIDATED = {"mAP": MAP, "mAP@.50": MAP_50}


def trainings(artifacts: RunArtifacts) -> list[dict[str, Any]]:
    """Return the loss and learning-rate curves of every training of the run."""
    found = []
    for component, (title, output, report_file) in TRAININGS.items():
        folder = artifacts.folder(component, output) or unfinished_training(artifacts.run, component)
        history = HISTORY.read_whole_lines(folder)
        report = find(report_file, folder)
        if history or report:
            found.append(
                {
                    "title": title,
                    "report": report,
                    "loss_chart": _loss_chart(history, title) if history else None,
                    "rate_chart": _rate_chart(history, title) if history else None,
                    "validation_chart": _validation_chart(VALIDATIONS.read_whole_lines(folder), title),
                    "last": history[-1] if history else None,
                    "config": read_text(folder, PIPELINE_CONFIG) or "",
                    "pictures": _pictures(folder),
                }
            )
    return found


def _pictures(folder: str) -> list[Picture]:
    """Return validation pictures: for each image those of a few steps, from the first to the last."""
    by_image: dict[str, list[PictureEntry]] = {}
    for entry in list_pictures(folder):
        by_image.setdefault(entry.source_id, []).append(entry)
    budget, found = PictureBudget(_PICTURE_BYTES), []
    for entries in by_image.values():
        last = len(entries) - 1
        shown = sorted({round(i * last / (_STEPS_SHOWN - 1)) for i in range(_STEPS_SHOWN)})
        found += [budget.embed_one(entries[i]) for i in shown]
    return [picture for picture in found if picture is not None]


def _loss_chart(history: list[HistoryLine], title: str) -> Chart | None:
    steps = [line.step for line in history]
    lines = [Line(label="total", x=steps, y=[line.loss for line in history], thick=True)]
    names = sorted({name for line in history for name in line.losses} - {_TOTAL_LOSS})
    for name in names:
        words = name.removeprefix("Loss/").removesuffix("_loss").replace("_", " ")
        values = [line.losses[name] for line in history if name in line.losses]
        if len(values) == len(history):
            lines.append(Line(label=words, x=steps, y=values))
    positive = [v for line in lines for v in line.y if v > 0]
    wide = bool(positive) and max(positive) > 30 * min(positive)
    return line_chart(f"{title}: loss", "step", lines, log_y=wide)


def _rate_chart(history: list[HistoryLine], title: str) -> Chart | None:
    known = [line for line in history if line.learning_rate is not None]
    if not known:
        return None
    x, y = [h.step for h in known], [h.learning_rate or 0.0 for h in known]
    return line_chart(f"{title}: learning rate", "step", [Line(label="learning rate", x=x, y=y)])


def _validation_chart(validations: list[ValidationLine], title: str) -> Chart | None:
    """Draw the score that selects weights, and common metrics beside it."""
    values = {"score": [(line.step, line.score) for line in validations]} | {
        label: [(line.step, line.metrics.get(name)) for line in validations]
        for label, name in _VALIDATED.items()
    }
    lines = []
    for label, points in values.items():
        known = [(step, value) for step, value in points if value is not None]
        # COCO's mAP is the score unless the config says otherwise.
        if known and (label == "score" or points != values["score"]):
            x, y = [step for step, _ in known], [value for _, value in known]
            lines.append(Line(label=label, x=x, y=y, thick=label == "score"))
    return line_chart(f"{title}: validation", "step", lines) if lines else None


def unfinished_training(run: RunInfo, component: str) -> str:
    """Return the folder of a run's active training; "" if the component is not running."""
    step = next((s for s in run.steps if s.component == component and s.state == "running"), None)
    work = os.path.join(run.workspace, "work")
    if step is None or not os.path.isdir(work):
        return ""
    began = _seconds(step.started)
    histories = [HISTORY.path(os.path.join(work, name)) for name in os.listdir(work)]
    written = {path: os.path.getmtime(path) for path in histories if os.path.exists(path)}
    newest = max(written, key=lambda path: written[path], default="")
    return os.path.dirname(newest) if newest and written[newest] >= began else ""


def _seconds(moment: str) -> float:
    try:
        return datetime.datetime.fromisoformat(moment).timestamp()
    except ValueError:
        return 0.0
