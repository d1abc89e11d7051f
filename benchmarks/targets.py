"""Targets and losses of anchors, for a batch at once, against the code before and one image after the other.

    git worktree add /tmp/before v1.0
    python -m benchmarks.targets [--before /tmp/before] [--batch 16] [--anchors 20000] ...

Anchors are shared by all images, as those of a one-stage detector, or each image has its own, fewer ones, as
proposals are. `--before` names a checkout whose code for shared anchors takes turns in the same process; both
have to give the same numbers, bit by bit. An image alone needs no padding to the objects of the fullest
image, so that ratio falls with their spread and rises as anchors become few.

Each step is a traced graph. Losses are those of a batch with their gradients. Memory is that of the tensors
that a step holds at once, and varies a little with the order in which threads come.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import importlib
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

# The allocator that training has, which counts what it gives.
os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "true")

import numpy as np
import tensorflow as tf

Step = Callable[["Data"], Sequence[tf.Tensor]]

_PARTS = ("targets", "criterion")
_MEASURED = 9
_MODULES = {
    "iou": "ops.iou",
    "objects": "ops.objects",
    "criterion": "parts.anchor_criterion",
    "coder": "parts.box_coders",
    "losses": "parts.losses",
    "focal": "parts.losses",
    "smooth_l1": "parts.losses",
    "matcher": "parts.matchers",
    "targets": "parts.targets",
}


class Data(NamedTuple):
    """A batch: anchors [A, 4] or [B, A, 4], objects [B, G, ...], and what a network predicts, [B, A, K]."""

    anchors: tf.Tensor
    boxes: tf.Tensor
    classes: tf.Tensor
    valid: tf.Tensor
    codes: tf.Tensor
    logits: tf.Tensor

    def image(self, number: int) -> Data:
        """Return a batch of one image, without padding."""
        anchors = self.anchors if len(self.anchors.shape) == 2 else self.anchors[number]
        objects = (tf.boolean_mask(field[number], self.valid[number])[tf.newaxis] for field in self[1:4])
        return Data(anchors, *objects, *(field[number : number + 1] for field in self[4:]))


def make_boxes(rng: np.random.Generator, *shape: int) -> np.ndarray:
    low = rng.uniform(0.0, 0.8, (*shape, 2))
    return np.concatenate([low, low + rng.uniform(0.02, 0.3, (*shape, 2))], axis=-1).astype(np.float32)


def make_data(arguments: argparse.Namespace, *, own: bool) -> Data:
    """Draw a batch; `own`: each image has its own anchors."""
    rng = np.random.default_rng(0)
    batch, rows, anchors, classes = (
        getattr(arguments, name)
        for name in ("batch", "objects", "proposals" if own else "anchors", "classes")
    )
    valid = np.arange(rows) < rng.integers(1, rows + 1, (batch, 1))
    return Data(
        anchors=tf.constant(make_boxes(rng, *[batch] * own, anchors)),
        boxes=tf.constant(make_boxes(rng, batch, rows) * valid[..., np.newaxis]),
        classes=tf.constant(rng.integers(0, classes, (batch, rows)) * valid, tf.int32),
        valid=tf.constant(valid),
        codes=tf.constant(rng.normal(size=(batch, anchors, 4)), tf.float32),
        logits=tf.constant(rng.normal(size=(batch, anchors, classes + 1)), tf.float32),
    )


def load(checkout: str = "") -> dict[str, Any]:
    """Import `_MODULES` from another checkout, beside those of this one; "" for this one."""
    if not checkout:
        return {name: importlib.import_module(f"detection_core.{path}") for name, path in _MODULES.items()}
    ours = {name: sys.modules.pop(name) for name in [*sys.modules] if name.split(".")[0] == "detection_core"}
    sys.path.insert(0, checkout)
    try:
        return load()
    finally:
        sys.path.remove(checkout)
        for name in [name for name in sys.modules if name.split(".")[0] == "detection_core"]:
            del sys.modules[name]
        sys.modules.update(ours)


def make_steps(code: dict[str, Any], classes: int) -> dict[str, Step]:
    """Return the steps of a checkout's modules: the targets, and the losses with their gradients."""
    matcher = code["matcher"].ArgMaxMatcher(
        matched_threshold=0.5,
        unmatched_threshold=0.5,
        negatives_lower_than_unmatched=True,
        force_match_for_each_row=True,
    )
    assigner = code["targets"].AnchorTargetAssigner(
        similarity=code["iou"].iou,
        matcher=matcher,
        box_coder=code["coder"].FasterRcnnBoxCoder(
            y_scale=10.0, x_scale=10.0, height_scale=5.0, width_scale=5.0
        ),
        num_classes=classes,
    )
    losses = code["losses"].AnchorLosses(
        classification=code["focal"].SigmoidFocalLoss(gamma=2.0, alpha=0.25),
        localization=code["smooth_l1"].SmoothL1Loss(delta=1.0),
        classification_weight=1.0,
        localization_weight=1.0,
        hard_example_miner=None,
        random_example_sampler=None,
    )
    criterion = code["criterion"].AnchorCriterion(
        assigner=assigner, losses=losses, normalize_by_matches=False, normalize_by_code_size=False
    )

    def truth(data: Data) -> Any:
        weights = tf.cast(data.valid, tf.float32)
        return code["objects"].new_truth(data.boxes, data.classes, weights=weights, valid=data.valid)

    def targets(data: Data) -> Sequence[tf.Tensor]:
        return tuple(assigner.assign(data.anchors, truth(data)))

    def criterion_step(data: Data) -> Sequence[tf.Tensor]:
        heads = (data.codes, data.logits)
        with tf.GradientTape() as tape:
            tape.watch(heads)
            found = criterion(code["criterion"].AnchorPredictions(*heads, data.anchors), truth(data))
        return (*found, *tape.gradient(found, heads))

    return dict(zip(_PARTS, (targets, criterion_step), strict=True))


def one_by_one(step: Step, batch: int) -> Step:
    """Return a step that takes one image after the other, and joins or adds what they give."""

    def loop(data: Data) -> Sequence[tf.Tensor]:
        results = zip(*(step(data.image(number)) for number in range(batch)), strict=True)
        return [tf.concat(each, axis=0) if len(each[0].shape) else tf.add_n(each) for each in results]

    return loop


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a step takes: median seconds on the clock and the processors, of the first call, and megabytes."""

    wall: float
    processor: float
    first: float
    memory: float


def peak(call: Callable[[], object]) -> float:
    """Return the megabytes of tensors that a call holds at most, beyond those held before it.

    NaN if TensorFlow's own allocator is in use, which counts nothing; `keep_host_memory` came too late then.
    """
    memory = tf.config.experimental
    try:
        memory.reset_memory_stats("CPU:0")
    except ValueError:
        call()
        return math.nan
    before = memory.get_memory_info("CPU:0")["current"]
    call()
    return float(memory.get_memory_info("CPU:0")["peak"] - before) / 1e6


def measure(calls: Sequence[Callable[[], Sequence[tf.Tensor]]], repeats: int) -> list[Cost]:
    """Trace each call and let them take turns, so that other work slows all alike."""
    times: list[list[tuple[float, float]]] = [[] for _ in calls]
    first = []
    for call in calls:
        began = time.perf_counter()
        call()
        first.append(time.perf_counter() - began)
    for _ in range(repeats):
        for call, taken in zip(calls, times, strict=True):
            wall, processor = time.perf_counter(), time.process_time()
            call()[0].numpy()
            taken.append((time.perf_counter() - wall, time.process_time() - processor))
    medians = [np.median(taken, axis=0) for taken in times]
    memory = [float(np.median([peak(call) for _ in range(_MEASURED)])) for call in calls]
    return [
        Cost(float(wall), float(processor), *rest)
        for (wall, processor), *rest in zip(medians, first, memory, strict=True)
    ]


def compare(arguments: argparse.Namespace, steps: dict[str, dict[str, Step]], part: str, own: bool) -> None:
    """Print what the contenders cost and how they compare with this checkout's code."""
    data = make_data(arguments, own=own)
    ours = steps["at once"][part]
    contenders = {"at once": ours, "image by image": one_by_one(ours, arguments.batch)}
    if "before" in steps and not own:
        contenders["before"] = steps["before"][part]
    traced = {name: tf.function(step) for name, step in contenders.items()}
    costs = measure([functools.partial(step, data) for step in traced.values()], arguments.repeats)
    base, expected = costs[0], traced["at once"](data)
    print(f"{part}, {'anchors of each image' if own else 'shared anchors'}")
    for (name, step), cost in zip(traced.items(), costs, strict=True):
        for one, other in zip(step(data), expected, strict=True):
            if name == "before":
                np.testing.assert_array_equal(one, other)
            else:
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
        print(
            f"  {name:15}{cost.wall * 1e3:9.1f} ms, processor {cost.processor * 1e3:9.1f} ms, memory"
            f" {cost.memory:7.1f} MB, first call {cost.first:5.2f} s; ratios {cost.wall / base.wall:5.2f},"
            f" {cost.processor / base.processor:5.2f}, {cost.memory / (base.memory or np.nan):5.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", metavar="CHECKOUT", help="with the code to compare with")
    parser.add_argument("--parts", nargs="+", choices=_PARTS, default=_PARTS)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--objects", type=int, default=30)
    parser.add_argument("--anchors", type=int, default=20_000)
    parser.add_argument("--proposals", type=int, default=300, help="proposals for each image")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=10)
    arguments = parser.parse_args()
    steps = {"at once": make_steps(load(), arguments.classes)}
    if arguments.before:
        steps["before"] = make_steps(load(arguments.before), arguments.classes)
    for own in (False, True):
        for part in arguments.parts:
            compare(arguments, steps, part, own)


if __name__ == "__main__":
    main()
