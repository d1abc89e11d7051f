"""Run a TensorFlow Lite detector in LiteRT."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from detection_core.artifacts.tflite_file import read_tflite, verify_tflite
from detection_core.artifacts.tflite_metadata import (
    BoxDecoding,
    read_decoding,
    read_description,
    read_tensor_names,
)
from detection_core.bounded.plain_yaml import module_table
from detection_core.detectors.family import Normalisation
from detection_core.errors import ModelError
from detection_core.evaluation.signature_runner import check_channels, checked_detections
from detection_core.evaluation.tflite_trial import try_tflite
from detection_core.model_use import model_in_use
from detection_core.ops.detection_post_process import plain_post_process
from detection_core.ops.resampling import resize_pixels
from detection_core.structures import COLOURS, Instances


def suppressed_heads(
    codes: np.ndarray, raw_scores: np.ndarray, decoding: BoxDecoding
) -> dict[str, np.ndarray]:
    """Decode the heads of a file and suppress boxes as its `decoding` defines.

    Args:
        codes: float32 [A, 4], ty, tx, th, tw.
        raw_scores: float32 [A, C].
        decoding: anchors, scales and suppression.

    Returns:
        `boxes` float32 [D, 4] (ymin, xmin, ymax, xmax, normalised, not clipped), `scores` [D], descending,
        `classes` [D], from 0, and `count` of valid rows.
    """
    scores = 1 / (1 + np.exp(-raw_scores)) if decoding.sigmoid else raw_scores
    wanted = decoding.post_process
    wanted = dataclasses.replace(wanted, max_detections=min(wanted.max_detections, scores.size))
    heads = (codes[np.newaxis], scores[np.newaxis], np.array(decoding.anchors, np.float32))
    found = plain_post_process(wanted)(*map(tf.constant, heads))
    return {name: value[0].numpy() for name, value in found._asdict().items()}


_TABLE = module_table(__file__)
SIGNATURE_NAMES: Mapping[str, str] = _TABLE["signature_names"]
KEYPOINT_SIGNATURE_NAMES: Mapping[str, str] = _TABLE["keypoint_signature_names"]
TENSOR_NAMES: Mapping[str, str] = _TABLE["tensor_names"]
ORDERS_BY_POSITION_OF_BOXES: Mapping[int, Sequence[str]] = _TABLE["orders_by_position_of_boxes"]
_QUANTIZED = (np.uint8, np.int8)
# A mean of 127.5 lies between two 8-bit levels, which shifts the input's grid by half a level.
_HALF_A_LEVEL = 0.51


class TFLiteRunner:
    """A .tflite detector with post-processing, or without it and with MediaPipe's record, run in LiteRT.

    The image is stretched to the network's input as in training and normalised by the file's metadata. An
    integer input is quantised by its own parameters. Pixels that equal these integers within half a level are
    left unchanged.
    """

    def __init__(self, path: str, *, threads: int = 1, normalisation: Normalisation | None = None) -> None:
        """Load the file; without a normalisation the one in its metadata applies.

        Raises:
            ModelError: if it is not a TensorFlow Lite detector, or its normalisation is unknown.
        """
        from ai_edge_litert.interpreter import Interpreter

        self.path = path
        content = read_tflite(path)
        verify_tflite(content, where=path)
        if normalisation is None:
            described = read_description(content, where=path)
            normalisation = described.mean, described.std
        self._normalisation = normalisation
        try_tflite(content, where=path, threads=threads)
        try:
            self._interpreter = Interpreter(model_content=content, num_threads=threads)
            with model_in_use(path):
                self._interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise ModelError(
                f"expected a file that LiteRT runs, found one that it refuses ({str(error).splitlines()[0]});"
                " export it again",
                where=path,
            ) from error
        self._input = _image_input(self._interpreter.get_input_details(), path)
        self._decoding = read_decoding(content, where=path)
        self._outputs = (
            output_places(self._interpreter, path)
            if self._decoding is None
            else _head_places(self._interpreter, read_tensor_names(content, where=path)[1], path)
        )

    def __call__(self, image: np.ndarray, source_id: str = "") -> Instances:
        """Detect objects; see `Runner`."""
        try:
            self._interpreter.set_tensor(self._input["index"], self.prepare(image)[np.newaxis])
            with model_in_use(self.path):
                self._interpreter.invoke()
            values = {role: self._interpreter.get_tensor(index)[0] for role, index in self._outputs.items()}
        except (ValueError, RuntimeError, IndexError) as error:
            raise ModelError(
                f"expected a file that LiteRT runs, found one that fails on an image"
                f" ({str(error).splitlines()[0]}); export it again",
                where=self.path,
            ) from error
        if self._decoding is not None:
            values = suppressed_heads(values["location"], values["score"], self._decoding)
        rows = len(values["scores"])
        count = min(int(values["count"]), rows) if np.isfinite(values["count"]) else rows
        # Rows after the count are uninitialised.
        classes = values["classes"][:count]
        if np.isfinite(classes).all() and (classes != np.rint(classes)).any():
            raise ModelError(
                "expected whole numbers as classes, found others: the outputs' order is not known",
                where=self.path,
            )
        # The operation does not clip its boxes to the image, but a SavedModel does.
        found = {"boxes": np.clip(values["boxes"], 0.0, 1.0)}
        size = (image.shape[0], image.shape[1])
        found |= {name: values[name] for name in ("scores", "classes", "keypoints") if name in values}
        return checked_detections(found, count, size, source_id=source_id, where=self.path)

    def prepare(self, image: np.ndarray) -> np.ndarray:
        """Convert an image, uint8 [H, W, C], to the network's input, [h, w, C] of the file's dtype."""
        height, width, channels = (int(side) for side in self._input["shape"][1:])
        check_channels(image, channels, self.path)
        pixels = np.asarray(resize_pixels(tf.constant(image), tf.constant([height, width])))
        mean, std = (np.asarray(each, np.float32) for each in self._normalisation)
        normalised = (pixels - mean) / std
        dtype = self._input["dtype"]
        if dtype == np.float32:
            return normalised
        scale, zero = self._input["quantization"]
        limits = np.iinfo(dtype)
        levels, unchanged = normalised / scale + zero, pixels + limits.min
        if np.abs(levels - unchanged).max() <= _HALF_A_LEVEL:
            # MediaPipe passes the bytes unchanged. Rounding halves to even would merge pairs of levels.
            levels = unchanged
        return np.clip(np.rint(levels), limits.min, limits.max).astype(dtype)


def _image_input(details: list[dict[str, Any]], path: str) -> dict[str, Any]:
    shapes = [tuple(d["shape"].tolist()) for d in details]
    good = len(shapes) == 1 and len(shapes[0]) == 4 and shapes[0][0] == 1 and shapes[0][3] >= COLOURS
    if not good or details[0]["dtype"] not in (np.float32, *_QUANTIZED):
        found = ", ".join(f"{np.dtype(d['dtype'])}{list(d['shape'])}" for d in details)
        raise ModelError(
            f"expected one input [1, height, width, 3] of float32, uint8 or int8, found {found};"
            " pass a detector exported for one image",
            where=path,
        )
    if details[0]["dtype"] in _QUANTIZED and not details[0]["quantization"][0]:
        raise ModelError(
            "expected quantization parameters at the integer input, found none; convert the model again",
            where=path,
        )
    return details[0]


def _head_places(interpreter: Any, names: Sequence[str], path: str) -> dict[str, int]:
    """Return name to tensor index of the heads, in the metadata's order."""
    details = interpreter.get_output_details()
    shapes = {name: tuple(d["shape"]) for name, d in zip(names, details, strict=False)}
    boxes, scores = (shapes.get(name, ()) for name in ("location", "score"))
    if len(details) != 2 or len(boxes) != 3 or boxes[2] != 4 or scores[:2] != boxes[:2]:
        raise ModelError(
            "expected the heads `location` [1, A, 4] and `score` [1, A, C], with their decoding in the"
            f" metadata, found {shapes}; export the file again",
            where=path,
        )
    return {name: d["index"] for name, d in zip(names, details, strict=True)}


def output_places(interpreter: Any, path: str) -> dict[str, int]:
    """Return role to tensor index of the four outputs, or of six with keypoints."""
    details = interpreter.get_output_details()
    found = (
        _by_signature(interpreter)
        or _by_names({d["name"]: d["index"] for d in details}, TENSOR_NAMES)
        or _by_shapes(details)
    )
    dimensions = {d["index"]: len(d["shape"]) for d in details}
    right = {"boxes": 3, "classes": 2, "scores": 2, "count": 1}
    if "keypoints" in found:
        right |= {"keypoints": 4, "keypoint_scores": 3}
    if {role: dimensions.get(index) for role, index in found.items()} != right:
        outputs = ", ".join(f"{d['name']} {list(d['shape'])}" for d in details)
        raise ModelError(
            "expected the four outputs of TFLite_Detection_PostProcess (boxes [1, D, 4], classes [1, D],"
            f" scores [1, D], count [1]), found {outputs}; export the detector with post-processing",
            where=path,
        )
    return found


def _by_signature(interpreter: Any) -> dict[str, int]:
    if not interpreter.get_signature_list():
        return {}
    outputs = interpreter.get_signature_runner().get_output_details()
    table = KEYPOINT_SIGNATURE_NAMES if len(outputs) == len(KEYPOINT_SIGNATURE_NAMES) else SIGNATURE_NAMES
    return _by_names({name: d["index"] for name, d in outputs.items()}, table)


def _by_names(indices: Mapping[str, int], table: Mapping[str, str]) -> dict[str, int]:
    if not indices.keys() <= table.keys():
        return {}
    return {table[name]: index for name, index in indices.items()}


def _by_shapes(details: list[dict[str, Any]]) -> dict[str, int]:
    indices = [index for index, d in enumerate(details) if len(d["shape"]) == 3]
    order = ORDERS_BY_POSITION_OF_BOXES.get(indices[0]) if len(indices) == 1 and len(details) == 4 else None
    return {role: d["index"] for role, d in zip(order or (), details, strict=False)}
