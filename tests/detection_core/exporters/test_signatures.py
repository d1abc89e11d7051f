import json
import pathlib

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.fingerprint_pb2 import FingerprintDef

from detection_core.data.resize import FixedShapeResizer
from detection_core.exporters.signatures import name_by_content, save_signatures, write_saved_model
from detection_core.structures import Images
from tests.support.tiny_detector import DETECTIONS, TinyDetector
from tests.support.tiny_network import ANCHORS, CLASSES

GOLDEN = json.loads((pathlib.Path(__file__).parent / "data" / "signatures.json").read_text())["image_tensor"]
# Detections, anchors and classes of the published model, and those of the tiny one.
SIZES = {100: DETECTIONS, 12804: ANCHORS, 91: CLASSES + 1}
IMAGE = np.random.default_rng(4).integers(0, 256, (1, 50, 40, 3)).astype(np.uint8)


def test_inputs_and_outputs_are_the_published_ones_and_what_the_model_finds(tmp_path):
    write_saved_model(TinyDetector(), FixedShapeResizer(height=32, width=32), str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    (name, spec), *others = loaded.signatures["serving_default"].structured_input_signature[1].items()
    published = GOLDEN["inputs"][name]
    # But for the batch: one image there, any number here.
    assert not others and spec.dtype.name == published["dtype"]
    assert spec.shape.as_list() == [None, *published["shape"][1:]]
    # It holds variables and no layers.
    assert len(loaded.read_variables) == len(TinyDetector().network.variables)
    assert not hasattr(loaded, "model")
    found = loaded.signatures["serving_default"](input_tensor=tf.constant(IMAGE))
    outputs = {name: value.numpy() for name, value in found.items()}
    assert sorted(outputs) == sorted(GOLDEN["outputs"])
    for name, facts in GOLDEN["outputs"].items():
        expected = tuple(SIZES.get(size, size) for size in facts["shape"])
        assert (outputs[name].dtype.name, outputs[name].shape) == (facts["dtype"], expected), name
    model = TinyDetector()
    resized = FixedShapeResizer(height=32, width=32)(tf.constant(IMAGE[0]), tf.zeros([0, 0, 0], tf.uint8))
    images = Images(resized.image[None], resized.true_size[None], tf.constant([[50, 40]]), tf.constant([""]))
    predictions = model.predict(images, training=False)
    detections, raw = model.detect(images), model.raw_detections(predictions)
    np.testing.assert_allclose(outputs["detection_boxes"], detections.boxes, atol=1e-5)
    np.testing.assert_allclose(outputs["detection_scores"], detections.scores, atol=1e-5)
    np.testing.assert_array_equal(outputs["detection_classes"], detections.classes.numpy() + 1)
    np.testing.assert_array_equal(outputs["num_detections"], detections.count)
    np.testing.assert_allclose(outputs["raw_detection_boxes"], raw.boxes, atol=1e-5)
    np.testing.assert_allclose(outputs["raw_detection_scores"], raw.scores, atol=1e-5)
    # The rows of a detection belong together.
    anchors = outputs["detection_anchor_indices"][0].astype(int)
    scores = outputs["detection_multiclass_scores"][0]
    np.testing.assert_array_equal(outputs["raw_detection_scores"][0][anchors], scores)
    classes = outputs["detection_classes"][0].astype(int)
    np.testing.assert_array_equal(scores[np.arange(DETECTIONS), classes], outputs["detection_scores"][0])


class NoBackground(TinyDetector):
    """Its first column of scores is made up, and it finds three objects."""

    has_background = False

    def raw_detections(self, predictions):
        raw = super().raw_detections(predictions)
        return raw._replace(scores=tf.concat([tf.zeros_like(raw.scores[..., :1]), raw.scores[..., 1:]], -1))

    def suppress(self, predictions, true_sizes):
        found, anchors = super().suppress(predictions, true_sizes)
        return found._replace(count=tf.constant([3])), anchors


def test_a_detector_without_background_gives_no_column_for_it_and_nothing_past_its_detections():
    # As the EfficientDets of the model zoo, whose 90 classes are 90 columns of scores.
    model, sizes = NoBackground(), tf.constant([[32, 32]])
    images = Images(tf.cast(IMAGE[:, :32, :32], tf.float32), sizes, sizes, tf.constant([""]))
    predictions = model.predict(images, training=False)
    outputs = model.serving_outputs(images)
    raw = model.raw_detections(predictions).scores[..., 1:]
    np.testing.assert_array_equal(outputs["raw_detection_scores"], raw)
    anchors = outputs["detection_anchor_indices"].numpy()[0, :3].astype(int)
    scores = outputs["detection_multiclass_scores"].numpy()[0]
    np.testing.assert_array_equal(scores[:3], raw.numpy()[0, anchors])
    assert scores.shape == (DETECTIONS, CLASSES) and not scores[3:].any()


def _save(compute, folder):
    spec = tf.TensorSpec([], tf.float32, name="input")
    function = tf.function(lambda x: {"sum": compute(x)}, autograph=False)
    save_signatures({"serving_default": function.get_concrete_function(spec)}, str(folder))


def test_variables_are_stored_in_the_order_of_their_names(tmp_path):
    """A graph gives them in the order of a set, which differs from process to process."""
    variables = [tf.Variable(float(i), name=f"v{i:02}") for i in range(12)]
    _save(lambda x: tf.add_n([x, *variables]), tmp_path)
    stored = tf.train.load_checkpoint(str(tmp_path / "variables" / "variables"))
    for i in range(len(variables)):
        assert stored.get_tensor(f"read_variables/{i}/.ATTRIBUTES/VARIABLE_VALUE") == i


def test_the_id_of_a_saved_model_is_made_of_its_content(tmp_path):
    """TensorFlow draws it at random, so that each process wrote another file."""
    _save(lambda x: x + 1.0, tmp_path)
    assert tf.saved_model.experimental.read_fingerprint(str(tmp_path)).saved_model_checksum
    path = tmp_path / "fingerprint.pb"
    written = path.read_bytes()
    fingerprint = FingerprintDef.FromString(written)

    def named(**changes):
        for name, value in changes.items():
            setattr(fingerprint, name, value)
        path.write_bytes(fingerprint.SerializeToString())
        name_by_content(str(path))
        return path.read_bytes()

    assert named(uuid="1") == named(uuid="34482169415596947374287144968895386404") == written
    other = FingerprintDef.FromString(named(checkpoint_hash=fingerprint.checkpoint_hash + 1))
    assert other.uuid.isdigit() and other.uuid != FingerprintDef.FromString(written).uuid
