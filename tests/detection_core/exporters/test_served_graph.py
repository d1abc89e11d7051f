from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from detection_core.builders.detector import build_detector
from detection_core.builders.image_resizer import model_image_resizer
from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.errors import ModelError
from detection_core.exporters.served_graph import fingerprint_saved_model
from detection_core.exporters.signatures import write_saved_model
from tests.support.blobs import alter
from tests.support.plain_backbone import PLAIN
from tests.support.tiny_training import config_text

NMS = "model.ssd.post_processing.batch_non_max_suppression"


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    """Builds the detector anew, with the same weights each time, and exports it."""
    root = tmp_path_factory.mktemp("exports")
    weights = []

    def write(name, **overrides):
        config = apply_overrides(parse_pipeline_config(config_text(backbone=PLAIN)), overrides)
        model = build_detector(config.model)
        weights[:] = weights or model.network.get_weights()
        model.network.set_weights(weights)
        write_saved_model(model, model_image_resizer(config.model), str(root / name))
        return str(root / name)

    return write


def test_exports_of_one_detector_are_one_model_and_another_post_processing_is_another(export):
    detector = export("first")
    for _ in range(3):  # moves the numbers at the end of the functions' names
        tf.function(lambda x: x + 1).get_concrete_function(tf.TensorSpec([], tf.float32))
    again = export("again")
    graphs = [Path(folder, "saved_model.pb").read_bytes() for folder in (detector, again)]
    assert graphs[0] != graphs[1]
    assert fingerprint_saved_model(detector) == fingerprint_saved_model(again)
    other = export("other", **{f"{NMS}.iou_threshold": 0.3})
    assert fingerprint_saved_model(detector) != fingerprint_saved_model(other)


def _save(folder, function, **variables):
    module = tf.Module()
    module.held = [tf.Variable(value, name=name) for name, value in variables.items()]
    serve = tf.function(lambda x: {"y": function(x, *module.held)})
    signature = serve.get_concrete_function(tf.TensorSpec([None], tf.float32, name="x"))
    tf.saved_model.save(module, str(folder), {"serving_default": signature})
    return str(folder)


def _loop(x, limit):
    return tf.while_loop(lambda x: tf.reduce_sum(x) < limit, lambda x: (x * 2.0,), (x,))[0]


def test_values_names_and_bodies_count(tmp_path):
    both = {"a": 1.0, "b": 2.0}
    written = {
        "base": _save(tmp_path / "a", lambda x, a, b: a * x + b, **both),
        "weights": _save(tmp_path / "b", lambda x, a, b: a * x + b, a=1.0, b=3.0),
        "swapped": _save(tmp_path / "c", lambda x, b, a: a * x + b, b=1.0, a=2.0),
        "another operation": _save(tmp_path / "d", lambda x, a, b: a * x - b, **both),
        "a loop": _save(tmp_path / "e", lambda x, a, b: _loop(x, 10.0) * a + b, **both),
        "another limit": _save(tmp_path / "f", lambda x, a, b: _loop(x, 11.0) * a + b, **both),
    }
    prints = {name: fingerprint_saved_model(folder) for name, folder in written.items()}
    assert len(set(prints.values())) == len(prints), prints
    again = _save(tmp_path / "g", lambda x, a, b: _loop(x, 11.0) * a + b, **both)
    assert fingerprint_saved_model(again) == prints["another limit"]


def test_the_order_of_nodes_does_not_count_but_what_classes_are_called(tmp_path):
    folder = _save(tmp_path / "a", lambda x, a: _loop(x, 10.0) * a, a=1.0)
    before = fingerprint_saved_model(folder)

    def turn(meta):
        graph = meta.graph_def
        for nodes in (graph.node, graph.library.function, *(f.node_def for f in graph.library.function)):
            turned = [type(node).FromString(node.SerializeToString()) for node in reversed(nodes)]
            del nodes[:]
            nodes.extend(turned)

    alter(folder, turn)
    assert fingerprint_saved_model(folder) == before
    folder = _save(tmp_path / "a", lambda x, a: x * a, a=1.0)
    before = fingerprint_saved_model(folder)
    label_map = Path(folder, "assets.extra", "detflow", "label_map.pbtxt")
    label_map.parent.mkdir(parents=True)
    label_map.write_text("item { id: 1 name: 'cat' }")
    (label_map.parent / "model.json").write_text("{}")
    named = fingerprint_saved_model(folder)
    assert named != before
    (label_map.parent / "model.json").write_text('{"trained_as": "x"}')
    assert fingerprint_saved_model(folder) == named


def test_loops_of_tensorflow_1_count(tmp_path):
    def write(name, limit):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            tf.compat.v1.disable_control_flow_v2()
            try:
                x = tf.compat.v1.placeholder(tf.float32, [None], name="x")
                y = _loop(x, limit)
            finally:
                tf.compat.v1.enable_control_flow_v2()
            assert any(op.type == "NextIteration" for op in session.graph.get_operations())
            tf.compat.v1.saved_model.simple_save(session, str(tmp_path / name), {"x": x}, {"y": y})
        return fingerprint_saved_model(str(tmp_path / name))

    assert write("a", 10.0) == write("b", 10.0) != write("c", 11.0)


def test_files_that_are_no_saved_model_count_by_their_bytes_and_damaged_weights_are_refused(tmp_path):
    folder = _save(tmp_path / "a", lambda x, a: x * a, a=1.0)
    data = Path(folder, "variables", "variables.data-00000-of-00001")
    data.write_bytes(np.random.default_rng(0).bytes(data.stat().st_size))
    with pytest.raises(ModelError, match=r"expected readable weights|expected a readable checkpoint"):
        fingerprint_saved_model(folder)
    prints = set()
    for content in (b"graph", b"another"):
        (tmp_path / "saved_model.pb").write_bytes(content)
        prints.add(fingerprint_saved_model(str(tmp_path)))
    assert len(prints) == 2
