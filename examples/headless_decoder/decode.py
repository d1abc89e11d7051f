"""Decode a TensorFlow Lite file without post-processing. Copy this file into your app; it needs Python alone.

decoding = json.load(open("decoding.json"))
found = decode(location, score, decoding, min_score=0.5)
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

CANDIDATES = 5000
"""Pairs of anchor and class, best first, that class-by-class suppression looks at."""


class Detection(NamedTuple):
    """An object.

    Attributes:
        box: ymin, xmin, ymax, xmax as fractions of the image; not clipped to it.
        score: 0 to 1.
        label: line of labels.txt, from 0.
    """

    box: tuple[float, float, float, float]
    score: float
    label: int


def decode(
    location: Sequence[float], score: Sequence[float], decoding: Mapping[str, Any], *, min_score: float = 0.0
) -> list[Detection]:
    """Return the objects of an image, best first, as TFLite_Detection_PostProcess finds them.

    Args:
        location: output `location` of the file, A * 4 numbers.
        score: output `score`, A * C numbers.
        decoding: content of decoding.json.
        min_score: least score; a higher one is faster.
    """
    options = decoding["post_process"]
    classes, by_class = options["num_classes"], options["use_regular_nms"]
    least = max(min_score, options["nms_score_threshold"])
    rows = [score[start : start + classes] for start in range(0, len(score), classes)]
    if decoding["sigmoid"]:
        rows = [[1 / (1 + math.exp(-value)) if value > -700 else 0.0 for value in row] for row in rows]
    pairs = []
    for anchor, row in enumerate(rows):
        for label in range(classes) if by_class else (max(range(classes), key=row.__getitem__),):
            if row[label] >= least:
                pairs.append((row[label], anchor, label))
    pairs.sort(key=lambda pair: -pair[0])
    kept = _suppressed(pairs[:CANDIDATES] if by_class else pairs, location, decoding)
    found = []
    for box, anchor, label in kept:
        ranked = sorted(range(classes), key=lambda each, row=rows[anchor]: -row[each])
        for each in [label] if by_class else ranked[: options["max_classes_per_detection"]]:
            found.append(Detection(box, rows[anchor][each], each))
    found.sort(key=lambda one: -one.score)
    return [one for one in found[: options["max_detections"]] if one.score >= min_score]


def _suppressed(pairs, location, decoding):
    """Return (box, anchor, label) of the pairs that no better one suppresses, best first."""
    options = decoding["post_process"]
    kept = []
    for _, anchor, label in pairs:
        if len(kept) == options["max_detections"]:
            break
        box = _box(location[4 * anchor : 4 * anchor + 4], decoding["anchors"][anchor], options)
        rivals = [one for one in kept if one[2] == label] if options["use_regular_nms"] else kept
        if options["use_regular_nms"] and len(rivals) == options["detections_per_class"]:
            continue
        if all(_iou(box, other) <= options["nms_iou_threshold"] for other, _, _ in rivals):
            kept.append((box, anchor, label))
    return kept


def _box(codes, anchor, options):
    y, x, height, width = anchor
    centre_y = codes[0] / options["y_scale"] * height + y
    centre_x = codes[1] / options["x_scale"] * width + x
    half_height = math.exp(codes[2] / options["h_scale"]) * height / 2
    half_width = math.exp(codes[3] / options["w_scale"]) * width / 2
    return centre_y - half_height, centre_x - half_width, centre_y + half_height, centre_x + half_width


def _iou(one, other):
    height = min(one[2], other[2]) - max(one[0], other[0])
    width = min(one[3], other[3]) - max(one[1], other[1])
    if height <= 0 or width <= 0:
        return 0.0
    areas = ((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
    return height * width / (sum(areas) - height * width)
