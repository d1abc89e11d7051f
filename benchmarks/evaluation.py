"""How long COCO's metrics take, beside pycocotools on the same detections in the same run.

Example: `python -m benchmarks.evaluation --images 2000`
"""

from __future__ import annotations

import argparse
import contextlib
import io
import time

import numpy as np

from detection_core.evaluation.coco_format import coco_dictionaries
from detection_core.evaluation.coco_metrics import evaluate_coco
from detection_core.evaluation.results import EvaluatedImage, match_image
from detection_core.structures import Instances

NAMES = {c: str(c) for c in range(80)}


def make_images(count: int, seed: int = 0) -> list[EvaluatedImage]:
    """Seven objects and a hundred detections an image, 80 classes, as COCO has about."""
    rng = np.random.default_rng(seed)
    images = []
    for i in range(count):
        low = rng.uniform(0, 0.7, (107, 2))
        boxes = np.concatenate([low, low + rng.uniform(0.02, 0.3, (107, 2))], 1).astype(np.float32)
        classes = rng.integers(0, 80, 107).astype(np.int32)
        boxes[7:21], classes[7:21] = np.tile(boxes[:7] + 0.01, (2, 1)), np.tile(classes[:7], 2)
        truth = Instances(
            source_id=str(i),
            height=480,
            width=640,
            boxes=boxes[:7],
            classes=classes[:7],
            is_crowd=rng.random(7) < 0.01,
        )
        order = np.argsort(-(scores := rng.random(100).astype(np.float32)))
        found = Instances(
            source_id=str(i), boxes=boxes[7:][order], scores=scores[order], classes=classes[7:][order]
        )
        images.append(EvaluatedImage(truth=truth, detections=found))
    return images


def run_pycocotools(images: list[EvaluatedImage]) -> np.ndarray:
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    truth, found = coco_dictionaries(images, NAMES)
    with contextlib.redirect_stdout(io.StringIO()):
        coco_truth = COCO()
        coco_truth.dataset = truth
        coco_truth.createIndex()
        engine = COCOeval(coco_truth, coco_truth.loadRes(found["annotations"]), "bbox")
        engine.evaluate()
        engine.accumulate()
        engine.summarize()
    return np.asarray(engine.stats)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=1000)
    count = parser.parse_args().images
    images = make_images(count)
    evaluate_coco(images[:2], NAMES)  # the import is not measured

    start = time.perf_counter()
    ours = np.array(list(evaluate_coco(images, NAMES).metrics().values()))
    fast = time.perf_counter() - start
    start = time.perf_counter()
    reference = run_pycocotools(images)
    slow = time.perf_counter() - start
    start = time.perf_counter()
    for image in images:
        match_image(image)
    matching = time.perf_counter() - start

    print(f"images                {count}, 100 detections each, 80 classes")
    print(f"metrics               {fast:.2f} s, {count / fast:,.0f} images/s")
    print(f"pycocotools           {slow:.2f} s, {count / slow:,.0f} images/s")
    print(f"ratio                 {slow / fast:.1f}")
    print(f"largest difference    {np.abs(ours - reference).max():.1e}")
    print(f"matching for pictures {matching:.2f} s, {count / matching:,.0f} images/s")


if __name__ == "__main__":
    main()
