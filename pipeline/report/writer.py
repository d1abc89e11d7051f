"""Write the report of a run."""

import dataclasses
import datetime
import logging
import os
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from detection_core.artifacts import model_run
from detection_core.artifacts.box_profile import BOX_PROFILES
from detection_core.artifacts.data_findings import FINDINGS
from detection_core.artifacts.dataset_card import CARD, QUARANTINE
from detection_core.artifacts.detector import PIPELINE_CONFIG
from detection_core.artifacts.evaluation import CURVES, MAP, MAP_50, METRICS, SHAPE_MAP_50, EvalReport
from detection_core.artifacts.json_file import JsonFile
from detection_core.artifacts.parity import PARITY
from detection_core.artifacts.pictures import FALSE_POSITIVE, MISS, SIDE_BY_SIDE, PictureEntry, list_pictures
from detection_core.artifacts.published import PUSHED
from detection_core.artifacts.quantization import QUANTIZATION
from detection_core.artifacts.run_info import RunInfo, StepInfo
from detection_core.redaction import redact
from detection_core.report import data_page
from detection_core.report.evaluation import EvaluationSummary, Metrics, curve_chart, metric_table
from detection_core.report.figures import Chart, Line, line_chart
from detection_core.report.page import Picture, PictureBudget, render, seconds_between
from detection_core.storage import files

_logger = logging.getLogger(__name__)

_Part = TypeVar("_Part")


def steps_of(run: RunInfo, component: str) -> list[StepInfo]:
    """Return a component's steps that have outputs, in the DAG's order."""
    return [s for s in run.steps if s.component == component and s.outputs]


def folder_of(run: RunInfo, component: str, output: str) -> str:
    """Return the folder of an output of the component's first step, "" if there is none."""
    steps = steps_of(run, component)
    return steps[0].outputs.get(output, "") if steps else ""


def read_text(folder: str, name: str) -> str | None:
    """Read a text file; None if missing."""
    path = files.join(folder, name)
    try:
        return files.read_text(path) if folder and files.exists(path) else None
    except (OSError, ValueError) as error:
        _logger.warning("report | %s is left out: %s", path, error)
        return None


def unless_damaged(part: Callable[[], _Part], where: str, otherwise: Any) -> _Part | Any:
    """Return a part of the page, or a default if its files are damaged.

    The warning names its source files, `where`.
    """
    try:
        return part()
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        _logger.warning(
            "report | %s is left out: expected the output of its step, found something else (%s: %s);"
            " remove its folder and run again",
            where,
            type(error).__name__,
            error,
        )
        return otherwise


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
    steps = tuple(dataclasses.replace(step, outputs={}) for step in run.steps)
    return page or render("run.html", _context(dataclasses.replace(run, steps=steps)), folders=(_HERE,))


def _context(run: RunInfo) -> dict[str, Any]:
    evaluated = evaluations(run, PictureBudget())
    parity = PARITY.find_usable(folder_of(run, "tflite_exporter", "parity"))
    columns = [*metric_columns(evaluated), *((f.file, f.metrics) for f in (parity.files if parity else ()))]

    def read(make: Callable[[RunInfo], Any], component: str, otherwise: Any = None) -> Any:
        return unless_damaged(lambda: make(run), f"what {component} wrote", otherwise)

    return {
        "run": dataclasses.asdict(run),
        "reload_seconds": RELOAD_SECONDS if run.status == "running" else 0,
        "written": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "seconds": seconds_between(run.started, run.finished) or sum(s.seconds for s in run.steps),
        "pushed": PUSHED.find_usable(folder_of(run, "pusher", "pushed_model")),
        "evaluations": evaluated,
        "metric_table": metric_table(columns) if columns else None,
        "map_50": MAP_50,
        "map_all": MAP,
        "shape_map_50": SHAPE_MAP_50,
        "trainings": read(trainings, "trainer", []),
        "dataset": read(_dataset, "example_gen"),
        "validation": read(_validation, "data_validator"),
        "quantization": QUANTIZATION.find_usable(folder_of(run, "quantization_rewriter", "quantization")),
        "parity": parity,
    }


def _dataset(run: RunInfo) -> data_page.DatasetSummary | None:
    """Return the data section of DataValidator, or of ExampleGen without it."""
    validated = folder_of(run, "data_validator", "anomalies")
    if CARD.find_usable(validated) is not None:
        return data_page.read_dataset(validated)
    folder = folder_of(run, "example_gen", "examples")
    card = CARD.find_usable(folder)
    if card is None:
        return None
    samples, smallest = data_page.embed_samples(validated, PictureBudget(data_page.SAMPLE_BYTES))
    return data_page.DatasetSummary(
        card=card,
        samples=samples,
        smallest=smallest,
        quarantined=QUARANTINE.read_whole_lines(folder),
        folder=folder,
        profiles=BOX_PROFILES.find_usable(folder),
    )


def _validation(run: RunInfo) -> data_page.FindingsSummary | None:
    folder = folder_of(run, "data_validator", "anomalies")
    found = FINDINGS.find_usable(folder)
    return data_page.FindingsSummary(found=found, folder=folder) if found else None


TITLES = {"evaluator": "Float detector", "quantized_evaluator": "Quantized detector"}
BASELINE = "Deployed baseline"
# The first detector is shown in full, others in short: their mistakes are mostly the same.
_FULL = {SIDE_BY_SIDE: 12, FALSE_POSITIVE: 12, MISS: 12}
_SHORT = {SIDE_BY_SIDE: 4, FALSE_POSITIVE: 6, MISS: 6}


def evaluations(run: RunInfo, budget: PictureBudget) -> list[EvaluationSummary]:
    """Return the result of each Evaluator of the run."""
    found: list[EvaluationSummary] = []
    for step in steps_of(run, "evaluator"):
        report = METRICS.find_usable(step.outputs.get("evaluation", ""))
        if report is not None:
            found.append(_summary(step, report, budget, _SHORT if found else _FULL))
    return found


def _summary(
    step: StepInfo, report: EvalReport, budget: PictureBudget, limits: dict[str, int]
) -> EvaluationSummary:
    folder, title = step.outputs.get("evaluation", ""), TITLES.get(step.id, step.id)
    summary = EvaluationSummary(
        id=step.id,
        title=title,
        report=report,
        pictures=unless_damaged(partial(budget.embed, folder, limits), f"{folder}/pictures", {}),
        folder=folder,
    )
    curves = CURVES.find_usable(folder)
    if curves is None:
        return summary
    chart, left_out = curve_chart(curves, title)
    return dataclasses.replace(summary, curves=curves, chart=chart, left_out=left_out)


def metric_columns(evaluated: list[EvaluationSummary]) -> list[tuple[str, Metrics]]:
    """Return (title, metrics) of each detector, and of the deployed one that is the first one's baseline."""
    columns = [(entry.title, entry.report.metrics) for entry in evaluated]
    # The quantized detector's baseline is the float one, which already has a column.
    if evaluated and evaluated[0].report.baseline:
        columns.insert(1, (BASELINE, evaluated[0].report.baseline))
    return columns


TRAININGS: dict[str, tuple[str, str, JsonFile[Any]]] = {
    "trainer": ("Training", "model_run", model_run.TRAIN_REPORT),
    "quantization_rewriter": ("Quantization-aware training", "quantized_run", model_run.QUANTIZATION_REPORT),
}
_STEPS_SHOWN, _PICTURE_BYTES = 3, 900_000
_TOTAL_LOSS = "Loss/total_loss"
_VALIDATED = {"mAP": MAP, "mAP@.50": MAP_50}


def trainings(run: RunInfo) -> list[dict[str, Any]]:
    """Return the loss and learning-rate curves of every training of the run."""
    found = []
    for component, (title, output, report_file) in TRAININGS.items():
        folder = folder_of(run, component, output) or unfinished_training(run, component)
        history = model_run.HISTORY.read_whole_lines(folder)
        report = report_file.find_usable(folder)
        if history or report:
            found.append(
                {
                    "title": title,
                    "report": report,
                    "loss_chart": _loss_chart(history, title) if history else None,
                    "rate_chart": _rate_chart(history, title) if history else None,
                    "validation_chart": _validation_chart(folder, title),
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


def _loss_chart(history: list[model_run.HistoryLine], title: str) -> Chart | None:
    steps = [line.step for line in history]
    lines = [Line(label="total", x=steps, y=[line.loss for line in history], thick=True)]
    for name in sorted({name for line in history for name in line.losses} - {_TOTAL_LOSS}):
        words = name.removeprefix("Loss/").removesuffix("_loss").replace("_", " ")
        values = [line.losses[name] for line in history if name in line.losses]
        if len(values) == len(history):
            lines.append(Line(label=words, x=steps, y=values))
    positive = [v for line in lines for v in line.y if v > 0]
    wide = bool(positive) and max(positive) > 30 * min(positive)
    return line_chart(f"{title}: loss", "step", lines, log_y=wide)


def _rate_chart(history: list[model_run.HistoryLine], title: str) -> Chart | None:
    known = [line for line in history if line.learning_rate is not None]
    if not known:
        return None
    x, y = [h.step for h in known], [h.learning_rate or 0.0 for h in known]
    return line_chart(f"{title}: learning rate", "step", [Line(label="learning rate", x=x, y=y)])


def _validation_chart(folder: str, title: str) -> Chart | None:
    """Draw the score that selects weights, and common metrics beside it."""
    validations = model_run.VALIDATIONS.read_whole_lines(folder)
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
    histories = [model_run.HISTORY.path(os.path.join(work, name)) for name in os.listdir(work)]
    written = {path: os.path.getmtime(path) for path in histories if os.path.exists(path)}
    newest = max(written, key=lambda path: written[path], default="")
    return os.path.dirname(newest) if newest and written[newest] >= _seconds(step.started) else ""


def _seconds(moment: str) -> float:
    try:
        return datetime.datetime.fromisoformat(moment).timestamp()
    except ValueError:
        return 0.0
