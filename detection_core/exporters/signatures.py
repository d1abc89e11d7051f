"""Serving signatures of an exported detector, and its SavedModel.

Names, dtypes, shapes and classes counted from 1 follow the Object Detection API's exporter, so that its
consumers can read ours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from detection_core.data.resize import Resizer
from detection_core.detectors.base import Detector
from detection_core.errors import ExportError
from detection_core.exporters.served_inputs import (
    IMAGE_TENSOR,
    find_input_type,
    largest_batch,
    served_images,
)
from detection_core.storage import files
from detection_core.structures import Images

SERVING_DEFAULT = "serving_default"
TFLITE_INPUT = "input"
# Outputs of the TensorFlow Lite signature; its classes count from 0.
TFLITE_OUTPUTS = {"output_0": "count", "output_1": "scores", "output_2": "classes", "output_3": "boxes"}
# With the keypoints of one class they come first, as in the Object Detection API.
TFLITE_KEYPOINT_OUTPUTS = {
    "output_0": "keypoint_scores",
    "output_1": "keypoints",
    **{f"output_{i + 2}": role for i, role in enumerate(TFLITE_OUTPUTS.values())},
}
_LISTED_NAMES = 5


def write_saved_model(model: Detector, resizer: Resizer, directory: str) -> None:
    """Write `directory/saved_model.pb` with the image_tensor serving signature, for batches of any size.

    Args:
        model: detector; its networks are exported in inference form.
        resizer: turns an image of any size into the network's input, as in training.
        directory: folder to fill.
    """
    save_signatures({SERVING_DEFAULT: serving_function(model, resizer)}, directory)


def serving_function(
    model: Detector,
    resizer: Resizer,
    *,
    input_type: str = IMAGE_TENSOR,
    batch_size: int | None = None,
    additional: Sequence[str] = (),
) -> Any:
    """Make the serving function: images of any size in, detections out.

    Args:
        model: detector.
        resizer: turns an image into the network's input, as in training.
        input_type: of `served_inputs.INPUT_TYPES`.
        batch_size: fixed batch size of requests; None: any, or 1 if `served_inputs.largest_batch` is 1.
        additional: names of further tensors of the graph to return, such as `stem/Relu6:0`.

    Returns:
        A concrete function: `input_tensor` -> `Detector.serving_outputs`, and the additional tensors by their
            names.

    Raises:
        ExportError: for an unknown input type or tensor.
    """

    def outputs(images: Images) -> dict[str, tf.Tensor]:
        found = model.serving_outputs(images)
        return found | {name: _tensor(name) for name in additional}

    return images_function(outputs, resizer, input_type=input_type, batch_size=batch_size)


def images_function(
    outputs: Callable[[Images], Mapping[str, tf.Tensor]],
    resizer: Resizer,
    *,
    input_type: str,
    batch_size: int | None = None,
    input_name: str | None = None,
) -> Any:
    """Make a function of a batch of an input type.

    Args:
        outputs: computes the outputs from resized images.
        resizer: as in `serving_function`.
        input_type: as in `serving_function`.
        batch_size: as in `serving_function`.
        input_name: name of the input; None: the Object Detection API's.

    Returns:
        A concrete function.
    """
    served = find_input_type(input_type)
    spec = served.spec(batch_size or largest_batch(served, resizer))
    if input_name is not None:
        spec = tf.TensorSpec(spec.shape, spec.dtype, name=input_name)

    def serve(batch: tf.Tensor) -> Mapping[str, tf.Tensor]:
        return outputs(served_images(batch, served, resizer))

    return tf.function(serve, autograph=False).get_concrete_function(spec)


def _tensor(name: str) -> tf.Tensor:
    """Return a tensor of the current graph; the ExportError for an unknown one lists some names."""
    graph = tf.compat.v1.get_default_graph()
    try:
        return graph.as_graph_element(name if ":" in name else f"{name}:0", allow_operation=False)
    except (KeyError, ValueError) as error:
        import difflib

        names = [output.name for operation in graph.get_operations() for output in operation.outputs]
        near = difflib.get_close_matches(name, names, _LISTED_NAMES, 0.0)
        raise ExportError(
            f"expected the name of a tensor of the served graph, found {name!r}; the nearest are"
            f" {', '.join(near)}",
            where="additional_output_tensor_names",
        ) from error


def save_signature(function: Any, directory: str) -> None:
    """Write a SavedModel with one signature, `serving_default`; see `save_signatures`."""
    save_signatures({SERVING_DEFAULT: function}, directory)


def save_signatures(functions: Mapping[str, Any], directory: str) -> None:
    """Write a SavedModel with signatures and the variables that they read.

    Only the variables are saved, not the layers. tf_keras would trace every layer several times, which takes
    a minute for a detector and is useless for the signatures.
    """
    module = tf.Module(name="served")
    variables = {id(v): v for function in functions.values() for v in function.graph.variables}
    # A graph keeps its variables in a set; sorting makes the files of a detector reproducible.
    module.read_variables = sorted(variables.values(), key=lambda variable: variable.name)
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(module, directory, dict(functions), options)
    name_by_content(files.join(directory, "fingerprint.pb"))


def name_by_content(path: str) -> None:
    """Replace the random id in a SavedModel's fingerprint by one derived from the hashes beside it.

    Args:
        path: of fingerprint.pb, which is overwritten.
    """
    from tensorflow.core.protobuf import fingerprint_pb2

    fingerprint = fingerprint_pb2.FingerprintDef.FromString(files.read_bytes(path))
    fingerprint.ClearField("uuid")
    digest = hashlib.sha256(fingerprint.SerializeToString(deterministic=True)).digest()
    fingerprint.uuid = str(int.from_bytes(digest[:16], "big"))
    files.write_bytes(path, fingerprint.SerializeToString(deterministic=True))
