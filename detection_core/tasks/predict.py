"""The verb `predict`: detect objects in image files and draw their boxes."""

import dataclasses
import io
import logging
import math
import os
from collections.abc import Mapping, Sequence

import numpy as np

from detection_core.artifacts.detector import find_model
from detection_core.artifacts.prediction import DetectedObject, MaskRuns, Prediction, write_prediction
from detection_core.builders.evaluation_settings import known_edges
from detection_core.data.image_header import MAX_FILE_BYTES, ImageFault, find_format
from detection_core.data.pixels import read_pixels
from detection_core.errors import ConfigError, DataError
from detection_core.evaluation.coco_results import COCO_RESULTS, ImageIds, write_coco_results
from detection_core.evaluation.drawing import draw_boxes, fit
from detection_core.evaluation.measure import known_classes
from detection_core.evaluation.pictures import detection_boxes, jpeg
from detection_core.evaluation.runner import load_runner
from detection_core.evaluation.signature_runner import Runner
from detection_core.progress import Progress
from detection_core.storage import files
from detection_core.structures import FIRST_CLASS, Instances

_logger = logging.getLogger(__name__)

LONGEST_PX, SMALLEST_PX = 1600, 320


def predict(
    model_path: str,
    images: Sequence[str | np.ndarray],
    output_dir: str = "",
    min_score: float = 0.5,
    *,
    trust: bool = False,
    coco_images: str = "",
    needs_one: bool = True,
) -> list[Prediction]:
    """Detect objects in images; write a picture and a JSON file for each if a folder is given.

    An unusable image is reported and skipped.

    Args:
        model_path: a push destination, a detector folder, a SavedModel, a .tflite file or the folder of an
            ensemble.
        images: files in the formats that ExampleGen reads, `detection_core.data.pixels.FORMATS`, or pixels,
            uint8 [H, W, 3], RGB. Files only, if `coco_images` is given.
        output_dir: folder for `NAME.jpg` and `NAME.json`; created if missing. "": nothing is written.
        min_score: detections below it are left out of pictures and of each image's JSON.
        trust: run a SavedModel even if its graph does more than compute, such as reading files.
        coco_images: COCO JSON with the ids of the images. `COCO_RESULTS` is then written with detections of
            every score, see `evaluation.coco_results`. "": that file is not written.
        needs_one: raise if no image can be used.

    Returns:
        One prediction for each image, in order; that of an unusable image has an `error`.

    Raises:
        ConfigError: if `min_score` is not a number, or `output_dir` is the folder of an image.
        ModelError: if the model cannot be run.
        DataError: if none of the images can be used, or `coco_images` does not list one.
    """
    ids = _ids_of(images, coco_images) if coco_images else {}
    if not math.isfinite(min_score):
        raise ConfigError(f"expected a number, found {min_score}", where="min_score")
    model_path = find_model(model_path)
    _refuse_overwriting(images, output_dir)
    runner = load_runner(model_path, trust=trust)
    if output_dir:
        files.make_dirs(output_dir)
    drawing = _Drawing(
        folder=output_dir, names=known_classes(model_path), edges=known_edges(model_path), min_score=min_score
    )
    results, found = _predict_each(runner, images, ids, drawing)
    if ids:
        write_coco_results(files.join(output_dir, COCO_RESULTS), found)
    failed = [result for result in results if result.error]
    if needs_one and failed and len(failed) == len(results):
        raise DataError(failed[0].error, where=failed[0].image)
    return results


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Drawing:
    """How detections are drawn and written.

    Attributes:
        folder: for pictures and JSON; "" for none.
        names: class in [0, C) to name.
        edges: pairs of keypoints to draw a line between.
        min_score: detections below it are left out.
    """

    folder: str
    names: dict[int, str]
    edges: tuple[tuple[int, int], ...]
    min_score: float


def _predict_each(
    runner: Runner, images: Sequence[str | np.ndarray], ids: Mapping[str, int], drawing: _Drawing
) -> tuple[list[Prediction], list[tuple[int, Instances]]]:
    """Return the prediction of each image, and all detections of each usable one that has an id."""
    results: list[Prediction] = []
    detections: list[tuple[int, Instances]] = []
    taken: set[str] = set()
    with Progress("predict", total=len(images), unit="image") as progress:
        for i, given in enumerate(images):
            source = given if isinstance(given, str) else f"image {i}"
            try:
                pixels = read_image(given) if isinstance(given, str) else checked_pixels(given, source)
            except DataError as error:
                _logger.warning("predict | %s", error)
                results.append(Prediction(image=source, error=error.message))
            else:
                stem = files.join(drawing.folder, _free_name(source, taken)) if drawing.folder else ""
                found = runner(pixels, source)
                results.append(_prediction(pixels, found, stem, drawing))
                if ids:
                    detections.append((ids[source], found))
            progress.advance()
    return results, detections


def _ids_of(images: Sequence[str | np.ndarray], coco_images: str) -> dict[str, int]:
    known = ImageIds(coco_images)
    return {path: known.find(path) for path in images if isinstance(path, str)}


def _refuse_overwriting(images: Sequence[str | np.ndarray], output_dir: str) -> None:
    """Refuse the images' own folder, where the output would overwrite images or their annotations."""
    for path in images:
        if output_dir and isinstance(path, str) and _is_same_folder(os.path.dirname(path), output_dir):
            raise ConfigError(
                f"expected another folder than that of the images, found {path} in it, whose files would be"
                " overwritten; choose another",
                where="output",
            )


def _is_same_folder(one: str, other: str) -> bool:
    if files.is_remote(one) or files.is_remote(other):
        return one.rstrip("/") == other.rstrip("/")
    return os.path.realpath(one) == os.path.realpath(other)


def read_image(path: str) -> np.ndarray:
    """Read an image file as uint8 [H, W, 3], RGB, and apply its EXIF orientation.

    Raises:
        DataError: if the file is missing, not an image, damaged, or implausibly large.
    """
    try:
        data = files.read_regular(path, MAX_FILE_BYTES)
    except OSError as error:
        raise DataError(
            f"expected an image, found a file that cannot be read ({error})", where=path
        ) from error
    return decode_image(data, path)


def decode_image(data: bytes, where: str) -> np.ndarray:
    """Decode an image file's content as `read_image` does; a DataError names the image `where`."""
    try:
        find_format(data)
        return read_pixels(io.BytesIO(data), upright=True)
    except ImageFault as error:
        raise DataError(error.message, where=where) from error


def checked_pixels(image: np.ndarray, where: str) -> np.ndarray:
    """Return the pixels; a DataError names the image `where` if they are not uint8 [H, W, 3]."""
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
        raise DataError(
            f"expected uint8 [H, W, 3], RGB, found {image.dtype} {list(image.shape)}; convert the image",
            where=where,
        )
    return image


def _free_name(path: str, taken: set[str]) -> str:
    """Return the file's name without extension, numbered if it is taken."""
    stem = os.path.splitext(os.path.basename(path))[0]
    name, number = stem, 1
    while name in taken:
        number += 1
        name = f"{stem}-{number}"
    taken.add(name)
    return name


def all_names(found: Instances, names: Mapping[int, str]) -> dict[int, str]:
    """Return the class names; classes without a name get their id."""
    return {int(label): str(int(label) + FIRST_CLASS) for label in found.classes} | dict(names)


def detected_objects(
    found: Instances, names: Mapping[int, str], min_score: float
) -> tuple[DetectedObject, ...]:
    """Return the detections that reach a score, best first; `names` maps a class in [0, C) to its name."""
    found = found.take(found.scores >= min_score)
    size = (found.height, found.width)
    rows = zip(
        found.boxes.tolist(),
        found.scores.tolist(),
        found.classes.tolist(),
        found.masks,
        found.keypoints.tolist(),
        strict=True,
    )
    return tuple(
        DetectedObject(
            label=label + FIRST_CLASS,
            name=names[label],
            score=score,
            box=tuple(box),
            mask=MaskRuns(size=size, counts=mask.decode("ascii")) if mask else None,
            keypoints=tuple((y, x) for y, x in keypoints if math.isfinite(y)),
        )
        for box, score, label, mask, keypoints in rows
    )


def _prediction(image: np.ndarray, found: Instances, stem: str, drawing: _Drawing) -> Prediction:
    """Return the detections that reach a score; draw and write them if `stem` is given."""
    names, min_score = all_names(found, drawing.names), drawing.min_score
    prediction = Prediction(
        image=found.source_id,
        height=image.shape[0],
        width=image.shape[1],
        detections=detected_objects(found, names, min_score),
        picture=f"{stem}.jpg" if stem else "",
    )
    if stem:
        picture = fit(image, longest=LONGEST_PX, smallest=SMALLEST_PX)
        drawn = draw_boxes(picture, detection_boxes(found, names, min_score, edges=drawing.edges))
        files.write_bytes(prediction.picture, jpeg(drawn))
        write_prediction(stem, prediction)
    return prediction
