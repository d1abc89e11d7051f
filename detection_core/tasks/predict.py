"""The verb `predict`: detect objects in image files and draw their boxes."""

import contextlib
import dataclasses
import io
import itertools
import json
import logging
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from detection_core.artifacts.detector import find_model
from detection_core.artifacts.json_values import decode, encode
from detection_core.artifacts.prediction import DetectedObject, MaskRuns, Prediction, write_prediction
from detection_core.builders.evaluation_settings import known_edges
from detection_core.data.image_header import MAX_FILE_BYTES, ImageFault, find_format
from detection_core.data.pixels import mean_brightness, read_pixels
from detection_core.errors import ConfigError, DataError
from detection_core.evaluation.coco_results import COCO_RESULTS, ImageIds, coco_entries
from detection_core.evaluation.drawing import draw_boxes, fit
from detection_core.evaluation.measure import known_classes
from detection_core.evaluation.pictures import detection_boxes, jpeg
from detection_core.evaluation.runner import load_runner
from detection_core.evaluation.signature_runner import Runner, detect_batch
from detection_core.evaluation.tiled_runner import with_tiles
from detection_core.ops.tile_options import TileOptions
from detection_core.progress import Progress
from detection_core.storage import files
from detection_core.structures import FIRST_CLASS, Instances
from detection_core.tasks.predicting.prediction_inputs import real_path, unique_stems
from detection_core.tasks.predicting.prediction_journal import Journal, open_journal
from detection_core.tasks.predicting.prediction_outputs import COCO, JSON, PICTURES, write_formats

_logger = logging.getLogger(__name__)

LONGEST_PX, SMALLEST_PX = 1600, 320


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictOptions:
    """What is written, and how.

    Attributes:
        formats: of `allowed_values.PredictionFormat`.
        names: image to the name of its results; by default its file name. They may have folders.
        batch_size: most images of one size that are detected in one call, if the detector takes several.
        journal: of an interrupted prediction, whose results are kept; None: nothing is resumed.
        needs_one: raise if no image can be used.
        tiles: detect also in tiles, for small objects; None: in whole images only.
    """

    formats: Sequence[str] = (PICTURES, JSON)
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    batch_size: int = 1
    journal: Journal | None = None
    needs_one: bool = True
    tiles: TileOptions | None = None

    def __post_init__(self) -> None:
        """Check the values. Raises ConfigError if one is out of range."""
        if self.batch_size < 1:
            raise ConfigError(f"expected 1 or more, found {self.batch_size}", where="batch_size")


def predict(
    model_path: str,
    images: Sequence[str | np.ndarray],
    output_dir: str = "",
    min_score: float = 0.5,
    *,
    trust: bool = False,
    coco_images: str = "",
    options: PredictOptions | None = None,
) -> list[Prediction]:
    """Detect objects in images, and write them if a folder is given; report and skip an unusable image.

    Args:
        model_path: a push destination, detector folder, SavedModel, .tflite file or folder of an ensemble.
        images: files in the formats that ExampleGen reads, `detection_core.data.pixels.FORMATS`, or pixels,
            uint8 [H, W, 3], RGB. Files only, if `coco_images` is given.
        output_dir: folder for the files of all formats; created if missing. "": nothing is written.
        min_score: detections below it are left out, except of COCO results, see `evaluation.coco_results`.
        trust: run a SavedModel even if its graph does more than compute, such as reading files.
        coco_images: COCO JSON with the ids for COCO results, which are then written; "": numbers from 1.
        options: by default those of `PredictOptions`.

    Returns:
        One prediction for each image, in order; that of an unusable image has an `error`.

    Raises:
        ConfigError: if `min_score` is not a number, or `output_dir` is the folder of an image.
        ModelError: if the model cannot be run.
        DataError: if none of the images can be used, or `coco_images` does not list one.
    """
    if not math.isfinite(min_score):
        raise ConfigError(f"expected a number, found {min_score}", where="min_score")
    options = options or PredictOptions()
    sources = [given if isinstance(given, str) else f"image {i}" for i, given in enumerate(images)]
    known = ImageIds(coco_images) if coco_images else None
    ids = {source: known.find(source) if known else i for i, source in enumerate(sources, start=1)}
    formats = (*options.formats, COCO) if coco_images else tuple(options.formats)
    model_path = find_model(model_path)
    with contextlib.ExitStack() as stack:
        journal = options.journal or stack.enter_context(open_journal("", ""))
        stems = unique_stems({s: options.names.get(s) or os.path.basename(s) for s in sources}, journal.stems)
        refuse_overwriting([given for given in images if isinstance(given, str)], stems, output_dir)
        runner = with_tiles(load_runner(model_path, trust=trust), options.tiles)
        drawing = _Drawing(
            folder=output_dir,
            names=known_classes(model_path),
            edges=known_edges(model_path),
            min_score=min_score,
            formats=formats if output_dir else (),
        )
        batches = _batches(zip(sources, images, strict=True), journal, options.batch_size)
        results = _predict_each(runner, batches, stems, drawing, journal)
        usable = {stems[r.image] + os.path.splitext(r.image)[1]: r for r in results if not r.error}
        write_formats(drawing.formats, output_dir, usable, drawing.names, model_path)
        if COCO in drawing.formats:
            _write_coco_results(output_dir, {r.image: ids[r.image] for r in usable.values()}, journal)
    if options.needs_one and results and all(result.error for result in results):
        raise DataError(results[0].error, where=results[0].image)
    return results


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Drawing:
    """How detections are drawn and written.

    Attributes:
        folder: for pictures and JSON; "" for none.
        names: class in [0, C) to name.
        edges: pairs of keypoints to draw a line between.
        min_score: detections below it are left out.
        formats: to write.
    """

    folder: str
    names: dict[int, str]
    edges: tuple[tuple[int, int], ...]
    min_score: float
    formats: Sequence[str]


class _Loaded(NamedTuple):
    """An image with its pixels, uint8 [H, W, 3], or with its result if it is done or unusable."""

    source: str
    pixels: np.ndarray | None = None
    result: Prediction | None = None


def _load(source: str, given: str | np.ndarray, journal: Journal) -> _Loaded:
    done = journal.find(source)
    if done is not None:
        return _Loaded(source, result=decode(Prediction, done[0]))
    try:
        return _Loaded(source, read_image(given) if isinstance(given, str) else checked_pixels(given, source))
    except DataError as error:
        _logger.warning("predict | %s", error)
        return _Loaded(source, result=Prediction(image=source, error=error.message))


def _batches(
    images: Iterable[tuple[str, str | np.ndarray]], journal: Journal, size: int
) -> Iterator[list[_Loaded]]:
    """Yield the images in order; those of a batch have one size."""
    loaded = (_load(source, given, journal) for source, given in images)
    for _, same in itertools.groupby(loaded, lambda image: np.shape(image.pixels)):
        while batch := list(itertools.islice(same, size)):
            yield batch


def _predict_each(
    runner: Runner,
    batches: Iterator[list[_Loaded]],
    stems: Mapping[str, str],
    drawing: _Drawing,
    journal: Journal,
) -> list[Prediction]:
    """Return the prediction of each image; write its files, then add it to the journal."""
    results: list[Prediction] = []
    with Progress("predict", total=len(stems), unit="image") as progress:
        for batch in batches:
            pixels = {image.source: image.pixels for image in batch if image.pixels is not None}
            for image in detect_batch(runner, list(pixels.values()), list(pixels)):
                source = image.source_id
                result = _prediction(pixels[source], image, stems[source], drawing)
                entries = coco_entries(image, 0) if COCO in drawing.formats else []
                journal.add(source, stems[source], [encode(result), entries])
                results.append(result)
            results += [image.result for image in batch if image.result is not None]
            progress.advance(len(batch))
    return results


def _write_coco_results(folder: str, ids: Mapping[str, int], journal: Journal) -> None:
    """Write the journal's COCO results of images, with the ids that the images now have."""
    found = ((number, entry) for image, number in ids.items() for entry in journal.find(image)[1])
    entries = [entry | {"image_id": number} for number, entry in found]
    files.write_text(files.join(folder, COCO_RESULTS), json.dumps(entries, allow_nan=False))


def refuse_overwriting(images: Sequence[str], stems: Mapping[str, str], output_dir: str) -> None:
    """Refuse a folder of the images, where the output would overwrite images or their annotations."""
    written = {os.path.dirname(files.join(output_dir, stem)) for stem in stems.values() if output_dir}
    places = set(map(real_path, written))
    for folder, path in {os.path.dirname(path): path for path in images}.items():
        if real_path(folder) in places:
            raise ConfigError(
                f"expected another folder than that of the images, found {path} in it, whose files would be"
                " overwritten; choose another",
                where="output",
            )


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
    """Return the detections that reach a score; write the picture and JSON file that `drawing` wants."""
    names, min_score = all_names(found, drawing.names), drawing.min_score
    stem = files.join(drawing.folder, stem)
    prediction = Prediction(
        image=found.source_id,
        height=image.shape[0],
        width=image.shape[1],
        detections=detected_objects(found, names, min_score),
        picture=f"{stem}.jpg" if PICTURES in drawing.formats else "",
        brightness=mean_brightness(image),
    )
    if PICTURES in drawing.formats:
        picture = fit(image, longest=LONGEST_PX, smallest=SMALLEST_PX)
        drawn = draw_boxes(picture, detection_boxes(found, names, min_score, edges=drawing.edges))
        files.write_bytes(prediction.picture, jpeg(drawn))
    if JSON in drawing.formats:
        write_prediction(stem, prediction)
    return prediction
