"""Networks of published configurations with weights that follow from the names of their variables.

Each file in `data` holds, for one configuration: the model message, the variables of its checkpoint, and, but
for the largest, samples of what the reference computed from the weights made here on the input made here.
"""

import dataclasses
import functools
import json
import pathlib
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf
from google.protobuf import text_format

from detection_core.builders.detector import build_detector
from detection_core.families.ssd.checkpoint_names import object_paths
from detection_core.families.ssd.model import RawDetections, SsdModel
from detection_core.parts.anchor_criterion import AnchorPredictions
from detection_core.protos import model_pb2
from detection_core.structures import Detections, GroundTruth, Images
from tests.support.batches import images_of
from tests.support.efficientdet_goldens import deterministic_weight, padded_truth
from tests.support.efficientdet_goldens import sampled as sample

DATA = pathlib.Path(__file__).parents[1] / "detection_core" / "families" / "data"
TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}
MOBILE = ("ssd_mobilenet_v2_320x320", "ssd_mobilenet_v2_fpnlite_320x320")
NAMES = tuple(sorted(path.stem for path in DATA.glob("ssd_*.npz")))
WITH_FORWARD = tuple(name for name in NAMES if len(np.load(DATA / f"{name}.npz").files) > 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Golden:
    """What is known of one configuration."""

    facts: dict[str, Any]
    arrays: dict[str, np.ndarray]

    @property
    def message(self) -> model_pb2.DetectionModel:
        return text_format.Parse(self.facts["model"], model_pb2.DetectionModel())

    @property
    def input(self) -> np.ndarray:
        return np.random.RandomState(0).standard_normal(self.facts["input_shape"]).astype(np.float32)

    @property
    def images(self) -> Images:
        """The golden input as a batch; what the network sees must equal it, so it is not preprocessed."""
        return images_of(self.input)

    @property
    def truth(self) -> GroundTruth:
        """Three objects in the first image, one in the second; labels count from 1."""
        first = [[0.1, 0.1, 0.5, 0.4], [0.3, 0.5, 0.9, 0.95], [0.6, 0.05, 0.75, 0.2]]
        images = [(first, [1, 17, 3]), ([[0.2, 0.2, 0.8, 0.7]], [45])]
        return padded_truth(images[: self.facts["input_shape"][0]])


AnyGolden = TypeVar("AnyGolden", bound=Golden)


@functools.cache
def load_golden(name: str, kind: type[AnyGolden] = Golden, folder: pathlib.Path = DATA) -> AnyGolden:
    arrays = dict(np.load(folder / f"{name}.npz"))
    return kind(facts=json.loads(arrays.pop("facts").tobytes()), arrays=arrays)


def fill(model: SsdModel) -> None:
    """Give every variable its deterministic weight."""
    for path, variable in object_paths(model.network).items():
        variable.assign(deterministic_weight(path, tuple(variable.shape)))


class RawInputModel(SsdModel):
    """Takes the golden input as it is."""

    def preprocess(self, pixels: tf.Tensor) -> tf.Tensor:
        return pixels


def build_filled(message: model_pb2.DetectionModel) -> RawInputModel:
    """A new detector with deterministic weights, which takes its input as it is."""
    built = build_detector(message)
    assert isinstance(built, SsdModel)
    model = RawInputModel(built.network, built.parts)
    fill(model)
    return model


def build_golden(name: str) -> RawInputModel:
    """A new detector of the configuration with deterministic weights."""
    return build_filled(load_golden(name).message)


def train_predict(model: SsdModel, images: Images) -> AnchorPredictions:
    """Predict as in training, which moves every statistic, and put the statistics back."""
    statistics = model.network.non_trainable_variables
    before = [variable.numpy() for variable in statistics]
    predictions = model.predict(images, training=True)
    for variable, value in zip(statistics, before, strict=True):
        assert not np.array_equal(variable, value), variable.name
        variable.assign(value)
    return predictions


def assert_outputs(
    golden: Golden, arrays: dict[str, np.ndarray], model: SsdModel, predictions: AnchorPredictions
) -> RawDetections:
    """Anchors, both heads and raw detections are the reference's; returns the raw detections."""
    anchors = golden.facts["anchors"]
    assert predictions.anchors.shape == (anchors["count"], 4)
    np.testing.assert_allclose(predictions.anchors[:8], anchors["first_8"], atol=1e-6)
    np.testing.assert_allclose(predictions.anchors[-8:], anchors["last_8"], atol=1e-6)
    sums = predictions.anchors.numpy().astype(np.float64).sum(axis=0)
    np.testing.assert_allclose(sums, anchors["checksum_column_sums"], rtol=1e-6)
    raw = model.raw_detections(predictions)
    # Where the background has no column in the reference's scores, ours has the classes behind it.
    scores = raw.scores
    if scores.shape[-1] == predictions.class_logits.shape[-1] + 1:
        scores = scores[:, :, 1:]
    for values, name in (
        (predictions.box_codes, "predict/box_encodings"),
        (predictions.class_logits, "predict/class_predictions_with_background"),
        (raw.boxes, "postprocess/raw_detection_boxes"),
        (scores, "postprocess/raw_detection_scores"),
    ):
        np.testing.assert_allclose(sample(values), arrays[name], **TOLERANCE, err_msg=name)
    return raw


def assert_same_detections(arrays: dict[str, np.ndarray], found: Detections) -> None:
    """Counts and scores are the reference's, and so are nearly all boxes with their classes.

    Neighbours whose scores differ by less than rounding can swap, or suppress one another the other way.
    """
    np.testing.assert_array_equal(found.count, arrays["postprocess/num_detections"])
    np.testing.assert_allclose(sample(found.scores), arrays["postprocess/detection_scores"], **TOLERANCE)
    wanted = arrays["postprocess/detection_boxes"].reshape(-1, 4)
    same = np.isclose(np.reshape(found.boxes, (-1, 4)), wanted, **TOLERANCE).all(axis=1)
    same &= np.reshape(found.classes, -1) == arrays["postprocess/detection_classes"]
    assert same.mean() > 0.95, f"{same.mean():.3f} are the same"
