"""What every runner makes of a detector's outputs, and refuses of them."""

from __future__ import annotations

import numpy as np

from detection_core.errors import ModelError
from detection_core.structures import Instances

MOST_CLASS = 2**24
"""Beyond it float32, in which models give classes, has not every whole number."""


def checked_detections(
    boxes: np.ndarray,
    scores: np.ndarray,
    classes: np.ndarray,
    count: int,
    *,
    source_id: str,
    where: str,
) -> Instances:
    """Take the padding off a detector's outputs and refuse what is not a number.

    Args:
        boxes: float32 [D, 4].
        scores: float32 [D].
        classes: float32 [D], whole numbers from 0.
        count: how many rows are detections.
        source_id: of the image.
        where: the model, for errors.

    Raises:
        ModelError: for NaN or infinity among the detections, for classes that are none, and where there are
            not as many boxes and classes as scores.
    """
    if boxes.shape != (len(scores), 4) or scores.shape != classes.shape or scores.ndim != 1 or count < 0:
        raise ModelError(
            f"expected boxes [D, 4], scores [D], classes [D] and a count for image {source_id!r}, found"
            f" {list(boxes.shape)}, {list(scores.shape)}, {list(classes.shape)} and {count}; export the model"
            " again",
            where=where,
        )
    boxes, scores, classes = boxes[:count], scores[:count], classes[:count]
    for name, values in (("boxes", boxes), ("scores", scores), ("classes", classes)):
        if not np.isfinite(values).all():
            raise ModelError(
                f"expected finite {name} for image {source_id!r}, found {values[~np.isfinite(values)][0]};"
                " the training diverged or the conversion broke the model: look at its loss, lower the"
                " learning rate or clip gradients",
                where=where,
            )
    if classes.size and not 0 <= classes.min() <= classes.max() <= MOST_CLASS:
        raise ModelError(
            f"expected classes of a label map for image {source_id!r}, found numbers from {classes.min()} to"
            f" {classes.max()}; export the model again",
            where=where,
        )
    order = np.argsort(-scores, kind="stable")
    return Instances(
        source_id=source_id,
        boxes=boxes[order].astype(np.float32),
        scores=scores[order].astype(np.float32),
        classes=np.rint(classes[order]).astype(np.int32),
    )
