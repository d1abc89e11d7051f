"""Two-stage detectors on a feature pyramid."""

import re

import numpy as np
import pytest
import tensorflow as tf

from detection_core.builders.detector import build_detector
from detection_core.config.check import find_problems, find_refused, find_without_effect
from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.detectors.checkpoint_names import FineTuneOptions
from detection_core.errors import ModelError
from detection_core.families.faster_rcnn.build import describe_faster_rcnn
from detection_core.families.faster_rcnn.check import size_problems
from detection_core.families.faster_rcnn.checkpoint_names import checkpoint_names, object_paths
from detection_core.families.faster_rcnn.extractors import EXTRACTORS, Extractor, strides
from detection_core.families.faster_rcnn.network import BACKBONES, TwoStageBackbone
from detection_core.families.faster_rcnn.pyramid import pad_pixels, region_levels
from detection_core.families.faster_rcnn.stages import crop_regions
from detection_core.parts.layers.layer_hyperparams import BatchNormOptions, LayerHyperparams
from detection_core.structures import Batch
from tests.support.batches import images_of, noise
from tests.support.cases import refused
from tests.support.efficientdet_goldens import padded_truth
from tests.support.field_checkpoints import restored, write_object_checkpoint
from tests.support.two_stage import FIXED, KEEPING, PADDED, build, model_text, tiny_extractor
from tests.support.updates import losses_of_descent

NAME = "faster_rcnn_tests_fpn"
EXTRACTOR = "model.faster_rcnn.feature_extractor"
GENERATOR = "model.faster_rcnn.first_stage_anchor_generator"
PYRAMID = f"""feature_extractor {{
  type: "{NAME}" batch_norm_trainable: true
  fpn {{ min_level: 2 max_level: 6 additional_layer_depth: 8 }}
  conv_hyperparams {{
    activation: RELU_6 batch_norm {{ scale: true }} initializer {{ variance_scaling_initializer {{ }} }}
  }}
}}"""
ON_LEVELS = """multiscale_anchor_generator {
  min_level: 2 max_level: 6 anchor_scale: 2 scales_per_octave: 1 aspect_ratios: 1 normalize_coordinates: false
}"""


def _levels(images, layers):
    features, levels = images, {}
    for level in range(1, 6):
        name = f"backbone_conv_{level}"
        features = layers.norm_activation(layers.conv(name, 8, 3, stride=2, use_bias=False)(features), name)
        levels[level] = features
    return levels


@pytest.fixture(autouse=True)
def extractor():
    EXTRACTORS[NAME] = Extractor(backbone=NAME, pyramid=True)
    BACKBONES[NAME] = TwoStageBackbone(
        family="tests", preprocessing="unit_range",
        hyperparams=LayerHyperparams(batch_norm=BatchNormOptions(momentum=0.9)),
        proposal_features=lambda images, layers, stride: images,
        region_features=lambda regions, layers: regions, levels=_levels,
    )  # fmt: skip
    yield
    EXTRACTORS.pop(NAME)
    BACKBONES.pop(NAME)


def _text(stages=2, resizer=FIXED):
    found = model_text(stages, resizer)
    found = re.sub(r"feature_extractor \{.*?\}", PYRAMID, found, count=1)
    return re.sub(r"grid_anchor_generator \{.*?\}", ON_LEVELS, found, count=1)


def _build(stages=2, resizer=FIXED):
    return build_detector(parse_pipeline_config(_text(stages, resizer)).model)


def _problems(changes):
    config = apply_overrides(parse_pipeline_config(_text()), changes)
    return {problem.path: problem.message for problem in [*find_problems(config), *find_refused(config)]}


def test_levels_anchors_and_hyperparameters_must_fit():
    own = {path for path in _problems({}) if path.startswith("model.")}
    assert not own
    failures = []
    levels, anchors = f"{EXTRACTOR}.fpn.min_level", f"{GENERATOR}.multiscale_anchor_generator"
    hyperparams, in_pixels = f"{EXTRACTOR}.conv_hyperparams", f"{anchors}.normalize_coordinates"
    for field, value, path, words in (
        (hyperparams, "unset", hyperparams, "found none; set them"),
        (levels, 1, levels, "found 1 and 6"),
        (f"{EXTRACTOR}.fpn.max_level", 13, levels, "found 2 and 13"),
        (f"{EXTRACTOR}.fpn.max_level", 5, anchors, "on 4 feature maps, as the pyramid has, found 5"),
        (in_pixels, True, in_pixels, "in pixels, found true"),
    ):
        found = _problems({field: value})
        if words not in found.get(path, ""):
            failures.append((field, value, found))
    assert not failures
    config = apply_overrides(parse_pipeline_config(_text()), {f"{EXTRACTOR}.pad_to_multiple": 64})
    (ignored,) = (p for p in find_without_effect(config) if p.path.startswith(EXTRACTOR))
    assert "pad to multiples of 32" in ignored.message
    message = config.model.faster_rcnn
    assert strides(message.feature_extractor) == [4, 8, 16, 32, 64]
    message.feature_extractor.ClearField("fpn")
    assert strides(message.feature_extractor) == [4, 8, 16, 32, 64]
    assert not list(size_problems(message, "", (640, 640)))
    assert list(size_problems(message, "", (65_536, 65_536)))


def test_detectors_of_all_stages_find_objects_in_images_of_any_size():
    for stages, resizer, sizes in (
        (2, FIXED, [(64, 64)]),
        (1, PADDED, [(64, 64)]),
        (3, KEEPING, [(64, 96), (70, 64)]),
    ):
        model = _build(stages, resizer)
        for size in sizes:
            images = images_of(noise(1, *size, 3))
            first = model.first_stage(images, training=False)
            padded = [-(-side // 32) * 32 for side in size]
            shapes = [tuple(-(-side // 2**level) for side in padded) for level in range(2, 7)]
            assert [tuple(features.shape[1:3]) for features in first.maps] == shapes
            assert first.predictions.anchors.shape[0] == sum(rows * columns for rows, columns in shapes)
            # The first anchor of each level is centred in the middle of its first cell, in pixels.
            at = 0
            for level, (rows, columns) in enumerate(shapes, 2):
                anchor = first.predictions.anchors[at].numpy() * np.tile(size, 2)
                np.testing.assert_allclose((anchor[:2] + anchor[2:]) / 2, 2**level / 2, rtol=1e-5)
                at += rows * columns
            found = model.detect(images)
            assert found.boxes.shape[1] == (12 if stages == 1 else 6)
            assert found.masks.shape[2:] == ((7, 5) if stages == 3 else (0, 0))


def test_a_region_is_cropped_from_the_map_of_its_size():
    rng = np.random.default_rng(1)
    size, levels = (1792, 448), 4
    corners = rng.uniform(0, 0.4, (2, 9, 2))
    boxes = np.concatenate([corners, corners + rng.choice([0.0, 0.02, 0.15, 0.35, 0.6], (2, 9, 2))], -1)
    found = region_levels(tf.constant(boxes, tf.float32), size, levels).numpy()
    maps = [noise(2, 8 >> level, 8 >> level, 3, seed=level) for level in range(levels)]
    crops = crop_regions(list(map(tf.constant, maps)), tf.constant(boxes, tf.float32), 2, tf.constant(found))
    assert len(set(found.reshape(-1))) > 2
    for place in np.ndindex(2, 9):
        height, width = boxes[place][2:] - boxes[place][:2]
        side = np.sqrt(height * size[0] * width * size[1])
        wanted = 0 if side == 0 else int(np.clip(np.floor(np.log2(side / 224)) + levels - 2, 0, levels - 1))
        assert found[place] == wanted
        alone = crop_regions([tf.constant(maps[wanted])], tf.constant(boxes, tf.float32), 2)
        number = place[0] * 9 + place[1]
        np.testing.assert_array_equal(crops[number], alone[number])


def test_pixels_are_padded_below_and_to_the_right():
    pixels = tf.constant(noise(1, 33, 64, 3))
    padded = pad_pixels(pixels, 32)
    assert padded.shape == (1, 64, 64, 3)
    np.testing.assert_array_equal(padded[:, :33], pixels)
    assert not padded[:, 33:].numpy().any() and pad_pixels(padded, 32) is padded


def test_names_are_the_reference_s_and_a_classifier_fills_the_backbone_alone():
    model = _build()
    paths = object_paths(model)
    features = "model/_feature_extractor_for_proposal_features"
    regions = "model/_feature_extractor_for_box_classifier_features/layer_with_weights"
    rpn = "model/_first_stage_box_predictor/_prediction_heads/box_encodings"
    wanted = {
        f"{features}/classification_backbone/layer_with_weights-8/kernel": (3, 3, 8, 8),
        f"{features}/fpn_features_generator/top_layers/0/bias": (8,),
        f"{features}/fpn_features_generator/residual_blocks/2/0/kernel": (1, 1, 8, 8),
        f"{features}/fpn_features_generator/conv_layers/0/1/gamma": (8,),
        f"{features}/coarse_feature_layers/0/0/kernel": (3, 3, 8, 8),
        f"{rpn}/4/_box_encoder_layers/0/kernel": (1, 1, 8, 4), f"{regions}-0/kernel": (32, 1024),
        f"{regions}-1/moving_mean": (1024,), f"{regions}-2/bias": (1024,),
    }  # fmt: skip
    assert {path: tuple(paths[path].shape) for path in wanted} == wanted
    kinds = checkpoint_names().object_based.kinds
    options = FineTuneOptions(kind="classification")
    names = {path for _, (path,) in kinds["classification"](model, options)}
    assert {path.split("/")[1] for path in names} == {f"layer_with_weights-{n}" for n in range(10)}
    assert len(kinds["detection"](model, options)) == sum("_feature_extractor_for" in p for p in paths)


def test_three_updates_on_one_batch_lower_its_loss():
    model = _build()
    batch = Batch(images_of(noise(1, 64, 64, 3)), padded_truth([([[0.1, 0.1, 0.5, 0.5]], [1])]))
    found = losses_of_descent(model, batch, 0.02, 4)
    assert found == sorted(found, reverse=True), found


def test_the_description_names_each_map():
    model = _build()
    found = describe_faster_rcnn(parse_pipeline_config(_text()).model.faster_rcnn, model)
    assert found.summary == f"{NAME} (tests, fpn, 2 stages)"
    assert found.rows[:2] == [("anchors", "1 every 4 pixels"), ("", "1 every 8 pixels")]
    assert found.rows[-1] == ("proposals", "up to 12")


def test_a_detector_without_a_pyramid_is_no_start_of_one_with_a_pyramid(tmp_path):
    with tiny_extractor():
        values = {path: v.numpy() for path, v in object_paths(build(2)).items()}
    path = write_object_checkpoint(values, tmp_path / "plain")
    model = _build()
    message = (
        "such as .*/classification_backbone/layer_with_weights-0/kernel.*, found none of them .*"
        " use a checkpoint of the same feature extractor"
    )
    for kind in ("full", "detection"):
        refused(ModelError, message, restored, model, checkpoint_names(), path, kind=kind)
