"""Time of one training step of SSD MobileNetV2 FPN-Lite, against the same step written plainly.

    python -m benchmarks.training_step [--config FILE] [--size 320] [--batch 8] [--depth 1.0] [--classes 90]
        [--precisions float32 bfloat16] [--rewritten] [--no-peers]

The peers do the same work on the same network in the same process: `plain tf_keras` is an eager GradientTape
step that assigns targets image by image; `compiled, image by image` is the same inside tf.function. Ours is
the step that training runs, targets assigned for the whole batch at once. Data are made beforehand, so that
only the step is measured.

`--rewritten` adds our step as TensorFlow's graph optimizers (Grappler) rewrite it, which on processors and
in float32 we do without.

`--precisions` times our step in several precisions in turns in one process, and tells which instructions for
bfloat16 the processor has: `--no-peers --precisions float32 bfloat16` on one with AMX-BF16 shows what they
are worth. On a machine without an installation this folder beside `detection_core` is enough, with
tensorflow, tf_keras, numpy, protobuf, pillow and rich installed.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf
import tf_keras

from detection_core.builders.detector import build_detector
from detection_core.config.load import load_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.detectors.base import TOTAL_LOSS, Detector
from detection_core.ops.objects import new_truth
from detection_core.optimizers.optimization import Constant, Optimization
from detection_core.structures import Batch, Images
from detection_core.training.kernels import processor_flags
from detection_core.training.loop_options import TrainOptions
from detection_core.training.precision import Precision, computing_in
from detection_core.training.step import TrainState, compile_steps

CONFIG = Path(__file__).parent / "ssd_mobilenet_v2_fpnlite.config"
PADDED_BOXES, BOXES = 100, 7
PRECISIONS = {precision.dtype: precision for precision in Precision}


def make_batch(batch: int, size: int, classes: int) -> Batch:
    """Make noise images with seven objects each, padded to a hundred."""
    generator = tf.random.Generator.from_seed(1)
    corner = generator.uniform([batch, PADDED_BOXES, 2], 0.0, 0.6)
    side = generator.uniform([batch, PADDED_BOXES, 2], 0.05, 0.4)
    valid = tf.broadcast_to(tf.range(PADDED_BOXES) < BOXES, [batch, PADDED_BOXES])
    sizes = tf.fill([batch, 2], size)
    truth = new_truth(
        boxes=tf.where(valid[..., None], tf.concat([corner, corner + side], -1), 0.0),
        classes=generator.uniform([batch, PADDED_BOXES], 0, classes, tf.int32) * tf.cast(valid, tf.int32),
        weights=tf.cast(valid, tf.float32),
        is_crowd=tf.zeros_like(valid),
        area=tf.zeros([batch, PADDED_BOXES]),
        valid=valid,
        masks=tf.zeros([batch, PADDED_BOXES, 0, 0], tf.uint8),
    )
    pixels = generator.uniform([batch, size, size, 3], 0.0, 255.0)
    return Batch(Images(pixels, sizes, sizes, tf.fill([batch], "made")), truth)


def build(arguments: argparse.Namespace, precision: Precision = Precision.FLOAT32) -> Detector:
    """Build the detector at the size asked for, to compute in a precision."""
    changes = {
        "model.ssd.num_classes": arguments.classes,
        "model.ssd.image_resizer.fixed_shape_resizer.height": arguments.size,
        "model.ssd.image_resizer.fixed_shape_resizer.width": arguments.size,
        "model.ssd.feature_extractor.depth_multiplier": arguments.depth,
    }
    config = apply_overrides(load_pipeline_config(arguments.config), {k: str(v) for k, v in changes.items()})
    with computing_in(precision):
        return build_detector(config.model)


def ours(
    model: Detector, batch: Batch, precision: Precision = Precision.FLOAT32, rewritten: bool = False
) -> Callable[[], object]:
    """The step of the training loop; `rewritten` by TensorFlow wherever it runs."""
    rate = Constant(learning_rate=1e-3)
    optimizer = tf_keras.optimizers.legacy.SGD(learning_rate=rate, momentum=0.9)
    options = TrainOptions(num_steps=1, precision=precision)
    state = TrainState(model, Optimization(optimizer=optimizer), options, None)
    choice = "detection_core.training.step.gains_nothing_from_rewrites"
    with mock.patch(choice, return_value=False) if rewritten else contextlib.nullcontext():
        update = compile_steps(state, options, lambda outputs: None)
    batches = iter(tf.data.Dataset.from_tensors(batch).repeat().prefetch(2))
    return lambda: float(update(batches, tf.constant(1)).losses[TOTAL_LOSS])


def image_by_image(model: Detector, batch: Batch) -> Callable[[], object]:
    """A training step as one writes it first: a tape, a loop over images, an optimizer."""
    optimizer = tf_keras.optimizers.legacy.SGD(learning_rate=1e-3, momentum=0.9)
    variables = model.network.trainable_variables
    count = batch.images.pixels.shape[0]

    def update() -> tf.Tensor:
        with tf.GradientTape() as tape:
            predictions = model.predict(batch.images, training=True)
            totals = []
            for i in range(count):
                truth = tf.nest.map_structure(lambda t, i=i: t[i : i + 1], batch.truth)
                one = predictions._replace(
                    box_codes=predictions.box_codes[i : i + 1],
                    class_logits=predictions.class_logits[i : i + 1],
                )
                totals.append(model.compare(one, truth)[TOTAL_LOSS])
            total = tf.add_n(totals) / count
        optimizer.apply_gradients(zip(tape.gradient(total, variables), variables, strict=True))
        return total

    return update


@dataclasses.dataclass(frozen=True)
class Timing:
    """Seconds of a step: median on the clock, mean on the processors, and the first, which compiles."""

    wall: float
    cpu: float
    first: float


def time_steps(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, Timing]:
    """Compile and warm up each contender, then let them take turns, so that other load falls on all alike."""
    wall: dict[str, list[float]] = {name: [] for name in contenders}
    first, cpu = {}, dict.fromkeys(contenders, 0.0)
    for name, step in contenders.items():
        began = time.perf_counter()
        step()
        first[name] = time.perf_counter() - began
        step()
    for _ in range(rounds):
        for name, step in contenders.items():
            began, worked = time.perf_counter(), time.process_time()
            step()
            wall[name].append(time.perf_counter() - began)
            cpu[name] += (time.process_time() - worked) / rounds
    return {name: Timing(statistics.median(wall[name]), cpu[name], first[name]) for name in contenders}


def bfloat16_instructions() -> list[str]:
    """Name the processor's instructions for products of bfloat16, as Linux lists them."""
    return sorted({"amx_bf16", "avx512_bf16"} & processor_flags("/proc/cpuinfo"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", default=str(CONFIG), help="pipeline.config of an SSD with a fixed size")
    parser.add_argument("--size", type=int, default=320)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--depth", type=float, default=1.0)
    parser.add_argument("--classes", type=int, default=90)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rewritten", action="store_true", help="time our step rewritten, too")
    parser.add_argument("--no-peers", action="store_true", help="time our step alone")
    parser.add_argument(
        "--precisions", nargs="+", choices=PRECISIONS, default=["float32"], help="the first is `ours`"
    )
    arguments = parser.parse_args()
    first, *others = (PRECISIONS[name] for name in arguments.precisions)

    model = build(arguments, first)
    batch = make_batch(arguments.batch, arguments.size, arguments.classes)
    contenders: dict[str, Callable[[], object]] = {"ours": ours(model, batch, first)}
    for precision in others:
        contenders[f"ours, {precision.dtype}"] = ours(build(arguments, precision), batch, precision)
    if arguments.rewritten:
        contenders["ours, rewritten"] = ours(build(arguments, first), batch, first, rewritten=True)
    if not arguments.no_peers:
        plain = image_by_image(model, batch)
        contenders |= {"plain tf_keras": plain, "compiled, image by image": tf.function(plain)}
    timings = time_steps(contenders, arguments.steps)
    result: dict[str, object] = {
        name: getattr(arguments, name) for name in ("size", "batch", "depth", "classes")
    }
    result["cores"] = os.cpu_count()
    result["ours computes in"] = first.dtype
    result["bfloat16 instructions"] = bfloat16_instructions()
    for name, timing in timings.items():
        result[name] = {
            "ms_per_step": round(1000 * timing.wall, 1),
            "cpu_ms_per_step": round(1000 * timing.cpu, 1),
            "first_step_s": round(timing.first, 1),
            "times_slower_than_ours": round(timing.wall / timings["ours"].wall, 2),
        }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
