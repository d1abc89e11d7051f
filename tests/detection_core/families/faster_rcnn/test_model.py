"""Networks, stages and detections of two-stage detectors, and names of their variables."""

import numpy as np
import pytest
import tensorflow as tf

from detection_core.builders.detector import build_detector
from detection_core.config.load import parse_pipeline_config
from detection_core.detectors.checkpoint_names import FineTuneOptions
from detection_core.errors import ModelError
from detection_core.families.faster_rcnn.checkpoint_names import checkpoint_names, object_paths
from detection_core.families.faster_rcnn.network import BACKBONES, mask_depth
from detection_core.families.faster_rcnn.stages import true_windows
from detection_core.training.checkpoint_variables import Outcome
from tests.support.batches import images_of, noise
from tests.support.field_checkpoints import restored, write_named_checkpoint, write_object_checkpoint
from tests.support.two_stage import FIXED, KEEPING, PADDED, build, model_text, tiny_extractor

RESNET = "faster_rcnn_resnet50_keras"


@pytest.fixture(autouse=True)
def extractor():
    with tiny_extractor():
        yield


def test_a_stage_less_is_a_network_less():
    names = {1: ["proposals"], 2: ["proposals", "regions", "boxes"]}
    names[3] = [*names[2], "masks"]
    for stages, wanted in names.items():
        model = build(stages)
        assert list(model.networks) == wanted and model.input_shape.size == (64, 64)
        # 12 proposals, and 6 detections whose masks are found.
        runs = {"proposals": 1, "regions": 18 if stages == 3 else 12, "boxes": 12, "masks": 6}
        assert all(model.runs_per_image(name) == runs[name] for name in wanted)
        found = model.detect(images_of(noise(2, 64, 64, 3)))
        rows = 12 if stages == 1 else 6
        assert found.boxes.shape == (2, rows, 4) and found.masks.shape[2:] == (
            (7, 5) if stages == 3 else (0, 0)
        )
        assert tf.reduce_all((found.boxes >= 0.0) & (found.boxes <= 1.0))
        assert tf.reduce_all(found.scores[:, 1:] <= found.scores[:, :-1]) and tf.reduce_all(found.count > 0)
        assert set(np.unique(found.classes)) <= ({0} if stages == 1 else {0, 1})


def test_boxes_are_relative_to_the_true_image_and_do_not_leave_it():
    for stages in (1, 2, 3):
        model = build(stages, PADDED)
        images = images_of(noise(1, 64, 64, 3), [[32, 64]])
        found = model.predict(images)
        detections, _ = model.suppress(found, images.true_sizes)
        assert detections.boxes.numpy().max() <= 1.0 and int(detections.count[0]) > 0
        if stages == 1:
            continue
        raw = model.raw_detections(found.regions)
        # The network's frame is twice as high as the image.
        np.testing.assert_array_equal(true_windows(images.true_sizes, (64, 64)), [[0, 0, 0.5, 1]])
        boxes = raw.boxes[0].numpy().reshape(-1, 4) * [2, 1, 2, 1]
        first = detections.boxes[0, 0].numpy()
        assert np.isclose(np.clip(boxes, 0, 1), first, atol=1e-5).all(-1).any()
        outputs = model.serving_outputs(images)
        assert outputs["raw_detection_boxes"].numpy().max() <= 1.0
        index = int(outputs["detection_anchor_indices"][0, 0])
        np.testing.assert_allclose(
            outputs["detection_multiclass_scores"][0, 0], raw.scores[0, index], atol=1e-6
        )


def test_images_of_any_size_pass_where_the_resizer_keeps_the_ratio():
    model, fixed = build(3, KEEPING), build(3, FIXED)
    assert model.input_shape.size is None and model.input_shape.largest == (96, 96)
    for size in ((64, 96), (80, 64)):
        assert model.detect(images_of(noise(1, *size, 3))).boxes.shape == (1, 6, 4)
    pixels = images_of(noise(1, 64, 64, 3))
    np.testing.assert_allclose(model.detect(pixels).boxes, fixed.detect(pixels).boxes, atol=1e-5)


def test_pixels_are_normalised_as_each_backbone_expects():
    pixels = tf.constant([[[[37.0, 235.0, 140.0]]]])
    np.testing.assert_allclose(build(1).preprocess(pixels)[0, 0, 0], 2 * pixels[0, 0, 0] / 255 - 1, rtol=1e-5)
    # RGB minus ImageNet's means, for all ResNets.
    assert all(BACKBONES[f"resnet{depth}_v1"].preprocessing == "channel_means" for depth in (50, 101, 152))
    assert BACKBONES["inception_resnet_v2"].preprocessing == "unit_range"


def test_settings_of_the_heads_change_the_networks():
    text = model_text(3)
    agnostic = "share_box_across_classes: true masks_are_class_agnostic: true"
    upsampled = "convolve_then_upsample_masks: true use_dropout: true"
    rpn = "first_stage_atrous_rate: 2 first_stage_box_predictor_kernel_size: 1"
    model = build_detector(
        parse_pipeline_config(
            text.replace("mask_height: 7", f"mask_height: 6 {agnostic} {upsampled}").replace(
                "first_stage_minibatch_size", f"{rpn} first_stage_minibatch_size"
            )
        ).model
    )
    assert model.networks["boxes"].output_shape == [(None, 1, 4), (None, 3)]
    assert model.networks["masks"].output_shape == (None, 6, 4, 1)
    assert model.proposal_network.get_layer("rpn_conv").dilation_rate == (2, 2)
    paths = set(object_paths(model))
    head = "model/_mask_rcnn_box_predictor"
    assert f"{head}/_box_prediction_head/_box_encoder_layers/2/kernel" in paths  # after a dropout layer
    assert f"{head}/_third_stage_heads/mask_predictions/_mask_predictor_layers/4/kernel" in paths
    assert f"{head}/_third_stage_heads/mask_predictions/_mask_predictor_layers/7/bias" in paths
    found = model.detect(images_of(noise(1, 64, 64, 3)))
    assert found.masks.shape == (1, 6, 6, 4) and mask_depth(1536, 90) == 256 and mask_depth(8, 1) == 2


def _restored(model, kind, path, named=False, **options):
    report = restored(model, checkpoint_names(), path, kind=kind, named=named, **options)
    return {row.name for row in report.variables if row.outcome is Outcome.RESTORED}, report


def test_each_kind_of_object_based_checkpoint_fills_its_part(tmp_path):
    source, rng = build(3), np.random.default_rng(1)
    values = {path: rng.normal(size=v.shape).astype(np.float32) for path, v in object_paths(source).items()}
    whole = write_object_checkpoint(values, tmp_path / "whole")
    features = {v.name.removesuffix(":0") for v in source.variables if v.name.startswith("backbone_")}
    model = build(3)
    assert _restored(model, "detection", whole)[0] == features
    names, report = _restored(model, "full", whole)
    assert names == {v.name.removesuffix(":0") for v in source.variables} and not report.unused
    for path, variable in object_paths(model).items():
        np.testing.assert_array_equal(variable, values[path], err_msg=path)
    # A classifier numbers the layers of both halves as one network's: 4 convolutions and norms come first.
    classifier = {
        path.replace("model/_feature_extractor_for_proposal_features", "feature_extractor"): value
        for path, value in values.items()
        if "proposal_features" in path
    }
    second = "model/_feature_extractor_for_box_classifier_features/layer_with_weights-"
    classifier |= {
        f"feature_extractor/layer_with_weights-{8 + int(path[len(second)])}{path[len(second) + 1 :]}": value
        for path, value in values.items()
        if path.startswith(second)
    }
    model = build(3)
    start = write_object_checkpoint(classifier, tmp_path / "classifier")
    assert _restored(model, "classification", start)[0] == features
    np.testing.assert_array_equal(
        model.region_network.get_layer("backbone_conv_5").kernel, values[f"{second}0/kernel"]
    )


def test_names_of_tensorflow_1_are_those_of_its_graph(tmp_path):
    resnet = model_text(2).replace("faster_rcnn_tests", RESNET)
    model = build_detector(parse_pipeline_config(resnet).model, seed=None)
    named_detection = checkpoint_names().name_based.kinds["detection"]
    options = FineTuneOptions(
        kind="detection", named=True, extractor="faster_rcnn_resnet50_keras", heads=True
    )
    found = {name: variable for variable, (name,) in named_detection(model, options)}
    assert len(found) == len(model.variables)
    unit = "resnet_v1_50/block4/unit_1/bottleneck_v1"
    wanted = {
        "FirstStageFeatureExtractor/resnet_v1_50/conv1/BatchNorm/moving_mean": (64,),
        f"SecondStageFeatureExtractor/{unit}/shortcut/weights": (1, 1, 1024, 2048),
        "Conv/biases": (8,),
        "FirstStageBoxPredictor/ClassPredictor/weights": (1, 1, 8, 4),
        "SecondStageBoxPredictor/BoxEncodingPredictor/weights": (2048, 8),
    }
    assert {name: tuple(found[name].shape) for name in wanted} == wanted
    shape = found[f"SecondStageFeatureExtractor/{unit}/conv1/weights"].shape
    value = np.ones(shape, np.float32)
    start = write_named_checkpoint({f"{unit}/conv1/weights": value}, tmp_path / "slim")
    names, _ = _restored(model, "classification", start, named=True, extractor=RESNET)
    assert names == {"backbone_block_3_0_reduce/kernel"}
    with pytest.raises(ModelError, match="an extractor that TensorFlow 1 had"):
        named_detection(
            build(2), FineTuneOptions(kind="detection", named=True, extractor="faster_rcnn_tests")
        )
