import itertools
import math

import numpy as np
import tensorflow as tf

from detection_core.errors import ContractError, DataError, ModelError
from detection_core.evaluation.runner import load_runner
from tests.support.blobs import BlobDetector, save, scenes, writing_detector
from tests.support.cases import cases, refused


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


def test_damaged_variables_are_one_message(tmp_path):
    path = save(Giving(), tmp_path / "m")
    for name in ("variables.data-00000-of-00001", "variables.index"):
        for content in (b"", b"x"):
            (tmp_path / "m" / "variables" / name).write_bytes(content)
            refused(ModelError, r"files that cannot be loaded|damaged or truncated", load_runner, path)


def test_a_graph_that_writes_files_is_not_loaded_unless_its_maker_is_trusted(tmp_path):
    mark = tmp_path / "pwned"
    path = save(writing_detector(mark), tmp_path / "m")
    refused(ModelError, "found WriteFile", load_runner, path)
    assert not mark.exists()
    load_runner(path, trust=True)(scenes()[0][0])
    assert mark.read_text() == "pwned"
