"""Evaluated images, random ones and those whose metrics the Object Detection API has computed."""

import contextlib
import copy
import dataclasses
import io
from pathlib import Path

import numpy as np

from detection_core.evaluation.results import EvaluatedImage
from detection_core.ops.mask_runs import encode_masks, paste_masks
from detection_core.structures import Instances
from tests.support.coco_dictionaries import coco_dictionaries


def make_truth(boxes, classes, *, height=100, width=200, crowd=None, area=None, source_id="x") -> Instances:
    boxes, nothing = np.asarray(boxes, np.float32).reshape(-1, 4), np.zeros(len(classes))
    flags = {"is_crowd": np.asarray(nothing if crowd is None else crowd, bool)}
    flags |= {"area": np.asarray(nothing if area is None else area, np.float32)}
    size = {"source_id": source_id, "height": height, "width": width}
    return Instances(boxes=boxes, classes=np.asarray(classes, np.int32), **size, **flags)


def make_detections(boxes, scores, classes, source_id="x") -> Instances:
    scores, classes = np.asarray(scores, np.float32), np.asarray(classes, np.int32)
    boxes, order = np.asarray(boxes, np.float32).reshape(-1, 4), np.argsort(-scores, kind="stable")
    return Instances(source_id=source_id, boxes=boxes[order], scores=scores[order], classes=classes[order])


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
        crowd = rng.random(objects) < 0.15
        area = np.where(rng.random(objects) < 0.5, rng.uniform(10, 12000, objects), 0)
        fields = {"height": height, "width": width, "source_id": f"image {i}"}
        truth = make_truth(boxes, labels, crowd=crowd, area=area, **fields)
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
        masks = paste_masks(masks, objects.boxes, truth.height, truth.width)
        return dataclasses.replace(objects, masks=masks, keypoints=points.astype(np.float32))

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


def flagged_images(seed, *, ties=False):
    """Images of blocks with masks and flags, some empty, one with over 340 detections; no object of class 4.

    All drawn numbers are integers, so that the metrics of other programs hold on any machine.
    """
    rng = np.random.default_rng(seed)
    scores = iter(rng.permutation(4000) % (50 if ties else 4000) / 4000)
    images = []
    for i in range(14):
        height, width = rng.integers(40, 160, 2)
        size = np.array([height, width] * 2)
        objects = 0 if i % 7 == 3 else int(rng.integers(1, 8))
        boxes, labels = _blocks(rng, objects, size), rng.integers(0, 4, objects)
        near = np.clip(np.repeat(boxes, 3, 0) + rng.integers(-3, 4, (3 * objects, 4)), 0, size)
        clutter = 340 if i == 5 else 0 if i % 5 == 4 else int(rng.integers(0, 12))
        found = np.concatenate([near, _blocks(rng, clutter, size)])[: 0 if i % 5 == 4 else None]
        found_labels = np.concatenate([np.repeat(labels, 3), rng.integers(0, 5, clutter)])[: len(found)]
        truth = dataclasses.replace(
            make_truth(boxes / size, labels, height=int(height), width=int(width), source_id=str(i + 1)),
            area=np.float32(rng.integers(0, 2, objects) * rng.integers(10, 12000, objects)),
            difficult=rng.integers(0, 6, objects) == 0,
            group_of=rng.integers(0, 6, objects) == 0,
            labelled=np.flatnonzero(rng.integers(0, 2, 5)).astype(np.int32),
            not_exhaustive=np.flatnonzero(rng.integers(0, 5, 5) == 0).astype(np.int32),
            masks=_painted(rng, boxes, size, empty=6),
        )
        values = np.array([next(scores) for _ in found], np.float32)
        detections = make_detections(found / size, values, found_labels, str(i + 1))
        order = np.argsort(-values, kind="stable")
        masks = _painted(rng, found, size, empty=40)[order]
        images.append(EvaluatedImage(truth=truth, detections=dataclasses.replace(detections, masks=masks)))
    return images


def grid_images(seed):
    """Images of 10 x 10 px with crowds and many equal scores: overlaps of exactly 0.1 and 0.5 are common."""
    rng, size = np.random.default_rng(seed), (10, 10)
    images = []
    for i in range(120):
        count, clutter = rng.integers(0, 6, 2)
        boxes, labels = _grid_boxes(rng, count), rng.integers(0, 3, count)
        near = boxes + rng.integers(0, 3, (count, 1)) * rng.integers(0, 2, (count, 4)) * [0, 0, 1, 1]
        found = np.minimum(np.concatenate([near, _grid_boxes(rng, clutter)]), 10)
        classes = np.concatenate([labels, rng.integers(0, 3, clutter)])
        crowd = rng.integers(0, 8, count) == 0
        fields = {"height": 10, "width": 10, "crowd": crowd, "source_id": str(i)}
        truth = make_truth(boxes / 10, labels, **fields)
        truth = dataclasses.replace(truth, masks=_painted(rng, boxes, size, empty=40))
        scores = rng.integers(0, 64, len(found)) / 64
        detections = make_detections(found / 10, scores, classes, str(i))
        masks = _painted(rng, found, size, empty=40)[np.argsort(-scores, kind="stable")]
        images.append(EvaluatedImage(truth=truth, detections=dataclasses.replace(detections, masks=masks)))
    return images


def _grid_boxes(rng, count):
    low = rng.integers(0, 8, (count, 2))
    return np.concatenate([low, np.minimum(low + rng.integers(1, 6, (count, 2)), 10)], 1)


def tide_images(name, seed):
    """Images by the name of their drawing; groups are crowds."""
    images = {"flagged": flagged_images, "random": random_images, "grid": grid_images}[name](seed)
    crowds = [image.truth.is_crowd | image.truth.group_of for image in images]
    truths = [dataclasses.replace(i.truth, is_crowd=c) for i, c in zip(images, crowds, strict=True)]
    return [dataclasses.replace(image, truth=t) for image, t in zip(images, truths, strict=True)]


def _blocks(rng, count, size):
    low = rng.integers(0, size[:2] - 8, (count, 2))
    return np.concatenate([low, low + rng.integers(6, 1 + size[:2] - low)], 1)


def _painted(rng, boxes, size, empty):
    """Masks of boxes without a corner, one in `empty` without a pixel."""
    masks = np.zeros((len(boxes), *size[:2]), bool)
    for mask, (top, left, bottom, right), blank in zip(
        masks, boxes, rng.integers(0, empty, len(boxes)), strict=True
    ):
        mask[top:bottom, left:right] = blank > 0
        rows, columns = (int(rng.integers(0, 2 + max(side, 0) // 2)) for side in (bottom - top, right - left))
        mask[top : top + rows, left : left + columns] = False
    return encode_masks(masks)
