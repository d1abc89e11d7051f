"""Objects and detections as COCO's tools compare and write them.

Format: https://cocodataset.org/#format-data.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from detection_core.errors import DataError, ModelError
from detection_core.evaluation.results import EvaluatedImage, boxes_xywh
from detection_core.ops.mask_runs import as_coco, mask_areas
from detection_core.structures import Instances


def check_keypoints(images: Sequence[EvaluatedImage]) -> None:
    """Refuse detections with another number of keypoints than objects.

    Raises:
        ModelError: for other numbers.
    """
    objects = [o for image in images for o in (image.truth, image.detections) if len(o.classes)]
    counts = sorted({o.keypoints.shape[1] for o in objects})
    if len(counts) > 1:
        raise ModelError(
            f"expected detections with as many keypoints as objects, found {counts[0]} and {counts[1]}; set"
            " num_keypoints of eval_input_reader to what the detector was trained on"
        )


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


class Flat(NamedTuple):
    """The detections or the objects of some images, N rows, in the images' order.

    Attributes:
        image: int64 [N], place of the image.
        label: int32 [N], class in [0, C).
        xywh: float64 [N, 4], boxes as x, y, width and height in pixels.
        shape: boxes as `xywh`; run lengths of masks, object [N]; or x, y and a visibility flag of keypoints,
            float64 [N, K, 3].
        area: float64 [N], of the shape, squared pixels; of keypoints, that of the box around them.
    """

    image: np.ndarray
    label: np.ndarray
    xywh: np.ndarray
    shape: np.ndarray
    area: np.ndarray

    def take(self, rows: np.ndarray) -> "Flat":
        """Return some rows."""
        return Flat(*(values[rows] for values in self))


def flatten(objects: Sequence[Instances], images: Sequence[Instances], iou_type: str) -> Flat:
    """Join the objects or detections of images, whose sizes are those of `images`."""
    place: np.ndarray = np.repeat(np.arange(len(objects)), [len(each.classes) for each in objects])
    xywh = np.concatenate([np.zeros((0, 4)), *map(boxes_xywh, objects, images)])
    shape, area = _SHAPES[iou_type](objects, images, xywh)
    return Flat(place, join((each.classes for each in objects), np.int32), xywh, shape, area)


def join(parts: Iterable[np.ndarray], dtype: type) -> np.ndarray:
    """Concatenate arrays of one axis, perhaps none."""
    return np.concatenate([np.zeros(0, dtype), *parts]).astype(dtype)


_Shaped = tuple[np.ndarray, np.ndarray]


def _masks(objects: Sequence[Instances], images: Sequence[Instances], _: np.ndarray) -> _Shaped:
    pairs = zip(objects, images, strict=True)
    areas = (mask_areas(one.masks, image.height, image.width) for one, image in pairs)
    return join((each.masks for each in objects), object), join(areas, np.float64)


def _keypoints(objects: Sequence[Instances], images: Sequence[Instances], _: np.ndarray) -> _Shaped:
    known = [(each, image) for each, image in zip(objects, images, strict=True) if len(each.classes)]
    shapes = [np.zeros((0, known[0][0].keypoints.shape[1] if known else 1, 3))]
    for each, image in known:
        points = each.keypoints.astype(np.float64)[..., ::-1] * [image.width, image.height]
        labelled = np.isfinite(points).all(axis=2, keepdims=True)
        visible = np.full(labelled.shape, 2.0)
        shapes.append(np.where(labelled, np.concatenate([points, visible], axis=2), 0.0))
    shape = np.concatenate(shapes)
    sides = np.ptp(shape[..., :2], axis=1)
    return shape, sides[:, 0] * sides[:, 1]


_SHAPES: Mapping[str, Callable[[Sequence[Instances], Sequence[Instances], np.ndarray], _Shaped]] = {
    "bbox": lambda _, __, xywh: (xywh, xywh[:, 2] * xywh[:, 3]),
    "segm": _masks,
    "keypoints": _keypoints,
}
"""IoU type to (objects or detections, their images, boxes) -> shapes and areas, as in `Flat`."""


def detected_objects(
    found: Instances, image: Instances, image_id: int | str, iou_type: str
) -> list[dict[str, Any]]:
    """Convert an image's detections to COCO's format, with shapes if `iou_type` is segm or keypoints."""
    flat = flatten([found], [image], iou_type)
    labels, boxes, areas = flat.label.tolist(), flat.xywh.tolist(), flat.area.tolist()
    return [
        {"image_id": image_id, "category_id": c + 1, "bbox": b, "area": a, "score": s, "iscrowd": 0}
        | _FIELDS[iou_type](shape, image)
        for c, b, a, s, shape in zip(labels, boxes, areas, found.scores.tolist(), flat.shape, strict=True)
    ]


_FIELDS: Mapping[str, Callable[[Any, Instances], dict[str, Any]]] = {
    "bbox": lambda _, __: {},
    "segm": lambda counts, image: {"segmentation": as_coco(counts, image.height, image.width)},
    "keypoints": lambda points, _: {
        "keypoints": points.ravel().tolist(),
        "num_keypoints": int((points[:, 2] > 0).sum()),
    },
}
"""IoU type to (shape, image) -> further fields of an object."""
