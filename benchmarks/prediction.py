"""What suppression adds to a prediction: `detect` against the bare forward pass, in turns.

    python -m benchmarks.prediction [--size 320] [--batches 1 8] [--depth 1.0] [--classes 90] [--runs 10]
        [--scores spread alike]

The network of `benchmarks.training_step`, with scores of two kinds. `spread`: weights are drawn, and the
heads scaled, so that logits and box codes vary as a trained detector's do on an image full of objects.
`alike`: first weights, of which every class of every anchor has one and the same score, so that nothing can
be left out for its score: the worst case, which no trained detector is. In both no score is below the
threshold of 1e-8.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable

import tensorflow as tf

from benchmarks.training_step import CONFIG, build, make_batch, time_steps
from detection_core.detectors.base import Detector
from detection_core.structures import Images
from detection_core.training.memory import keep_host_memory

# Standard deviations, on noise: of class logits around their first bias, and of box codes.
SPREAD = {"class_head_pointwise": 1.5, "box_head_pointwise": 1.0}
KINDS = ("spread", "alike")


def spread_scores(model: Detector, images: Images) -> None:
    """Draw weights as He et al., 2015, so that images matter to the heads, whose own are then scaled."""
    generator = tf.random.Generator.from_seed(2)
    network = model.networks["detector"]
    for layer in network.layers:
        for weight in layer.trainable_weights:
            if "kernel" in weight.name:
                inputs = weight.shape[0] * weight.shape[1]
                inputs *= 1 if "depthwise_kernel" in weight.name else weight.shape[2]
                weight.assign(generator.normal(weight.shape, stddev=math.sqrt(2.0 / inputs)))
    codes, logits = network(model.preprocess(images.pixels), training=False)
    found = dict(zip(SPREAD, (logits, codes), strict=True))
    for name, spread in SPREAD.items():
        kernel = network.get_layer(name).kernel
        kernel.assign(kernel * (spread / tf.math.reduce_std(found[name])))


def measure(arguments: argparse.Namespace, kind: str, batch: int) -> dict[str, float]:
    """Time both on a detector with scores of a kind."""
    model = build(arguments)
    images = make_batch(batch, arguments.size, arguments.classes).images
    if kind == "spread":
        spread_scores(model, images)

    @tf.function(autograph=False)
    def forward() -> tf.Tensor:
        return model.predict(images, training=False).class_logits

    @tf.function(autograph=False)
    def detect() -> tf.Tensor:
        return model.detect(images).scores

    contenders: dict[str, Callable[[], object]] = {"forward": forward, "detect": detect}
    timings = time_steps(contenders, arguments.runs)
    bare, whole = timings["forward"], timings["detect"]
    return {
        "forward_cpu_ms": round(1000 * bare.cpu, 1),
        "detect_cpu_ms": round(1000 * whole.cpu, 1),
        "cpu_ratio": round(whole.cpu / bare.cpu, 3),
        "wall_ratio": round(whole.wall / bare.wall, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", default=str(CONFIG), help="pipeline.config of an SSD with a fixed size")
    parser.add_argument("--size", type=int, default=320)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--depth", type=float, default=1.0)
    parser.add_argument("--classes", type=int, default=90)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--scores", nargs="+", choices=KINDS, default=KINDS)
    arguments = parser.parse_args()
    keep_host_memory()
    result: dict[str, object] = {"size": arguments.size, "classes": arguments.classes}
    for kind in arguments.scores:
        result[f"scores {kind}"] = {
            f"batch of {batch}": measure(arguments, kind, batch) for batch in arguments.batches
        }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
