"""Target assignment of a whole batch against one image after the other.

Run it with `python -m benchmarks.targets`. Both ways give the same targets (checked); both are traced
graphs, so the ratio tells what vectorising over the batch saves; what tracing costs is printed beside it.
The work is the same number of overlaps either way, except that an image alone needs no padding to the
objects of the fullest image, so the ratio falls with their spread and rises as anchors become few.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from detection_core.ops import iou as iou_ops
from detection_core.ops.objects import new_truth
from detection_core.parts.box_coders.faster_rcnn import FasterRcnnBoxCoder
from detection_core.parts.matchers.argmax import ArgMaxMatcher, ArgMaxMatcherOptions
from detection_core.parts.targets.anchor_targets import AnchorTargetAssigner, AnchorTargets
from detection_core.structures import GroundTruth


def make_assigner(classes: int) -> AnchorTargetAssigner:
    options = ArgMaxMatcherOptions(
        matched_threshold=0.5,
        unmatched_threshold=0.5,
        negatives_lower_than_unmatched=True,
        force_match_for_each_row=True,
    )
    return AnchorTargetAssigner(
        similarity=iou_ops.iou,
        matcher=ArgMaxMatcher(options),
        box_coder=FasterRcnnBoxCoder(y_scale=10.0, x_scale=10.0, height_scale=5.0, width_scale=5.0),
        num_classes=classes,
    )


def make_boxes(rng: np.random.Generator, *shape: int) -> np.ndarray:
    low = rng.uniform(0.0, 0.8, (*shape, 2))
    return np.concatenate([low, low + rng.uniform(0.02, 0.3, (*shape, 2))], axis=-1).astype(np.float32)


def make_truth(rng: np.random.Generator, batch: int, rows: int, classes: int) -> GroundTruth:
    valid = np.arange(rows) < rng.integers(1, rows + 1, (batch, 1))
    return new_truth(
        boxes=tf.constant(make_boxes(rng, batch, rows) * valid[..., np.newaxis]),
        classes=tf.constant(rng.integers(0, classes, (batch, rows)) * valid, tf.int32),
        weights=tf.constant(valid, tf.float32),
        is_crowd=tf.zeros([batch, rows], tf.bool),
        area=tf.zeros([batch, rows]),
        valid=tf.constant(valid),
        masks=tf.zeros([batch, rows, 0, 0], tf.uint8),
    )


def one_by_one(assigner: AnchorTargetAssigner, anchors: tf.Tensor, truth: GroundTruth) -> AnchorTargets:
    """The naive way: the unpadded objects of each image, one image after the other, then stacked."""
    results = []
    for image in range(truth.boxes.shape[0]):
        rows = truth.valid[image]
        single = GroundTruth(*(tf.boolean_mask(field[image], rows)[tf.newaxis] for field in truth))
        results.append(assigner.assign(anchors, single))
    return AnchorTargets(*(tf.concat(fields, axis=0) for fields in zip(*results, strict=True)))


def measure(calls: list[Callable[[], AnchorTargets]], repeats: int) -> list[tuple[float, float]]:
    """Median wall and processor seconds of each call, taken in turns so that other work slows all alike."""
    times: list[list[tuple[float, float]]] = [[] for _ in calls]
    for call in calls:
        call()
    for _ in range(repeats):
        for call, taken in zip(calls, times, strict=True):
            wall, processor = time.perf_counter(), time.process_time()
            call()[0].numpy()
            taken.append((time.perf_counter() - wall, time.process_time() - processor))
    return [(float(np.median([w for w, _ in t])), float(np.median([p for _, p in t]))) for t in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--objects", type=int, default=30)
    parser.add_argument("--anchors", type=int, default=20_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=10)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    assigner = make_assigner(arguments.classes)
    anchors = tf.constant(make_boxes(rng, arguments.anchors))
    truth = make_truth(rng, arguments.batch, arguments.objects, arguments.classes)
    batched = tf.function(assigner.assign)
    naive = tf.function(lambda anchors, truth: one_by_one(assigner, anchors, truth))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    batched(anchors, truth)
    fast_first = time.perf_counter() - started
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    started = time.perf_counter()
    naive(anchors, truth)
    slow_first = time.perf_counter() - started
    calls = [lambda: batched(anchors, truth), lambda: naive(anchors, truth)]
    (fast, fast_cpu), (slow, slow_cpu) = measure(calls, arguments.repeats)
    for one, other in zip(batched(anchors, truth), naive(anchors, truth), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    print(
        f"batch at once   {fast * 1e3:8.1f} ms, processor {fast_cpu * 1e3:8.1f} ms, memory +{memory:.0f} MB"
    )
    print(f"image by image  {slow * 1e3:8.1f} ms, processor {slow_cpu * 1e3:8.1f} ms")
    print(f"first call, traced: {fast_first:.2f} s at once, {slow_first:.2f} s image by image")
    print(f"ratio           {slow / fast:8.2f}   , processor {slow_cpu / fast_cpu:8.2f}")


if __name__ == "__main__":
    main()
