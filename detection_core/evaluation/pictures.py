"""Draw detections beside ground truth, and crops of the worst mistakes."""

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image

from detection_core.artifacts.pictures import FALSE_POSITIVE, PICTURES, SIDE_BY_SIDE, PictureEntry
from detection_core.evaluation.drawing import LabelledBox, draw_boxes, fit, jpeg_bytes, side_by_side
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from detection_core.evaluation.mistakes import Mistake, largest_misses, worst_false_positives
from detection_core.evaluation.results import EvaluatedImage
from detection_core.ops.mask_runs import encode_masks
from detection_core.storage import files
from detection_core.structures import COLOURS, GroundTruth, Instances

_JPEG_QUALITY = 82


@dataclasses.dataclass(frozen=True, kw_only=True)
class PictureOptions:
    """Style of pictures.

    Attributes:
        longest_px: most pixels of a drawn image's longer side.
        smallest_px: images with a shorter longer side are enlarged to this.
        crop_px: side of a crop.
        crop_context: ratio of a crop's side to its box's.
        most_boxes: most detections drawn on one image, the best first.
        names: draw class names at the boxes.
        scores: draw the scores of detections.
        truth_colour: RGB of ground truth drawn onto the detections, too; None: only beside them.
        keypoint_edges: pairs of keypoint indices to draw a line between.
    """

    longest_px: int = 420
    smallest_px: int = 320
    crop_px: int = 190
    crop_context: float = 2.0
    most_boxes: int = 20
    names: bool = True
    scores: bool = True
    truth_colour: tuple[int, int, int] | None = None
    keypoint_edges: tuple[tuple[int, int], ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class PicturePlan:
    """Images and mistakes to draw, by the image's index in the stream.

    Attributes:
        side_by_side: indices of images to draw whole.
        mistakes: mistakes to crop.
        score_threshold: detections below it are not drawn.
    """

    side_by_side: tuple[int, ...]
    mistakes: tuple[Mistake, ...]
    score_threshold: float

    @property
    def images(self) -> set[int]:
        """Indices of all required images."""
        return {*self.side_by_side, *(m.image for m in self.mistakes)}


def plan_pictures(split: EvaluatedSplit, count: int, score_threshold: float) -> PicturePlan:
    """Choose images spread over the split, and the worst mistakes; `count` of each kind.

    Detections below the threshold are not drawn, and do not count as found.
    """
    return PicturePlan(
        side_by_side=spread_evenly(len(split.counted), count),
        mistakes=(*worst_false_positives(split, count), *largest_misses(split, score_threshold, count)),
        score_threshold=score_threshold,
    )


def spread_evenly(total: int, count: int) -> tuple[int, ...]:
    """Return `count` indices (or all) spread over `total`, always the same ones."""
    if count <= 0 or total <= 0:
        return ()
    return tuple(sorted({int(i) for i in np.linspace(0, total - 1, min(count, total)).round()}))


def write_pictures(
    plan: PicturePlan, split: EvaluatedSplit, folder: str, options: PictureOptions | None = None
) -> list[PictureEntry]:
    """Draw the planned pictures as JPEG files and write their `index.jsonl`; return its contents.

    Pixels of the split are read only as far as needed.
    """
    options, images, class_names = options or PictureOptions(), split.counted, split.class_names
    drawn: dict[tuple[str, int, int], PictureEntry] = {}
    last = max(plan.images, default=-1)
    for i, (pixels, _) in enumerate(itertools.islice(split.pixels(), last + 1)):
        image = pixels[..., :COLOURS]
        if i in plan.side_by_side:
            picture = draw_both(image, images[i], class_names, plan.score_threshold, options)
            found = int((images[i].detections.scores >= plan.score_threshold).sum())
            caption = f"{found} detections, {int((~images[i].truth.is_crowd).sum())} objects"
            name = f"{SIDE_BY_SIDE}_{i:05d}.jpg"
            drawn[SIDE_BY_SIDE, i, 0] = _save(picture, folder, SIDE_BY_SIDE, images[i], caption, name)
        for mistake in (m for m in plan.mistakes if m.image == i):
            picture = draw_mistake(image, images[i], mistake, class_names, options)
            name = f"{mistake.kind}_{i:05d}_{mistake.row:03d}.jpg"
            entry = _save(picture, folder, mistake.kind, images[i], mistake.caption, name)
            drawn[mistake.kind, i, mistake.row] = entry
    order = [(SIDE_BY_SIDE, i, 0) for i in plan.side_by_side]
    order += [(m.kind, m.image, m.row) for m in plan.mistakes]
    index = [drawn[key] for key in order if key in drawn]
    PICTURES.write(folder, index)
    return index


jpeg = functools.partial(jpeg_bytes, quality=_JPEG_QUALITY, optimize=True)
"""Return a picture as a JPEG file of an evaluation or prediction."""


def _save(
    picture: Image.Image, folder: str, kind: str, image: EvaluatedImage, caption: str, name: str
) -> PictureEntry:
    files.write_bytes(files.join(folder, name), jpeg(picture))
    return PictureEntry(kind=kind, source_id=image.truth.source_id, caption=caption, file=name)


def detection_boxes(
    found: Instances,
    class_names: Mapping[int, str],
    score_threshold: float,
    options: PictureOptions | None = None,
    *,
    edges: tuple[tuple[int, int], ...] = (),
) -> list[LabelledBox]:
    """Return the boxes to draw for detections from a score on, best first.

    Without options it is all of them; `edges` are then the options' `keypoint_edges`.
    """
    options = options or PictureOptions(most_boxes=len(found.scores), keypoint_edges=edges)
    texts = [
        " ".join([class_names[label]] * options.names + [f"{score:.2f}"] * options.scores)
        for label, score in zip(found.classes.tolist(), found.scores, strict=True)
    ]
    boxes = _labelled(found, texts, edges=options.keypoint_edges)
    return boxes[: min(options.most_boxes, int((found.scores >= score_threshold).sum()))]


def truth_boxes(
    truth: Instances,
    class_names: Mapping[int, str],
    *,
    names: bool = True,
    colour: tuple[int, int, int] | None = None,
    edges: tuple[tuple[int, int], ...] = (),
) -> list[LabelledBox]:
    """Return the boxes to draw for ground truth, with dashed crowds.

    `class_names` maps a class in [0, C) to its name. `colour` is RGB, None: that of each class. Lines are
    drawn between the keypoints of `edges`.
    """
    texts = [class_names[label] if names else "" for label in truth.classes.tolist()]
    return _labelled(truth, texts, edges=edges, colour=colour)


def host_truth(truth: GroundTruth) -> Instances:
    """Return unbatched ground truth on the host, without its padding."""
    valid = np.asarray(truth.valid, bool)
    masks = np.asarray(truth.masks)[valid]
    height, width = masks.shape[1:]
    return Instances(
        source_id="",
        height=height,
        width=width,
        boxes=np.asarray(truth.boxes)[valid],
        classes=np.asarray(truth.classes)[valid],
        is_crowd=np.asarray(truth.is_crowd)[valid],
        masks=encode_masks(masks) if height and width else np.full(len(masks), b"", object),
        keypoints=np.asarray(truth.keypoints)[valid],
    )


def draw_truth(image: np.ndarray, truth: Instances, names: Sequence[str], *, longest: int) -> Image.Image:
    """Draw the objects of an image, uint8 [H, W, 3], with `longest` pixels on its longer side."""
    known = {label: names[label] if 0 <= label < len(names) else str(label) for label in truth.classes}
    return draw_boxes(fit(image, longest=longest, smallest=longest), truth_boxes(truth, known))


def _labelled(
    objects: Instances,
    texts: Sequence[str],
    *,
    edges: tuple[tuple[int, int], ...],
    colour: tuple[int, int, int] | None = None,
) -> list[LabelledBox]:
    return [
        LabelledBox(
            box=tuple(objects.boxes[row].tolist()),
            label=int(objects.classes[row]),
            text=text,
            dashed=bool(objects.is_crowd[row]),
            colour=colour,
            mask=bytes(objects.masks[row]),
            mask_size=(objects.height, objects.width),
            keypoints=tuple((y, x) for y, x in objects.keypoints[row].tolist()),
            edges=edges,
        )
        for row, text in enumerate(texts)
    ]


def draw_both(
    image: np.ndarray,
    evaluated: EvaluatedImage,
    class_names: Mapping[int, str],
    score_threshold: float,
    options: PictureOptions,
) -> Image.Image:
    """Return two copies of an image side by side: with its detections, and with its ground truth."""
    picture = fit(image, longest=options.longest_px, smallest=options.smallest_px)
    found = detection_boxes(evaluated.detections, class_names, score_threshold, options)
    true = truth_boxes(evaluated.truth, class_names, names=options.names, edges=options.keypoint_edges)
    if options.truth_colour:
        found += truth_boxes(evaluated.truth, class_names, names=False, colour=options.truth_colour)
    return side_by_side({"detections": draw_boxes(picture, found), "ground truth": draw_boxes(picture, true)})


def draw_mistake(
    image: np.ndarray,
    evaluated: EvaluatedImage,
    mistake: Mistake,
    class_names: Mapping[int, str],
    options: PictureOptions,
) -> Image.Image:
    """Return a square crop around a mistake; its box has no text, which would hide it."""
    source = evaluated.detections if mistake.kind == FALSE_POSITIVE else evaluated.truth
    box, label = source.boxes[mistake.row], int(source.classes[mistake.row])
    height, width = image.shape[:2]
    ymin, xmin, ymax, xmax = (float(v) for v in box * np.array([height, width] * 2, np.float32))
    # some pixels of context around tiny boxes, but never more than the image
    side = min(max((ymax - ymin), (xmax - xmin), 12.0) * options.crop_context, float(max(height, width)))
    top, left = _inside((ymin + ymax) / 2, side, height), _inside((xmin + xmax) / 2, side, width)
    crop = _square(image, left, top, side, options.crop_px)
    inside = ((ymin - top) / side, (xmin - left) / side, (ymax - top) / side, (xmax - left) / side)
    return draw_boxes(crop, [LabelledBox(box=inside, label=label)])


def _square(image: np.ndarray, left: float, top: float, side: float, size: int) -> Image.Image:
    """Return a square window of an image, scaled to `size` pixels; black outside the image."""
    height, width = image.shape[:2]
    x, y = (max(0, round(edge)) for edge in (left, top))
    part = image[y : min(height, round(top + side)), x : min(width, round(left + side))]
    # Resize before pasting: the window of a long strip would be huge.
    scale = size / side if side > min(height, width) else 0.0
    shape = (max(1, round(part.shape[1] * scale)), max(1, round(part.shape[0] * scale)))
    small = Image.fromarray(part).resize(shape if scale else (size, size), Image.Resampling.BICUBIC)
    if not scale:
        return small
    window = Image.new("RGB", (size, size))
    window.paste(small, (round(max(0.0, -left) * scale), round(max(0.0, -top) * scale)))
    return window


def _inside(centre: float, side: float, length: int) -> float:
    """Return the start of a window of `side` around `centre`, shifted into the image if it fits.

    A shorter image is centred, with black on both sides.
    """
    if side > length:
        return (length - side) / 2
    return min(max(centre - side / 2, 0.0), length - side)
