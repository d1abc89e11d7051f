"""The verb `select`: choose images that are worth labelling, and write tasks with pre-annotations."""

import dataclasses
import hashlib
import io
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from detection_core.artifacts.detector import LABEL_MAP, find_model
from detection_core.artifacts.prediction import Prediction
from detection_core.artifacts.selection import CHOSEN_LIST, SELECTION, SELECTION_TABLE, RankedImage, Selection
from detection_core.capabilities import capability, has_capability
from detection_core.config.input_paths import split_pattern
from detection_core.config.label_map_file import load_label_map
from detection_core.data.image_header import MAX_FILE_BYTES, ImageFault
from detection_core.data.label_map import LabelMap
from detection_core.data.pixels import read_thumbnail
from detection_core.data.records import expand_patterns
from detection_core.datasets.annotation_writers import write_rows
from detection_core.errors import DataError
from detection_core.evaluation.measure import known_classes
from detection_core.progress import Progress
from detection_core.storage import files
from detection_core.structures import FIRST_CLASS
from detection_core.tasks.predict import PredictOptions, predict, refuse_overwriting
from detection_core.tasks.predicting.prediction_inputs import unique_stems
from detection_core.tasks.predicting.prediction_outputs import describe_model, write_formats
from detection_core.tasks.selecting.informative_images import (
    CANDIDATES,
    Objects,
    class_weights,
    embed,
    find_distinct,
    spread,
    uncertainty,
)
from detection_core.validation.labelled_images import LabelledImage, read_split, split_names

TASK_FORMATS = ("cvat", "label_studio", "coco")
LEAST_SCORE = 0.05
"""Detections from this score on count. There are very many below it, which say little of an image."""
_NEAR_DUPLICATES = "detection_core.optional.near_duplicates"
_SIDE = 64
"""Rows and columns of the grey picture that is hashed, as in `perceptual_hash.SIDE`."""
_DECIMALS = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class SelectOptions:
    """What is chosen and written.

    Attributes:
        number: of images to choose.
        min_score: of detections that become pre-annotations.
        prediction: how to detect, with the journal of an interrupted run.
        trust: run a SavedModel whose graph may do more than compute.
    """

    number: int = 100
    min_score: float = 0.5
    prediction: PredictOptions = dataclasses.field(default_factory=PredictOptions)
    trust: bool = False


class _Seen(NamedTuple):
    """A usable image: its path, objects, embedding (float32 [D]) and hash.

    The hash is perceptual; of a picture without features, or without this capability, that of the file.
    """

    path: str
    objects: Objects
    embedding: np.ndarray
    hash: bytes


def select_images(
    model_path: str,
    images: Mapping[str, str],
    output_dir: str,
    examples_dir: str = "",
    options: SelectOptions | None = None,
) -> Selection:
    """Choose images to label: those of which the detector is uncertain and that differ from what is labelled.

    Args:
        model_path: as of `predict`.
        images: image file to its name in the tasks, as of `find_inputs`.
        output_dir: gets `selection.json`, the same as a table, a list of the chosen images, and the tasks
            `cvat.xml`, `label_studio.json` and `annotations.json` with detections as pre-annotations.
        examples_dir: output of ExampleGen with the images that are labelled; "": there are none.
        options: by default those of `SelectOptions`.

    Raises:
        ConfigError: if the output folder is one of the images', whose annotations would be overwritten.
        ModelError: if the model cannot be run.
        DataError: if none of the images can be used, or the examples are damaged.
    """
    options = options or SelectOptions()
    model_path = find_model(model_path)
    refuse_overwriting(list(images), {"": ""}, output_dir)
    label_map = load_label_map(files.join(examples_dir, LABEL_MAP)) if examples_dir else None
    found = predict(
        model_path,
        list(images),
        min_score=min(LEAST_SCORE, options.min_score),
        trust=options.trust,
        options=dataclasses.replace(options.prediction, formats=(), names=images),
    )
    names = {each.label - FIRST_CLASS: each.name for result in found for each in result.detections}
    names |= known_classes(model_path)
    classes = list(dict.fromkeys([*names.values(), *(label_map.class_names.values() if label_map else ())]))
    numbers = {name: number for number, name in enumerate(classes)}
    pool, errors = _look_at(found, numbers)
    labelled = _read_labelled(examples_dir, label_map, numbers) if label_map else []
    ranked, weights = _rank(pool, labelled, classes, options.number)
    made = Selection(
        model=describe_model(model_path),
        labelled_images=len(labelled),
        class_weights=dict(zip(classes, weights.round(_DECIMALS).tolist(), strict=True)),
        images=[*ranked, *(RankedImage(image=path, error=error) for path, error in errors.items())],
    )
    _write(made, output_dir)
    stems, by_path = unique_stems(images, {}), {result.image: result for result in found}
    tasks = {
        stems[path] + os.path.splitext(path)[1]: by_path[path] for path in (i.image for i in made.chosen)
    }
    confident = {name: _at_least(options.min_score, result) for name, result in tasks.items()}
    write_formats(TASK_FORMATS, output_dir, confident, names, model_path)
    return made


def _look_at(found: Sequence[Prediction], numbers: Mapping[str, int]) -> tuple[list[_Seen], dict[str, str]]:
    """Return the usable images, and path to error of the others."""
    pool, errors = [], {}
    with Progress("look at", total=len(found), unit="image") as progress:
        for result in found:
            try:
                if result.error:
                    raise DataError(result.error)
                data = files.read_regular(result.image, MAX_FILE_BYTES)
                seen = _at_least(LEAST_SCORE, result).detections
                boxes = np.array([each.box for each in seen], np.float64).reshape(-1, 4)
                classes, scores = [numbers[each.name] for each in seen], [each.score for each in seen]
                pool.append(_see(result.image, data, Objects(classes, scores, _sizes(boxes)), len(numbers)))
            except (OSError, DataError) as error:  # may have changed since it was predicted
                errors[result.image] = str(error)
            progress.advance()
    if not pool:
        raise DataError("expected an image, found none that can be used", where=found[0].image)
    return pool, errors


def _see(path: str, data: bytes, objects: Objects, num_classes: int) -> _Seen:
    try:
        grey = read_thumbnail(io.BytesIO(data), _SIDE)
    except ImageFault as error:
        raise DataError(error.message, where=path) from error
    near = _near_duplicates()
    seen = near.hash_picture(grey) if near else None
    return _Seen(path, objects, embed(objects, num_classes, grey), seen or hashlib.sha256(data).digest())


def _near_duplicates() -> Any:
    """Return the capability; None if this installation is without it."""
    return capability(_NEAR_DUPLICATES) if has_capability(_NEAR_DUPLICATES) else None


def _at_least(score: float, result: Prediction) -> Prediction:
    found = tuple(each for each in result.detections if each.score >= score)
    return dataclasses.replace(result, detections=found)


def _sizes(boxes: np.ndarray) -> list[float]:
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2], 0)
    return list(map(float, np.sqrt(sides.prod(axis=1))))


def _read_labelled(examples_dir: str, label_map: LabelMap, numbers: Mapping[str, int]) -> list[_Seen]:
    """Return the images of all splits, whose labels have score 1; DataError if their pixels are damaged."""
    own = {label: numbers[name] for label, name in label_map.class_names.items()}
    return [
        _labelled(image, own, len(numbers))
        for split in split_names(examples_dir)
        for image in read_split(expand_patterns([split_pattern(examples_dir, split)]), label_map)
    ]


def _labelled(image: LabelledImage, numbers: Mapping[int, int], num_classes: int) -> _Seen:
    known = np.flatnonzero(image.classes >= 0)
    classes = [numbers[label] for label in image.classes[known].tolist()]
    objects = Objects(classes, [1.0] * len(known), _sizes(image.boxes[known]))
    return _see(image.filename or image.source_id, image.encoded, objects, num_classes)


def _rank(
    pool: Sequence[_Seen], labelled: Sequence[_Seen], classes: Sequence[str], number: int
) -> tuple[list[RankedImage], np.ndarray]:
    """Return all images of the pool, the chosen ones first, and the weight of each class, float64 [C]."""
    # Without labels, detections say which classes are rare.
    seen = [image.objects for image in labelled or pool]
    counts = np.zeros(len(classes))
    for objects in seen:
        counts += np.bincount(objects.classes, weights=objects.scores, minlength=len(classes))
    weights = class_weights(counts)
    parts = [uncertainty(image.objects, weights) for image in pool]
    totals = np.array([part.sum() for part in parts])
    order = np.argsort(-totals, kind="stable").tolist()
    near = _near_duplicates()
    hashes, taken = ([image.hash for image in images] for images in (pool, labelled))
    limit = near.MAX_DISTANCE if near else 0
    candidates, alike = find_distinct(order, hashes, taken, CANDIDATES * number, limit)
    known = np.array([image.embedding for image in labelled], np.float32)
    embeddings = np.array([pool[index].embedding for index in candidates])
    chosen = spread(embeddings, known, totals[candidates], number) if candidates else []
    paths = [image.path for image in pool] + [image.path for image in reversed(labelled)]
    ranks = {candidates[place]: rank for rank, (place, _) in enumerate(chosen, start=1)}
    distances = {candidates[p]: round(d, _DECIMALS) for p, d in chosen if np.isfinite(d)}
    ranked = [
        RankedImage(
            image=pool[index].path,
            rank=ranks.get(index, 0),
            uncertainty=round(float(totals[index]), _DECIMALS),
            reason=classes[int(parts[index].argmax())] if totals[index] else "",
            distance=distances.get(index),
            alike=paths[alike[index]] if index in alike else "",
        )
        for index in [*ranks, *(index for index in order if index not in ranks)]
    ]
    return ranked, weights


def _write(made: Selection, folder: str) -> None:
    SELECTION.write(folder, made)
    fields = [field.name for field in dataclasses.fields(RankedImage)]
    rows = ([getattr(image, field) for field in fields] for image in made.images)
    write_rows(files.join(folder, SELECTION_TABLE), [fields, *rows])
    chosen = "".join(f"{image.image}\n" for image in made.chosen)
    files.write_bytes(files.join(folder, CHOSEN_LIST), chosen.encode(errors="surrogateescape"))
