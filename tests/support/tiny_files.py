"""TensorFlow Lite files of the tiny detector in every format and form, each converted once for all tests."""

import functools
import os
from pathlib import Path

import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from detection_core.artifacts.quantization import QuantizationOptions
from detection_core.artifacts.tflite_file import network_outputs, read_graph
from detection_core.artifacts.tflite_metadata import BoxDecoding, TFLiteDescription
from detection_core.exporters.tflite import Conversion
from detection_core.exporters.tflite_description import add_description
from detection_core.exporters.tflite_formats import FORMATS
from detection_core.exporters.tflite_post_process import centred
from detection_core.families.ssd.tflite import tflite_function
from detection_core.ops.post_process_options import PostProcessOptions
from detection_core.quantization.rewriting import rewrite
from tests.support.store import stored
from tests.support.tiny_detector import SCALES, TinyDetector, grid_anchors

PIXELS = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3)).astype(np.float32)
INPUTS = [pixels[np.newaxis] / np.float32(127.5) - 1 for pixels in PIXELS]
_SCALES = dict(zip(("y_scale", "x_scale", "h_scale", "w_scale"), SCALES, strict=True))
_LIMITS = {"max_detections": 10, "nms_score_threshold": 1e-8, "nms_iou_threshold": 0.6}
OPTIONS = PostProcessOptions(num_classes=3, **_LIMITS, **_SCALES)
FORMATS_OF_ITS_WEIGHTS = tuple(name for name in FORMATS if not name.endswith("_aware"))
DECODING = BoxDecoding(
    anchors=centred(tf.constant(grid_anchors())).numpy().tolist(), sigmoid=True, post_process=OPTIONS
)
DESCRIPTION = TFLiteDescription(name="tiny", mean=(127.5,), std=(127.5,), labels=("1", "2", "3"))


def calibrated(detector: TinyDetector) -> TinyDetector:
    """Return a tiny detector with calibrated fake quantization."""
    rewritten = rewrite(detector, QuantizationOptions(delay=0))
    rewritten.calibrate([tf.constant(PIXELS)])
    return rewritten.model


@functools.cache
def network(integer: bool) -> TinyDetector:
    """Return the tiny detector that files of integers, or of floats, are made of."""
    return calibrated(TinyDetector()) if integer else TinyDetector()


def quantized() -> TinyDetector:
    """Return the one that integer files are made of."""
    return network(True)


@functools.cache
def function_of(integer: bool, form: str = "post_process") -> tf.types.experimental.ConcreteFunction:
    """Return what a file of this form computes."""
    return tflite_function(network(integer), OPTIONS, integer=integer, form=form)


def tflite_of(detector: TinyDetector, options: PostProcessOptions = OPTIONS, *, integer: bool) -> bytes:
    """Convert another detector, or with other options, as `float32` or `int8`."""
    conversion = Conversion(function=tflite_function(detector, options, integer=integer))
    return FORMATS["int8" if integer else "float32"].convert(conversion)


def convert(name: str, form: str = "post_process") -> bytes:
    """Convert the tiny detector to a format again."""
    wanted = FORMATS[name]
    return wanted.convert(Conversion(function=function_of(wanted.integer, form), inputs=lambda: INPUTS))


@functools.cache
def file_of(name: str, form: str = "post_process") -> bytes:
    """Return the stored file of a format and a form."""
    # Sums of other kernels end in other last bits.
    kernels = os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1")
    return (stored(_write, name=name, form=form, kernels=kernels) / "model.tflite").read_bytes()


def float_file() -> bytes:
    """Return the stored float file."""
    return file_of("float32")


def integer_file() -> bytes:
    """Return the stored integer file."""
    return file_of("int8")


def described(name: str, form: str = "post_process") -> bytes:
    """Return it with its description, as an export writes it."""
    return add_description(file_of(name, form), DESCRIPTION, DECODING if form == "headless" else None)


def inputs_of(content: bytes) -> list[np.ndarray]:
    """Return PIXELS as a file takes them."""
    (taken,) = Interpreter(model_content=content).get_input_details()
    if taken["dtype"] == np.float32:
        return INPUTS
    least = np.iinfo(taken["dtype"]).min
    return [(pixels[np.newaxis] + least).astype(taken["dtype"]) for pixels in PIXELS]


def run(content: bytes, image: np.ndarray) -> dict[str, np.ndarray]:
    """Run a file on an input of its type; return its signature's outputs."""
    return Interpreter(model_content=content).get_signature_runner("serving_default")(input=image)


def heads_of(content: bytes, image: np.ndarray) -> dict[str, np.ndarray]:
    """Return the raw heads of a file by their tensors' names, as real numbers."""
    interpreter = Interpreter(
        model_content=content,
        experimental_preserve_all_tensors=True,
        experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
    )
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image)
    interpreter.invoke()
    graph = read_graph(content)
    found = {}
    for index in network_outputs(graph):
        tensor, value = graph.tensors[index], interpreter.get_tensor(index).astype(np.float64)
        if tensor.quantization is not None:
            (scale,), (zero,) = tensor.quantization.scale, tensor.quantization.zero_point
            value = (value - zero) * scale
        found[tensor.name] = value
    return found


def levels_of(value: np.ndarray) -> list[np.ndarray]:
    """Divide a head by the two levels, of 8 x 8 and 4 x 4 places."""
    return np.split(value, [2 * 8 * 8], axis=1)


def decibels(wanted: np.ndarray, found: np.ndarray) -> float:
    """Return how loud a signal is above what a file makes of it."""
    noise = np.square(found - wanted).sum() / np.square(wanted).sum()
    return float(-10 * np.log10(max(noise, 1e-12)))


def _write(folder: Path, *, name: str, form: str, kernels: str) -> None:
    (folder / "model.tflite").write_bytes(convert(name, form))
