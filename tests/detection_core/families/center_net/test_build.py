"""Networks: every extractor, its variables in checkpoints and how these start it, its input, the detector."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from detection_core.builders.detector import build_detector, configured_model
from detection_core.detectors.base import TOTAL_LOSS, named_detections
from detection_core.detectors.checkpoint_names import FineTuneOptions
from detection_core.errors import ModelError
from detection_core.families.center_net.backbones import BLOCKS, HOURGLASSES, TrackedLayers
from detection_core.families.center_net.build import DEFAULT_DEVIATION, describe_center_net
from detection_core.families.center_net.checkpoint_names import checkpoint_names, object_paths
from detection_core.families.center_net.extractors import EXTRACTORS
from detection_core.families.center_net.model import CenterNetModel, InputScaling
from detection_core.families.center_net.network import CLASSIFICATION_BACKBONE, NECK
from detection_core.parts.layers.layer_hyperparams import LayerHyperparams
from detection_core.parts.layers.network_layers import NetworkLayers
from detection_core.structures import Batch
from tests.support.batches import images_of, noise
from tests.support.cases import refused
from tests.support.center_net_goldens import LABELS, build_filled, build_small, load_golden, small_config
from tests.support.efficientdet_goldens import deterministic_weight, padded_truth
from tests.support.field_checkpoints import restored, write_named_checkpoint, write_object_checkpoint


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    path = tmp_path_factory.mktemp("labels") / "labels.pbtxt"
    path.write_text(LABELS)
    return str(path)


@pytest.fixture(scope="module")
def small(labels):
    return build_small(labels=labels)


# What the reference computed, with deterministic weights, from noise of 64 or 128 pixels: the variables of
# its checkpoint, every head's output, and the last head's outputs and two moving means in training. Arrays of
# more than 512 numbers are sampled twice, to 64 of 512. The larger extractors are compared whole in the tests
# of the zoo.
EXTRACTOR_GOLDENS = dict(np.load(pathlib.Path(__file__).parent / "data" / "extractors.npz"))
EXTRACTOR_FACTS = json.loads(EXTRACTOR_GOLDENS.pop("facts").tobytes())
# A normalisation after the last block, which no output of the detector reads.
UNUSED = {"resnet_v1_18_fpn": "layer_with_weights-45", "resnet_v1_34_fpn": "layer_with_weights-85"}
QUICK = ("hourglass_10", "resnet_v1_18_fpn", "mobilenet_v2_fpn_sep_conv")


@pytest.mark.zoo
@pytest.mark.parametrize("name", [name for name in EXTRACTORS if name not in EXTRACTOR_FACTS])
def test_every_extractor_gives_maps_of_a_quarter_and_tracks_every_variable(name):
    entry = EXTRACTORS[name]
    side = max(64, entry.multiple)
    config = small_config(name)
    resizer = config.model.center_net.image_resizer.fixed_shape_resizer
    resizer.height = resizer.width = side
    built = build_detector(config.model, seed=None)
    stacks = HOURGLASSES[entry.depth].stacks if entry.backbone == "hourglass" else 1
    shapes = built.network.output_shape
    assert len(shapes) == 3 * stacks and {shape[1:3] for shape in shapes} == {(side // 4, side // 4)}
    paths = object_paths(built)
    assert {id(v) for v in paths.values()} == {id(v) for v in built.variables}
    assert len(paths) == len(built.variables)
    if entry.backbone.startswith("resnet"):
        assert entry.depth in BLOCKS and any(CLASSIFICATION_BACKBONE in path for path in paths)
    assert (entry.neck == "") != any(NECK in path for path in paths)


def _few(values):
    flat = np.asarray(values).reshape(-1)
    return flat[np.linspace(0, flat.size - 1, 512).astype(np.int64)][::8] if flat.size > 512 else flat


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.zoo) for name in EXTRACTOR_FACTS]
)
def test_an_extractor_computes_what_the_reference_s_does(name):
    facts = EXTRACTOR_FACTS[name]
    config = small_config(facts["type"])
    net = config.model.center_net
    net.image_resizer.fixed_shape_resizer.height = net.image_resizer.fixed_shape_resizer.width = facts["side"]
    head = net.object_detection_task.offset_head_params
    head.num_filters.append(8)
    head.kernel_sizes.append(3)
    for option, value in facts["options"].items():
        setattr(net.feature_extractor, option, value)
    model = build_filled(config)
    variables = object_paths(model)
    found = [[path, variable.shape.as_list()] for path, variable in variables.items()]
    wanted = [row for row in facts["variables"] if f"{UNUSED.get(name)}/" not in row[0]]
    assert sorted(found) == wanted and len(facts["variables"]) - len(wanted) == 4 * (name in UNUSED)
    given, wanted = facts["pixel"]
    pixel = tf.constant([[[given]]])
    np.testing.assert_allclose(model.parts.scaling(pixel).numpy().reshape(-1), wanted, rtol=1e-5)
    images = images_of(np.random.RandomState(0).standard_normal((2, facts["side"], facts["side"], 3)))
    outputs = {"predict": model.predict(images, training=False)}
    outputs["train_predict"] = model.predict(images, training=True)
    compared = 0
    for key, expected in EXTRACTOR_GOLDENS.items():
        case, _, rest = key.partition("/")
        kind, _, place = rest.partition("/")
        # The inner maps of an hourglass of 52 layers have one pixel here: batch statistics of two numbers.
        # Behind them, a change of the pixels by 1e-7 moves means of training by 0.06.
        behind = kind == "train_predict" or "output_conv" in place
        if case != name or (name == "hourglass_52" and behind):
            continue
        values = variables.get(place)
        if values is None:
            head_name, _, number = place.rpartition("/")
            values = outputs[kind][head_name][int(number)]
        np.testing.assert_allclose(_few(values), expected, rtol=2e-3, atol=2e-3, err_msg=key)
        compared += 1
    assert compared >= sum(facts["heads"].values()) + 1


@pytest.mark.parametrize("name", ["resnet50_v1_fpn_512x512_kpts"])
def test_variables_are_the_reference_s(name):
    golden = load_golden(name)
    built = build_detector(golden.config(side=64).model, seed=None)
    assert isinstance(built, CenterNetModel)
    assert sorted([path, v.shape.as_list()] for path, v in object_paths(built).items()) == sorted(
        golden.facts["variables"]
    )


def test_pixels_are_converted_as_each_backbone_expects():
    pixel = tf.constant([[[[37.0, 235.0, 140.0]]]])
    for name in ("resnet101_v1_fpn_512x512", "resnet50_v1_fpn_512x512_kpts", "hourglass104_512x512"):
        golden = load_golden(name)
        message = golden.config().model.center_net.feature_extractor
        scaling = InputScaling(
            blue_first=message.bgr_ordering,
            means=tuple(message.channel_means) or (0.0,) * 3,
            deviations=tuple(message.channel_stds) or (1.0,) * 3,
            scaling=EXTRACTORS[message.type].scaling,
        )
        wanted = golden.facts["preprocess"]["first_pixel_out"]
        assert golden.facts["preprocess"]["first_pixel_in"] == pixel.numpy().reshape(-1).tolist()
        np.testing.assert_allclose(scaling(pixel).numpy().reshape(-1), wanted, rtol=1e-5)


def test_a_keypoint_that_the_config_does_not_name_has_the_deviation_of_the_code(small):
    (task,) = small.parts.keypoints
    # The schema's comment says 5.0; the published code takes 1.0.
    assert task.deviations == (DEFAULT_DEVIATION, 0.5) and DEFAULT_DEVIATION == 1.0
    assert (task.class_index, task.indices, small.num_keypoints) == (1, (0, 1), 2)


def test_detections_are_in_the_image_and_only_one_class_has_keypoints(small):
    images = images_of(noise(2, 64, 64, 3), [[64, 64], [32, 48]])
    found, served = small.detect(images), small.serving_outputs(images)
    assert found.boxes.shape == (2, 5, 4) and found.keypoints.shape == (2, 5, 2, 2)
    assert found.boxes.numpy().min() >= 0 and found.boxes.numpy().max() <= 1
    assert (np.diff(found.scores) <= 0).all() and found.count.numpy().tolist() == [5, 5]
    classes = found.classes.numpy()
    assert {0, 1} == set(classes.reshape(-1).tolist()), "both classes, or the next lines say nothing"
    assert not found.keypoints.numpy()[classes == 0].any()
    assert served["detection_keypoint_scores"].numpy()[classes == 1].min() >= 0.1
    for name, value in named_detections(found).items():
        np.testing.assert_allclose(served[name], value, atol=1e-6)
    assert served["detection_multiclass_scores"].shape == (2, 5, 2)
    assert served["detection_boxes_strided"].numpy().max() <= 16


def test_losses_have_gradients_for_every_variable_and_need_the_keypoints(small):
    truth = padded_truth([([[0.2, 0.2, 0.8, 0.7]], [2])])
    points = np.full([1, truth.boxes.shape[1], 2, 2], np.nan, np.float32)
    points[0, 0] = [[0.3, 0.3], [0.6, 0.6]]
    given = truth._replace(
        keypoints=tf.constant(points), keypoint_weights=tf.constant(np.isfinite(points[..., 0]), tf.float32)
    )
    batch = Batch(images_of(noise(1, 64, 64, 3)), given)
    with tf.GradientTape() as tape:
        losses = small.losses(batch, training=True)
    gradients = tape.gradient(losses[TOTAL_LOSS], small.trainable_variables)
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    assert list(losses)[:3] == ["Loss/object_center", "Loss/box/scale", "Loss/box/offset"]
    assert "Loss/corners/keypoint/heatmap" in losses and len(losses) == 7
    few = batch._replace(truth=given._replace(keypoints=given.keypoints[:, :, :1]))
    refused(ModelError, "at least the 2 keypoints", small.losses, few, training=True)


def test_heads_are_as_the_config_says():
    config = small_config()
    config.model.center_net.use_depthwise = True
    built = build_detector(config.model, seed=None)
    kernels = {path: v.shape.as_list() for path, v in object_paths(built).items() if "_head_dict" in path}
    start = "model/_prediction_head_dict/object_center/0/layer_with_weights"
    assert kernels[f"{start}-0/depthwise_kernel"] == [3, 3, 64, 1]
    assert kernels[f"{start}-0/pointwise_kernel"] == [1, 1, 64, 8]
    assert kernels["model/_prediction_head_dict/box.Soffset/0/layer_with_weights-0/bias"] == [256]
    bias = next(v for path, v in object_paths(built).items() if path == f"{start}-1/bias")
    np.testing.assert_allclose(bias, -2.19, rtol=1e-6)


def test_layers_are_named_by_their_place_and_know_their_path():
    layers = TrackedLayers(layers=NetworkLayers(hyperparams=LayerHyperparams()))
    part = layers.under("neck", at="_model").under("step")
    part.conv(tf.zeros([1, 8, 8, 3]), "smooth", 4, 3, at="layer-3")
    assert layers.paths == {"neck_step_smooth": "_model/step/layer-3"}


def test_the_description_names_heads_and_keypoints(small, labels):
    message = small_config(labels=labels).model.center_net
    found = describe_center_net(message, small)
    assert found.summary == "hourglass_10 (hourglass)"
    assert found.rows == [("heatmap", "16 x 16, without suppression"), ("keypoints", "2 of corners")]
    assert "corners/keypoint/regression" in found.parts["heads"]
    assert configured_model(small_config(labels=labels)).architecture == "center_net"
    assert small.with_network(small.network).parts is small.parts


BACKBONE, HEADS = "model/_feature_extractor/_base_model/", "model/_prediction_head_dict/"
PARTS = {"classification": (BACKBONE,), "detection": ("model/_feature_extractor/",), "full": ("model/",)}


def _values(built):
    return {path: deterministic_weight(path, tuple(v.shape)) for path, v in object_paths(built).items()}


def _restored(built, kind, folder, values):
    prefix = write_object_checkpoint(values, folder / kind)
    return restored(built, checkpoint_names(), prefix, kind=kind)


@pytest.fixture(scope="module")
def built():
    return build_small("mobilenet_v2_fpn_sep_conv", seed=None)


@pytest.mark.parametrize("kind", PARTS)
def test_each_type_restores_its_part_and_nothing_else(built, kind, tmp_path):
    for variable in built.variables:
        variable.assign(np.zeros(variable.shape, np.float32))
    values = stored = _values(built)
    if kind == "classification":
        backbone = {path: value for path, value in values.items() if path.startswith(BACKBONE)}
        stored = {path.replace(BACKBONE, "feature_extractor/"): value for path, value in backbone.items()}
    report = _restored(built, kind, tmp_path, stored)
    wanted = {path for path in values if path.startswith(PARTS[kind])}
    for path, variable in object_paths(built).items():
        expected = values[path] if path in wanted else np.zeros(variable.shape)
        np.testing.assert_array_equal(variable, expected, err_msg=path)
    assert any(path.startswith(HEADS) for path in wanted) == (kind == "full")
    assert len([row for row in report.variables if row.outcome.name == "RESTORED"]) == len(wanted)


def test_a_mobilenet_without_a_pyramid_takes_a_classifier_s_whole_network():
    built = build_small("mobilenet_v2", seed=None)
    own, heads = "model/_feature_extractor/_network/", 12
    wanted = {path.replace(own, "feature_extractor/") for path in object_paths(built) if path.startswith(own)}
    fill = checkpoint_names().object_based.kinds["classification"]
    found = fill(built, FineTuneOptions(kind="classification"))
    assert {path for _, (path,) in found} == wanted and len(wanted) == len(built.variables) - heads


def test_a_classifier_does_not_start_an_hourglass(tmp_path):
    built = build_small(seed=None)
    values = {"feature_extractor/layer_with_weights-0/kernel": np.zeros([3, 3, 3, 32], np.float32)}
    sentence = "an hourglass starts from a detector's"
    refused(ModelError, sentence, _restored, built, "classification", tmp_path, values)


def test_no_checkpoint_of_tensorflow_1_starts_it(tmp_path):
    prefix = write_named_checkpoint({"a/weights": np.zeros([3], np.float32)}, tmp_path / "model.ckpt")
    message = "can start this kind of detector, found one that has no detection variables"
    given = (build_small(seed=None), checkpoint_names(), prefix)
    refused(ModelError, message, restored, *given, kind="detection", named=True)
