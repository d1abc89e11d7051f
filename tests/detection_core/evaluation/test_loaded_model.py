import os
import shutil

import pytest
import tensorflow as tf

from detection_core.errors import ModelError, StorageError
from detection_core.evaluation.loaded_model import SIGNATURE, load_saved_model
from detection_core.evaluation.runner import load_runner
from detection_core.evaluation.served_model import ServedModel
from tests.support.blobs import BlobDetector, alter, save
from tests.support.cases import cases, refused
from tests.support.checkpoint_damage import altered
from tests.support.storage_faults import few_descriptors


class WithVariable(BlobDetector):
    def __init__(self):
        super().__init__()
        self.v = tf.Variable(tf.ones([3, 4]))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return save(WithVariable(), tmp_path_factory.mktemp("saved") / "m")


def child(meta, name):
    return next(each for each in meta.object_graph_def.nodes[0].children if each.local_name == name)


def signature(meta):
    return meta.object_graph_def.nodes[child(meta, "signatures").node_id].children[0]


def no_structured_signature(meta):
    for function in meta.object_graph_def.concrete_functions.values():
        function.ClearField("canonicalized_input_signature")
        function.ClearField("output_signature")


def negative_variable(meta):
    for node in meta.object_graph_def.nodes:
        if node.WhichOneof("kind") == "variable":
            node.variable.shape.dim.add(size=-7)


DAMAGE = {
    "signatures are the root": lambda meta: setattr(child(meta, "signatures"), "node_id", 0),
    "signature is the root": lambda meta: setattr(signature(meta), "node_id", 0),
    "signature is the list": lambda m: setattr(signature(m), "node_id", child(m, "signatures").node_id),
    "no structured signature": no_structured_signature,
    "no concrete functions": lambda meta: meta.object_graph_def.concrete_functions.clear(),
    "no such child": lambda meta: meta.object_graph_def.nodes[0].children.add(local_name="x", node_id=10**6),
    "negative variable": negative_variable,
}


def test_a_whole_one_is_loaded_with_its_signature(saved):
    loaded = load_saved_model(saved)
    assert [spec.dtype for spec in loaded.inputs.values()] == [tf.uint8]
    assert "detection_boxes" in loaded.outputs
    assert loaded.signature is loaded.signatures[SIGNATURE]
    with few_descriptors(0), pytest.raises(StorageError, match="raise `ulimit -n`"):
        load_saved_model(str(saved))


@cases(*DAMAGE)
def test_damage_is_one_message_for_every_reader(saved, tmp_path, *, damage):
    shutil.copytree(saved, tmp_path / "m")
    alter(tmp_path / "m", DAMAGE[damage])
    for load in (load_runner, ServedModel):
        error = refused(ModelError, r"expected a .* found .*export the model", load, str(tmp_path / "m"))
        assert error.where == str(tmp_path / "m")


@cases(
    ("variables", shutil.rmtree, "files that cannot be loaded"),
    ("variables/variables.index", os.remove, "files that cannot be loaded"),
    ("variables/variables.data-00000-of-00001", os.remove, "files that cannot be loaded"),
    ("fingerprint.pb", lambda path: (path.unlink(), os.mkfifo(path)), ""),
    ("fingerprint.pb", lambda path: path.write_bytes(b"\xff" * 50), ""),
)
def test_missing_and_damaged_files_are_one_message(saved, tmp_path, *, name, change, message):
    shutil.copytree(saved, tmp_path / "m")
    change(tmp_path / "m" / name)
    for load in (load_runner, ServedModel):
        refused(ModelError, message, load, str(tmp_path / "m"))


def test_an_index_that_would_end_the_process_is_one_message(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "m")
    folder = tmp_path / "ckpt"
    folder.mkdir()
    for path in (tmp_path / "m" / "variables").iterdir():
        shutil.copy(path, folder / path.name.replace("variables", "ckpt"))

    def dimensions(entry):
        for _ in range(300):
            entry.shape.dim.add(size=1)

    prefix = altered(folder, tmp_path, dimensions)
    shutil.copy(f"{prefix}.index", tmp_path / "m" / "variables" / "variables.index")
    for load in (load_runner, ServedModel):
        refused(ModelError, "302 dimensions", load, str(tmp_path / "m"))
