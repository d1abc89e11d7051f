import itertools
import os
import shutil

import pytest
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from detection_core.artifacts.graph_operations import COMPUTING, check_graph, read_saved_model
from detection_core.errors import ModelError
from tests.support import graph_mutants
from tests.support.blobs import BlobDetector, alter, save
from tests.support.cases import cases, refused

BARE_FUNCTIONS = [graph_mutants.initialized_by_the_saver, graph_mutants.without_collections]


class Served(tf.Module):
    """A model with a variable whose serving function does something beside computing."""

    def __init__(self, act):
        super().__init__()
        self.act, self.scale = act, tf.Variable(2.0)

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)], autograph=False)
    def serve(self, x):
        with tf.control_dependencies([self.act(x)]):
            return {"y": x * self.scale}


def in_a_loop(x):
    names = tf.constant(["/etc/passwd"])
    return tf.map_fn(lambda name: tf.strings.length(tf.io.read_file(name)), names, tf.int32)


NOWHERE = {"prefix": "/nowhere", "tensor_names": ["x"], "shape_and_slices": [""]}
ACTS = {
    "WriteFile": lambda x: tf.io.write_file("/nowhere", "pwned"),
    "StatelessIf|ReadFile": lambda x: tf.cond(x > 0, lambda: tf.io.read_file("/etc/passwd"), lambda: ""),
    "ReadFile": in_a_loop,
    "PyFunc": lambda x: tf.numpy_function(lambda v: v, [x], tf.float32),
    "PrintV2": lambda x: tf.print(x, output_stream="file:///nowhere"),
    "SaveV2": lambda x: tf.raw_ops.SaveV2(tensors=[x], **NOWHERE),
    "RestoreV2": lambda x: tf.raw_ops.RestoreV2(dtypes=[tf.float32], **NOWHERE)[0],
    "TFRecordDataset": lambda x: tf.raw_ops.TFRecordDataset(
        filenames="/nowhere", compression_type="", buffer_size=0
    ),
    "ImmutableConst": lambda x: tf.raw_ops.ImmutableConst(
        dtype=tf.uint8, shape=[4], memory_region_name="/etc/passwd"
    ),
}


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bases")
    save(BlobDetector(), folder / "blob")
    for name, write in graph_mutants.BASES.items():
        write(str(folder / name))
    return folder


@cases(*ACTS)
def test_what_does_more_than_compute_is_refused_by_name(tmp_path, *, name):
    directory = save(Served(ACTS[name]), tmp_path / "m")
    found = rf"only computes, found {name.rpartition('|')[2]}\b.*--trust"
    assert refused(ModelError, found, check_graph, directory).where == f"{directory}/saved_model.pb"
    check_graph(directory, trust=True)


def test_what_computes_passes_with_its_own_save_and_restore(bases, tmp_path):
    directory = save(Served(tf.exp), tmp_path / "m")
    content = (tmp_path / "m" / "saved_model.pb").read_bytes()
    assert b"SaveV2" in content and b"RestoreV2" in content
    check_graph(directory)
    for name in ("blob", *graph_mutants.BASES):  # with functions of every kind, and of TensorFlow 1
        check_graph(str(bases / name))
    assert [name for name in sorted(COMPUTING) if op_def_registry.get(name) is None] == []


def test_what_would_run_in_loading_is_refused_though_no_signature_needs_it(tmp_path):
    """A table is filled from its file when the model is loaded."""

    class WithTable(BlobDetector):
        def __init__(self):
            super().__init__()
            vocabulary = tmp_path / "vocabulary.txt"
            vocabulary.write_text("a\nb\n")
            columns = tf.lookup.TextFileIndex
            kinds = (tf.string, columns.WHOLE_LINE, tf.int64, columns.LINE_NUMBER)
            initializer = tf.lookup.TextFileInitializer(str(vocabulary), *kinds)
            self.table = tf.lookup.StaticHashTable(initializer, -1)

    refused(ModelError, "InitializeTableFromTextFileV2", check_graph, save(WithTable(), tmp_path / "m"))


def functions(meta):
    return meta.graph_def.library.function


def redirect(meta):
    meta.signature_def["serving_default"].outputs["num_detections"].name = meta.saver_def.save_tensor_name


def unlisted(meta):
    functions(meta).add().signature.name = "spare"
    functions(meta)[-1].node_def.add(name="s", op="SaveV2")


def saving_in_restoring(meta):
    """Restoring still reads the saver's file and nothing else, but writes another one."""
    restoring = [f for f in functions(meta) if any(node.op == "RestoreV2" for node in f.node_def)]
    for function in restoring:
        function.node_def.add(name="s", op="SaveV2")
    assert restoring


@cases(
    (lambda meta: setattr(functions(meta)[0].signature, "name", "WriteFile"), "found .*WriteFile"),
    (redirect, "found MergeV2Checkpoints, SaveV2"),
    (lambda meta: meta.graph_def.node.add(name="mine", op="MyCustomOperation"), "MyCustomOperation"),
    (lambda meta: meta.graph_def.MergeFromString(b"\xfa\xff\x03\x01x"), "fields that this version"),
    (lambda meta: meta.asset_file_def.add(filename="../../.ssh/id_rsa"), r"\.\./\.\./\.ssh/id_rsa"),
    (lambda meta: setattr(functions(meta)[0].node_def[0].attr["f"].func, "name", "elsewhere"), "elsewhere"),
    (lambda meta: meta.graph_def.node.append(meta.graph_def.node[0]), "found serving_default_input_tensor"),
    (unlisted, "found SaveV2"),
    (saving_in_restoring, "found SaveV2"),
)
def test_an_altered_graph_that_the_walk_cannot_place_is_refused(bases, tmp_path, *, change, message):
    shutil.copytree(bases / "blob", tmp_path / "m")
    alter(tmp_path / "m", change)
    refused(ModelError, message, check_graph, str(tmp_path / "m"))


def mutant(bases, tmp_path, base, seed):
    work = tmp_path / "w"
    shutil.rmtree(work, ignore_errors=True)
    (work / "canary").mkdir(parents=True)
    made = graph_mutants.Mutant(str(bases / base), work / "m", str(work / "canary" / "file"), seed)
    return made, work / "canary"


@cases(*graph_mutants.ATTACKS)
def test_an_altered_model_is_refused_or_writes_nothing(bases, tmp_path, *, attack):
    refused = 0
    for base, seed in itertools.product(graph_mutants.BASES, range(3)):
        made, canary = mutant(bases, tmp_path, base, seed)
        attack(made)
        if not made.altered():
            continue
        directory = made.write()
        try:
            check_graph(directory)
        except ModelError:
            refused += 1
            continue
        if attack is not graph_mutants.rewired or seed == 0:
            graph_mutants.load_and_run(directory)
        assert not list(canary.iterdir()), (base, seed)
    assert refused


@cases(
    ("modern", [graph_mutants.restored_resource], ""),
    ("old", [graph_mutants.initial], ""),
    # Bare concrete functions need not be among the concrete functions that the object graph lists.
    ("blob", BARE_FUNCTIONS, "found MergeV2Checkpoints, SaveV2 in it"),
)
def test_what_is_refused_would_have_written_in_loading(bases, tmp_path, *, base, attacks, found):
    made, canary = mutant(bases, tmp_path, base, 0 if base == "blob" else 1)
    for attack in attacks:
        attack(made)
    directory = made.write()
    refused(ModelError, found, check_graph, directory)
    assert not list(canary.iterdir())
    graph_mutants.load_and_run(directory)
    assert list(canary.iterdir()), "the attack works where nothing checks"


def test_a_restore_of_another_file_than_the_savers_is_refused(bases, tmp_path):
    for base in graph_mutants.BASES:
        made, _ = mutant(bases, tmp_path, base, 0)
        for nodes in (made.meta.graph_def.node, *(f.node_def for f in made.functions)):
            for node in [node for node in nodes if node.op == "RestoreV2"]:
                path = nodes.add(name="elsewhere", op="Const")
                path.attr["value"].tensor.CopyFrom(tf.make_tensor_proto("/elsewhere"))
                node.input[0] = "elsewhere:output:0" if nodes is not made.meta.graph_def.node else "elsewhere"
        refused(ModelError, "found RestoreV2 in it", check_graph, made.write())


def test_a_pipe_and_what_is_no_message_or_too_long_are_not_read_whoever_is_trusted(tmp_path):
    path = tmp_path / "saved_model.pb"
    os.mkfifo(path)
    refused(ModelError, "regular file", read_saved_model, str(path), "")
    path.unlink()
    path.touch()
    os.truncate(path, 2**31 + 1)
    refused(ModelError, "at most", read_saved_model, str(path), "")
    for content in (b"", b"rubbish, quite a bit"):
        path.write_bytes(content)
        refused(ModelError, "expected a SavedModel", check_graph, str(tmp_path), trust=True)
