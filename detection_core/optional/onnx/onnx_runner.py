"""Run a detector in ONNX Runtime."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from detection_core.capabilities import import_extra
from detection_core.errors import ModelError
from detection_core.evaluation.signature_runner import OPTIONAL_OUTPUTS, OUTPUTS, SignatureRunner, first_line
from detection_core.ops.resampling import resize_pixels
from detection_core.storage import files

_DTYPES: Mapping[str, Any] = {"tensor(float)": np.float32, "tensor(uint8)": np.uint8}


class OnnxRunner(SignatureRunner):
    """An ONNX file with the input and outputs of an `image_tensor` or `portable` export.

    An output may be named like the tensor in TensorFlow, `detection_boxes:0`. The image is RGB, 0 to 255. It
    is stretched to an input of fixed size, and boxes are clipped to the image.
    """

    def __init__(self, path: str, *, threads: int = 1) -> None:
        """Load the file.

        Raises:
            ConfigError: if ONNX Runtime is not installed.
            ModelError: if ONNX Runtime refuses the file, or it lacks a detector's input or outputs.
        """
        onnxruntime = import_extra("onnxruntime", "onnx", "ONNX files", path)
        options, providers = onnxruntime.SessionOptions(), ["CPUExecutionProvider"]
        options.intra_op_num_threads = threads
        try:
            self._session = onnxruntime.InferenceSession(files.read_bytes(path), options, providers)
        # ONNX Runtime's errors have no common base class.
        except Exception as error:
            raise ModelError(
                f"expected a file that ONNX Runtime runs, found one that it refuses ({first_line(error)});"
                " convert the model again",
                where=path,
            ) from error
        inputs = self._session.get_inputs()
        given = [output.name for output in self._session.get_outputs()]
        known = {name.removesuffix(":0"): name for name in given}
        shape = inputs[0].shape if len(inputs) == 1 else []
        if len(shape) != 4 or inputs[0].type not in _DTYPES or not set(OUTPUTS) <= known.keys():
            found = [f"{each.name} {each.type} {each.shape}" for each in inputs]
            raise ModelError(
                f"expected one input [1, H, W, 3], float32 or uint8, and the outputs {', '.join(OUTPUTS)},"
                f" found {', '.join(found)} and {', '.join(given)}; convert a frozen graph of the signatures"
                " portable",
                where=path,
            )
        self._names = {name: known[name] for name in (*OUTPUTS, *OPTIONAL_OUTPUTS) if name in known}
        self._input, self._dtype = inputs[0].name, _DTYPES[inputs[0].type]
        self._size = shape[1:3] if all(isinstance(side, int) for side in shape[1:3]) else None
        self.channels = shape[3] if isinstance(shape[3], int) else None
        super().__init__(self._run, path)

    def _run(self, images: tf.Tensor) -> Mapping[str, np.ndarray]:
        pixels = images if self._size is None else resize_pixels(images[0], self._size)[np.newaxis]
        pixels = np.asarray(pixels if self._dtype == np.float32 else np.rint(pixels))
        try:
            values = self._session.run([*self._names.values()], {self._input: pixels.astype(self._dtype)})
        except Exception as error:
            raise ValueError(first_line(error)) from error
        found = dict(zip(self._names, values, strict=True))
        return {**found, "detection_boxes": np.clip(found["detection_boxes"], 0.0, 1.0)}
