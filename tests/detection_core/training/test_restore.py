"""What a training starts from, and what it says of it."""

import functools
import logging
import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.artifacts import detector as layout
from detection_core.builders.detector import build_detector
from detection_core.data.label_map import format_label_map, label_map_from_names
from detection_core.detectors.checkpoint_names import FineTuneOptions
from detection_core.errors import ConfigError, ModelError
from detection_core.families.ssd.checkpoint_names import checkpoint_names, object_paths
from detection_core.families.ssd.scoped_names import scoped_variables
from detection_core.storage import files
from detection_core.training.checkpoint_file import CheckpointFile
from detection_core.training.checkpoint_variables import (
    VARIABLE_SUFFIX,
    Outcome,
    RestoredVariable,
    RestoreReport,
    is_averaged,
)
from detection_core.training.loop_options import TrainOptions
from detection_core.training.restore import (
    check_same_classes,
    copy_matching_weights,
    restore_fine_tune_checkpoint,
)
from detection_core.training.variables import backbone_stages, rate_factors, scaled_updates, trained_variables
from tests.detection_core.training.runs import assert_equal
from tests.support.cases import cases, refused
from tests.support.field_checkpoints import named_weight, write_named_checkpoint, write_object_checkpoint
from tests.support.golden_networks import MOBILE, deterministic_weight, load_golden

NAME = MOBILE[1]
EXTRACTOR = "ssd_mobilenet_v2_fpn_keras"
BACKBONE = "model/_feature_extractor/classification_backbone/"


@functools.cache
def _values():
    variables = load_golden(NAME).facts["variables"]
    return {path: deterministic_weight(path, tuple(shape)) for path, shape in variables.items()}


@pytest.fixture(scope="module")
def detector_checkpoint(tmp_path_factory):
    return write_object_checkpoint(_values(), tmp_path_factory.mktemp("field") / "ckpt-0")


@pytest.fixture(scope="module")
def built():
    model = build_detector(load_golden(NAME).message)
    return model, [variable.numpy() for variable in model.network.variables]


@pytest.fixture
def model(built):
    """The detector with its first weights."""
    detector, first_values = built
    for variable, value in zip(detector.network.variables, first_values, strict=True):
        variable.assign(value)
    return detector


def _restored_paths(model):
    """Object paths of the variables that have the checkpoint's value now."""
    paths = {path: v.numpy() for path, v in object_paths(model.network).items()}
    return {p for p, value in paths.items() if p in _values() and np.array_equal(value, _values()[p])}


def _restore(model, path, kind, **settings):
    options = FineTuneOptions(kind=kind, **settings)
    return restore_fine_tune_checkpoint(model, checkpoint_names(), options, CheckpointFile(path))


@pytest.mark.parametrize("kind, prefix", [("detection", "model/_feature_extractor/"), ("full", "model/")])
def test_a_detector_is_restored_as_far_as_the_type_says(model, detector_checkpoint, kind, prefix):
    report = _restore(model, detector_checkpoint, kind)
    expected = {path for path in _values() if path.startswith(prefix)}
    assert _restored_paths(model) == expected
    assert len(expected) == load_golden(NAME).facts["restored"][kind]
    assert report.count(Outcome.RESTORED) == len(expected) == len(report.variables)
    assert len(report.unused) == len(_values()) - len(expected)


def test_a_classifier_gives_its_weights_to_the_backbone(model, tmp_path):
    backbone = {path for path in _values() if path.startswith(BACKBONE)}
    values = {path.replace(BACKBONE, "feature_extractor/"): _values()[path] for path in backbone}
    values["feature_extractor/logits/kernel"] = np.zeros((2, 2), np.float32)
    report = _restore(model, write_object_checkpoint(values, tmp_path / "ckpt-1"), "classification")
    assert report.count(Outcome.RESTORED) == load_golden(NAME).facts["restored"]["classification"]
    assert _restored_paths(model) == backbone
    assert report.unused == (f"feature_extractor/logits/kernel{VARIABLE_SUFFIX}",)


def test_other_shapes_and_missing_variables_are_named(model, tmp_path):
    values = dict(_values())
    head = "_prediction_heads/class_predictions_with_background/_class_predictor_layers/0"
    head = f"model/_box_predictor/{head}"
    values[f"{head}/bias"] = np.zeros(24, np.float32)
    del values[f"{head}/pointwise_kernel"]
    report = _restore(model, write_object_checkpoint(values, tmp_path / "c"), "full")
    left = {row.name: row for row in report.variables if row.outcome is not Outcome.RESTORED}
    assert set(left) == {"class_head_pointwise/bias", "class_head_pointwise/kernel"}
    assert left["class_head_pointwise/bias"].outcome is Outcome.SKIPPED_SHAPE
    assert left["class_head_pointwise/bias"].found_shape == (24,)
    assert left["class_head_pointwise/kernel"].outcome is Outcome.MISSING
    np.testing.assert_allclose(model.network.get_layer("class_head_pointwise").bias, -4.6, rtol=1e-6)
    table = report.table()
    assert "382 restored, 1 skipped: another shape, 1 missing in the checkpoint" in table
    assert "class_head_pointwise/bias [546], found [24]" in table


def test_what_does_not_fit_is_refused(model, tmp_path, detector_checkpoint):
    large = {path: np.zeros((*value.shape, 2), np.float32) for path, value in _values().items()}
    large = write_object_checkpoint(large, tmp_path / "large")
    dense = write_object_checkpoint({"model/dense/kernel": np.zeros((2, 2), np.float32)}, tmp_path / "dense")
    values = {"MobilenetV2/Conv/weights": np.zeros((3, 3, 3, 32), np.float32)}
    named = write_named_checkpoint(values, tmp_path / "model.ckpt")
    tensorflow_1 = {"named": True, "extractor": EXTRACTOR}
    other_type = "FeatureExtractor/MobilenetV2/Conv/weights, found none .* another fine_tune_checkpoint_type"
    for path, kind, settings, error, message in (
        (large, "full", {}, ModelError, "found others in each variable.*set the depth_multiplier"),
        (dense, "full", {}, ModelError, "found none of them among 1, the first of which is model/dense"),
        (detector_checkpoint, "fine_tune", {}, ConfigError, "found 'fine_tune'"),
        (named, "detection", tensorflow_1, ModelError, other_type),
        (detector_checkpoint, "detection", tensorflow_1, ModelError, "fine_tune_checkpoint_version: V2"),
        (detector_checkpoint, "full", tensorflow_1, ConfigError, "classification, detection, found 'full'"),
    ):
        refused(error, message, _restore, model, path, kind, **settings)


def test_a_damaged_checkpoint_changes_nothing(model, tmp_path):
    prefix = write_object_checkpoint(_values(), tmp_path / "ckpt-0")
    data = pathlib.Path(f"{prefix}.data-00000-of-00001")
    data.write_bytes(data.read_bytes()[:-4000])
    before = [variable.numpy() for variable in model.network.variables]
    refused(ModelError, "damaged or truncated", _restore, model, prefix, "full")
    assert_equal(model.network.variables, before, 0, 0)


def _named_values(model):
    """A detector's checkpoint of TensorFlow 1, with what stands beside the weights there."""
    names = {v.name: tuple(v.variable.shape) for v in scoped_variables(model.network, EXTRACTOR)}
    names["FeatureExtractor/MobilenetV2/Conv/weights/Momentum"] = (2,)
    names["FeatureExtractor/MobilenetV2/Conv/weights/ExponentialMovingAverage"] = (2,)
    names["FeatureExtractor/MobilenetV2/Unknown/weights"] = (2,)
    values = {name: _weight(name, shape) for name, shape in names.items()}
    return {**values, "global_step": np.array(7, np.int64)}


_weight = functools.cache(named_weight)


def _with_named_weights(model):
    """Names of the variables that have the value of the name-based checkpoint now."""
    return {
        v.name
        for v in scoped_variables(model.network, EXTRACTOR)
        if np.array_equal(v.variable.numpy(), _weight(v.name, tuple(v.variable.shape)))
    }


@pytest.mark.parametrize("heads, single_file", [(False, False), (True, True)])
def test_a_detector_of_tensorflow_1_is_restored(model, tmp_path, heads, single_file):
    values = _named_values(model)
    path = write_named_checkpoint(values, tmp_path / "model.ckpt", single_file=single_file)
    report = _restore(model, path, "detection", named=True, extractor=EXTRACTOR, heads=heads)
    names = {v.name for v in scoped_variables(model.network, EXTRACTOR)}
    expected = {name for name in names if heads or name.startswith("FeatureExtractor/")}
    assert _with_named_weights(model) == expected
    counts = {"restored": len(expected), "unused": 1 + len(names) - len(expected)}
    assert report.counts() == counts | {"skipped_shape": 0, "missing": 0}
    # Steps, optimizer slots and averages are no model variables; what else is unused is named.
    assert "FeatureExtractor/MobilenetV2/Unknown/weights" in report.unused
    assert not {"global_step"} & set(report.unused)


def test_a_classifier_of_tensorflow_1_gives_its_weights_to_the_backbone(model, tmp_path):
    backbone = [v for v in scoped_variables(model.network, EXTRACTOR) if v.backbone]
    assert len(backbone) == 260
    values = {v.name: _weight(v.name, tuple(v.variable.shape)) for v in backbone}
    values["FeatureExtractor/MobilenetV2/Logits/weights"] = np.zeros((1, 1), np.float32)
    slim = {name.removeprefix("FeatureExtractor/"): value for name, value in values.items()}
    stem = "MobilenetV2/Conv/weights"
    slim[stem] = slim[stem][..., :-1]
    del slim["MobilenetV2/Conv_1/weights"]
    path = write_named_checkpoint(slim, tmp_path / "mobilenet_v2_1.0_224.ckpt")
    report = _restore(model, path, "classification", named=True, extractor=EXTRACTOR)
    assert report.counts() == {"restored": 258, "skipped_shape": 1, "missing": 1, "unused": 1}
    assert len(_with_named_weights(model)) == 258
    table = report.table()
    assert f": backbone_stem/kernel [3, 3, 3, 32], found [3, 3, 3, 31] ({stem})" in table
    assert "the checkpoint: backbone_head/kernel [1, 1, 320, 1280] (MobilenetV2/Conv_1/weights" in table


SLOT = "backbone/a/.OPTIMIZER_SLOT/optimizer/average/.ATTRIBUTES/VARIABLE_VALUE"


def _row(key, outcome=Outcome.RESTORED, **fields):
    return RestoredVariable(name=f"ours/{key}", key=key, outcome=outcome, shape=(2, 3), **fields)


def _report(rows, unused=()):
    return RestoreReport(prefix="ckpt", kind="full", variables=tuple(rows), unused=tuple(unused))


ROWS = (
    _row("net/stem/kernel/ExponentialMovingAverage"),
    _row("net/stem/mean"),
    _row("head/kernel", Outcome.SKIPPED_SHAPE, found_shape=(2, 9)),
    _row("head/bias", Outcome.MISSING, candidates=("head_1/bias", "head_2/bias")),
)


@cases(("a/kernel/ExponentialMovingAverage", True), (SLOT, True), ("a/.ATTRIBUTES/VARIABLE_VALUE", False))
def test_a_moving_average_shows_in_its_key(*, key, averaged):
    assert is_averaged(key) == _row(key).averaged == averaged
    assert not _row(key, Outcome.SKIPPED_SHAPE).averaged


def test_the_table_tells_of_each_variable_and_the_summary_of_counted_parts_within_bounds():
    lines = _report(ROWS, ["other/kernel"]).table().splitlines()
    assert lines == [
        "full checkpoint ckpt: 2 restored, 1 skipped: another shape, 1 missing in the checkpoint, 1 of its"
        " variables unused; what was restored are 1 moving averages and 1 plain values",
        "  skipped: another shape: ours/head/kernel [2, 3], found [2, 9] (head/kernel)",
        "  missing in the checkpoint: ours/head/bias [2, 3] (head/bias; it could be any of head_1/bias,"
        " head_2/bias)",
        "  restored, moving average: ours/net/stem/kernel/ExponentialMovingAverage [2, 3]"
        " (net/stem/kernel/ExponentialMovingAverage)",
        "  restored, plain value: ours/net/stem/mean [2, 3] (net/stem/mean)",
        "  unused: other/kernel",
    ]
    lines = _report(ROWS, ["other/kernel"]).summary().splitlines()
    assert lines[1:3] == [
        "  net: 2 of 2 restored (1 moving averages, 1 plain), such as"
        " net/stem/kernel/ExponentialMovingAverage",
        "  head: 0 of 2 restored (0 moving averages, 0 plain)",
    ]
    left = [line.partition(":")[0].strip() for line in lines[3:]]
    assert left == ["skipped", "missing in the checkpoint", "unused"]
    report = _report([_row("model/net/a/kernel"), _row("model/head/b/kernel"), _row("model/head/c/kernel")])
    parts = [line.split(":")[0] for line in report.summary().splitlines()[1:]]
    assert parts == ["  model/net", "  model/head"]
    assert "kernel: 1 of 1" in _report([_row("kernel")]).summary()
    report = _report(ROWS, ["other/kernel"])
    assert report.counts() == {"restored": 2, "skipped_shape": 1, "missing": 1, "unused": 1}
    assert report.averaged == 1
    rows = [_row(f"part_{i}/kernel", Outcome.MISSING) for i in range(300)]
    report = _report([*rows, _row("net/kernel")], [f"other_{i}" for i in range(5000)])
    summary = report.summary().splitlines()
    assert len(summary) == 1 + 21 + 11 + 11
    assert "  and 290 more variables that were not restored" in summary
    assert summary[-1] == "  and 4,990 more unused"
    table = report.table().splitlines()
    assert len(table) == 1 + 301 + 1001 and table[-1] == "  and 4,000 more unused"


def network(classes, prefix=""):
    inputs = tf_keras.Input([4])
    x = tf_keras.layers.Dense(3, name=f"{prefix}body")(inputs)
    return tf_keras.Model(inputs, tf_keras.layers.Dense(classes, name=f"{prefix}head")(x))


def test_what_fits_is_copied_and_the_rest_named(caplog):
    source, target = network(2), network(5)
    head = target.get_layer("head").kernel.numpy()
    with caplog.at_level(logging.INFO):
        assert copy_matching_weights(source, target) == 2
    np.testing.assert_array_equal(target.get_layer("body").kernel, source.get_layer("body").kernel)
    np.testing.assert_array_equal(target.get_layer("head").kernel, head)
    assert "2 weights copied, 2 are initialised: head/kernel, head/bias" in caplog.text
    with pytest.raises(ModelError, match=r"there: .*same family.*none of the 4 weights"):
        copy_matching_weights(network(2, "other_"), network(2), where="there")

    def deep(width):
        x = inputs = tf_keras.Input([4])
        x = tf_keras.layers.Dense(3, name="body")(x)
        for number in range(6):
            x = tf_keras.layers.Dense(width, name=f"layer_{number}")(x)
        return tf_keras.Model(inputs, x)

    with caplog.at_level(logging.INFO):
        assert copy_matching_weights(deep(5), deep(2)) == 2
    assert "12 are initialised: layer_0/kernel" in caplog.text and "layer_2/bias and 6 more" in caplog.text


def test_a_deployed_detector_of_other_classes_is_refused_naming_them(tmp_path):
    deployed, labels = tmp_path / "deployed", tmp_path / "label_map.pbtxt"
    files.write_text(str(deployed / "saved_model.pb"), "graph")
    own = layout.extra_file(str(deployed), layout.LABEL_MAP)
    files.write_text(own, format_label_map(label_map_from_names(["cat", "dog"])))
    files.write_text(str(labels), format_label_map(label_map_from_names(["cat", "dog"])))
    check_same_classes(str(deployed), str(labels))
    for names, message in (
        (["dog", "cat"], "class 1: cat deployed, dog in the data; class 2: dog deployed, cat"),
        (["cat", "dog", "owl"], "class 3: none deployed, owl in the data"),
    ):
        files.write_text(str(labels), format_label_map(label_map_from_names(names)))
        refused(ModelError, message, check_same_classes, str(deployed), str(labels))


LEGACY = tf_keras.optimizers.legacy
OPTIMIZERS = {
    "sgd": lambda rate: LEGACY.SGD(rate, momentum=0.9),
    "rmsprop": lambda rate: LEGACY.RMSprop(rate, momentum=0.9),
    "adam": LEGACY.Adam,
}


def _network():
    layers = tf_keras.layers
    inputs = tf_keras.Input([32, 32, 3])
    x = layers.Conv2D(2, 3, strides=2, padding="same", name="backbone_stem")(inputs)
    x = layers.BatchNormalization(name="backbone_stem_bn")(x)
    x = layers.Conv2D(2, 3, strides=2, padding="same", name="backbone_block_1_expand")(x)
    squeezed = layers.GlobalAveragePooling2D(keepdims=True, name="backbone_block_1_mean")(x)
    squeezed = layers.Conv2D(2, 1, name="backbone_block_1_squeeze")(squeezed)
    x = layers.Multiply(name="backbone_block_1_scale")([x, squeezed])
    x = layers.Conv2D(2, 3, strides=2, padding="same", name="backbone_block_2_project")(x)
    x = layers.Conv2D(2, 1, name="fpn_lateral_3")(x)
    return tf_keras.Model(inputs, x)


@cases((0, "backbone_stem"), (1, "backbone_block_1"), (3, "fpn_lateral_3"))
def test_the_first_stages_are_frozen(*, count, first):
    network = _network()
    options = TrainOptions(num_steps=1, freeze_backbone_stages=count)
    trained = trained_variables(network.trainable_variables, options, [network])
    assert trained[0].name.startswith(first) and trained == network.trainable_variables[-len(trained) :]


def test_rates_fall_towards_the_image_by_stages_also_in_replicas_and_not_all_is_frozen():
    expected = {"backbone_stem": 1, "backbone_stem_bn": 1, "backbone_block_1_expand": 2}
    expected |= {"backbone_block_1_squeeze": 2, "backbone_block_2_project": 3}
    stages = backbone_stages([_network()])
    assert {name.split("/")[0]: stage for name, stage in stages.items()} == expected
    network = _network()
    factors = rate_factors(network.trainable_variables, backbone_stages([network]), 0.5)
    by_layer = {v.name.split("/")[0]: f for v, f in zip(network.trainable_variables, factors, strict=True)}
    rates = {1: 0.125, 2: 0.25, 3: 0.5}
    assert by_layer == {name: rates[stage] for name, stage in expected.items()} | {"fpn_lateral_3": 1.0}
    network = _network()
    options = TrainOptions(num_steps=1, freeze_backbone_stages=5, freeze_variables=("fpn",))
    with pytest.raises(ConfigError, match="freeze_backbone_stages"):
        trained_variables(network.trainable_variables, options, [network])
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    with strategy.scope():
        variable, optimizer = tf.Variable(1.0), LEGACY.SGD(0.1)

    def update():
        with scaled_updates([variable], (0.5,)):
            optimizer.apply_gradients([(tf.constant(2.0), variable)])

    strategy.run(tf.function(update))
    assert float(variable.numpy()) == pytest.approx(0.9)


@cases(*OPTIMIZERS)
def test_a_scaled_update_is_that_of_a_scaled_learning_rate(*, name):
    scaled = [tf.Variable([1.0, -2.0]), tf.Variable([3.0])]
    alone = [tf.Variable([1.0, -2.0]), tf.Variable([3.0])]
    optimizer = OPTIMIZERS[name](0.1)
    own = [OPTIMIZERS[name](0.1 * 0.25), OPTIMIZERS[name](0.1)]

    @tf.function
    def update(step):
        gradients = [tf.stack([step, 2.0]), [step - 1.5]]
        with scaled_updates(scaled, (0.25, 1.0)):
            optimizer.apply_gradients(zip(gradients, scaled, strict=True))
        for one, gradient, variable in zip(own, gradients, alone, strict=True):
            one.apply_gradients([(gradient, variable)])

    for step in range(5):
        update(tf.constant(float(step)))
        for expected, found in zip(alone, scaled, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert float(tf.reduce_max(tf.abs(scaled[0] - [1.0, -2.0]))) > 0.01
