"""Formats that `detflow predict` writes of all images together, and the model's name and version in them."""

import hashlib
import os
from collections.abc import Mapping, Sequence

from detection_core.artifacts.detector import MODEL, MODEL_INFO, find_extra, members, serving_dir
from detection_core.artifacts.prediction import PREDICTIONS, Prediction
from detection_core.data.label_map import LabelMap, LabelMapItem
from detection_core.datasets.annotated_images import AnnotatedImage, AnnotatedObject, RunLengths
from detection_core.datasets.annotation_writers import WRITERS
from detection_core.storage import files
from detection_core.structures import FIRST_CLASS

PICTURES, JSON, JSON_LINES, COCO = "pictures", "json", "jsonl", "coco_results"


def describe_model(path: str) -> str:
    """Return a model's name, and the number of a published version or a hash of its files' content."""
    info = find_extra(path, MODEL_INFO)
    name = MODEL.parse(files.read_text(info), info).name if info else os.path.basename(path.rstrip("/"))
    version = os.path.basename(path.rstrip("/"))
    if not version.isdigit():
        digest = hashlib.sha256()
        for member in members(path):
            folder = serving_dir(member) if files.is_dir(member) else ""
            paths = [files.join(folder, below) for below in files.sizes(folder)] if folder else [member]
            digest.update("\n".join(map(_content, sorted(paths))).encode())
        version = digest.hexdigest()[:12]
    return f"{name} {version}"


def _content(path: str) -> str:
    try:
        return files.content_state(path)
    except OSError as error:  # the loader of the model reports it
        return str(error)


def write_formats(
    formats: Sequence[str],
    folder: str,
    results: Mapping[str, Prediction],
    names: Mapping[int, str],
    model_path: str,
) -> None:
    """Write `JSON_LINES` and annotations of usable images; other formats are left out.

    Args:
        formats: of `allowed_values.PredictionFormat`.
        folder: to write; created if missing.
        results: file name in the annotations to the detections of an image.
        names: class in [0, C) to name, as the model records it; may be empty.
        model_path: whose name and version the annotations have.
    """
    if JSON_LINES in formats:
        PREDICTIONS.write(folder, [result.rounded() for result in results.values()])
    writers = [WRITERS[name] for name in dict.fromkeys(formats) if name in WRITERS]
    if not writers:
        return
    known = {label + FIRST_CLASS: name for label, name in names.items()}
    known |= {found.label: found.name for result in results.values() for found in result.detections}
    label_map = LabelMap(items=tuple(LabelMapItem(id=i, name=name) for i, name in known.items()))
    images = [_annotated(name, result) for name, result in results.items()]
    model = describe_model(model_path)  # which reads the model's files
    for write in writers:
        write(folder, images, label_map, model)


def _annotated(name: str, result: Prediction) -> AnnotatedImage:
    width, height = result.width, result.height
    objects = []
    for found in result.detections:
        ymin, xmin, ymax, xmax = found.box
        box = (xmin * width, ymin * height, xmax * width, ymax * height)
        mask = RunLengths(*found.mask.size, found.mask.counts) if found.mask else None
        objects.append(AnnotatedObject(found.name, box, confidence=round(found.score, 5), mask=mask))
    return AnnotatedImage(name, name, result.image, width, height, objects)
