"""A family from outside: two networks, predictions of its own, images of several sizes, masks.

It goes through everything that knows detectors but not their families: the check of its config, training,
its folder and SavedModel, evaluation, and the description. What it cannot do is refused with a sentence.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.config.check import check_pipeline_config
from detection_core.config.input_paths import point_at_examples
from detection_core.config.load import parse_pipeline_config
from detection_core.config.messages.registered import Option, option_values
from detection_core.config.rules import CHANNELS
from detection_core.detectors.base import Detector, InputShape, named_detections, with_total
from detection_core.detectors.family import Family, register_family, unregister_family
from detection_core.errors import ConfigError, ExportError
from detection_core.evaluation.pictures import PictureOptions
from detection_core.exporters.detector_folder import load_detector
from detection_core.structures import Batch, Detections, Images, box_detections
from detection_core.tasks.describe import describe
from detection_core.tasks.evaluate import evaluate_examples
from detection_core.tasks.evaluate_options import EvaluateOptions
from detection_core.tasks.export import TFLiteExportOptions, export_tflite
from detection_core.tasks.predict import predict
from detection_core.tasks.quantize import quantize
from detection_core.tasks.train import train
from tests.support.tiny_training import config_text, write_examples

MODEL = """
model {
  experimental_model {
    name: "quadrants"
    num_classes: 2
    image_resizer { keep_aspect_ratio_resizer { min_dimension: 64 max_dimension: 96 } }
    options { key: "channels" value: "8" }
  }
}
"""
CONFIG = MODEL + config_text(3)[config_text(3).index("train_config") :]
QUADRANTS = [[y, x, y + 0.5, x + 0.5] for y in (0.0, 0.5) for x in (0.0, 0.5)]
STAGES = ("Loss/first_stage", "Loss/second_stage")


class QuadrantDetector(Detector):
    """The first network looks at the image, the second at each quadrant of what the first one made."""

    def __init__(self, classes: int, channels: int = 8) -> None:
        super().__init__(name="quadrants")
        self.num_classes = classes
        image = tf_keras.Input([None, None, 3])
        features = tf_keras.layers.Conv2D(channels, 3, strides=8, padding="same", name="look")(image)
        features = tf_keras.layers.BatchNormalization(name="look_bn")(features)
        self.backbone = tf_keras.Model(image, features, name="backbone")
        quadrant = tf_keras.Input([channels])
        outputs = tf_keras.layers.Dense(classes + 4, name="decide")(quadrant)
        self.box_head = tf_keras.Model(quadrant, outputs, name="box_head")

    @property
    def networks(self):
        return {"backbone": self.backbone, "box_head": self.box_head}

    @property
    def input_shape(self) -> InputShape:
        return InputShape(smallest=(64, 64), largest=(96, 96))

    def predict(self, images: Images, training: bool) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        features = self.backbone(images.pixels / 255.0, training=training)
        pooled = tf.image.resize(features, [2, 2], antialias=True)
        pooled = tf.reshape(pooled, [-1, features.shape[-1]])
        outputs = self.box_head(pooled, training=training)
        logits, masks = tf.split(outputs, [self.num_classes, 4], axis=-1)
        return features, tf.reshape(logits, [-1, 4, self.num_classes]), tf.reshape(masks, [-1, 4, 2, 2])

    def losses(self, batch: Batch, training: bool) -> dict[str, tf.Tensor]:
        features, logits, masks = self.predict(batch.images, training)
        target = tf.one_hot(batch.truth.classes[:, :1], self.num_classes)
        classes = tf.nn.softmax_cross_entropy_with_logits(target + 0.0 * logits, logits)
        parts = [tf.reduce_mean(features**2), tf.reduce_mean(classes) + tf.reduce_mean(masks**2)]
        return with_total(dict(zip(STAGES, parts, strict=True)))

    def detect(self, images: Images) -> Detections:
        _, logits, masks = self.predict(images, training=False)
        scores = tf.nn.softmax(logits)
        best, order = tf.math.top_k(tf.reduce_max(scores, -1), 4)
        classes = tf.gather(tf.argmax(scores, -1, tf.int32), order, batch_dims=1)
        boxes = tf.gather(tf.constant(QUADRANTS), order)
        found = box_detections(boxes, best, classes, tf.fill([tf.shape(best)[0]], 4))
        return found._replace(masks=tf.gather(tf.sigmoid(masks), order, batch_dims=1))


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuadrantDescription:
    parts: dict[str, str]

    def summary(self) -> str:
        return "four quadrants"

    def rows(self) -> list[tuple[str, str]]:
        return [("stages", "2")]


OPTIONS = {"channels": Option(4, CHANNELS)}
QUADRANT_FAMILY = Family(
    name="quadrants",
    build=lambda message, where, seed: QuadrantDetector(
        message.num_classes, **option_values(OPTIONS, message)
    ),
    describe=lambda message, detector: QuadrantDescription(parts={"head": "dense"}),
    loss_names=dict(zip(STAGES, ("first", "second"), strict=True)),
    options=OPTIONS,
)


@pytest.fixture(scope="module")
def family():
    register_family(QUADRANT_FAMILY)
    yield QUADRANT_FAMILY
    unregister_family("quadrants")


@dataclasses.dataclass(frozen=True)
class Trained:
    folder: str
    examples: str
    report: object
    lines: tuple[dict[str, float], ...]


@pytest.fixture(scope="module")
def trained(family, tmp_path_factory) -> Trained:
    root = tmp_path_factory.mktemp("second_family")
    examples = str(write_examples(root / "examples"))
    lines = []
    report = train(
        point_at_examples(parse_pipeline_config(CONFIG), examples, eval_split="train"),
        model_dir=str(root / "model"),
        model_run_dir=str(root / "run"),
        work_dir=str(root / "work"),
        log_every=1,
        progress=lambda update: lines.append(update.details),
    )
    return Trained(str(root / "model"), examples, report, tuple(lines))


def test_without_its_registration_the_config_is_refused():
    with pytest.raises(ConfigError, match="no family of that name is registered"):
        check_pipeline_config(parse_pipeline_config(CONFIG))


def test_it_trains_and_its_losses_are_shown_by_its_names(trained):
    assert set(trained.report.losses) == {*STAGES, "Loss/total_loss"}
    pace = {"images/s", "data wait", "memory"}
    assert [set(line) - pace for line in trained.lines] == [{"loss", "first", "second", "lr"}] * 3
    assert trained.report.parameters == 3 * 3 * 3 * 8 + 8 + 2 * 8 + 8 * 6 + 6


def test_its_folder_is_read_back_with_the_variables_of_both_networks(trained):
    loaded = load_detector(trained.folder)
    assert loaded.info.name == "quadrants" and loaded.info.input_size == (0, 0)
    fresh = QuadrantDetector(2)
    assert [v.name for v in loaded.model.variables] == [v.name for v in fresh.variables]
    assert len(loaded.model.variables) == 8 and len(loaded.model.trainable_variables) == 6
    moved = loaded.model.backbone.get_layer("look_bn").moving_mean.numpy()
    assert np.abs(moved).max() > 0  # training was told to the first network


def test_it_predicts_images_of_any_shape(trained):
    images = [np.full(shape, 99, np.uint8) for shape in ((50, 70, 3), (90, 64, 3))]
    found = predict(trained.folder, images, min_score=0.0)
    assert [len(prediction.detections) for prediction in found] == [4, 4]


def test_its_saved_model_takes_any_image_and_gives_its_masks(trained):
    served = tf.saved_model.load(f"{trained.folder}/Format-Serving").signatures["serving_default"]
    found = served(input_tensor=tf.zeros([1, 50, 70, 3], tf.uint8))
    names = {"detection_boxes", "detection_scores", "detection_classes", "num_detections", "detection_masks"}
    assert set(found) == names and found["detection_masks"].shape == (1, 4, 2, 2)
    sizes = tf.constant([[64, 90]])
    images = Images(tf.zeros([1, 64, 90, 3]), sizes, sizes, tf.constant([""]))
    own = named_detections(load_detector(trained.folder).model.detect(images))
    np.testing.assert_allclose(found["detection_scores"], own["detection_scores"], atol=1e-5)


def test_it_is_evaluated(trained, tmp_path):
    options = EvaluateOptions(split="train", pictures=0, drawing=PictureOptions())
    report = evaluate_examples(
        model_path=trained.folder,
        examples_dir=trained.examples,
        evaluation_dir=str(tmp_path / "evaluation"),
        options=options,
    )
    assert report.images == 6 and "DetectionBoxes_Precision/mAP" in report.metrics


def test_it_is_described_by_itself(family):
    found = describe(parse_pipeline_config(CONFIG))
    text = found.text()
    assert "quadrants, four quadrants" in text and "64 x 64 to 96 x 96 x 3" in text and "head" in text
    assert found.parameters == 3 * 3 * 3 * 8 + 8 + 4 * 8 + 8 * 6 + 6 and found.flops == 0
    assert found.data()["input_size"] == ((64, 64), (96, 96))


def test_what_it_cannot_do_is_a_sentence(trained, tmp_path):
    with pytest.raises(ExportError, match="Lite, ssd or efficientdet, found quadrants"):
        export_tflite(
            trained.folder,
            trained.examples,
            TFLiteExportOptions(max_map_drop=0.02, split="train"),
            tflite_dir=str(tmp_path / "tflite"),
            parity_dir=str(tmp_path / "parity"),
        )
    rewriter = "graph_rewriter { quantization { delay: 0 weight_bits: 8 activation_bits: 8 } }"
    with pytest.raises(ConfigError, match="can be quantized, ssd or efficientdet, found quadrants"):
        quantize(
            point_at_examples(parse_pipeline_config(CONFIG + rewriter), trained.examples),
            model_dir=trained.folder,
            quantized_model_dir=str(tmp_path / "quantized"),
            quantized_run_dir=str(tmp_path / "run"),
            quantization_dir=str(tmp_path / "quantization"),
            work_dir=str(tmp_path / "work"),
        )
    assert not list(tmp_path.glob("*"))
