"""Evaluated images, random ones and those whose metrics the Object Detection API has computed."""

import contextlib
import copy
import dataclasses
import io
from pathlib import Path

import numpy as np

from detection_core.evaluation.coco_metrics import coco_dictionaries
from detection_core.evaluation.results import EvaluatedImage
from detection_core.ops.mask_runs import paste_masks
from detection_core.structures import Instances


def make_truth(boxes, classes, *, height=100, width=200, crowd=None, area=None, source_id="x") -> Instances:
    count = len(classes)
    return Instances(
        source_id=source_id,
        height=height,
        width=width,
        boxes=np.asarray(boxes, np.float32).reshape(-1, 4),
        classes=np.asarray(classes, np.int32),
        is_crowd=np.zeros(count, bool) if crowd is None else np.asarray(crowd, bool),
        area=np.zeros(count, np.float32) if area is None else np.asarray(area, np.float32),
    )


def make_detections(boxes, scores, classes, source_id="x") -> Instances:
    order = np.argsort(-np.asarray(scores, np.float32), kind="stable")
    return Instances(
        source_id=source_id,
        boxes=np.asarray(boxes, np.float32).reshape(-1, 4)[order],
        scores=np.asarray(scores, np.float32)[order],
        classes=np.asarray(classes, np.int32)[order],
    )


def random_boxes(rng, count):
    low = rng.uniform(0, 0.7, (count, 2))
    size = rng.uniform(0.02, 0.3, (count, 2)) * rng.choice([0.3, 1.0, 2.0], (count, 1))
    return np.concatenate([low, np.minimum(low + size, 1.0)], 1).astype(np.float32)


def random_images(seed, count=40, classes=5, max_objects=8, clutter=12):
    """Images with crowds, odd sizes, empty ones and objects without an area; no object of the last class."""
    rng = np.random.default_rng(seed)
    images = []
    for i in range(count):
        objects = 0 if i % 7 == 3 else int(rng.integers(1, max_objects))
        boxes = random_boxes(rng, objects)
        labels = rng.integers(0, classes - 1, objects)
        height, width = int(rng.integers(60, 500)), int(rng.integers(60, 700))
        truth = make_truth(
            boxes,
            labels,
            height=height,
            width=width,
            crowd=rng.random(objects) < 0.15,
            area=np.where(rng.random(objects) < 0.5, rng.uniform(10, 12000, objects), 0),
            source_id=f"image {i}",
        )
        near = np.clip(np.repeat(boxes, 2, 0) + rng.normal(0, 0.02, (2 * objects, 4)), 0, 1)
        near[:, 2:] = np.maximum(near[:, :2] + 0.001, near[:, 2:])
        extra = 0 if i % 7 == 5 else int(rng.integers(0, clutter))
        found = np.concatenate([near, random_boxes(rng, extra)])
        found_labels = np.concatenate([np.repeat(labels, 2), rng.integers(0, classes, extra)])
        scores = np.round(rng.random(len(found)), 2)  # rounded, so that there are ties
        images.append(
            EvaluatedImage(truth=truth, detections=make_detections(found, scores, found_labels, f"image {i}"))
        )
    return images


def shaped_images(seed, keypoints=17):
    """Random images whose objects have masks, about ellipses, and keypoints, some of them not labelled."""
    rng = np.random.default_rng(seed)
    places = rng.random((keypoints, 2))
    ellipse = np.hypot(*np.mgrid[-1:1:8j, -1:1:8j]) < 1

    def shaped(objects, truth, noise):
        count = len(objects.boxes)
        masks = ellipse + rng.normal(0, noise, (count, 8, 8))
        low, high = objects.boxes[:, None, :2], objects.boxes[:, None, 2:]
        points = low + (high - low) * (places + rng.normal(0, noise / 4, (count, keypoints, 2)))
        return dataclasses.replace(
            objects,
            masks=paste_masks(masks, objects.boxes, truth.height, truth.width),
            keypoints=points.astype(np.float32),
        )

    images = []
    for image in random_images(seed):
        truth = shaped(image.truth, image.truth, 0.1)
        truth.keypoints[rng.random(truth.keypoints.shape[:2]) < 0.3] = np.nan
        truth.keypoints[rng.random(len(truth.keypoints)) < 0.1] = np.nan
        images.append(EvaluatedImage(truth=truth, detections=shaped(image.detections, truth, 0.2)))
    return images


def evaluated(objects, labels, boxes, scores, classes, **fields) -> EvaluatedImage:
    """Return the objects of an image, and what was detected there."""
    truth = make_truth(objects, labels, **fields)
    return EvaluatedImage(truth=truth, detections=make_detections(boxes, scores, classes))


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
