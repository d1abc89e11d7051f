"""Convert and check a detector's outputs, for all runners."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from detection_core.errors import ModelError
from detection_core.ops.mask_runs import paste_masks
from detection_core.structures import Instances

MOST_CLASS = 2**24
"""Above it, float32, in which models return classes, cannot represent every integer."""


_REQUIRED = ("boxes", "scores", "classes")


def checked_detections(
    outputs: Mapping[str, np.ndarray], count: int, size: tuple[int, int], *, source_id: str, where: str
) -> Instances:
    """Remove the padding of a detector's outputs and check their values.

    Args:
        outputs: float32 boxes [D, 4], scores [D] and classes [D], whole numbers from 0. Optional, as in
            `Detections`: masks [D, h, w] in the frame of the box, and keypoints [D, K, 2]. Others are left
            out.
        count: number of rows that are detections.
        size: rows and columns of the image, pixels.
        source_id: of the image.
        where: the model, for errors.

    Raises:
        ModelError: for NaN or infinity among the detections, for invalid classes, and if the numbers of
            boxes, classes and scores differ.
    """
    _check_shapes(outputs, count, source_id, where)
    found = {name: outputs[name][:count] for name in (*_REQUIRED, "masks", "keypoints") if name in outputs}
    for name, values in found.items():
        if not np.isfinite(values).all():
            raise ModelError(
                f"expected finite {name} for image {source_id!r}, found {values[~np.isfinite(values)][0]};"
                " the training diverged or the conversion broke the model: look at its loss, lower the"
                " learning rate or clip gradients",
                where=where,
            )
    classes = found["classes"]
    if classes.size and not 0 <= classes.min() <= classes.max() <= MOST_CLASS:
        raise ModelError(
            f"expected classes of a label map for image {source_id!r}, found numbers from {classes.min()} to"
            f" {classes.max()}; export the model again",
            where=where,
        )
    order = np.argsort(-found["scores"], kind="stable")
    found = {name: values[order].astype(np.float32) for name, values in found.items()}
    if "masks" in found:
        found["masks"] = paste_masks(found["masks"], found["boxes"], *size)
    found["classes"] = np.rint(classes[order]).astype(np.int32)
    return Instances(source_id=source_id, height=size[0], width=size[1], **found)


def _check_shapes(outputs: Mapping[str, np.ndarray], count: int, source_id: str, where: str) -> None:
    boxes, scores, classes = (outputs[name] for name in _REQUIRED)
    if boxes.shape != (len(scores), 4) or scores.shape != classes.shape or scores.ndim != 1 or count < 0:
        raise ModelError(
            f"expected boxes [D, 4], scores [D], classes [D] and a count for image {source_id!r}, found"
            f" {list(boxes.shape)}, {list(scores.shape)}, {list(classes.shape)} and {count}; export the model"
            " again",
            where=where,
        )
    masks, keypoints = outputs.get("masks", boxes[:, None]), outputs.get("keypoints", boxes[:, None, :2])
    if masks.ndim != 3 or keypoints.shape[2:] != (2,) or {len(masks), len(keypoints)} != {len(scores)}:
        raise ModelError(
            f"expected masks [D, h, w] and keypoints [D, K, 2] of {len(scores)} detections for image"
            f" {source_id!r}, found {list(masks.shape)} and {list(keypoints.shape)}; export the model again",
            where=where,
        )
