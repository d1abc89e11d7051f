"""Graphs that do more than compute are refused before TensorFlow loads them."""

from __future__ import annotations

import pathlib

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import op_def_registry

from detection_core.artifacts.graph_operations import COMPUTING, check_graph
from detection_core.errors import ModelError
from tests.detection_core.evaluation.blobs import BlobDetector, save


class Served(tf.Module):
    """A model with a variable whose serving function does something beside computing."""

    def __init__(self, act):
        super().__init__()
        self.act, self.scale = act, tf.Variable(2.0)

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)], autograph=False)
    def serve(self, x):
        with tf.control_dependencies([tf.convert_to_tensor(self.act(x))]):
            return {"y": x * self.scale}


def writing(x):
    tf.io.write_file("/nowhere", "pwned")
    return x


def in_a_branch(x):
    return tf.cond(x > 0, lambda: tf.strings.length(tf.io.read_file("/etc/passwd")), lambda: 0)


def in_a_loop(x):
    return tf.map_fn(
        lambda name: tf.strings.length(tf.io.read_file(name)), tf.constant(["/etc/passwd"]), tf.int32
    )


def saving(x):
    tf.raw_ops.SaveV2(prefix="/nowhere", tensor_names=["x"], shape_and_slices=[""], tensors=[x])
    return x


def printing(x):
    tf.print(x, output_stream="file:///nowhere")
    return x


ACTS = {
    "WriteFile": writing,
    "StatelessIf|ReadFile": in_a_branch,
    "ReadFile": in_a_loop,
    "PyFunc": lambda x: tf.numpy_function(lambda v: v, [x], tf.float32),
    "PrintV2": printing,
    "SaveV2": saving,
    "RestoreV2": lambda x: tf.raw_ops.RestoreV2(
        prefix="/nowhere", tensor_names=["x"], shape_and_slices=[""], dtypes=[tf.float32]
    )[0],
    "TFRecordDataset": lambda x: tf.raw_ops.TFRecordDataset(
        filenames="/nowhere", compression_type="", buffer_size=0
    ),
    "ImmutableConst": lambda x: tf.raw_ops.ImmutableConst(
        dtype=tf.uint8, shape=[4], memory_region_name="/etc/passwd"
    ),
}


@pytest.mark.parametrize("name", ACTS)
def test_what_does_more_than_compute_is_refused_by_name(tmp_path, name):
    directory = save(Served(ACTS[name]), tmp_path / "m")
    with pytest.raises(
        ModelError, match=rf"only computes, found {name.rpartition('|')[2]}\b.*--trust"
    ) as caught:
        check_graph(directory)
    assert caught.value.where == f"{directory}/saved_model.pb"
    check_graph(directory, trust=True)


def test_a_model_that_computes_passes_with_its_own_save_and_restore(tmp_path):
    directory = save(Served(tf.exp), tmp_path / "m")
    content = (tmp_path / "m" / "saved_model.pb").read_bytes()
    assert b"SaveV2" in content and b"RestoreV2" in content
    check_graph(directory)
    check_graph(save(BlobDetector(), tmp_path / "blob"))


def test_what_would_run_in_loading_is_refused_though_no_signature_needs_it(tmp_path):
    """A table is filled from its file when the model is loaded."""

    class WithTable(BlobDetector):
        def __init__(self):
            super().__init__()
            vocabulary = tmp_path / "vocabulary.txt"
            vocabulary.write_text("a\nb\n")
            initializer = tf.lookup.TextFileInitializer(
                str(vocabulary),
                tf.string,
                tf.lookup.TextFileIndex.WHOLE_LINE,
                tf.int64,
                tf.lookup.TextFileIndex.LINE_NUMBER,
            )
            self.table = tf.lookup.StaticHashTable(initializer, -1)

    with pytest.raises(ModelError, match="InitializeTableFromTextFileV2"):
        check_graph(save(WithTable(), tmp_path / "m"))


def changed(tmp_path: pathlib.Path, change) -> str:
    """A model that computes, its graph altered afterwards."""
    directory = save(BlobDetector(), tmp_path / "m")
    path = tmp_path / "m" / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    change(saved.meta_graphs[0])
    path.write_bytes(saved.SerializeToString())
    return directory


def test_a_function_that_is_called_like_an_operation_is_taken_for_the_operation(tmp_path):
    def shadow(meta):
        meta.graph_def.library.function[0].signature.name = "WriteFile"

    with pytest.raises(ModelError, match=r"found .*WriteFile"):
        check_graph(changed(tmp_path, shadow))


def test_a_signature_that_leads_to_the_saving_function_is_refused(tmp_path):
    def redirect(meta):
        signature = meta.signature_def["serving_default"].outputs["num_detections"]
        signature.name = meta.saver_def.save_tensor_name

    with pytest.raises(ModelError, match="found MergeV2Checkpoints, SaveV2"):
        check_graph(changed(tmp_path, redirect))


def test_an_unknown_operation_is_refused(tmp_path):
    def add(meta):
        meta.graph_def.node.add(name="mine", op="MyCustomOperation")

    with pytest.raises(ModelError, match="MyCustomOperation"):
        check_graph(changed(tmp_path, add))


@pytest.mark.parametrize("content", [b"", b"rubbish, quite a bit"])
def test_another_file_is_refused_whoever_is_trusted(tmp_path, content):
    (tmp_path / "saved_model.pb").write_bytes(content)
    with pytest.raises(ModelError, match="expected a SavedModel"):
        check_graph(str(tmp_path), trust=True)


def test_every_name_on_the_list_is_an_operation_of_tensorflow():
    assert [name for name in sorted(COMPUTING) if op_def_registry.get(name) is None] == []
