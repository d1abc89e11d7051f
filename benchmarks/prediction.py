"""What suppression adds to a prediction: `detect` against the bare forward pass, in turns.

    python -m benchmarks.prediction [--size 320] [--batches 1 8] [--depth 1.0] [--classes 90] [--runs 10]

The network of `benchmarks.training_step` with first weights, whose scores lie close together: no candidate
falls to the score threshold, which is the most that suppression can be given.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial

import tensorflow as tf

from benchmarks.training_step import CONFIG, build, make_batch, time_steps
from detection_core.structures import Images
from detection_core.training.host_allocator import keep_host_memory


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
    arguments = parser.parse_args()
    keep_host_memory()
    model = build(arguments)

    @tf.function(autograph=False)
    def forward(images: Images) -> tf.Tensor:
        return model.predict(images, training=False).class_logits

    @tf.function(autograph=False)
    def detect(images: Images) -> tf.Tensor:
        return model.detect(images).scores

    result: dict[str, object] = {"size": arguments.size, "classes": arguments.classes}
    for batch in arguments.batches:
        images = make_batch(batch, arguments.size, arguments.classes).images
        contenders: dict[str, Callable[[], object]] = {
            "forward": partial(forward, images),
            "detect": partial(detect, images),
        }
        timings = time_steps(contenders, arguments.runs)
        bare, whole = timings["forward"], timings["detect"]
        result[f"batch of {batch}"] = {
            "forward_cpu_ms": round(1000 * bare.cpu, 1),
            "detect_cpu_ms": round(1000 * whole.cpu, 1),
            "cpu_ratio": round(whole.cpu / bare.cpu, 3),
            "wall_ratio": round(whole.wall / bare.wall, 3),
        }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
