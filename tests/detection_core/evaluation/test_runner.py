from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from detection_core.errors import ContractError, ModelError
from detection_core.evaluation.runner import load_runner
from tests.detection_core.evaluation.blobs import BlobDetector, save, scenes


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return save(BlobDetector(), tmp_path_factory.mktemp("model") / "Format-Serving")


@pytest.mark.parametrize("suffix", ["", "/.."])
def test_saved_model_and_the_folder_around_it(saved, suffix):
    runner = load_runner(saved + suffix)
    for image, truth in scenes():
        found = runner(image, truth.source_id)
        assert found.source_id == truth.source_id
        np.testing.assert_allclose(found.boxes, truth.boxes, atol=1e-6)
        np.testing.assert_array_equal(found.classes, truth.classes)
        np.testing.assert_allclose(found.scores, [0.9] * len(truth.classes))
        assert (found.boxes.dtype, found.classes.dtype) == (np.float32, np.int32)


def test_not_a_number_is_refused(tmp_path):
    runner = load_runner(save(BlobDetector(score=math.nan), tmp_path / "m"))
    with pytest.raises(ModelError, match="expected finite scores for image 'scene 0', found nan"):
        runner(*[scenes()[0][0], "scene 0"])


def test_other_signatures_are_refused(tmp_path):
    class Other(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([1, None, None, 3], tf.float32)])
        def serve(self, x):
            return {"detection_boxes": x}

    with pytest.raises(ModelError, match="one uint8 image as input"):
        load_runner(save(Other(), tmp_path / "m"))


def test_what_is_no_model(tmp_path):
    with pytest.raises(ModelError, match="found nothing there"):
        load_runner(str(tmp_path / "missing"))
    with pytest.raises(ContractError, match="found neither"):
        load_runner(str(tmp_path))
    (tmp_path / "saved_model.pb").write_bytes(b"rubbish")
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_runner(str(tmp_path))
