"""Scenes with one bright square each, a SavedModel that finds it, and both as artifacts."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from PIL import Image
from tensorflow.core.protobuf import saved_model_pb2

from detection_core.data.label_map import Keypoint, LabelMap, format_label_map, label_map_from_names
from detection_core.structures import Instances
from tests.support.dataset_files import encoded
from tests.support.evaluated_images import make_truth
from tests.support.record_files import example, write_records


def scenes(count=6, seed=0) -> list[tuple[np.ndarray, Instances]]:
    """Dark images, a bright red (class 0) or green (class 1) square in most; every fourth is empty."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(count):
        height, width = int(rng.integers(60, 120)), int(rng.integers(60, 120))
        image = rng.integers(0, 60, (height, width, 3)).astype(np.uint8)
        boxes, labels = [], []
        if i % 4 != 3:
            side, label = int(rng.integers(15, 30)), i % 2
            top, left = int(rng.integers(0, height - side)), int(rng.integers(0, width - side))
            image[top : top + side, left : left + side, label] = 255
            boxes.append([top / height, left / width, (top + side) / height, (left + side) / width])
            labels.append(label)
        truth = make_truth(boxes, labels, height=height, width=width, source_id=f"scene {i}")
        made.append((image, truth))
    return made


class BlobDetector(tf.Module):
    """Boxes the pixels brighter than 200 of each of the first two channels.

    A score of NaN makes a broken detector, and boxes moved down and right by a part of the image a worse one.
    """

    def __init__(self, score=0.9, shift=0.0, first_class=1.0):
        super().__init__()
        self.score, self.shift, self.first_class = score, shift, first_class

    @tf.function(input_signature=[tf.TensorSpec([1, None, None, 3], tf.uint8, name="input_tensor")])
    def serve(self, input_tensor):
        size = tf.cast(tf.shape(input_tensor)[1:3], tf.float32)
        boxes, scores = [], []
        for channel in (0, 1):
            where = tf.cast(tf.where(input_tensor[0, :, :, channel] > 200), tf.float32)
            there = tf.shape(where)[0] > 0
            where = tf.concat([where, tf.zeros([tf.cast(~there, tf.int32), 2])], 0)
            low, high = tf.reduce_min(where, 0), tf.reduce_max(where, 0) + 1.0
            boxes.append(tf.concat([low / size, high / size], 0) + self.shift)
            scores.append(tf.where(there, self.score, 0.0))
        order = tf.argsort(tf.stack(scores), direction="DESCENDING")
        scores = tf.gather(tf.stack(scores), order)
        return {
            "detection_boxes": tf.gather(tf.stack(boxes), order)[tf.newaxis],
            "detection_scores": scores[tf.newaxis],
            "detection_classes": (tf.cast(order, tf.float32) + self.first_class)[tf.newaxis],
            "num_detections": tf.reduce_sum(tf.cast(scores != 0, tf.float32))[tf.newaxis],
        }


class ShapeDetector(BlobDetector):
    """Finds the lower half of each box as its mask, and two of its corners as keypoints."""

    def boxes(self, input_tensor):
        return BlobDetector.serve.python_function(self, input_tensor)

    @tf.function(input_signature=[tf.TensorSpec([1, None, None, 3], tf.uint8, name="input_tensor")])
    def serve(self, input_tensor):
        found = self.boxes(input_tensor)
        mask = tf.repeat(tf.constant([[[[0.0], [0.0], [1.0], [1.0]]]]), 2, axis=1)
        corners = tf.reshape(found["detection_boxes"], [1, 2, 2, 2])
        return found | {"detection_masks": mask, "detection_keypoints": corners}


def save(detector: tf.Module, path) -> str:
    tf.saved_model.save(detector, str(path), signatures={"serving_default": detector.serve})
    return str(path)


def alter(folder, change: Callable[[Any], Any]) -> None:
    """Change the first meta graph of a SavedModel, in its file."""
    path = Path(folder, "saved_model.pb")
    saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    change(saved.meta_graphs[0])
    path.write_bytes(saved.SerializeToString())


def writing_detector(path):
    """Return a detector whose graph also writes a file."""

    class Writing(BlobDetector):
        @tf.function(input_signature=[tf.TensorSpec([1, None, None, 3], tf.uint8)])
        def serve(self, input_tensor):
            tf.io.write_file(str(path), "pwned")
            return BlobDetector.serve.python_function(self, input_tensor)

    return Writing()


PER_CATEGORY = "eval_config { include_metrics_per_category: true }"
LABELS = label_map_from_names(["red", "green"])


SHAPE_LABELS = LabelMap(
    items=tuple(
        dataclasses.replace(
            item, keypoints=(Keypoint(id=0, label="low"), Keypoint(id=1, label="high")), frequency="COMMON"
        )
        for item in LABELS.items
    )
)


def shape_columns(truth: Instances) -> dict[str, list[Any]]:
    """Return a record's columns of what `ShapeDetector` finds in each box."""
    masks = []
    for top, left, bottom, right in truth.boxes * np.array([truth.height, truth.width] * 2):
        mask = np.zeros((truth.height, truth.width), np.uint8)
        mask[round((top + bottom) / 2) : round(bottom), round(left) : round(right)] = 1
        masks.append(encoded(Image.fromarray(mask), "PNG"))
    points = {
        "num": [2] * len(masks),
        "text": [b"low", b"high"] * len(masks),
        "visibility": [2] * 2 * len(masks),
        "y": truth.boxes[:, [0, 2]].ravel().tolist(),
        "x": truth.boxes[:, [1, 3]].ravel().tolist(),
    }
    return {"image/object/mask": masks} | {f"image/object/keypoint/{k}": v for k, v in points.items()}


def write_examples(
    folder: Path, split: str, images, *, shard_ends: tuple[int, ...] = (), shapes: bool = False
) -> None:
    """Write scenes as PNG, so that pixels stay as they are; shards end before these places and the end.

    `shapes` adds masks and keypoints.
    """
    labels = SHAPE_LABELS if shapes else LABELS
    (folder / f"Split-{split}").mkdir(parents=True)
    records = []
    for image, truth in images:
        fields = {
            "image/encoded": [encoded(Image.fromarray(image), "PNG")],
            "image/format": [b"png"],
            "image/height": [image.shape[0]],
            "image/width": [image.shape[1]],
            "image/source_id": [truth.source_id.encode()],
            "image/filename": [truth.source_id.encode()],
            "image/object/class/label": [int(c) + 1 for c in truth.classes],
            "image/object/class/text": [LABELS.names[c].encode() for c in truth.classes],
        }
        fields |= shape_columns(truth) if shapes else {}
        for i, name in enumerate(("ymin", "xmin", "ymax", "xmax")):
            fields[f"image/object/bbox/{name}"] = truth.boxes[:, i].tolist()
        records.append(example(fields))
    ends = (*shard_ends, len(records))
    for number, (begin, end) in enumerate(zip((0, *shard_ends), ends, strict=True)):
        name = f"examples-{number:05d}-of-{len(ends):05d}.tfrecord"
        write_records(folder / f"Split-{split}" / name, records[begin:end])
    (folder / "label_map.pbtxt").write_text(format_label_map(labels))
    (folder / "dataset_card.json").write_text(json.dumps({"splits": {split: {"images": len(images)}}}))


def save_folder(
    detector: tf.Module, folder: Path, names=LABELS.names, config: str = "", labels: LabelMap | None = None
) -> str:
    """Write a detector folder as far as prediction looks at it: SavedModel, label map and config."""
    save(detector, folder / "Format-Serving")
    extra = folder / "Format-Serving" / "assets.extra" / "detflow"
    extra.mkdir(parents=True)
    (extra / "label_map.pbtxt").write_text(format_label_map(labels or label_map_from_names(list(names))))
    (extra / "pipeline.config").write_text(config)
    return str(folder)
