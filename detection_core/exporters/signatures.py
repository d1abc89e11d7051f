"""Serving signatures of an exported detector with their input types, and its SavedModel.

Names, dtypes, shapes and classes counted from 1 follow the Object Detection API's exporter, so that its
consumers can read ours.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from detection_core.data.decode import decode_pixels, decode_record_pixels
from detection_core.data.resize import Resizer
from detection_core.detectors.base import Detector
from detection_core.detectors.family import Family
from detection_core.errors import ExportError
from detection_core.storage import files
from detection_core.structures import COLOURS, FIRST_CLASS, Images

SAVED_MODEL_INPUT = "input_tensor"
IMAGE_TENSOR = "image_tensor"
IMAGE_KEY = "image/encoded"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServedInput:
    """An input type.

    Attributes:
        dtype: of the input.
        shape: of one element of the batch.
        pixels: one element -> image [H, W, C], uint8 or float32 0..255, RGB first.
        of_example: a serialised `tf.Example` -> the element of the batch.
        channels: C.
    """

    dtype: tf.DType
    shape: tuple[int | None, ...]
    pixels: Callable[[tf.Tensor], tf.Tensor]
    of_example: Callable[[tf.Tensor], tf.Tensor]
    channels: int = COLOURS

    def spec(self, batch: int | None, name: str = SAVED_MODEL_INPUT) -> tf.TensorSpec:
        """Return the signature's input; a batch of None means any size."""
        return tf.TensorSpec([batch, *self.shape], self.dtype, name=name)


def _itself(element: tf.Tensor) -> tf.Tensor:
    return element


def _decode(encoded: tf.Tensor) -> tf.Tensor:
    return decode_pixels(encoded, channels=COLOURS)


def _encoded(serialized: tf.Tensor) -> tf.Tensor:
    fields = tf.io.parse_single_example(serialized, {IMAGE_KEY: tf.io.FixedLenFeature([], tf.string)})
    return fields[IMAGE_KEY]


def _decode_example(serialized: tf.Tensor) -> tf.Tensor:
    return _decode(_encoded(serialized))


_IMAGE = (None, None, COLOURS)
INPUT_TYPES: Mapping[str, ServedInput] = {
    IMAGE_TENSOR: ServedInput(dtype=tf.uint8, shape=_IMAGE, pixels=_itself, of_example=_decode_example),
    "float_image_tensor": ServedInput(
        dtype=tf.float32,
        shape=_IMAGE,
        pixels=_itself,
        of_example=lambda example: tf.cast(_decode_example(example), tf.float32),
    ),
    "encoded_image_string_tensor": ServedInput(
        dtype=tf.string, shape=(), pixels=_decode, of_example=_encoded
    ),
    "tf_example": ServedInput(dtype=tf.string, shape=(), pixels=_decode_example, of_example=_itself),
}
"""Name, as in `exporter_main_v2.py --input_type`, to the input type."""


def find_input_type(name: str, channels: int = COLOURS) -> ServedInput:
    """Return an input type of images with so many channels.

    Raises:
        ExportError: for an unknown name, and for encoded images with more channels than an image file has.
    """
    if name not in INPUT_TYPES:
        reason = (
            "; boxes as input are for detectors that predict masks for given boxes, which none here does"
            if name == "image_and_boxes_tensor"
            else "; choose one"
        )
        raise ExportError(f"expected {', '.join(INPUT_TYPES)}, found {name!r}{reason}", where="input_type")
    served = INPUT_TYPES[name]
    if channels == COLOURS:
        return served
    if not served.shape and served.of_example is not _itself:
        raise ExportError(
            f"expected an input with {channels} channels, found encoded image files, which have {COLOURS};"
            " export image_tensor, float_image_tensor or tf_example",
            where="input_type",
        )

    def decode(serialized: tf.Tensor) -> tf.Tensor:
        pixels = decode_record_pixels(serialized, channels - COLOURS)
        return tf.cast(pixels, served.dtype) if served.shape else pixels

    changed = {"shape": (None, None, channels), "of_example": decode} if served.shape else {"pixels": decode}
    return dataclasses.replace(served, channels=channels, **changed)


def largest_batch(served: ServedInput, resizer: Resizer) -> int | None:
    """Return the batch size: None for any, or 1 if images of a batch may not fit into one tensor.

    Encoded images vary in size, and some resizers keep part of it.
    """
    return 1 if served.dtype == tf.string and None in resizer.static_shape else None


def served_images(batch: tf.Tensor, served: ServedInput, resizer: Resizer) -> Images:
    """Decode a batch, as `served.spec` says, and resize it to the network's input, as in training."""

    def prepare(element: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        image = served.pixels(element)
        resized = resizer(image, tf.zeros([0, 0, 0], tf.uint8))
        return resized.image, resized.true_size, tf.shape(image)[:2]

    size = tf.TensorSpec([2], tf.int32)
    specs = tf.TensorSpec([*resizer.static_shape[:2], served.channels], tf.float32), size, size
    # A batch of one, the usual request, needs no loop.
    if batch.shape[0] == 1:
        parts = [part[tf.newaxis] for part in prepare(batch[0])]
    else:
        parts = tf.map_fn(prepare, batch, fn_output_signature=specs)
    pixels, true_sizes, original_sizes = parts
    names = tf.fill([tf.shape(batch)[0]], "")
    return Images(pixels=pixels, true_sizes=true_sizes, original_sizes=original_sizes, source_ids=names)


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
        input_type: of `INPUT_TYPES`.
        batch_size: fixed batch size of requests; None: any, or 1 if `largest_batch` is 1.
        additional: names of further tensors of the graph to return, such as `stem/Relu6:0`.

    Returns:
        A concrete function: `input_tensor` -> `Detector.serving_outputs`, and the additional tensors by their
            names.

    Raises:
        ExportError: for an unknown input type or tensor.
    """

    def outputs(images: Images) -> dict[str, tf.Tensor]:
        return model.serving_outputs(images) | {name: _tensor(name) for name in additional}

    served = find_input_type(input_type, model.channels)
    return images_function(outputs, resizer, served, batch_size=batch_size)


def images_function(
    outputs: Callable[[Images], Mapping[str, tf.Tensor]],
    resizer: Resizer,
    served: ServedInput,
    *,
    batch_size: int | None = None,
    input_name: str = SAVED_MODEL_INPUT,
) -> Any:
    """Make a function of a batch of an input type.

    Args:
        outputs: computes the outputs from resized images.
        resizer: as in `serving_function`.
        served: of the images.
        batch_size: as in `serving_function`.
        input_name: name of the input, by default the Object Detection API's.

    Returns:
        A concrete function.
    """
    spec = served.spec(batch_size or largest_batch(served, resizer), input_name)

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


IMAGES, IMAGE_FILES = "images", "image_files"
SERVING_BASE64, PREDICT = "serving_base64", "predict"
# Outputs of serving_default.
BOXES, SCORES, CLASSES, COUNT = (f"output_{i}" for i in range(4))


def automl_functions(
    model: Detector, family: Family, resizer: Resizer, batch_size: int | None
) -> dict[str, Any]:
    """Make the signatures.

    Args:
        model: detector.
        family: the detector's family.
        resizer: turns an image into the network's input, as in training.
        batch_size: fixed batch size of requests; None: any.

    Returns:
        Name of a signature to its concrete function. Inputs: `serving_default` takes `images` uint8 [B, H, W,
            3], `serving_base64` takes `image_files` string [B]. Both return output_0 boxes float32 [B, D, 4]
            (ymin, xmin, ymax, xmax in image pixels) and output_1 scores float32 [B, D]. Then follow output_2
            classes float32 [B, D] (from 1), and output_3 the number of detections, int32 [B]. `predict`
            takes `images` float32 [B, h, w, 3], normalised, of the network's size. It returns output_0, ...:
            class outputs of each level [B, h, w, K], then box outputs.

    Raises:
        ExportError: if the detector has no levels of fixed size.
    """

    def detect(images: Images) -> dict[str, tf.Tensor]:
        found = model.detect(images)
        sides = tf.cast(tf.tile(images.original_sizes, [1, 2]), tf.float32)[:, tf.newaxis]
        return {
            BOXES: found.boxes * sides,
            SCORES: found.scores,
            CLASSES: tf.cast(found.classes + FIRST_CLASS, tf.float32),
            COUNT: found.count,
        }

    def of(input_type: str, name: str) -> Any:
        served = find_input_type(input_type, model.channels)
        return images_function(detect, resizer, served, batch_size=batch_size, input_name=name)

    signatures = {SERVING_DEFAULT: of("image_tensor", IMAGES)}
    if model.channels == COLOURS:  # Image files have no further channels.
        signatures[SERVING_BASE64] = of("encoded_image_string_tensor", IMAGE_FILES)
    return signatures | {PREDICT: head_function(model, family, batch_size)}


def head_function(model: Detector, family: Family, batch_size: int | None) -> Any:
    """Make a function of raw outputs; see `automl_functions`; ExportError without levels of fixed size."""
    level_outputs, size = family.require_level_outputs(), model.input_shape.size
    if size is None:
        raise ExportError("expected a detector whose images have one size, found one with bounds only")

    def predict(images: tf.Tensor) -> dict[str, tf.Tensor]:
        classes, boxes = level_outputs(model, images)
        return {f"output_{i}": output for i, output in enumerate([*classes, *boxes])}

    spec = tf.TensorSpec([batch_size, *size, model.channels], tf.float32, name=IMAGES)
    return tf.function(predict, autograph=False).get_concrete_function(spec)
