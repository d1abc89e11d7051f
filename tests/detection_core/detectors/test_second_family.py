"""A family from outside: two networks, its own predictions, images of several sizes, masks and keypoints.

It goes through everything that knows detectors but not their families: the check of its config, training,
its folder and SavedModel, evaluation, and the description. What it cannot do is refused with a sentence.
"""

import numpy as np
import pytest
import tensorflow as tf

from detection_core.builders.evaluation_settings import EvaluateOptions, known_edges
from detection_core.config.input_paths import point_at_examples
from detection_core.config.load import parse_pipeline_config
from detection_core.detectors.base import named_detections
from detection_core.detectors.family import FAMILIES, register_family
from detection_core.errors import ConfigError, ExportError
from detection_core.exporters.detector_folder import load_detector
from detection_core.structures import Images
from detection_core.tasks.describe import describe
from detection_core.tasks.evaluate import own_config, plan_evaluation
from detection_core.tasks.export import export_tflite
from detection_core.tasks.exporting.parity import TFLiteExportOptions
from detection_core.tasks.predict import predict
from detection_core.tasks.quantize import quantize
from tests.support.quadrants import CONFIG, QUADRANT_FAMILY, STAGES, QuadrantDetector
from tests.support.updates import Trained, train_on_shapes


@pytest.fixture(scope="module")
def family():
    register_family(QUADRANT_FAMILY)
    yield QUADRANT_FAMILY
    FAMILIES.pop("quadrants", None)


@pytest.fixture(scope="module")
def trained(family, tmp_path_factory) -> Trained:
    return train_on_shapes(tmp_path_factory.mktemp("second_family"), CONFIG)


def test_it_trains_and_its_losses_are_shown_by_its_names(trained):
    assert set(trained.report.losses) == {*STAGES, "Loss/total_loss"}
    pace = {"images/s", "data wait", "memory"}
    assert [set(line) - pace for line in trained.lines] == [{"loss", "first", "second", "lr"}] * 3
    assert trained.report.parameters == 3 * 3 * 3 * 8 + 8 + 2 * 8 + 8 * 6 + 6


def test_its_folder_is_read_back_with_the_variables_of_both_networks(trained):
    loaded = load_detector(trained.folder)
    assert loaded.info.name == "quadrants" and loaded.info.input_size == (0, 0)
    assert [v.name for v in loaded.model.variables] == [v.name for v in QuadrantDetector(2).variables]
    assert len(loaded.model.variables) == 8 and len(loaded.model.trainable_variables) == 6
    moved = loaded.model.backbone.get_layer("look_bn").moving_mean.numpy()
    assert np.abs(moved).max() > 0  # the first network ran in training mode


def test_it_predicts_images_of_any_shape(trained):
    images = [np.full(shape, 99, np.uint8) for shape in ((50, 70, 3), (90, 64, 3))]
    found = predict(trained.folder, images, min_score=0.0)
    assert [len(prediction.detections) for prediction in found] == [4, 4]
    for one, size in zip(found, ((50, 70), (90, 64)), strict=True):
        assert all(thing.mask.size == size and len(thing.keypoints) == 2 for thing in one.detections)
    assert known_edges(trained.folder) == ((0, 1),)  # of its pictures' skeletons


def test_its_saved_model_takes_any_image_and_gives_its_masks(trained):
    served = tf.saved_model.load(f"{trained.folder}/Format-Serving").signatures["serving_default"]
    found = served(input_tensor=tf.zeros([1, 50, 70, 3], tf.uint8))
    names = {"detection_boxes", "detection_scores", "detection_classes", "num_detections", "detection_masks"}
    assert set(found) == {*names, "detection_keypoints"} and found["detection_masks"].shape == (1, 4, 2, 2)
    sizes = tf.constant([[64, 90]])
    images = Images(tf.zeros([1, 64, 90, 3]), sizes, sizes, tf.constant([""]))
    own = named_detections(load_detector(trained.folder).model.detect(images))
    np.testing.assert_allclose(found["detection_scores"], own["detection_scores"], atol=1e-5)


def test_it_is_evaluated(trained, tmp_path):
    options = EvaluateOptions(split="train", pictures=2)
    config = point_at_examples(own_config(trained.folder), trained.examples, eval_split="train")
    report = plan_evaluation(
        model_path=trained.folder, config=config, evaluation_dir=str(tmp_path / "evaluation"), options=options
    ).run()
    assert report.images == 6
    for kind in ("DetectionBoxes", "DetectionMasks", "Keypoints"):
        assert 0 <= report.metrics[f"{kind}_Precision/mAP"] < 1, kind
    assert len(list((tmp_path / "evaluation" / "pictures").glob("side_by_side*.jpg"))) == 2


def test_it_is_described_by_itself(family):
    found = describe(parse_pipeline_config(CONFIG))
    text = found.text()
    assert "quadrants, four quadrants" in text and "64 x 64 to 96 x 96 x 3" in text and "head" in text
    assert found.parameters == 3 * 3 * 3 * 8 + 8 + 4 * 8 + 8 * 6 + 6 and found.flops == 0
    assert found.data()["input_size"] == ((64, 64), (96, 96))


def test_what_it_cannot_do_is_a_sentence(trained, tmp_path):
    with pytest.raises(ExportError, match="Lite, ssd or efficientdet or center_net, found quadrants"):
        export_tflite(
            trained.folder, trained.examples, TFLiteExportOptions(max_map_drop=0.02, split="train"),
            tflite_dir=str(tmp_path / "tflite"), parity_dir=str(tmp_path / "parity"),
        )  # fmt: skip
    rewriter = "graph_rewriter { quantization { delay: 0 weight_bits: 8 activation_bits: 8 } }"
    with pytest.raises(
        ConfigError, match="can be quantized, ssd or efficientdet or center_net, found quadrants"
    ):
        quantize(
            point_at_examples(parse_pipeline_config(CONFIG + rewriter), trained.examples),
            model_dir=trained.folder, quantized_model_dir=str(tmp_path / "quantized"),
            quantized_run_dir=str(tmp_path / "run"), quantization_dir=str(tmp_path / "quantization"),
            work_dir=str(tmp_path / "work"),
        )  # fmt: skip
    assert not list(tmp_path.glob("*"))
