"""What a SavedModel serves, and what it takes."""

import json
import pathlib
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf.fingerprint_pb2 import FingerprintDef

from detection_core.artifacts.graph_operations import check_graph
from detection_core.builders.detector import build_detector
from detection_core.builders.input_pipeline import model_image_resizer
from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.data.resize import FixedShapeResizer, KeepAspectRatioResizer
from detection_core.errors import ExportError, ModelError
from detection_core.exporters import served_graph, signatures
from detection_core.structures import Images
from tests.support.blobs import alter
from tests.support.cases import cases, refused
from tests.support.plain_backbone import PLAIN
from tests.support.served_requests import IMAGES, REQUESTS, RESIZER, save_served
from tests.support.tiny_detector import DETECTIONS, TinyDetector
from tests.support.tiny_network import ANCHORS, CLASSES
from tests.support.tiny_training import config_text

NMS = "model.ssd.post_processing.batch_non_max_suppression"


def test_exports_of_one_detector_are_one_model_and_another_post_processing_is_another(tmp_path):
    weights = []

    def export(name, **overrides):
        """Build the detector again, with the same weights each time, and export it."""
        config = apply_overrides(parse_pipeline_config(config_text(backbone=PLAIN)), overrides)
        model = build_detector(config.model)
        weights[:] = weights or model.network.get_weights()
        model.network.set_weights(weights)
        save_served(model, model_image_resizer(config.model), str(tmp_path / name))
        return str(tmp_path / name)

    detector = export("first")
    for _ in range(3):  # moves the numbers at the end of the functions' names
        tf.function(lambda x: x + 1).get_concrete_function(tf.TensorSpec([], tf.float32))
    again = export("again")
    graphs = [Path(folder, "saved_model.pb").read_bytes() for folder in (detector, again)]
    assert graphs[0] != graphs[1]
    assert served_graph.fingerprint_saved_model(detector) == served_graph.fingerprint_saved_model(again)
    other = export("other", **{f"{NMS}.iou_threshold": 0.3})
    assert served_graph.fingerprint_saved_model(detector) != served_graph.fingerprint_saved_model(other)


def _save(folder, function, **variables):
    module = tf.Module()
    module.held = [tf.Variable(value, name=name) for name, value in variables.items()]
    serve = tf.function(lambda x: {"y": function(x, *module.held)})
    signature = serve.get_concrete_function(tf.TensorSpec([None], tf.float32, name="x"))
    tf.saved_model.save(module, str(folder), {"serving_default": signature})
    return str(folder)


def _loop(x, limit):
    return tf.while_loop(lambda x: tf.reduce_sum(x) < limit, lambda x: (x * 2.0,), (x,))[0]


def test_the_order_of_nodes_does_not_count_but_what_classes_are_called(tmp_path):
    folder = _save(tmp_path / "a", lambda x, a: _loop(x, 10.0) * a, a=1.0)
    before = served_graph.fingerprint_saved_model(folder)

    def turn(meta):
        graph = meta.graph_def
        for nodes in (graph.node, graph.library.function, *(f.node_def for f in graph.library.function)):
            turned = [type(node).FromString(node.SerializeToString()) for node in reversed(nodes)]
            del nodes[:]
            nodes.extend(turned)

    alter(folder, turn)
    assert served_graph.fingerprint_saved_model(folder) == before
    folder = _save(tmp_path / "a", lambda x, a: x * a, a=1.0)
    before = served_graph.fingerprint_saved_model(folder)
    label_map = Path(folder, "assets.extra", "detflow", "label_map.pbtxt")
    label_map.parent.mkdir(parents=True)
    label_map.write_text("item { id: 1 name: 'cat' }")
    (label_map.parent / "model.json").write_text("{}")
    named = served_graph.fingerprint_saved_model(folder)
    assert named != before
    (label_map.parent / "model.json").write_text('{"trained_as": "x"}')
    assert served_graph.fingerprint_saved_model(folder) == named


def test_values_names_bodies_and_loops_of_tensorflow_1_count(tmp_path):
    both = {"a": 1.0, "b": 2.0}
    written = {
        "base": _save(tmp_path / "a", lambda x, a, b: a * x + b, **both),
        "weights": _save(tmp_path / "b", lambda x, a, b: a * x + b, a=1.0, b=3.0),
        "swapped": _save(tmp_path / "c", lambda x, b, a: a * x + b, b=1.0, a=2.0),
        "another operation": _save(tmp_path / "d", lambda x, a, b: a * x - b, **both),
        "a loop": _save(tmp_path / "e", lambda x, a, b: _loop(x, 10.0) * a + b, **both),
        "another limit": _save(tmp_path / "f", lambda x, a, b: _loop(x, 11.0) * a + b, **both),
    }
    prints = {name: served_graph.fingerprint_saved_model(folder) for name, folder in written.items()}
    assert len(set(prints.values())) == len(prints), prints
    again = _save(tmp_path / "g", lambda x, a, b: _loop(x, 11.0) * a + b, **both)
    assert served_graph.fingerprint_saved_model(again) == prints["another limit"]

    def write(name, limit):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            tf.compat.v1.disable_control_flow_v2()
            try:
                x = tf.compat.v1.placeholder(tf.float32, [None], name="x")
                y = _loop(x, limit)
            finally:
                tf.compat.v1.enable_control_flow_v2()
            assert any(op.type == "NextIteration" for op in session.graph.get_operations())
            tf.compat.v1.saved_model.simple_save(session, str(tmp_path / "1" / name), {"x": x}, {"y": y})
        return served_graph.fingerprint_saved_model(str(tmp_path / "1" / name))

    assert write("a", 10.0) == write("b", 10.0) != write("c", 11.0)


def test_files_that_are_no_saved_model_count_by_their_bytes_and_damaged_weights_are_refused(tmp_path):
    folder = _save(tmp_path / "a", lambda x, a: x * a, a=1.0)
    data = Path(folder, "variables", "variables.data-00000-of-00001")
    data.write_bytes(np.random.default_rng(0).bytes(data.stat().st_size))
    with pytest.raises(ModelError, match=r"expected readable weights|expected a readable checkpoint"):
        served_graph.fingerprint_saved_model(folder)
    prints = set()
    for content in (b"graph", b"another"):
        (tmp_path / "saved_model.pb").write_bytes(content)
        prints.add(served_graph.fingerprint_saved_model(str(tmp_path)))
    assert len(prints) == 2


# dtype and shape of the input in the Object Detection API's exports; image_tensor has a batch of 1 there.
REFERENCE = {
    "image_tensor": ("uint8", [None, None, None, 3]),
    "float_image_tensor": ("float32", [None, None, None, 3]),
    "encoded_image_string_tensor": ("string", [None]),
    "tf_example": ("string", [None]),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Input type to the signature of a SavedModel, and the folder."""
    found = {}
    for name in signatures.INPUT_TYPES:
        folder = str(tmp_path_factory.mktemp(name))
        save_served(TinyDetector(), RESIZER, folder, input_type=name)
        loaded = tf.saved_model.load(folder)
        found[name] = (loaded, loaded.signatures["serving_default"], folder)
    return found


@cases(*REFERENCE)
def test_a_batch_gives_what_its_images_give_alone_whatever_the_input_type(served, *, name):
    assert sorted(signatures.INPUT_TYPES) == sorted(REFERENCE)
    _, signature, folder = served[name]
    check_graph(folder)
    ((key, spec),) = signature.structured_input_signature[1].items()
    assert (key, spec.dtype.name, spec.shape.as_list()) == ("input_tensor", *REFERENCE[name])
    together = signature(input_tensor=REQUESTS[name](IMAGES))
    for i, image in enumerate(IMAGES):
        alone = served["image_tensor"][1](input_tensor=tf.constant(image[np.newaxis]))
        assert sorted(alone) == sorted(together)
        for key, value in alone.items():
            np.testing.assert_allclose(together[key][i], value[0], atol=1e-5, err_msg=key)


def test_images_of_a_batch_may_differ_in_size(served):
    others = [IMAGES[0], IMAGES[1][:30]]
    for name in ("encoded_image_string_tensor", "tf_example"):
        found = served[name][1](input_tensor=REQUESTS[name](others))
        for i, image in enumerate(others):
            alone = served["image_tensor"][1](input_tensor=tf.constant(image[np.newaxis]))
            np.testing.assert_allclose(found["detection_scores"][i], alone["detection_scores"][0], atol=1e-5)


def test_resizers_types_and_options_bound_what_is_served():
    keeping = KeepAspectRatioResizer(min_dimension=20, max_dimension=40)
    assert signatures.largest_batch(signatures.find_input_type("tf_example"), keeping) == 1
    assert signatures.largest_batch(signatures.find_input_type("image_tensor"), keeping) is None
    padded = KeepAspectRatioResizer(min_dimension=20, max_dimension=40, pad_to_max_dimension=True)
    assert signatures.largest_batch(signatures.find_input_type("tf_example"), padded) is None
    for name, reason in {"image_and_boxes_tensor": "masks for given boxes", "bogus": "choose one"}.items():
        found = f"input_type: expected image_tensor, .*'{name}'.*{reason}"
        refused(ExportError, found, signatures.find_input_type, name)
    function = signatures.serving_function(TinyDetector(), RESIZER, batch_size=1)
    assert function.inputs[0].shape.as_list() == [1, None, None, 3]
    assert function.structured_outputs["detection_boxes"].shape.as_list()[0] == 1
    plain = signatures.serving_function(TinyDetector(), RESIZER)
    name = next(o.outputs[0].name for o in plain.graph.get_operations() if o.type == "Conv2D")
    function = signatures.serving_function(TinyDetector(), RESIZER, additional=[name])
    found = function(tf.constant(IMAGES))[name]
    assert found.shape[0] == len(IMAGES) and found.shape.rank == 4
    found = r"additional_.*'nothing/here'; the nearest are"
    refused(
        ExportError, found, signatures.serving_function, TinyDetector(), RESIZER, additional=["nothing/here"]
    )


GOLDEN = json.loads((pathlib.Path(__file__).parent / "data" / "signatures.json").read_text())["image_tensor"]
# Detections, anchors and classes of the published model, and those of the tiny one.
SIZES = {100: DETECTIONS, 12804: ANCHORS, 91: CLASSES + 1}
IMAGE = np.random.default_rng(4).integers(0, 256, (1, 50, 40, 3)).astype(np.uint8)


def test_inputs_and_outputs_are_the_published_ones_and_what_the_model_finds(tmp_path):
    save_served(TinyDetector(), FixedShapeResizer(height=32, width=32), str(tmp_path))
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


def _signatures_save(compute, folder):
    spec = tf.TensorSpec([], tf.float32, name="input")
    function = tf.function(lambda x: {"sum": compute(x)}, autograph=False)
    signatures.save_signatures({"serving_default": function.get_concrete_function(spec)}, str(folder))


def test_variables_are_stored_in_the_order_of_their_names_and_the_id_is_made_of_the_content(tmp_path):
    """A graph gives them in the order of a set, which differs from process to process."""
    variables = [tf.Variable(float(i), name=f"v{i:02}") for i in range(12)]
    _signatures_save(lambda x: tf.add_n([x, *variables]), tmp_path)
    stored = tf.train.load_checkpoint(str(tmp_path / "variables" / "variables"))
    for i in range(len(variables)):
        assert stored.get_tensor(f"read_variables/{i}/.ATTRIBUTES/VARIABLE_VALUE") == i
    # TensorFlow draws it at random, so that each process wrote another file.
    _signatures_save(lambda x: x + 1.0, tmp_path / "id")
    assert tf.saved_model.experimental.read_fingerprint(str(tmp_path / "id")).saved_model_checksum
    path = tmp_path / "id" / "fingerprint.pb"
    written = path.read_bytes()
    fingerprint = FingerprintDef.FromString(written)

    def named(**changes):
        for name, value in changes.items():
            setattr(fingerprint, name, value)
        path.write_bytes(fingerprint.SerializeToString())
        signatures.name_by_content(str(path))
        return path.read_bytes()

    assert named(uuid="1") == named(uuid="34482169415596947374287144968895386404") == written
    other = FingerprintDef.FromString(named(checkpoint_hash=fingerprint.checkpoint_hash + 1))
    assert other.uuid.isdigit() and other.uuid != FingerprintDef.FromString(written).uuid
