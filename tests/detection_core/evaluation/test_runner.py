"""Detectors of every form but TensorFlow Lite, one image or a batch at a time."""

import itertools
import math
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from detection_core import model_use
from detection_core.artifacts.detector import ENSEMBLE, Ensemble, members
from detection_core.data.label_map import LabelMap, LabelMapItem, label_map_from_names
from detection_core.data.resize import FixedShapeResizer
from detection_core.errors import ConfigError, ContractError, DataError, ModelError, StorageError
from detection_core.evaluation.loaded_model import SIGNATURE, load_saved_model
from detection_core.evaluation.measure import measure
from detection_core.evaluation.runner import load_runner
from detection_core.evaluation.served_file import ServedModel, stacked
from detection_core.evaluation.signature_runner import SignatureRunner, checked_detections
from detection_core.optional.ensembles.ensemble_runner import EnsembleRunner, write_ensemble
from detection_core.tasks.predict import predict
from tests.support.blobs import BlobDetector, alter, save, save_folder, scenes, writing_detector
from tests.support.cases import cases, refused
from tests.support.checkpoint_damage import altered
from tests.support.evaluated_images import make_detections
from tests.support.served_requests import save_served
from tests.support.storage_faults import few_descriptors
from tests.support.tiny_detector import TinyDetector

BOXES = np.array([[0.0, 0.0, 0.5, 0.5], [0.1, 0.1, 0.9, 0.9], [np.nan] * 4])
SCORES = np.array([0.3, 0.8, np.nan])
CLASSES = np.array([1.0, 0.0, -7.0])
IMAGE = np.zeros((8, 8, 3), np.uint8)
IMAGES = np.random.default_rng(1).integers(0, 256, (3, 50, 40, 3)).astype(np.uint8)
RESIZER = FixedShapeResizer(height=32, width=32)
SCENE = scenes(1)[0][0]
LABELS = label_map_from_names(["red", "green"])


def _checked(boxes=BOXES, scores=SCORES, classes=CLASSES, count=2, **further):
    given = {"boxes": boxes, "scores": scores, "classes": classes, **further}
    return checked_detections(given, count, (10, 20), source_id="a.jpg", where="m.tflite")


def test_rows_past_the_count_are_cut_and_the_rest_is_sorted():
    found = _checked()
    np.testing.assert_allclose(found.scores, [0.8, 0.3])
    assert found.classes.tolist() == [0, 1] and found.boxes.dtype == np.float32


@cases(
    ({"count": 3}, "expected finite boxes for image 'a.jpg', found nan"),
    ({"classes": np.array([-1.0, 0.0, 0.0])}, "found numbers from -1.0 to 0.0"),
    ({"scores": SCORES[:2]}, r"expected boxes \[D, 4\]"),
    ({"count": -1}, r"expected boxes \[D, 4\]"),
)
def test_what_is_no_detection_is_refused(*, outputs, message):
    assert refused(ModelError, message, _checked, **outputs).where == "m.tflite"


OUTPUTS = {
    "detection_boxes": tf.constant([[[0.0, 0.1, 0.5, 0.6], [0.0, 0.0, 0.0, 0.0]]]),
    "detection_scores": tf.constant([[0.75, 0.0]]), "detection_classes": tf.constant([[3.0, 1.0]]),
    "num_detections": tf.constant([1.0]),
}  # fmt: skip


def test_a_function_s_detections_are_counted_and_its_faults_named():
    seen = []

    def detect(image: tf.Tensor) -> dict[str, tf.Tensor]:
        seen.append(image.shape)
        return OUTPUTS

    found = SignatureRunner(detect, "here")(IMAGE, "a")
    assert seen == [(1, 8, 8, 3)]
    assert (found.source_id, found.classes.tolist(), found.scores.tolist()) == ("a", [2], [0.75])

    def fail(image: tf.Tensor) -> dict[str, tf.Tensor]:
        raise tf.errors.InvalidArgumentError(None, None, "too small\nand its graph")

    with pytest.raises(ModelError, match=r"here: .* fails on image 'a' \(too small\)"):
        SignatureRunner(fail, "here")(IMAGE, "a")
    many = SignatureRunner(lambda image: OUTPUTS | {"num_detections": tf.constant([3.0])}, "here")
    refused(ModelError, r"here: expected 0 to 2 detections .* image 'a'", many, IMAGE, "a")


def test_saved_model_and_the_folder_around_it(tmp_path):
    saved = save(BlobDetector(), tmp_path / "Format-Serving")
    runners = load_runner(saved), load_runner(f"{saved}/..")
    for runner, (image, truth) in itertools.product(runners, scenes()):
        found = runner(image, truth.source_id)
        assert found.source_id == truth.source_id
        np.testing.assert_allclose(found.boxes, truth.boxes, atol=1e-6)
        np.testing.assert_array_equal(found.classes, truth.classes)
        np.testing.assert_allclose(found.scores, [0.9] * len(truth.classes))
        assert (found.boxes.dtype, found.classes.dtype) == (np.float32, np.int32)


def test_what_is_no_detector_of_images_is_refused(tmp_path):
    refused(ModelError, "found nothing there", load_runner, str(tmp_path / "missing"))
    refused(ContractError, "found neither", load_runner, str(tmp_path))
    (tmp_path / "saved_model.pb").write_bytes(b"rubbish")
    refused(ModelError, "expected a SavedModel", load_runner, str(tmp_path))
    refused(DataError, r"found http://", load_runner, "http://127.0.0.1:9/m")

    class Other(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([1, None, None, 3], tf.float32)])
        def serve(self, x):
            return {"detection_boxes": x}

    refused(ModelError, "one uint8 image as input", load_runner, save(Other(), tmp_path / "m"))
    runner = load_runner(save(BlobDetector(score=math.nan), tmp_path / "m"))
    found = "expected finite scores for image 'scene 0', found nan"
    refused(ModelError, found, runner, scenes()[0][0], "scene 0")


class Giving(tf.Module):
    """A detector of one box whose outputs are changed."""

    def __init__(self, **outputs):
        super().__init__()
        good = {"boxes": [[[0.1, 0.1, 0.5, 0.5]]], "scores": [[0.9]], "classes": [[1.0]]}
        made = {f"detection_{name}": tf.constant(value) for name, value in good.items()}
        made |= {"num_detections": tf.constant([1.0])} | outputs
        self.make = lambda: {name: v() if callable(v) else tf.identity(v) for name, v in made.items()}
        self.scale = tf.Variable(1.0)

    @tf.function(input_signature=[tf.TensorSpec([1, None, None, 3], tf.uint8)], autograph=False)
    def serve(self, input_tensor):
        self.scale.read_value()
        return self.make()


@cases(
    ({"detection_boxes": tf.zeros([1, 2, 3])}, "found float32 of"),
    ({"detection_boxes": tf.zeros([8])}, "found float32 of"),
    ({"detection_boxes": tf.constant([[["a"] * 4]])}, "found string of"),
    ({"num_detections": tf.constant(1.0)}, "expected numbers of the shape"),
    ({"num_detections": tf.constant([np.nan])}, "expected 0 to 1 detections .* found nan"),
    ({"num_detections": tf.constant([1e30])}, "expected 0 to 1 detections"),
    ({"num_detections": tf.constant([-5.0])}, "expected 0 to 1 detections"),
    ({"detection_scores": tf.zeros([1, 9])}, "expected boxes"),
    ({"detection_classes": tf.constant([[-5.0]])}, "expected classes of a label map"),
    ({"detection_classes": tf.constant([[1e20]])}, "expected classes of a label map"),
    (
        {"detection_scores": lambda: tf.debugging.check_numerics(tf.constant([[np.nan]]), "boom")},
        "found one that fails on image 's'",
    ),
)
def test_what_a_model_gives_that_is_no_detection_is_one_message(tmp_path, *, outputs, message):
    path = save(Giving(**outputs), tmp_path / "m")
    image = np.zeros([8, 8, 3], np.uint8)
    assert refused(ModelError, message, lambda: load_runner(path)(image, "s")).where == path


def test_a_graph_that_writes_files_is_not_loaded_unless_its_maker_is_trusted(tmp_path):
    mark = tmp_path / "pwned"
    path = save(writing_detector(mark), tmp_path / "m")
    refused(ModelError, "found WriteFile", load_runner, path)
    assert not mark.exists()
    load_runner(path, trust=True)(scenes()[0][0])
    assert mark.read_text() == "pwned"


def test_boxes_of_a_batch_are_in_pixels_and_batches_of_the_model_s_size(tmp_path):
    folder = str(tmp_path)
    save_served(TinyDetector(), RESIZER, folder)
    found = ServedModel(folder)(IMAGES)
    raw = tf.saved_model.load(folder).signatures["serving_default"](input_tensor=tf.constant(IMAGES))
    np.testing.assert_allclose(found.boxes, raw["detection_boxes"] * [50, 40, 50, 40], rtol=1e-5)
    np.testing.assert_array_equal(found.classes, raw["detection_classes"])
    assert found.valid_len.dtype == np.int32 and found.scores.shape[0] == len(IMAGES)
    save_served(TinyDetector(), RESIZER, str(tmp_path), batch_size=2)
    model = ServedModel(str(tmp_path))
    assert len(model(np.concatenate([IMAGES, IMAGES[:1]])).scores) == 4
    for images in (IMAGES, IMAGES[:0]):
        refused(ModelError, f"expected a multiple of 2 images, .*found {len(images)}", model, images)


def test_a_model_of_one_image_gets_them_one_by_one_and_other_models_are_refused(tmp_path):
    model = ServedModel(save(BlobDetector(), tmp_path / "one"))
    (image, truth), *_ = scenes(1)
    found = model(np.stack([image, image]))
    assert model.batch_size == 1 and found.boxes.shape[0] == 2
    np.testing.assert_allclose(found.boxes[1, 0], truth.boxes[0] * np.tile(image.shape[:2], 2), atol=1e-2)
    images = [np.zeros(shape, np.uint8) for shape in ((2, 2, 3), (2, 2, 3), (4, 2, 3), (2, 2, 3))]
    assert stacked(images) == [[0, 1], [2], [3]] and stacked([]) == []
    save_served(TinyDetector(), RESIZER, str(tmp_path / "s"), input_type="tf_example")
    refused(ModelError, "--input-type image_tensor", ServedModel, str(tmp_path / "s"))
    refused(ModelError, "WriteFile", ServedModel, save(writing_detector(tmp_path / "pwned"), tmp_path / "w"))


def test_loading_and_every_inference_are_announced(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(model_use, "listener", said.append)
    path = save(BlobDetector(), tmp_path / "m")
    detector, served = load_runner(path), ServedModel(path)
    assert said == [path, ""] * 2
    for calls in (1, 2):
        detector(IMAGES[0])
        served(IMAGES[:1])
        assert said == [path, ""] * 2 * (calls + 1)


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
    assert "detection_boxes" in loaded.outputs and loaded.signature is loaded.signatures[SIGNATURE]
    with few_descriptors(0), pytest.raises(StorageError, match="raise `ulimit -n`"):
        load_saved_model(str(saved))


EXPORTED, LOADED = r"expected a .* found .*export the model", "files that cannot be loaded"
VARIABLES = ("variables/variables.index", "variables/variables.data-00000-of-00001")
CUT = itertools.product(VARIABLES, (b"", b"x"))


@cases(
    *(("", lambda path, change=change: alter(path, change), EXPORTED) for change in DAMAGE.values()),
    ("variables", shutil.rmtree, LOADED),
    *((name, os.remove, LOADED) for name in VARIABLES),
    *((name, lambda path, c=c: path.write_bytes(c), f"{LOADED}|damaged or truncated") for name, c in CUT),
    ("fingerprint.pb", lambda path: (path.unlink(), os.mkfifo(path)), ""),
    ("fingerprint.pb", lambda path: path.write_bytes(b"\xff" * 50), ""),
)
def test_damage_and_missing_files_are_one_message_for_every_reader(saved, tmp_path, *, name, change, message):
    shutil.copytree(saved, tmp_path / "m")
    change(tmp_path / "m" / name)
    for load in (load_runner, ServedModel):
        assert refused(ModelError, message, load, str(tmp_path / "m")).where == str(tmp_path / "m")


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


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("detectors")
    save_folder(BlobDetector(), folder / "a")
    save_folder(BlobDetector(score=0.6, shift=0.02), folder / "b")
    save_folder(BlobDetector(), folder / "other", names=["cat", "dog"])
    return folder


def test_what_all_detectors_see_is_found_once_under_its_name_and_what_one_sees_counts_half(root, tmp_path):
    write_ensemble(str(tmp_path), [str(root / "a"), str(root / "b")])
    found = load_runner(str(tmp_path))(SCENE, "x")
    one, other = (load_runner(str(root / name))(SCENE) for name in "ab")
    np.testing.assert_allclose(found.boxes[0], one.boxes[0] * 0.6 + other.boxes[0] * 0.4, atol=1e-6)
    assert found.source_id == "x" and len(found.scores) == 1 and found.scores[0] == pytest.approx(0.75)
    (found,) = predict(str(tmp_path), [SCENE])
    assert [d.name for d in found.detections] == ["red"]
    runner = EnsembleRunner("e", [Always(0, score=0.8), Always()])
    assert runner(SCENE).scores.tolist() == pytest.approx([0.4])
    assert EnsembleRunner("e", [Always(), Always()])(SCENE).boxes.shape == (0, 4)


class Always:
    """Finds the whole image, in each of some classes."""

    path = "fixed"

    def __init__(self, *classes, score=0.5):
        self.classes, self.score = classes, score

    def __call__(self, image, source_id=""):
        count = len(self.classes)
        boxes = np.tile([0.0, 0, 1, 1], (count, 1))
        return make_detections(boxes, [self.score] * count, self.classes, source_id)


def test_what_makes_no_ensemble_is_refused_and_one_moves_with_its_detectors(root, tmp_path):
    for count, threshold in ((1, 0.5), (0, 0.5), (2, 0.0), (2, 1.1), (2, float("nan"))):
        with pytest.raises(ConfigError, match="expected two or more detectors"):
            write_ensemble(str(tmp_path), [str(root / "a")] * count, iou_threshold=threshold)
    (tmp_path / "ensemble.json").write_text("{")
    refused(ContractError, r"ensemble\.json", load_runner, str(tmp_path))
    paths = [str(root / "a"), str(root / "other")]
    with pytest.raises(ModelError, match=r"expected the classes of .*a, found class 1 to be 'cat'"):
        write_ensemble(str(tmp_path), paths)
    ENSEMBLE.write(str(tmp_path), Ensemble(detectors=tuple(paths), iou_threshold=0.55))
    refused(ModelError, "found class 1 to be 'cat'", load_runner, str(tmp_path))
    for name in "ab":
        shutil.copytree(root / name, tmp_path / "before" / name)
    ENSEMBLE.write(str(tmp_path / "before"), Ensemble(detectors=("a", "b"), iou_threshold=0.55))
    (tmp_path / "before").rename(tmp_path / "after")
    assert members(str(tmp_path / "after")) == (f"{tmp_path}/after/a", f"{tmp_path}/after/b")
    assert len(load_runner(str(tmp_path / "after"))(SCENE).scores) == 1


def test_several_detectors_are_measured_in_one_pass_in_classes_of_the_label_map():
    images = scenes(5)
    passes = []

    def once():
        passes.append(1)
        yield from images

    measured = measure({"a": Always(0), "b": Always(1, 0)}, once(), LABELS)
    assert len(passes) == 1
    names = [truth.source_id for _, truth in images]
    assert [i.truth.source_id for i in measured["a"].images] == names
    assert [i.detections.source_id for i in measured["b"].images] == names
    assert all(len(i.detections.classes) == 2 for i in measured["b"].images)
    assert measured["a"].seconds_per_image > 0
    refused(ModelError, "ids 1 to 2, found id 3", measure, {"a": Always(2)}, scenes(1), LABELS)
    with pytest.raises(DataError, match=r"scene 1: .*found an object with id 2"):
        measure({"a": Always()}, scenes(2), label_map_from_names(["red"]))
    refused(DataError, "found none", measure, {"a": Always()}, [], LABELS)
    gap = LabelMap(items=(LabelMapItem(id=1, name="red"), LabelMapItem(id=3, name="green")))
    measured = measure({"a": Always(0, 1, 2)}, scenes(1), gap)
    assert measured["a"].images[0].detections.classes.tolist() == [0, 2]
