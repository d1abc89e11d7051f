"""Objects and detections as data sets of COCO's tools, see https://cocodataset.org/#format-data."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from detection_core.errors import DataError, ModelError
from detection_core.evaluation.results import EvaluatedImage, box_areas, to_px
from detection_core.ops.mask_runs import as_coco, mask_areas
from detection_core.structures import Instances

_PERSON_KEYPOINTS = 17
_SIGMA = 0.05
"""Tolerance of keypoints other than COCO's persons', as in the Object Detection API."""


def coco_dictionaries(
    images: Sequence[EvaluatedImage], class_names: Mapping[int, str], iou_type: str = "bbox"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return ground truth and detections as two data sets of COCO's tools.

    Images and annotations are numbered from 1 (0 means "unmatched" in COCO's tools). Boxes are x, y, width,
    height in pixels.

    Args:
        images: every image once.
        class_names: class in [0, C) to name; others are left out.
        iou_type: shape that is required besides boxes: bbox for none, segm or keypoints.

    Raises:
        DataError: for an object without the required mask or keypoints.
        ModelError: for a detection without them.
    """
    shared = {
        "info": {},
        "images": [
            {"id": i, "height": image.truth.height, "width": image.truth.width}
            for i, image in enumerate(images, start=1)
        ],
        "categories": [{"id": c + 1, "name": class_names[c]} for c in sorted(class_names)],
    }
    truth: list[dict[str, Any]] = []
    found: list[dict[str, Any]] = []
    for image_id, image in enumerate(images, start=1):
        check_shapes(image, iou_type)
        truth += _true_objects(image.truth, image_id, iou_type)
        found += detected_objects(image.detections, image.truth, image_id, iou_type)
    for objects in (truth, found):
        objects[:] = [a for a in objects if a["category_id"] - 1 in class_names]
        for number, annotation in enumerate(objects, start=1):
            annotation["id"] = number
    return {**shared, "annotations": truth}, {**shared, "annotations": found}


def keypoint_sigmas(images: Sequence[EvaluatedImage]) -> np.ndarray | None:
    """Return the tolerance of each keypoint, float64 [K]; None for COCO's persons, or without objects.

    Raises:
        ModelError: if detections and objects have different numbers of keypoints.
    """
    objects = [o for image in images for o in (image.truth, image.detections) if len(o.classes)]
    counts = sorted({o.keypoints.shape[1] for o in objects})
    if len(counts) > 1:
        raise ModelError(
            f"expected detections with as many keypoints as objects, found {counts[0]} and {counts[1]}; set"
            " num_keypoints of eval_input_reader to what the detector was trained on"
        )
    return np.full(counts[0], _SIGMA) if counts and counts[0] != _PERSON_KEYPOINTS else None


def has_shapes(objects: Instances, iou_type: str) -> bool:
    """Whether objects have the required shape: bbox for none, segm or keypoints; true without objects."""
    has = {"segm": objects.has_masks, "keypoints": objects.keypoints.shape[1] > 0}
    return not len(objects.classes) or has.get(iou_type, True)


def check_shapes(image: EvaluatedImage, iou_type: str) -> None:
    """Refuse objects and detections without the required shape: bbox for none, segm or keypoints.

    Raises:
        DataError: for an object without it.
        ModelError: for a detection without it.
    """
    for objects, error, whose in (
        (image.truth, DataError, "objects"),
        (image.detections, ModelError, "detections"),
    ):
        if not has_shapes(objects, iou_type):
            what, field = _NEEDED[iou_type]
            raise error(
                f"expected {whose} with {what}, found one without; set {field} in eval_input_reader and"
                f" measure a detector that finds {what}, or remove this set of eval_config.metrics_set",
                where=f"image {image.truth.source_id}",
            )


_NEEDED = {"segm": ("masks", "load_instance_masks"), "keypoints": ("keypoints", "num_keypoints")}
"""IoU type to the shape's name for messages, and the config field that loads it."""


def _true_objects(truth: Instances, image_id: int, iou_type: str) -> list[dict[str, Any]]:
    boxes = to_px(truth.boxes, truth)
    rows = zip(
        truth.classes.tolist(),
        _xywh(truth, truth),
        box_areas(boxes).tolist(),
        truth.is_crowd.tolist(),
        _SHAPES[iou_type](truth, truth),
        truth.area.tolist(),
        strict=True,
    )
    return [
        {"image_id": image_id, "category_id": c + 1, "bbox": b, "area": a, "iscrowd": int(crowd)}
        | {name: value for name, value in shape.items() if name != "area" or iou_type == "segm"}
        | ({"area": known} if known > 0 else {})
        for c, b, a, crowd, shape, known in rows
    ]


def detected_objects(
    found: Instances, image: Instances, image_id: int | str, iou_type: str
) -> list[dict[str, Any]]:
    """Convert an image's detections to COCO's format, with shapes if `iou_type` is segm or keypoints."""
    boxes = _xywh(found, image)
    shapes = _SHAPES[iou_type](found, image)
    return [
        {"image_id": image_id, "category_id": c + 1, "bbox": b, "area": b[2] * b[3], "score": s, "iscrowd": 0}
        | shape
        for c, b, s, shape in zip(found.classes.tolist(), boxes, found.scores.tolist(), shapes, strict=True)
    ]


def _mask_fields(objects: Instances, truth: Instances) -> list[dict[str, Any]]:
    areas = mask_areas(objects.masks, truth.height, truth.width).tolist()
    return [
        {"segmentation": as_coco(counts, truth.height, truth.width), "area": area}
        for counts, area in zip(objects.masks, areas, strict=True)
    ]


def _keypoint_fields(objects: Instances, truth: Instances) -> list[dict[str, Any]]:
    """Return keypoints as x, y and a visibility flag; the area is that of their bounding box."""
    fields = []
    for points in objects.keypoints.astype(np.float64) * [truth.height, truth.width]:
        labelled = np.isfinite(points).all(axis=1)
        xyv = np.where(labelled[:, np.newaxis], np.c_[points[:, ::-1], np.full(len(points), 2.0)], 0.0)
        sides = np.ptp(xyv[:, :2], axis=0)
        fields.append(
            {
                "keypoints": xyv.ravel().tolist(),
                "num_keypoints": int(labelled.sum()),
                "area": float(sides[0] * sides[1]),
            }
        )
    return fields


_SHAPES: Mapping[str, Callable[[Instances, Instances], list[dict[str, Any]]]] = {
    "bbox": lambda objects, _: [{}] * len(objects.classes),
    "segm": _mask_fields,
    "keypoints": _keypoint_fields,
}
"""IoU type to (objects, ground truth of the image) -> further fields of each object."""


def _xywh(objects: Instances, image: Instances) -> list[list[float]]:
    boxes = to_px(objects.boxes, image)
    low, high = boxes[:, 1::-1], boxes[:, :1:-1]
    # What a COCO file says is not rounded, so that overlaps at a threshold are those of COCO's tools.
    found = np.where(np.isnan(objects.xywh), np.concatenate([low, high - low], axis=1), objects.xywh)
    return found.tolist()
