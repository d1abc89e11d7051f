"""The CenterNet configurations of the model zoo, whole: variables, outputs, detections, losses, updates."""

import numpy as np
import pytest
import tensorflow as tf

from detection_core.builders.detector import build_detector
from detection_core.builders.optimizer import build_optimizer
from detection_core.config.check import check_pipeline_config
from detection_core.detectors.base import TOTAL_LOSS
from detection_core.families.center_net.checkpoint_names import object_paths
from detection_core.families.center_net.network import OBJECT_CENTER
from detection_core.structures import Batch, Images
from detection_core.training.loop_options import TrainOptions
from detection_core.training.step import TrainState, train_step
from tests.support.batches import images_of
from tests.support.center_net_goldens import NAMES, build_filled, label_map, load_golden
from tests.support.efficientdet_goldens import padded_truth, sampled
from tests.support.updates import losses_of_updates

TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}
RATE = 1e-3
"""Of the published config's first update."""
FULL_SIZE = [pytest.mark.zoo, pytest.mark.slow]
# A normalisation after the last block, which no output of the detector reads.
UNUSED = {f"layer_with_weights-203/{name}" for name in ("beta", "gamma", "moving_mean", "moving_variance")}
RESNETS = [name for name in NAMES if name.startswith("resnet")]


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    path = tmp_path_factory.mktemp("labels") / "labels.pbtxt"
    path.write_text(label_map())
    return str(path)


def _same(served, arrays, prefix):
    """Scores, counts and nearly all rows are the reference's; equal scores may swap neighbours."""
    rows = np.ones(served["detection_scores"].shape, bool)
    for name in ("boxes", "classes", "boxes_strided", "keypoints", "keypoint_scores"):
        key = f"{prefix}detection_{name}"
        if key in arrays and arrays[key].size == np.size(served[f"detection_{name}"]):
            found = served[f"detection_{name}"].numpy() - (1 if name == "classes" else 0)
            near = np.isclose(found, arrays[key].reshape(found.shape), **TOLERANCE)
            rows &= near.reshape(*rows.shape, -1).all(axis=-1)
    assert rows.mean() > 0.95, f"{rows.mean():.3f} are the same"
    scores = arrays[f"{prefix}detection_scores"]
    np.testing.assert_allclose(sampled(served["detection_scores"]), scores.reshape(-1), **TOLERANCE)
    counts = arrays[f"{prefix}num_detections"].reshape(-1)
    np.testing.assert_array_equal(served["num_detections"], counts)
    classes = sampled(served["detection_multiclass_scores"])
    wanted = arrays[f"{prefix}detection_multiclass_scores"].reshape(-1)
    assert np.isclose(classes, wanted, **TOLERANCE).mean() > 0.95


@pytest.mark.parametrize("name", RESNETS)
def test_an_image_that_does_not_fill_the_input(name, labels):
    golden = load_golden(name)
    model = build_filled(golden.config(labels, side=256))
    sizes = tf.constant(golden.arrays["padded/true_image_shapes"][:, :2])
    pixels = np.random.RandomState(0).standard_normal((1, 256, 256, 3)).astype(np.float32)
    served = model.serving_outputs(Images(tf.constant(pixels), sizes, sizes, tf.constant([""])))
    _same(served, golden.arrays, "padded/postprocess_")


@pytest.mark.slow
def test_updates_are_the_reference_s(labels):
    golden = load_golden("resnet101_v1_fpn_512x512")
    arrays = golden.arrays
    config = golden.config(labels, side=256)
    model = build_filled(config)
    count = arrays["training/num_groundtruth_boxes"]
    boxes, classes = (
        arrays["training/groundtruth_boxes"],
        arrays["training/groundtruth_classes"].argmax(-1) + 1,
    )
    truth = padded_truth([(boxes[i][:n], classes[i][:n].tolist()) for i, n in enumerate(count)])
    batch = Batch(images_of(np.random.RandomState(0).standard_normal((2, 256, 256, 3))), truth)
    options = TrainOptions(num_steps=2)
    state = TrainState(model, build_optimizer(config.train_config.optimizer), options, None)
    step = tf.function(lambda: train_step(state, options, 1, batch).losses)
    for name, value in step().items():
        wanted = arrays[f"training/losses_0__{name.replace('/', '__')}"]
        np.testing.assert_allclose(value, wanted, rtol=1e-3, err_msg=name)
    after = {k.removeprefix("training/after_1/"): v for k, v in arrays.items() if "/after_1/" in k}
    assert len(after) > 5
    variables = object_paths(model)
    for key, wanted in after.items():
        values = variables[key.removesuffix("/.ATTRIBUTES/VARIABLE_VALUE")].numpy().reshape(-1)
        found = values[np.linspace(0, values.size - 1, min(values.size, 64)).astype(np.int64)]
        # Adam's first update is the rate, with the gradient's sign. Before a batch norm, a bias's gradient is
        # rounding only, and processors differ in its sign.
        assert np.abs(found - wanted).max() < 2.01 * RATE, key
        assert np.isclose(found, wanted, **TOLERANCE).mean() > 0.85, key


class TestFullSize:
    pytestmark = FULL_SIZE

    @pytest.mark.parametrize("name", NAMES)
    def test_variables_outputs_detections_and_losses(self, name, labels):
        golden = load_golden(name)
        model = build_filled(golden.config(labels))
        wanted = {path: shape for path, shape in golden.facts["variables"]}
        unused = {path for path in wanted if path.partition("_base_model/")[2] in UNUSED and "101" in name}
        assert {path: v.shape.as_list() for path, v in object_paths(model).items()} == {
            path: shape for path, shape in wanted.items() if path not in unused
        }
        assert len(unused) == (4 if name.startswith("resnet101") else 0)
        predictions = model.predict(golden.images, training=False)
        for head, outputs in predictions.items():
            for i, values in enumerate(outputs):
                key = f"predict/{head}/{i}"
                np.testing.assert_allclose(sampled(values), golden.arrays[key], **TOLERANCE, err_msg=key)
        assert len(predictions[OBJECT_CENTER]) == (2 if name.startswith("hourglass") else 1)
        _same(model.serving_outputs(golden.images), golden.arrays, "postprocess/")
        losses = model.losses(Batch(golden.images, golden.truth), training=True)
        assert set(losses) == {*golden.facts["losses"], TOTAL_LOSS}
        for loss, value in golden.facts["losses"].items():
            np.testing.assert_allclose(losses[loss], value, rtol=1e-2, err_msg=loss)
        after = {k.removeprefix("bn_after/"): v for k, v in golden.arrays.items() if "bn_after/" in k}
        assert len(after) == 4
        for key, values in after.items():
            found = object_paths(model)[key.removesuffix("/.ATTRIBUTES/VARIABLE_VALUE")]
            np.testing.assert_allclose(sampled(found), values, **TOLERANCE)

    @pytest.mark.parametrize("name", NAMES)
    def test_updates_on_one_batch_lower_its_loss(self, name, labels):
        golden = load_golden(name)
        config = golden.config(labels)
        check_pipeline_config(config)
        model = build_detector(config.model)
        optimizer = config.train_config.optimizer
        optimizer.ClearField("optimizer")
        optimizer.adam_optimizer.learning_rate.constant_learning_rate.learning_rate = 1e-4
        losses = losses_of_updates(model, optimizer, golden)
        assert losses[2] < losses[1] < losses[0]
