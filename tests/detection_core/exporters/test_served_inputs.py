import numpy as np
import pytest
import tensorflow as tf

from detection_core.artifacts.graph_operations import check_graph
from detection_core.data.resize import KeepAspectRatioResizer
from detection_core.errors import ExportError
from detection_core.exporters.served_inputs import INPUT_TYPES, find_input_type, largest_batch
from detection_core.exporters.signatures import save_signature, serving_function
from tests.support.cases import cases, refused
from tests.support.served_requests import IMAGES, REQUESTS, RESIZER
from tests.support.tiny_detector import TinyDetector

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
    for name in INPUT_TYPES:
        folder = str(tmp_path_factory.mktemp(name))
        save_signature(serving_function(TinyDetector(), RESIZER, input_type=name), folder)
        loaded = tf.saved_model.load(folder)
        found[name] = (loaded, loaded.signatures["serving_default"], folder)
    return found


@cases(*REFERENCE)
def test_a_batch_gives_what_its_images_give_alone_whatever_the_input_type(served, *, name):
    assert sorted(INPUT_TYPES) == sorted(REFERENCE)
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
    assert largest_batch(find_input_type("tf_example"), keeping) == 1
    assert largest_batch(find_input_type("image_tensor"), keeping) is None
    padded = KeepAspectRatioResizer(min_dimension=20, max_dimension=40, pad_to_max_dimension=True)
    assert largest_batch(find_input_type("tf_example"), padded) is None
    for name, reason in {"image_and_boxes_tensor": "masks for given boxes", "bogus": "choose one"}.items():
        found = f"input_type: expected image_tensor, .*'{name}'.*{reason}"
        refused(ExportError, found, find_input_type, name)
    function = serving_function(TinyDetector(), RESIZER, batch_size=1)
    assert function.inputs[0].shape.as_list() == [1, None, None, 3]
    assert function.structured_outputs["detection_boxes"].shape.as_list()[0] == 1
    plain = serving_function(TinyDetector(), RESIZER)
    name = next(o.outputs[0].name for o in plain.graph.get_operations() if o.type == "Conv2D")
    function = serving_function(TinyDetector(), RESIZER, additional=[name])
    found = function(tf.constant(IMAGES))[name]
    assert found.shape[0] == len(IMAGES) and found.shape.rank == 4
    found = r"additional_.*'nothing/here'; the nearest are"
    refused(ExportError, found, serving_function, TinyDetector(), RESIZER, additional=["nothing/here"])
