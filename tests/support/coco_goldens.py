"""Images whose metrics the Object Detection API has computed, and classes for random ones."""

import contextlib
import copy
import io
from pathlib import Path

import numpy as np

from detection_core.evaluation.coco_objects import coco_dictionaries
from tests.support.evaluated_images import evaluated

NAMES = {0: "cat", 1: "dog", 2: "bird", 3: "fish", 4: "newt"}
DATA = Path(__file__).parents[1] / "detection_core" / "evaluation" / "data"


def golden_images(crowd: bool, area: bool):
    arrays = np.load(DATA / "evaluation_fixture.npz")
    images = []
    for i in range(8):
        gt, det = arrays["gt_image"] == i, arrays["det_image"] == i
        flags = {"crowd": arrays["gt_is_crowd"][gt] if crowd else None}
        flags["area"] = arrays["gt_area"][gt] if area else None
        objects = arrays["gt_boxes"][gt] / 100, arrays["gt_classes"][gt] - 1
        found = arrays["det_boxes"][det] / 100, arrays["det_scores"][det], arrays["det_classes"][det] - 1
        images.append(evaluated(*objects, *found, height=100, width=100, **flags))
    return images


def coco_engine(images, names, iou_type="bbox", sigmas=None):
    """Return the engine of pycocotools with all that it computes."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    truth, found = (copy.deepcopy(d) for d in coco_dictionaries(images, names, iou_type))
    with contextlib.redirect_stdout(io.StringIO()):
        coco_truth, coco_found = COCO(), COCO()
        for each, content in ((coco_truth, truth), (coco_found, found)):
            each.dataset = content
            each.createIndex()
        # Of results with boxes pycocotools takes the boxes alone.
        left_out = () if iou_type == "bbox" else ("bbox", "area", "num_keypoints")
        results = [{k: v for k, v in a.items() if k not in left_out} for a in found["annotations"]]
        if results:
            coco_found = coco_truth.loadRes(results)
        engine = COCOeval(coco_truth, coco_found, iou_type)
        if sigmas is not None:
            engine.params.kpt_oks_sigmas = sigmas
        engine.evaluate()
        engine.accumulate()
        engine.summarize()
    return engine
