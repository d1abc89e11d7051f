"""Write the model card of a published version: origin, training and metrics."""

import contextlib
import os
from collections.abc import Iterator, Mapping

from detection_core.artifacts import detector as layout
from detection_core.artifacts.evaluation import EvalReport
from detection_core.artifacts.tflite_metadata import find_description
from detection_core.artifacts.tflite_provenance import Provenance, provenance_of_training, read_provenance
from detection_core.config.label_map_file import parse_label_map
from detection_core.errors import DetectionError
from detection_core.redaction import visible
from detection_core.report.page import metric, size
from detection_core.storage import files

MODEL_CARD = "model_card.md"
_UNKNOWN = "not recorded"
_DIGITS = 4


def model_card(model_dir: str, measured: EvalReport, *, tflite_dir: str = "") -> str:
    """Return the card in Markdown; unknown facts are marked as not recorded.

    The card has no times and paths, so the same model always has the same card.

    Args:
        model_dir: detector folder, or its SavedModel.
        measured: by the Evaluator.
        tflite_dir: folder of its TensorFlow Lite files; "" if there are none.

    Raises:
        ContractError: if there is no SavedModel, or a part is of the wrong kind.
    """
    return "\n".join(
        [
            *_about(model_dir),
            "",
            "## Metrics of the SavedModel",
            "",
            *_metric_table([("value", measured.metrics)]),
            "",
            f"Best score threshold (highest F1): {_threshold(measured.score_threshold)}.",
            "",
            *_files(tflite_dir),
            "## Limits",
            "",
            "The metrics are those of one split of the data named above, and say nothing of images that",
            "differ from them. What the model may be used for, and on whom it was not tested, only its",
            "owners know.",
            "",
        ]
    )


def _about(model_dir: str) -> Iterator[str]:
    has_info = files.exists(layout.extra_file(model_dir, layout.MODEL_INFO))
    info = layout.read_info(model_dir) if has_info else None
    origin = provenance_of_training(info.extra) if info else Provenance()
    yield f"# {_cell(info.name) if info else 'Detector'}"
    yield ""
    yield "| | |"
    yield "|---|---|"
    if info:
        rows, columns = info.input_size
        yield f"| input | {rows} x {columns} pixels, RGB |"
        yield f"| parameters | {info.parameters:,} |"
        yield f"| started from | {_cell(str(info.extra.get('started_from', _UNKNOWN)))} |"
        yield f"| training steps | {_cell(str(info.extra.get('steps', _UNKNOWN)))} |"
    yield f"| config hash | {_cell(origin.config_hash or _UNKNOWN)} |"
    yield f"| data fingerprint | {_cell(origin.data_fingerprint or _UNKNOWN)} |"
    yield f"| training | {_cell(origin.trained_as or _UNKNOWN)} |"
    yield f"| classes | {_classes(model_dir)} |"


def _classes(model_dir: str) -> str:
    path = layout.extra_file(model_dir, layout.LABEL_MAP)
    if not files.exists(path):
        return _UNKNOWN
    names = parse_label_map(files.read_text(path), path).names
    return f"{len(names):,}: {', '.join(map(_cell, names))}"


def _files(tflite_dir: str) -> Iterator[str]:
    paths = files.list_matching(tflite_dir, "*.tflite") if tflite_dir else []
    if not paths:
        return
    stated = {path: _stated(path) for path in paths}
    yield "## TensorFlow Lite files"
    yield ""
    yield "| file | size | best score threshold | made from | quantization | written by |"
    yield "|---|---|---|---|---|---|"
    for path, (origin, threshold) in stated.items():
        name, bytes_ = _cell(os.path.basename(path)), size(files.total_size(path))
        yield (
            f"| {name} | {bytes_} | {_threshold(threshold)} | {_cell(origin.made_from or _UNKNOWN)} |"
            f" {_cell(origin.quantization or _UNKNOWN)} | {_cell(origin.written_by or _UNKNOWN)} |"
        )
    measured = [(os.path.basename(path), origin.metrics) for path, (origin, _) in stated.items()]
    if any(metrics for _, metrics in measured):
        yield ""
        yield from _metric_table(measured)
    yield ""


def _stated(path: str) -> tuple[Provenance, float]:
    """Return a file's provenance and score threshold, as far as they can be read: parity has judged it."""
    content, described, origin = files.read_bytes(path), None, None
    with contextlib.suppress(DetectionError):
        origin = read_provenance(content, where=path)
    with contextlib.suppress(DetectionError):
        described = find_description(content, where=path)
    return origin or Provenance(), described.score_threshold if described else 0.0


def _threshold(value: float) -> str:
    return metric(value, _DIGITS) if value else _UNKNOWN


def _metric_table(columns: list[tuple[str, Mapping[str, float | None]]]) -> Iterator[str]:
    yield "| metric | " + " | ".join(_cell(name) for name, _ in columns) + " |"
    yield "|---|" + "---|" * len(columns)
    for name in dict.fromkeys(name for _, metrics in columns for name in metrics):
        values = " | ".join(metric(metrics.get(name), _DIGITS) for _, metrics in columns)
        yield f"| {_cell(name)} | {values} |"


def _cell(text: str) -> str:
    """Escape a text for a table cell: one line without markup."""
    shown = visible(text).replace("\n", " ")
    for character in "\\|<>[]*_`":
        shown = shown.replace(character, f"\\{character}")
    return shown
