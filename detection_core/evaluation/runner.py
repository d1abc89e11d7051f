"""Run detectors as deployed, several over a split in one pass, and map their classes to names.

A detector is a SavedModel's serving signature or a TensorFlow Lite file.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import tensorflow as tf

from detection_core.artifacts.detector import (
    EXTRA,
    LABEL_MAP,
    MODEL_INFO,
    find_ensemble,
    find_extra,
    members,
    serving_dir,
)
from detection_core.artifacts.tflite_file import read_tflite
from detection_core.artifacts.tflite_metadata import read_description
from detection_core.capabilities import capability
from detection_core.config.label_map_file import load_label_map
from detection_core.data.label_map import LabelMap
from detection_core.errors import DataError, ModelError
from detection_core.evaluation.loaded_model import SIGNATURE, LoadedModel, load_saved_model
from detection_core.evaluation.results import EvaluatedImage
from detection_core.evaluation.signature_runner import OUTPUTS, Runner, SignatureRunner
from detection_core.evaluation.tflite_runner import TFLiteRunner
from detection_core.progress import Progress
from detection_core.storage import files
from detection_core.structures import Instances

_logger = logging.getLogger(__name__)

OUTPUT_SHAPES: dict[str, list[int | None]] = {
    "detection_boxes": [1, None, 4],
    "detection_scores": [1, None],
    "detection_classes": [1, None],
    "num_detections": [1],
}


class SavedModelRunner(SignatureRunner):
    """A SavedModel with the Object Detection API's `image_tensor` signature."""

    def __init__(self, path: str, *, trust: bool = False) -> None:
        """Load the model.

        Args:
            path: its folder, or a detector's.
            trust: run it even if its graph does more than compute.

        Raises:
            ModelError: if it is not a SavedModel or not a detector, is damaged, or does more than compute.
            ContractError: if there is no SavedModel in the folder.
        """
        loaded = load_saved_model(path, trust=trust)
        if not files.exists(files.join(serving_dir(path), EXTRA, MODEL_INFO)):
            _logger.warning("%s was not written by detflow; it is run as it is", path)
        _check_signature(loaded, path)
        (name,) = loaded.inputs
        super().__init__(lambda image: loaded(**{name: image}), path)


def _check_signature(loaded: LoadedModel, path: str) -> None:
    inputs, outputs = loaded.inputs, loaded.outputs
    if [s.dtype for s in inputs.values()] != [tf.uint8] or not set(OUTPUTS) <= set(outputs):
        raise ModelError(
            f"expected a signature {SIGNATURE!r} with one uint8 image as input and the outputs"
            f" {', '.join(OUTPUTS)}, found inputs {list(inputs.values())} and outputs {sorted(outputs)};"
            " export the model as image_tensor",
            where=path,
        )
    for name, shape in OUTPUT_SHAPES.items():
        found = outputs[name]
        number = found.dtype.is_floating or found.dtype.is_integer
        if not number or not tf.TensorShape(shape).is_compatible_with(found.shape):
            raise ModelError(
                f"expected numbers of the shape {shape} as {name}, found {found.dtype.name} of"
                f" {found.shape}; export the model as image_tensor",
                where=path,
            )


def _load_tflite(path: str, threads: int, _: bool) -> Runner:
    return TFLiteRunner(path, threads=threads)


_LOADERS: dict[str, Callable[[str, int, bool], Runner]] = {
    ".tflite": _load_tflite,
    "": lambda path, _, trust: SavedModelRunner(path, trust=trust),
}


def load_runner(path: str, *, threads: int = 0, trust: bool = False) -> Runner:
    """Load a detector for evaluation or prediction.

    Args:
        path: a detector folder, a SavedModel's folder, a published version, a .tflite file, or the folder of
            an ensemble.
        threads: of the TensorFlow Lite interpreter; 0: one a core. TensorFlow chooses its own number.
        trust: run a SavedModel even if its graph does more than compute, such as reading files.

    Raises:
        ModelError: if the model cannot be loaded, does more than compute, or lacks a detector's inputs and
            outputs.
        ContractError: if there is no SavedModel in the folder.
    """
    if not files.exists(path):
        raise ModelError(
            "expected a detector folder or a .tflite file, found nothing there; check the path", where=path
        )
    ensemble = find_ensemble(path)
    if ensemble is not None:
        load_member = functools.partial(load_runner, threads=threads, trust=trust)
        runner: Runner = capability("detection_core.optional.ensembles").load_ensemble(
            path, ensemble, load_member
        )
        return runner
    kind = os.path.splitext(path)[1].lower()
    load = _LOADERS[kind if kind in _LOADERS else ""]
    return load(path, threads or os.cpu_count() or 1, trust)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measurement:
    """Results of one detector on a split.

    Attributes:
        images: ground truth and detections of every image, in order.
        seconds_per_image: mean time of a call, without the first, which prepares the model.
    """

    images: tuple[EvaluatedImage, ...]
    seconds_per_image: float


def measure(
    runners: Mapping[str, Runner],
    truth: Iterable[tuple[np.ndarray, Instances]],
    label_map: LabelMap,
    *,
    job: str = "evaluate",
    total: int = 0,
) -> dict[str, Measurement]:
    """Run every detector on every image; only detections are kept.

    Args:
        runners: name to detector.
        truth: images, uint8 [H, W, 3], with their ground truth.
        label_map: classes of the ground truth.
        job: name in the progress lines.
        total: number of images, if known.

    Returns:
        Name to measurement.

    Raises:
        ModelError: if a detector returns NaN, infinity, or a class missing from the label map.
        DataError: if there is no image, or the ground truth has a class missing from the label map.
    """
    found: dict[str, list[EvaluatedImage]] = {name: [] for name in runners}
    seconds: dict[str, list[float]] = {name: [] for name in runners}
    with Progress(job, total=total, unit="image") as progress:
        for image, image_truth in truth:
            _check_truth(image_truth, label_map)
            for name, runner in runners.items():
                start = time.perf_counter()
                detections = runner(image, image_truth.source_id)
                seconds[name].append(time.perf_counter() - start)
                kept = _of_known_classes(detections, label_map, runner.path)
                found[name].append(EvaluatedImage(truth=image_truth, detections=kept))
            progress.advance()
    for name, images in found.items():
        if not images:
            raise DataError(f"expected images to measure {name} on, found none; choose another split")
    return {
        name: Measurement(
            images=tuple(found[name]),
            seconds_per_image=float(np.mean(seconds[name][1:] or seconds[name])),
        )
        for name in runners
    }


def _check_truth(truth: Instances, label_map: LabelMap) -> None:
    unknown = set(truth.classes.tolist()) - set(label_map.classes)
    if unknown:
        raise DataError(
            f"expected classes of the label map, found an object with id {min(unknown) + 1}; ingest the data"
            " with the label map that the detector was trained with",
            where=truth.source_id,
        )


def _of_known_classes(found: Instances, label_map: LabelMap, path: str) -> Instances:
    """Drop detections whose class is a gap in the label map."""
    if found.classes.size and not 0 <= found.classes.min() <= found.classes.max() < label_map.num_classes:
        raise ModelError(
            f"expected classes of the label map, ids 1 to {label_map.num_classes}, found id"
            f" {found.classes.max() + 1}; measure the detector with the label map it was trained with",
            where=path,
        )
    known = np.isin(found.classes, label_map.classes)
    return found if known.all() else found.take(known)


def known_classes(path: str) -> dict[int, str]:
    """Return class in [0, C) to name; empty if the detector does not record it.

    Args:
        path: a detector folder, a SavedModel, a .tflite file, or an ensemble, whose detectors share their
            classes.
    """
    label_map = find_extra(path, LABEL_MAP)
    if label_map:
        return load_label_map(label_map).class_names
    path = members(path)[0]
    return (
        {} if files.is_dir(path) else dict(enumerate(read_description(read_tflite(path), where=path).labels))
    )
