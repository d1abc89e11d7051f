"""Images whose metrics the Object Detection API has computed, and classes for random ones."""

from pathlib import Path

import numpy as np

from detection_core.evaluation.results import EvaluatedImage
from tests.support.evaluated_images import make_detections, make_truth

NAMES = {0: "cat", 1: "dog", 2: "bird", 3: "fish", 4: "newt"}
DATA = Path(__file__).parents[1] / "detection_core" / "evaluation" / "data"


def golden_images(crowd: bool, area: bool):
    arrays = np.load(DATA / "evaluation_fixture.npz")
    images = []
    for i in range(8):
        gt, det = arrays["gt_image"] == i, arrays["det_image"] == i
        truth = make_truth(
            arrays["gt_boxes"][gt] / 100,
            arrays["gt_classes"][gt] - 1,
            height=100,
            width=100,
            crowd=arrays["gt_is_crowd"][gt] if crowd else None,
            area=arrays["gt_area"][gt] if area else None,
        )
        found = make_detections(
            arrays["det_boxes"][det] / 100, arrays["det_scores"][det], arrays["det_classes"][det] - 1
        )
        images.append(EvaluatedImage(truth=truth, detections=found))
    return images
