import dataclasses
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from detection_core.data.resize import FixedShapeResizer
from detection_core.errors import ExportError
from detection_core.exporters import signatures
from detection_core.families.efficientdet.build import build_efficientdet
from detection_core.families.efficientdet.family import FAMILY
from tests.support import efficientdet_goldens as goldens
from tests.support.cases import refused
from tests.support.served_requests import png
from tests.support.tiny_detector import TinyDetector

pytestmark = pytest.mark.slow

RESIZER = FixedShapeResizer(height=64, width=64)
IMAGES = np.random.default_rng(1).integers(0, 256, (2, 50, 40, 3)).astype(np.uint8)


@pytest.fixture(scope="module")
def detector():
    message = goldens.message("efficientdet-lite0", 64, fpn_cell_repeats=1, box_class_repeats=1)
    message.num_classes = 3
    model = build_efficientdet(message, "model.efficientdet", 0)
    goldens.set_deterministic_weights(model.network, model.parts.settings)
    return model


@pytest.fixture(scope="module")
def served(detector, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("automl"))
    signatures.save_signatures(signatures.automl_functions(detector, FAMILY, RESIZER, None), folder)
    return tf.saved_model.load(folder)


def _described(specs):
    return {name: (spec.dtype.name, spec.shape.as_list()) for name, spec in specs.items()}


def test_images_and_their_files_give_boxes_in_pixels_and_classes_from_1(served, detector):
    # shared facts, export_tflite lite0_FP32: batch 1 there, as asked for; any here.
    signature = served.signatures["serving_default"]
    assert _described(signature.structured_input_signature[1]) == {"images": ("uint8", [None, None, None, 3])}
    assert _described(signature.structured_outputs) == {
        "output_0": ("float32", [None, 100, 4]),
        "output_1": ("float32", [None, 100]),
        "output_2": ("float32", [None, 100]),
        "output_3": ("int32", [None]),
    }
    found = signature(images=tf.constant(IMAGES))
    ours = signatures.serving_function(detector, RESIZER)(tf.constant(IMAGES))
    np.testing.assert_allclose(found["output_0"], ours["detection_boxes"] * [50, 40, 50, 40], atol=1e-3)
    np.testing.assert_allclose(found["output_1"], ours["detection_scores"], atol=1e-5)
    np.testing.assert_array_equal(found["output_2"], ours["detection_classes"])
    np.testing.assert_array_equal(found["output_3"], ours["num_detections"])
    of_files = served.signatures["serving_base64"]
    assert _described(of_files.structured_input_signature[1]) == {"image_files": ("string", [None])}
    again = of_files(image_files=tf.constant([png(image) for image in IMAGES]))
    for name, value in found.items():
        np.testing.assert_allclose(again[name], value, atol=1e-4, err_msg=name)


def test_heads_are_given_level_by_level_where_there_are_levels(served, detector):
    pixels = np.random.RandomState(0).standard_normal((2, 64, 64, 3)).astype(np.float32)
    found = served.signatures["predict"](images=tf.constant(pixels))
    shapes = [found[f"output_{i}"].shape.as_list() for i in range(len(found))]
    sides = (8, 4, 2, 1, 1)
    assert shapes == [[2, s, s, 27] for s in sides] + [[2, s, s, 36] for s in sides]
    whole = detector.run(pixels, training=False)
    joined = np.concatenate([found[f"output_{i}"].numpy().reshape(2, -1, 3) for i in range(5)], 1)
    np.testing.assert_allclose(joined, whole.class_logits, atol=1e-4)
    without = dataclasses.replace(FAMILY, name="tiny", level_outputs=None)
    sentence = "expected a detector with anchors on fixed levels, ssd or efficientdet, found tiny; export"
    refused(ExportError, sentence, signatures.head_function, TinyDetector(), without, None)


def test_heads_need_images_of_one_size():
    model, support = (
        SimpleNamespace(input_shape=SimpleNamespace(size=None)),
        SimpleNamespace(require_level_outputs=lambda: None),
    )
    refused(
        ExportError,
        "expected a detector whose images have one size",
        signatures.head_function,
        model,
        support,
        None,
    )


def test_the_network_of_lite0_gives_the_reference_s_numbers():
    model = build_efficientdet(goldens.message("efficientdet-lite0", 320), "model.efficientdet", None)
    goldens.set_deterministic_weights(model.network, model.parts.settings)
    function = signatures.head_function(model, FAMILY, 1)
    pixels = np.random.RandomState(0).standard_normal((1, 320, 320, 3)).astype(np.float32)
    found = function(tf.constant(pixels))
    wanted = np.load(Path(__file__).parent / "data" / "automl_lite0_network.npz")
    assert sorted(found) == sorted(wanted)
    for name, value in wanted.items():
        np.testing.assert_allclose(goldens.sampled(found[name]), value, 1e-2, 1e-2, err_msg=name)
