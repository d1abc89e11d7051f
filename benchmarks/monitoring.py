"""How often `detflow monitor` reports drift: without any, and after changes of the images.

    python -m benchmarks.monitoring --model build/bccd/model --examples build/bccd/examples \
        --evaluated test --served train

The statistics are those of one split. The other split is detected once as it is and once for each change:
darker, half as large and blurred. Windows of these images are compared many times; the table states the share
with drift. Without a change this is the rate of false
alarms, 1 % as documented, if both splits are random parts of one data set. The windows of a size are drawn
from the same images, so that large ones resemble each other.
"""

from __future__ import annotations

import argparse
import functools
from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

from benchmarks.results import add_keep, keep

SIZES = (30, 60)


def halved(image: np.ndarray) -> np.ndarray:
    """Return the image with half as many rows and columns."""
    return image[::2, ::2]


def darker(image: np.ndarray) -> np.ndarray:
    """Return the image with 0.7 of its brightness."""
    return (image * 0.7).astype(np.uint8)


def blurred(image: np.ndarray, reach: int) -> np.ndarray:
    """Return the image out of focus: means of a square of 2 * reach + 1 pixels."""
    from PIL import Image, ImageFilter

    return np.asarray(Image.fromarray(image).filter(ImageFilter.BoxBlur(reach)))


Change = Callable[[np.ndarray], np.ndarray]
CHANGES: dict[str, Change] = {
    "none": lambda image: image,
    "0.7 of the brightness": darker,
    "half as many rows and columns": halved,
    "blur of 9 x 9 pixels": functools.partial(blurred, reach=4),
    "blur of 25 x 25 pixels": functools.partial(blurred, reach=12),
}


def measure(arguments: argparse.Namespace) -> Iterable[dict[str, str]]:
    """Detect, compare and yield a row for each change and size of a window."""
    from detection_core.artifacts.detection_statistics import DetectionStatistics
    from detection_core.builders.evaluation_settings import EvaluateOptions
    from detection_core.evaluation.measure import split_to_measure
    from detection_core.tasks.evaluate import plan_evaluation
    from detection_core.validation.detection_drift import (
        Served,
        compare_detections,
        describe_detections,
        describe_evaluation,
    )

    def detect(split: str, change: Change) -> tuple[DetectionStatistics, list[Served]]:
        planned = plan_evaluation(
            model_path=arguments.model,
            evaluation_dir="",
            examples_dir=arguments.examples,
            options=EvaluateOptions(split=split),
        )
        changed = ((change(image), truth) for image, truth in planned.truth())
        [found] = planned.measure(planned.load(), lambda: changed).values()
        images = split_to_measure(found.images, planned.label_map, planned.options.metrics)
        served = [Served(image.detections, image.brightness) for image in found.images]
        return describe_evaluation(images, planned.label_map.names, split), served

    evaluated, _ = detect(arguments.evaluated, CHANGES["none"])
    classes = evaluated.of_detections["class"].bins
    random = np.random.default_rng(arguments.seed)
    for name, change in CHANGES.items():
        _, served = detect(arguments.served, change)
        for size in SIZES:
            alarms, drifted = 0, Counter[str]()
            for _ in range(arguments.repeats):
                places = random.permutation(len(served))[:size]
                window = [served[place] for place in places]
                found = compare_detections(
                    describe_detections(window, classes, min_score=evaluated.min_score), evaluated
                )
                alarms += found[0].drifted
                drifted.update(each.name for each in found if each.drifted)
            yield {
                "change": name,
                "images": str(size),
                "drift": f"{alarms / arguments.repeats:.0%}",
                "most often": ", ".join(each for each, _ in drifted.most_common(2)),
            }


def main() -> None:
    """Print a row for each change and size of a window."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="detector")
    parser.add_argument("--examples", required=True, help="of ExampleGen, with both splits")
    parser.add_argument("--evaluated", default="test", help="split of the statistics")
    parser.add_argument("--served", default="eval", help="split that windows are drawn from")
    parser.add_argument("--repeats", type=int, default=200, help="windows of each size")
    parser.add_argument("--seed", type=int, default=0, help="of the windows")
    add_keep(parser)
    arguments = parser.parse_args()
    rows = []
    for row in measure(arguments):
        rows.append(row)
        print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
    keep(arguments.keep, rows)


if __name__ == "__main__":
    main()
