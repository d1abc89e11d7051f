"""Write the model card of a published version: origin, training and metrics."""

import contextlib
import os
from collections.abc import Mapping
from typing import Any

from detection_core.artifacts import detector as layout
from detection_core.artifacts.evaluation import EvalReport
from detection_core.artifacts.tflite_metadata import find_description
from detection_core.artifacts.tflite_provenance import Provenance, provenance_of_training, read_provenance
from detection_core.config.label_map_file import parse_label_map
from detection_core.errors import DetectionError
from detection_core.redaction import visible
from detection_core.report.evaluation import metric_table
from detection_core.report.page import render
from detection_core.storage import files

MODEL_CARD = "model_card.md"


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
    has_info = files.exists(layout.extra_file(model_dir, layout.MODEL_INFO))
    info = layout.read_info(model_dir) if has_info else None
    paths = files.list_matching(tflite_dir, "*.tflite") if tflite_dir else []
    found = [_file(path) for path in paths]
    context = {
        "info": info,
        "origin": provenance_of_training(info.extra) if info else Provenance(),
        "classes": _classes(model_dir),
        "metrics": _table([("value", measured.metrics)]),
        "score_threshold": measured.score_threshold,
        "files": found,
        "file_metrics": _table([(file["name"], file["origin"].metrics) for file in found]),
        "cell": _cell,
        "unknown": "not recorded",
    }
    return render("model_card.md", context) + "\n"


def _classes(model_dir: str) -> list[str] | None:
    path = layout.extra_file(model_dir, layout.LABEL_MAP)
    if not files.exists(path):
        return None
    return list(map(_cell, parse_label_map(files.read_text(path), path).names))


def _file(path: str) -> dict[str, Any]:
    """Return what a file says of itself, as far as it can be read: parity has judged it."""
    content, described, origin = files.read_bytes(path), None, None
    with contextlib.suppress(DetectionError):
        origin = read_provenance(content, where=path)
    with contextlib.suppress(DetectionError):
        described = find_description(content, where=path)
    return {
        "name": os.path.basename(path),
        "size_bytes": len(content),
        "origin": origin or Provenance(),
        "threshold": described.score_threshold if described else 0.0,
    }


def _table(columns: list[tuple[str, Mapping[str, float | None]]]) -> dict[str, Any]:
    names = dict.fromkeys(name for _, metrics in columns for name in metrics)
    return metric_table([(_cell(title), metrics) for title, metrics in columns], names)


def _cell(value: object) -> str:
    """Escape a value for a table cell: one line without markup."""
    shown = visible(str(value)).replace("\n", " ")
    for character in "\\|<>[]*_`":
        shown = shown.replace(character, f"\\{character}")
    return shown
