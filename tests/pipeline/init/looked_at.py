"""Data sets as they are seen, for tests of what is chosen by them."""

import numpy as np

from detection_core.datasets.survey import Survey
from pipeline.init.hardware import GIB, Hardware

LAPTOP = Hardware(processors=2, memory=16 * GIB)
WITH_GPU = Hardware(processors=16, memory=80 * GIB, gpu="H100")


def seen(*, images=400, side=0.3, size=(480, 640), objects=2_000, most=12, shape=1.0, **changed) -> Survey:
    """A data set in one piece, with boxes of one size all over the images."""
    rng = np.random.default_rng(0)
    count = min(objects, 500)
    sides = side * np.exp(rng.normal(0, 0.1, (count, 1))) * np.array([[shape**-0.5, shape**0.5]])
    sides = np.minimum(sides, 1.0)
    corners = rng.uniform(0, 1, (count, 2)) * (1 - sides)
    boxes = np.concatenate([corners, corners + sides], axis=1).astype(np.float32)
    positions = tuple(np.bincount(rng.integers(0, 100, images), minlength=100).tolist())
    known = {
        "images": images, "located": {"": images}, "located_annotated": {"": images},
        "positions": positions, "annotated_positions": positions, "unannotated": 0, "empty_images": 0,
        "rejected": {}, "classes": {"cat": objects - 1, "dog": 1}, "most_objects": most,
        "masks": 0, "keypoints": {}, "keypoint_names": {},
        "sizes": np.array([size] * min(images, 200)), "boxes": boxes,
        "opened": min(images, 200), "unreadable": (),
        "examples": (),
    }  # fmt: skip
    return Survey(**{**known, **changed})
