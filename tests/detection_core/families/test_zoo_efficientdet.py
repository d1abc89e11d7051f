"""The EfficientDet configurations of the model zoo: variables, outputs, regularizers, losses, steps."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.builders.detector import build_detector
from detection_core.detectors.base import TOTAL_LOSS
from detection_core.families.ssd.checkpoint_names import (
    CLASSIFICATION_BACKBONE,
    CLASSIFICATION_PREFIXES,
    object_paths,
)
from detection_core.families.ssd.model import CLASSIFICATION_LOSS, LOCALIZATION_LOSS
from detection_core.ops.iou import iou
from detection_core.ops.nms import NmsOptions, one_by_one
from detection_core.parts.backbones.efficientnet import DEFAULT_HYPERPARAMS, EfficientNetOptions, _blocks
from detection_core.parts.layers.layer_hyperparams import (
    regularization_loss,
    regularized_variables,
    regularizer_loss,
)
from tests.support import golden_networks
from tests.support.batches import images_of

ZOO = tuple(sorted(path.stem for path in golden_networks.DATA.glob("efficientdet_d*.npz")))
D0, D3, D6, D7 = (ZOO[index] for index in (0, 2, 5, 6))
full_size = [pytest.mark.zoo, pytest.mark.slow]


def _plain(*names: str) -> list:
    return [name if name in names else pytest.param(name, marks=full_size) for name in ZOO]


def _message(name: str, size: int):
    """The configuration with another input size, which changes no variable."""
    message = golden_networks.load_golden(name).message
    resizer = message.ssd.image_resizer.keep_aspect_ratio_resizer
    resizer.min_dimension = resizer.max_dimension = size
    return message


@pytest.fixture(scope="module")
def small(request) -> tuple[str, golden_networks.RawInputModel]:
    """A configuration for images of 128 x 128, freshly initialised; zeros but for D0."""
    built = build_detector(_message(request.param, 128), seed=0 if request.param == D0 else None)
    return request.param, golden_networks.RawInputModel(built.network, built.parts)


@pytest.fixture(scope="module")
def full(request) -> tuple[str, golden_networks.RawInputModel]:
    """A configuration as it is, with deterministic weights."""
    return request.param, golden_networks.build_golden(request.param)


# D7 is D6 on larger images.
@pytest.mark.parametrize(
    "small", [D0, *(pytest.param(name, marks=pytest.mark.slow) for name in ZOO[1:-1])], indirect=True
)
def test_variables_are_those_of_the_reference_but_for_the_classifier(small):
    name, model = small
    facts = golden_networks.load_golden(name).facts
    if name == D6:
        assert _message(D6, 128) == _message(D7, 128)
        assert facts["variables"] == golden_networks.load_golden(D7).facts["variables"]
    found = {path: tuple(variable.shape) for path, variable in object_paths(model.network).items()}
    wanted = {path: tuple(shape) for path, shape in facts["variables"].items()}
    classifier = {path for path in wanted if path.startswith(f"model/{CLASSIFICATION_BACKBONE}/")}
    assert found == {path: shape for path, shape in wanted.items() if path not in classifier}
    # What no detection depends on: the last blocks, nineteen variables each, and the classifier's
    # convolution, normalisation and dense layer.
    version = int(
        golden_networks.load_golden(name).message.ssd.feature_extractor.type.removeprefix(
            "ssd_efficientnet-b"
        )[0]
    )
    behind = sum(stage == 6 for stage, _ in _blocks(EfficientNetOptions(version=version))) - 1
    assert len(classifier) == 19 * behind + 7
    prefixes = tuple(f"model/{prefix}/" for prefix in CLASSIFICATION_PREFIXES)
    in_backbone = sum(path.startswith(prefixes) for path in found)
    assert in_backbone + len(classifier) == facts["restored"]["classification"]
    numbers = model.network.count_params() + sum(int(np.prod(wanted[path])) for path in classifier)
    assert numbers == facts["parameters"]["trainable"] + facts["parameters"]["non_trainable"]


@pytest.mark.parametrize("full", _plain(D0), indirect=True)
def test_outputs_are_those_of_the_reference(full):
    name, model = full
    golden = golden_networks.load_golden(name)
    arrays, predictions = golden.arrays, model.predict(golden.images, training=False)
    raw = golden_networks.assert_outputs(golden, arrays, model, predictions)
    scores = raw.scores[:, :, 1:]
    found, anchors = model.suppress(predictions, golden.images.true_sizes)
    np.testing.assert_array_equal(found.count, arrays["postprocess/num_detections"])
    batch = golden.facts["input_shape"][0]
    wanted = {
        key: arrays[f"postprocess/detection_{key}"].reshape(batch, int(found.count[0]), -1)
        for key in ("anchor_indices", "classes", "scores", "boxes")
    }
    chosen, classes = (wanted[key][..., 0].astype(np.int32) for key in ("anchor_indices", "classes"))
    boxes = np.clip(tf.gather(raw.boxes, chosen, batch_dims=1), 0.0, 1.0)
    np.testing.assert_allclose(boxes, wanted["boxes"], **golden_networks.TOLERANCE)
    np.testing.assert_allclose(found.scores, wanted["scores"][..., 0], rtol=1e-2)
    nms = model.parts.post_processing.nms
    # Along the borders many boxes have the same score. The rule for those holds here to the last one ...
    by_class = one_by_one(raw.boxes[:, :, tf.newaxis], scores, nms)
    _, order = tf.math.top_k(by_class.scores, nms.max_total_detections)
    np.testing.assert_array_equal(anchors, tf.gather(by_class.anchors, order, batch_dims=1))
    np.testing.assert_array_equal(found.classes, tf.gather(by_class.classes, order, batch_dims=1))
    # ... and so it does in the reference's choice, whose scores were rounded on another processor.
    for image in range(batch):
        _assert_is_suppression(
            raw.boxes[image].numpy(), scores[image].numpy(), chosen[image], classes[image], nms
        )


def _assert_is_suppression(
    boxes: np.ndarray, scores: np.ndarray, anchors: np.ndarray, classes: np.ndarray, nms: NmsOptions
) -> None:
    """Check that a list is what greedy suppression gives, but for differences of scores by rounding."""
    rounding = 3e-7
    listed = scores[anchors, classes]
    assert (np.diff(listed) <= rounding).all()
    for label in np.unique(classes):
        kept, own = anchors[classes == label], scores[:, label]
        rivals = np.flatnonzero(own > listed.min() + rounding)
        overlap = iou(tf.constant(boxes[rivals])[tf.newaxis], tf.constant(boxes[kept])[tf.newaxis])[0].numpy()
        of_better = own[rivals, np.newaxis] <= own[kept] + rounding
        others = rivals[:, np.newaxis] != kept
        suppressed = ((overlap > nms.iou_threshold - 1e-5) & of_better & others).any(axis=1)
        assert (suppressed | np.isin(rivals, kept)).all()
        among = iou(tf.constant(boxes[kept])[tf.newaxis], tf.constant(boxes[kept])[tf.newaxis])[0].numpy()
        assert (among - np.eye(len(kept)) <= nms.iou_threshold + 1e-5).all()
    unlisted = np.setdiff1d(np.arange(scores.shape[1]), classes)
    assert (scores[:, unlisted] <= listed.min() + rounding).all()


@pytest.mark.parametrize("full", _plain(D0), indirect=True)
def test_regularizers_are_those_of_the_reference_but_for_the_classifier(full):
    name, model = full
    facts = golden_networks.load_golden(name).facts
    found = set(object_paths(model.network))
    # The reference regularizes the classifier's kernels and biases, which nothing else ever changes.
    unused = [
        path for path in set(facts["variables"]) - found if path.rpartition("/")[-1] in ("kernel", "bias")
    ]
    total = regularization_loss(regularized_variables(model.network, model.parts.regularizers))
    for path in unused:
        weights = golden_networks.deterministic_weight(path, tuple(facts["variables"][path]))
        total += regularizer_loss(DEFAULT_HYPERPARAMS.regularizer, tf.constant(weights))
    np.testing.assert_allclose(total, facts["regularization_loss"], rtol=1e-5)
    assert len(model.parts.regularizers) + len(unused) == facts["num_regularization_losses"]


def _train_losses(name: str, model: golden_networks.RawInputModel) -> dict[str, tf.Tensor]:
    golden = golden_networks.load_golden(name)
    return model.compare(golden_networks.train_predict(model, golden.images), golden.truth)


# From D5 on a training forward at full size takes more memory than a test should.
@pytest.mark.parametrize("full", _plain(D0)[:4], indirect=True)
def test_losses_are_near_those_of_the_reference_which_dropped_other_branches(full):
    name, model = full
    losses, wanted = _train_losses(name, model), golden_networks.load_golden(name).facts["losses"]
    np.testing.assert_allclose(losses[CLASSIFICATION_LOSS], wanted[CLASSIFICATION_LOSS], rtol=0.02)
    np.testing.assert_allclose(losses[LOCALIZATION_LOSS], wanted[LOCALIZATION_LOSS], rtol=0.1)


@pytest.mark.parametrize("full", [pytest.param(D3, marks=full_size)], indirect=True)
def test_losses_are_those_of_the_reference_where_it_dropped_no_branch(full, monkeypatch):
    def keep(layer, inputs, training=None):
        return inputs / (1.0 - layer.rate) if training else inputs

    monkeypatch.setattr(tf_keras.layers.Dropout, "call", keep)
    losses, wanted = _train_losses(*full), golden_networks.load_golden(D3).facts["losses"]
    for key in (CLASSIFICATION_LOSS, LOCALIZATION_LOSS):
        np.testing.assert_allclose(losses[key], wanted[key], rtol=1e-4)


@pytest.mark.parametrize("small", _plain(D0)[:-1], indirect=True)
def test_steps_on_one_batch_lower_the_loss(small):
    _, model = small
    truth = golden_networks.load_golden(D0).truth
    images = images_of(tf.random.stateless_normal([2, 128, 128, 3], [1, 2]).numpy())
    variables = model.network.trainable_variables
    optimizer = tf_keras.optimizers.SGD(0.01, momentum=0.9)
    totals = []
    for _ in range(3):
        with tf.GradientTape() as tape:
            total = model.compare(model.predict(images, training=True), truth)[TOTAL_LOSS]
        gradients = tape.gradient(total, variables)
        assert all(np.isfinite(gradient).all() for gradient in gradients)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        totals.append(float(total))
    assert np.isfinite(totals).all() and totals[-1] < totals[0]
