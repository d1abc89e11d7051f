"""Non-maximum suppression with an order among equal scores against the combined kernel without one.

    python -m benchmarks.nms [--anchors 51150] [--classes 90] [--images 1] [--runs 20]

The named peer is `tf.image.combined_non_max_suppression` on all candidates, the one kernel that takes a whole
batch; among equal scores it takes any. Both are traced graphs and give their best detections.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

from detection_core.ops.nms import NmsOptions, multiclass_nms, one_by_one

OPTIONS = NmsOptions(
    score_threshold=1e-8, iou_threshold=0.6, max_detections_per_class=100, max_total_detections=100
)


def make_candidates(images: int, anchors: int, classes: int, crowds: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return boxes [B, A, 4] and scores [B, A, C]; with crowds, boxes lie on that many objects only."""
    rng = np.random.default_rng(0)
    low = rng.uniform(0.0, 0.7, (images, crowds or anchors, 2))
    boxes = np.concatenate([low, low + rng.uniform(0.05, 0.3, low.shape)], axis=-1)
    if crowds:
        owner = rng.integers(0, crowds, (images, anchors, 1))
        boxes = np.take_along_axis(boxes, owner, axis=1) + rng.normal(0.0, 0.005, (images, anchors, 4))
    scores = 1.0 / (1.0 + np.exp(-rng.normal(-4.6, 1.0, (images, anchors, classes))))
    return tf.constant(boxes, tf.float32), tf.constant(scores, tf.float32)


def peer(boxes: tf.Tensor, scores: tf.Tensor) -> tuple[tf.Tensor, ...]:
    return tuple(
        tf.image.combined_non_max_suppression(
            boxes[:, :, tf.newaxis],
            scores,
            OPTIONS.max_detections_per_class,
            OPTIONS.max_total_detections,
            iou_threshold=OPTIONS.iou_threshold,
            score_threshold=OPTIONS.score_threshold,
        )
    )


def ours(boxes: tf.Tensor, scores: tf.Tensor) -> tuple[tf.Tensor, ...]:
    window = tf.tile([[0.0, 0.0, 1.0, 1.0]], [tf.shape(boxes)[0], 1])
    return tuple(multiclass_nms(boxes, scores, OPTIONS, window))


def by_class(boxes: tf.Tensor, scores: tf.Tensor) -> tuple[tf.Tensor, ...]:
    return tuple(one_by_one(boxes[:, :, tf.newaxis], scores, OPTIONS))


def measure(
    functions: dict[str, Callable[..., object]], inputs: tuple[tf.Tensor, ...], runs: int
) -> dict[str, float]:
    """Return the median milliseconds of each, taken in turns so that a busy machine slows all alike."""
    traced = {name: tf.function(function, autograph=False) for name, function in functions.items()}
    times: dict[str, list[float]] = {name: [] for name in traced}
    for run in range(runs + 1):
        for name, function in traced.items():
            start = time.perf_counter()
            function(*inputs)
            if run:
                times[name].append(time.perf_counter() - start)
    return {name: 1000.0 * float(np.median(values)) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--anchors", type=int, default=51150, help="an SSD FPN of 640x640 has 51150")
    parser.add_argument("--classes", type=int, default=90)
    parser.add_argument("--images", type=int, default=1)
    parser.add_argument(
        "--crowds", type=int, default=0, help="objects that all boxes lie on; 0: boxes anywhere"
    )
    parser.add_argument("--runs", type=int, default=20)
    arguments = parser.parse_args()
    inputs = make_candidates(arguments.images, arguments.anchors, arguments.classes, arguments.crowds)
    medians = measure({"combined": peer, "ours": ours, "one_by_one": by_class}, inputs, arguments.runs)
    result = {
        "candidates": f"{arguments.images} x {arguments.anchors} anchors x {arguments.classes} classes",
        "crowds": arguments.crowds,
        "milliseconds": {name: round(value, 2) for name, value in medians.items()},
        "ratio_ours_to_combined": round(medians["ours"] / medians["combined"], 3),
        "ratio_one_by_one_to_combined": round(medians["one_by_one"] / medians["combined"], 3),
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
