"""Evaluated images as the data sets that pycocotools reads, see https://cocodataset.org/#format-data."""

from collections.abc import Mapping, Sequence
from typing import Any

from detection_core.evaluation.coco_format import detected_objects
from detection_core.evaluation.results import EvaluatedImage, box_areas, to_px
from detection_core.structures import Instances


def coco_dictionaries(
    images: Sequence[EvaluatedImage], class_names: Mapping[int, str], iou_type: str = "bbox"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return ground truth and detections; images and objects are numbered from 1, as 0 means unmatched."""
    shared = {
        "info": {},
        "images": [
            {"id": i, "height": image.truth.height, "width": image.truth.width}
            for i, image in enumerate(images, start=1)
        ],
        "categories": [{"id": c + 1, "name": class_names[c]} for c in sorted(class_names)],
    }
    truth: list[dict[str, Any]] = []
    found: list[dict[str, Any]] = []
    for image_id, image in enumerate(images, start=1):
        truth += _true_objects(image.truth, image_id, iou_type)
        found += detected_objects(image.detections, image.truth, image_id, iou_type)
    for objects in (truth, found):
        objects[:] = [a for a in objects if a["category_id"] - 1 in class_names]
        for number, annotation in enumerate(objects, start=1):
            annotation["id"] = number
    return {**shared, "annotations": truth}, {**shared, "annotations": found}


def _true_objects(truth: Instances, image_id: int, iou_type: str) -> list[dict[str, Any]]:
    """An object's area is that of its record, else that of its mask or box."""
    objects = detected_objects(truth, truth, image_id, iou_type)
    areas = box_areas(to_px(truth.boxes, truth)).tolist()
    for fields, area, recorded, crowd in zip(objects, areas, truth.area, truth.is_crowd, strict=True):
        del fields["score"]
        known = fields["area"] if iou_type == "segm" else area
        fields |= {"area": float(recorded) or known, "iscrowd": int(crowd)}
    return objects
