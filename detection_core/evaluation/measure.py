"""Run detectors over a split, several in one pass, and give what they found to the metrics."""

import collections
import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from detection_core.artifacts.detector import LABEL_MAP, find_extra, members
from detection_core.artifacts.tflite_file import read_tflite
from detection_core.artifacts.tflite_metadata import read_description
from detection_core.config.label_map_file import load_label_map
from detection_core.config.metric_names import MASK_SETS
from detection_core.data.label_map import LabelMap
from detection_core.data.pixels import mean_brightness
from detection_core.errors import DataError, ModelError
from detection_core.evaluation.coco_matching import MatchTable, join_tables
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from detection_core.evaluation.metric_sets import MetricOptions
from detection_core.evaluation.results import EvaluatedImage
from detection_core.evaluation.signature_runner import Runner, detect_batch
from detection_core.progress import Progress
from detection_core.storage import files
from detection_core.storage.spooled import Spooled
from detection_core.structures import Instances

# Number of sizes whose images wait for others of their size, and how many later images the first waits for.
_SIZES = 4
_LATER = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measurement:
    """Results of one detector on a split, or on a part of it.

    Attributes:
        images: ground truth and detections of every image, in order.
        seconds_per_image: mean time of the calls, without the first, which prepares the model.
        tables: COCO's name of a shape to its matches, where known.
    """

    images: Sequence[EvaluatedImage]
    seconds_per_image: float
    tables: Mapping[str, MatchTable] = dataclasses.field(default_factory=dict)


def join_measurements(parts: Iterable[Mapping[str, Measurement]]) -> dict[str, Measurement]:
    """Join what `measure` returns of the parts of a split, in the split's order."""
    images: dict[str, Spooled[EvaluatedImage]] = collections.defaultdict(Spooled)
    tables: dict[str, dict[str, list[MatchTable]]] = collections.defaultdict(dict)
    seconds: dict[str, float] = collections.defaultdict(float)
    for part in parts:
        for name, one in part.items():
            for shape, table in one.tables.items():
                tables[name].setdefault(shape, []).append(table.shifted(len(images[name])))
            images[name].extend(one.images)
            seconds[name] += one.seconds_per_image * len(one.images)
    return {
        name: Measurement(
            images=found,
            seconds_per_image=seconds[name] / max(1, len(found)),
            tables={shape: join_tables(each) for shape, each in tables[name].items()},
        )
        for name, found in images.items()
    }


def measure(
    runners: Mapping[str, Runner],
    truth: Iterable[tuple[np.ndarray, Instances]],
    label_map: LabelMap,
    *,
    job: str = "evaluate",
    total: int = 0,
    batch_size: int = 1,
    partial: bool = False,
) -> dict[str, Measurement]:
    """Run every detector on every image; only detections are kept.

    Args:
        runners: name to detector.
        truth: images, uint8 [H, W, 3], with their ground truth.
        label_map: classes of the ground truth.
        job: name in the progress lines.
        total: number of images, if known.
        batch_size: most images of one size that are detected in one call, if the detector takes several.
        partial: whether the images are a part of the split, which may be empty.

    Returns:
        Name to measurement.

    Raises:
        ModelError: if a detector returns NaN, infinity, or a class missing from the label map.
        DataError: if there is no image, or the ground truth has a class missing from the label map.
    """
    found: dict[str, Spooled[EvaluatedImage]] = {name: Spooled() for name in runners}
    waiting: dict[int, dict[str, EvaluatedImage]] = collections.defaultdict(dict)
    seconds: dict[str, list[float]] = {name: [] for name in runners}
    with Progress(job, total=total, unit="image") as progress:
        for batch in _batches(truth, batch_size):
            pixels, truths = [image for _, image, _ in batch], [objects for _, _, objects in batch]
            brightness = list(map(mean_brightness, pixels))
            for objects in truths:
                _check_truth(objects, label_map)
            for name, runner in runners.items():
                start = time.perf_counter()
                detections = detect_batch(runner, pixels, [objects.source_id for objects in truths])
                seconds[name] += [(time.perf_counter() - start) / len(batch)] * len(batch)
                for (place, _, objects), each, light in zip(batch, detections, brightness, strict=True):
                    kept = _of_known_classes(each, label_map, runner.path)
                    waiting[place][name] = EvaluatedImage(truth=objects, detections=kept, brightness=light)
            while (place := min(map(len, found.values()))) in waiting:
                for name, image in waiting.pop(place).items():
                    found[name].extend([image])
            progress.advance(len(batch))
    for name, images in found.items():
        if not images and not partial:
            raise DataError(f"expected images to measure {name} on, found none; choose another split")
    return {
        name: Measurement(
            images=found[name], seconds_per_image=float(np.mean(seconds[name][1:] or seconds[name] or 0.0))
        )
        for name in runners
    }


def _batches(
    truth: Iterable[tuple[np.ndarray, Instances]], most: int
) -> Iterator[list[tuple[int, np.ndarray, Instances]]]:
    """Yield images of one size with their places in the split; a few sizes at once wait for more images."""
    waiting: dict[tuple[int, ...], list[tuple[int, np.ndarray, Instances]]] = {}
    for place, (image, objects) in enumerate(truth):
        batch = waiting.setdefault(image.shape, [])
        batch.append((place, image, objects))
        if len(batch) >= most:
            yield waiting.pop(image.shape)
        elif len(waiting) > _SIZES or waiting[next(iter(waiting))][0][0] < place - _LATER:
            yield waiting.pop(next(iter(waiting)))
    yield from waiting.values()


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
    """Return class in [0, C) to name, as a model of any kind, or an ensemble, records it; else empty."""
    label_map = find_extra(path, LABEL_MAP)
    if label_map:
        return load_label_map(label_map).class_names
    path = members(path)[0]
    if files.is_dir(path) or path.lower().endswith((".pb", ".onnx")):
        return {}
    return dict(enumerate(read_description(read_tflite(path), where=path).labels))


def split_to_measure(
    images: Sequence[EvaluatedImage],
    label_map: LabelMap,
    options: MetricOptions,
    pixels: Callable[[], Iterable[tuple[np.ndarray, Instances]]] = tuple,
) -> EvaluatedSplit:
    """Return images as the metrics need them; `pixels` as in `EvaluatedSplit`."""
    return EvaluatedSplit(
        images=images,
        class_names=label_map.class_names,
        frequencies=label_map.frequencies,
        labelled_only=options.only_labelled,
        compares_masks=not MASK_SETS.isdisjoint(options.sets),
        pixels=pixels,
    )
