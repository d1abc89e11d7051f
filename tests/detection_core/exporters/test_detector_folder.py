import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from detection_core.artifacts import detector as layout
from detection_core.builders.detector import build_detector
from detection_core.config.load import parse_pipeline_config
from detection_core.data.label_map import label_map_from_names
from detection_core.errors import ContractError, ModelError, StorageError
from detection_core.exporters import detector_folder
from detection_core.exporters.detector_folder import load_detector, write_detector
from tests.support import blobs, plain_backbone, storage_faults, tiny_network, tiny_training
from tests.support.cases import refused
from tests.support.detectors import quantized, trained

CONFIG = parse_pipeline_config(tiny_training.config_text(backbone=plain_backbone.PLAIN))
LABELS = label_map_from_names(["dark", "bright"])


@pytest.fixture(scope="module")
def model():
    built = build_detector(CONFIG.model)
    tiny_network.randomise(built.network, 3)
    return built


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("detector") / "model"
    write_detector(model, CONFIG, LABELS, str(path), extra={"steps": 7}, texts={"note.txt": "hello"})
    return path


def test_everything_comes_back_from_a_published_copy_too(model, folder, tmp_path):
    loaded = load_detector(str(folder))
    assert loaded.config == CONFIG and loaded.label_map == LABELS
    assert loaded.info.kind == "float" and loaded.info.extra == {"steps": 7}
    assert loaded.info.name == "ssd_tests_plain_fpn" and loaded.info.input_size == (64, 64)
    assert loaded.info.parameters == sum(int(np.prod(w.shape)) for w in model.network.trainable_weights)
    for before, after in zip(model.network.weights, loaded.model.network.weights, strict=True):
        np.testing.assert_array_equal(before, after)
    assert layout.read_extra(str(folder), "note.txt") == "hello"
    shutil.copytree(folder / layout.SERVING, tmp_path / "17")
    assert load_detector(str(tmp_path / "17")).info == loaded.info


def test_the_same_model_gives_the_same_files_and_one_with_other_labels_none(model, folder, tmp_path):
    write_detector(model, CONFIG, LABELS, str(tmp_path), extra={"steps": 7}, texts={"note.txt": "hello"})
    first, second = folder / layout.SERVING, tmp_path / layout.SERVING
    names, again = ({str(p.relative_to(f)) for p in f.rglob("*") if p.is_file()} for f in (first, second))
    assert names == again
    varying = {"saved_model.pb", "fingerprint.pb"}  # TensorFlow numbers its functions as it goes
    for name in {name for name in names if not name.endswith(".index")} - varying:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name
    labels = label_map_from_names(["a", "b", "c"])
    refused(ModelError, "one with 3", write_detector, model, CONFIG, labels, str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


@pytest.fixture
def copy(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    return tmp_path / "copy"


def test_what_is_not_whole_is_named(copy):
    """From the last file that is looked for to the first."""
    extra = copy / layout.SERVING / layout.EXTRA
    for path, message in (
        (extra / "checkpoint", "checkpoint/ckpt-0"),
        (extra / layout.LABEL_MAP, layout.LABEL_MAP),
        (extra / layout.PIPELINE_CONFIG, layout.PIPELINE_CONFIG),
        (copy / layout.SERVING / "assets.extra", "did not write"),
    ):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        refused(ContractError, message, load_detector, str(copy))


def test_weights_of_another_model_are_refused_but_not_those_that_cannot_be_opened_now(model, copy):
    with pytest.raises(StorageError, match="Too many open files"), storage_faults.few_descriptors(0):
        detector_folder._restore(model, str(copy))
    config = copy / layout.SERVING / layout.EXTRA / layout.PIPELINE_CONFIG
    config.write_text(config.read_text().replace("num_classes: 2", "num_classes: 3"))
    refused(ModelError, "not of one model", load_detector, str(copy))


def test_a_kind_that_will_not_do_or_is_not_whole_is_refused(copy):
    path = copy / layout.SERVING / layout.EXTRA / layout.MODEL_INFO
    path.write_text(json.dumps({**json.loads(path.read_text()), "kind": "quantized"}))
    refused(ModelError, "expected a float detector", load_detector, str(copy), kinds=("float",))
    refused(ContractError, r"expected assets.extra/detflow/quantization.json", load_detector, str(copy))


def test_a_folder_whose_graph_was_altered_is_refused(copy):
    blobs.alter(copy / "Format-Serving", lambda meta: meta.graph_def.node.add(name="added", op="WriteFile"))
    refused(ModelError, "found WriteFile", load_detector, str(copy))


def test_checkpoints_have_the_keys_that_detector_folders_always_had():
    """The list was read from folders that the first layout's `train` and `quantize` wrote of this config."""
    expected = json.loads((Path(__file__).parent / "data" / "checkpoint_keys.json").read_text())
    for kind, folder in (("float", trained("ssd")), ("quantized", quantized("ssd"))):
        found = tf.train.list_variables(layout.extra_file(str(folder / "model"), layout.CHECKPOINT))
        suffix = "/.ATTRIBUTES/VARIABLE_VALUE"
        keys = {name.removesuffix(suffix): shape for name, shape in found if name.endswith(suffix)}
        assert keys == expected[kind], kind
