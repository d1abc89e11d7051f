"""A detector as a TensorFlow Lite file."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from detection_core.config.messages.pipeline import tflite_problems
from detection_core.detectors.base import DetectionModel
from detection_core.errors import ExportError
from detection_core.exporters.post_process import PostProcessOptions, post_process_function
from detection_core.exporters.signatures import TFLITE_INPUT, save_signature
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.structures import AnchorPredictions, Images

_logger = logging.getLogger(__name__)

# Next to 1 in float32: a factor of 1 would be folded away.
KEEPS_FLOAT = 1.0 + 2.0**-23
# Of an int32 bias; the quantizers keep far below it.
MOST_BIAS = 2**30


def tflite_function(model: DetectionModel, options: PostProcessOptions, *, integer: bool) -> Any:
    """Make what TensorFlow Lite runs: one preprocessed image in, post-processed detections out.

    Args:
        model: detector.
        options: of the post-processing operation.
        integer: the network's outputs are going to be integers.

    Returns:
        A concrete function: `input` float32 [1, H, W, 3] -> count, scores, classes, boxes.
    """
    anchors = tf.constant(model_anchors(model))
    post_process = post_process_function(options)

    def serve(pixels: tf.Tensor) -> tuple[tf.Tensor, ...]:
        codes, logits = model.network(pixels, training=False)
        if integer:
            # Without an operation in between the converter takes the score conversion for a part of the
            # integer network, and 256 scores are too few to rank detections by.
            logits = logits * KEEPS_FLOAT
        predictions = AnchorPredictions(box_codes=codes, class_logits=logits, anchors=anchors)
        scores = model.raw_detections(predictions).scores
        found = post_process(codes, scores, centred(anchors))
        return found.count, found.scores, found.classes, found.boxes

    spec = tf.TensorSpec([1, *model.input_size, 3], tf.float32, name=TFLITE_INPUT)
    return tf.function(serve, autograph=False).get_concrete_function(spec)


def model_anchors(model: DetectionModel) -> np.ndarray:
    """Return the anchors of a model's input size, float32 [A, 4], normalised to it."""
    height, width = model.input_size
    blank = Images(
        pixels=tf.zeros([1, height, width, 3]),
        true_sizes=tf.constant([[height, width]]),
        original_sizes=tf.constant([[height, width]]),
        source_ids=tf.constant([""]),
    )
    return np.asarray(model.predict(blank, training=False).anchors)


def centred(boxes: tf.Tensor) -> tf.Tensor:
    """Turn (ymin, xmin, ymax, xmax) into (y, x, height, width) of the centre."""
    low, high = boxes[..., :2], boxes[..., 2:]
    return tf.concat([(low + high) / 2, high - low], -1)


def input_normalisation(model: DetectionModel) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and std of each channel with which (pixel - mean) / std is the model's preprocessing."""
    low, high = (model.preprocess(tf.fill([1, 1, 1, 3], level)).numpy().ravel() for level in (0.0, 255.0))
    std = 255.0 / (high - low)
    return tuple((-low * std).tolist()), tuple(std.tolist())


def check_convertible(config: TrainEvalPipelineConfig) -> None:
    """Refuse what a TensorFlow Lite file with a fixed input cannot hold.

    Raises:
        ExportError: naming the field.
    """
    for problem in tflite_problems(config):
        raise ExportError(problem.message, where=problem.path)


def convert(model: DetectionModel, options: PostProcessOptions, *, integer: bool) -> bytes:
    """Convert a detector.

    Args:
        model: detector; for an integer file its network carries fake quantization.
        options: of the post-processing operation.
        integer: give a file with uint8 input whose network runs in int8; else everything is float32.

    Returns:
        The file. Input `input` [1, H, W, 3]: float32 preprocessed as the backbone expects, or uint8 pixels.
        Outputs of the signature: output_0 count [1], output_1 scores [1, D], output_2 classes [1, D] (from
        0), output_3 boxes [1, D, 4], all float32.

    Raises:
        ExportError: when the converter refuses the model, or a bias does not fit into 32 bits.
    """
    function = tflite_function(model, options, integer=integer)
    with tempfile.TemporaryDirectory() as folder, _quiet_converter():
        save_signature(function, folder)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        converter.allow_custom_ops = True
        if integer:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.inference_input_type = tf.uint8
        try:
            content = bytes(converter.convert())
        except Exception as error:
            raise ExportError(
                f"the TensorFlow Lite converter refused the model: {str(error).splitlines()[0]};"
                " try formats=float32, or leave out the layers that it names"
            ) from error
    if integer:
        check_biases(content)
    return content


@contextlib.contextmanager
def _quiet_converter() -> Iterator[None]:
    """Keep the converter's progress, which it logs as warnings, out of the log."""
    tensorflow_logger = logging.getLogger("tensorflow")
    level = tensorflow_logger.level
    tensorflow_logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        tensorflow_logger.setLevel(level)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Operation:
    """An operation of a TensorFlow Lite file.

    Attributes:
        name: its name, `CONV_2D` and so on; of a custom operation its own name.
        inputs: dtype names of its inputs.
        outputs: dtype names of its outputs.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def list_operations(content: bytes) -> list[Operation]:
    """Read which operations a TensorFlow Lite file has, and in which types they run."""
    from tensorflow.lite.python import schema_py_generated as schema

    model: Any = schema.ModelT.InitFromPackedBuf(content, 0)
    codes = {v: k for k, v in vars(schema.BuiltinOperator).items() if not k.startswith("_")}
    types = {v: k.lower() for k, v in vars(schema.TensorType).items() if not k.startswith("_")}
    return [
        Operation(
            name=_operation_name(model.operatorCodes[operator.opcodeIndex], codes),
            inputs=tuple(types[graph.tensors[i].type] for i in operator.inputs if i >= 0),
            outputs=tuple(types[graph.tensors[i].type] for i in operator.outputs if i >= 0),
        )
        for graph in model.subgraphs
        for operator in graph.operators
    ]


@dataclasses.dataclass(frozen=True, kw_only=True)
class IntegerBias:
    """A bias of an integer TensorFlow Lite file.

    Attributes:
        name: of its tensor.
        codes: int32 [C], the bias is `codes * scale`.
        scale: float32 [C] or [1], that of the input times that of the kernel.
    """

    name: str
    codes: np.ndarray
    scale: np.ndarray


def integer_biases(content: bytes) -> list[IntegerBias]:
    """Read every int32 constant with a scale of a TensorFlow Lite file: the biases of its convolutions."""
    from tensorflow.lite.python import schema_py_generated as schema

    model: Any = schema.ModelT.InitFromPackedBuf(content, 0)
    return [
        IntegerBias(
            name=tensor.name.decode(),
            codes=np.frombuffer(bytes(model.buffers[tensor.buffer].data), "<i4"),
            scale=np.asarray(tensor.quantization.scale, np.float32),
        )
        for graph in model.subgraphs
        for tensor in graph.tensors
        if tensor.type == schema.TensorType.INT32
        and model.buffers[tensor.buffer].data is not None
        and tensor.quantization is not None
        and tensor.quantization.scale is not None
    ]


def check_biases(content: bytes) -> None:
    """Refuse an integer file in which a bias leaves no room for the products that are added to it.

    The converter itself cuts what does not fit, in silence.

    Raises:
        ExportError: naming the first such bias.
    """
    for bias in integer_biases(content):
        too_large = np.flatnonzero(np.abs(bias.codes.astype(np.int64)) > MOST_BIAS)
        if too_large.size:
            raise ExportError(
                f"expected biases up to {MOST_BIAS} in units of their scale, found"
                f" {bias.codes[too_large[0]]} in channel {too_large[0]} of {bias.name}, and"
                f" {too_large.size - 1} more there; report it with the model's pipeline.config, and export"
                " with formats=float32"
            )


def _operation_name(code: Any, builtins: dict[int, str]) -> str:
    if code.customCode:
        return str(code.customCode.decode())
    return builtins[max(code.builtinCode, code.deprecatedBuiltinCode)]
