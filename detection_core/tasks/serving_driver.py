"""Offer google/automl's ServingDriver interface for a detector."""

import base64
import binascii
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from PIL import Image

from detection_core.artifacts.detector import read_info
from detection_core.artifacts.signature import check_signature
from detection_core.config.automl.hparams import load_hyperparameters, resolve_label_map
from detection_core.config.automl.hyperparameters import HyperParameters
from detection_core.config.automl.translation import check_made_with, is_efficientdet
from detection_core.errors import ConfigError, DataError, ExportError
from detection_core.evaluation.drawing import LabelledBox, draw_boxes
from detection_core.evaluation.measure import known_classes
from detection_core.evaluation.served_file import BatchDetections, ServedFile, ServedModel, stacked
from detection_core.structures import FIRST_CLASS
from detection_core.tasks.evaluate import own_config
from detection_core.tasks.export_saved_model import SavedModelOptions, export_saved_model
from detection_core.tasks.predict import checked_pixels, decode_image
from detection_core.tasks.serving_benchmark import time_requests

_logger = logging.getLogger(__name__)

_PREDICT = "predict"
_UNDERSCORE = "_"
_LABEL_MAP = "label_map"
TFLITE = ".tflite"


class ServingDriver:
    """Serves images with a SavedModel.

    Example:
        driver = ServingDriver.create("build/trained/model")
        boxes, scores, classes, valid_len = driver.serve(images)
        picture = driver.visualize(images[0], boxes[0], classes[0], scores[0], min_score_thresh=0.4)

    Convert google/automl's checkpoints, which need its model code, once with `detflow import`.
    """

    def __init__(
        self, saved_model_dir: str, *, trust: bool = False, values: HyperParameters | None = None
    ) -> None:
        """Load a model.

        Args:
            saved_model_dir: a detector folder, a SavedModel with the signatures of `detflow
                export-saved-model`, or a .tflite file.
            trust: run it even if its graph does more than compute.
            values: hyper-parameters for a .tflite file of google/automl, which has no metadata.

        Raises:
            ModelError: if it cannot be run.
            ContractError: if there is no SavedModel, or the key of DETFLOW_PUBLIC_KEY did not sign it.
        """
        self.load(saved_model_dir, trust=trust, values=values)

    @classmethod
    def create(
        cls,
        model_dir: str,
        debug: bool = False,
        saved_model_dir: str | None = None,
        model_name: str | None = None,
        batch_size: int | None = None,
        only_network: bool = False,
        model_params: dict[str, Any] | None = None,
    ) -> "ServingDriver":
        """Make a driver from the arguments of google/automl's driver.

        Args:
            model_dir: detector folder; `_` if `saved_model_dir` is given.
            debug: ignored, because nothing here runs differently.
            saved_model_dir: SavedModel or .tflite file; takes precedence over `model_dir`.
            model_name: model of `model_params`, or of a google/automl .tflite file; otherwise the detector's
                record is used.
            batch_size: ignored: the model accepts any batch size.
            only_network: ignored: `predict` runs the network alone.
            model_params: hyper-parameters. `label_map` names the classes; the others apply to a google/automl
                .tflite file. For a detector they must equal its hyper-parameters.

        Raises:
            ConfigError: if neither folder is given, or the detector has other hyper-parameters.
            ModelError: as the constructor.
        """
        del debug, batch_size, only_network
        path = saved_model_dir or (model_dir if model_dir != _UNDERSCORE else "")
        if not path:
            raise ConfigError(
                "expected a detector folder or a SavedModel, found neither; a checkpoint becomes one by"
                " `detflow config from-automl` and `detflow import`",
                where="model_dir",
            )
        params = {key: value for key, value in (model_params or {}).items() if key != _LABEL_MAP}
        is_file = path.endswith(TFLITE) and model_name
        driver = cls(path, values=load_hyperparameters(model_name or "", params).values if is_file else None)
        if not (isinstance(driver._model, ServedFile) and driver._model.is_automl):
            config = own_config(path)
            if is_efficientdet(config):
                check_made_with(config, params, model_name or "", where="model_params")
            elif params:
                _logger.warning("model_params without effect on %s: %s", path, ", ".join(params))
        driver.label_map = resolve_label_map((model_params or {}).get(_LABEL_MAP)) or driver.label_map
        return driver

    def load(
        self, saved_model_dir: str, *, trust: bool = False, values: HyperParameters | None = None
    ) -> None:
        """Load another model; see the constructor."""
        check_signature(saved_model_dir)
        self._path = saved_model_dir
        self._model: ServedFile | ServedModel
        if saved_model_dir.endswith(TFLITE):
            self._model = ServedFile(saved_model_dir, values)
            self.label_map = self._model.label_map
            return
        self._model = ServedModel(saved_model_dir, trust=trust)
        self.label_map = {label + FIRST_CLASS: name for label, name in known_classes(saved_model_dir).items()}

    def serve(self, image_arrays: Sequence[np.ndarray] | np.ndarray) -> BatchDetections:
        """Detect objects in images.

        Args:
            image_arrays: uint8 [H, W, 3] each, RGB; consecutive images of one size are served as one batch.

        Raises:
            DataError: for an array that is not an image.
        """
        images = [checked_pixels(np.asarray(image), f"image {i}") for i, image in enumerate(image_arrays)]
        if not images:
            raise DataError("expected images, found none", where="image_arrays")
        found = [self._model(np.stack([images[i] for i in group])) for group in stacked(images)]
        return BatchDetections(*(np.concatenate(values) for values in zip(*found, strict=True)))

    serve_images = serve

    def serve_files(self, image_files: Sequence[bytes]) -> BatchDetections:
        """Detect objects in image files.

        Args:
            image_files: content of each file, in a format that `detflow predict` reads, such as JPEG or PNG.

        Raises:
            DataError: for a file that is not an image.
        """
        return self.serve([decode_image(data, f"image {i}") for i, data in enumerate(image_files)])

    def serve_base64(self, image_files: Sequence[str | bytes]) -> BatchDetections:
        """Detect objects in image files in base64, plain or web-safe, as a REST client sends them.

        Raises:
            DataError: for text that is not base64, or not an image.
        """
        return self.serve_files([_from_base64(text, place) for place, text in enumerate(image_files)])

    def predict(self, image_arrays: np.ndarray) -> list[np.ndarray]:
        """Run only the network on float32 [B, h, w, 3], normalised; class outputs first, then boxes.

        Raises:
            ExportError: if the SavedModel lacks this signature.
        """
        signature = self._model.signatures.get(_PREDICT)
        if signature is None:
            raise ExportError(
                f"expected the signature {_PREDICT!r}, found {', '.join(self._model.signatures)}; write it"
                " with `detflow export-saved-model --signatures automl`",
                where=self._path,
            )
        outputs = signature(images=tf.constant(image_arrays, tf.float32))
        return [outputs[f"output_{place}"].numpy() for place in range(len(outputs))]

    @property
    def input_size(self) -> tuple[int, int]:
        """Rows and columns of the network's input; ContractError if the model is no detector folder."""
        return read_info(self._path).input_size

    def benchmark(
        self,
        image_arrays: Sequence[np.ndarray] | np.ndarray,
        bm_runs: int = 10,
        trace_filename: str | None = None,
    ) -> dict[str, float]:
        """Measure the latency of a batch, after one warm-up request.

        Args:
            image_arrays: images of one size.
            bm_runs: timed requests.
            trace_filename: folder for a trace of one request, for TensorBoard's profiler.

        Returns:
            `seconds_per_batch` and `images_per_second`.
        """
        images = tf.constant(np.stack(list(image_arrays)))
        _, *times = time_requests(self._model, images, bm_runs + 1)
        seconds = float(np.mean(times)) / 1000
        if trace_filename:
            with tf.profiler.experimental.Profile(trace_filename):
                time_requests(self._model, images, 1)
        found = {"seconds_per_batch": seconds, "images_per_second": len(images) / seconds}
        _logger.info("benchmark | %.4f s a batch | %.1f images/s", seconds, found["images_per_second"])
        return found

    def export(self, output_dir: str, tensorrt: str | None = None) -> str:
        """Write the detector as a SavedModel with google/automl's signatures, and its frozen graph.

        Args:
            output_dir: folder to write.
            tensorrt: refused: use TensorRT's converter on the written SavedModel.

        Returns:
            The folder of the SavedModel.

        Raises:
            ExportError: for `tensorrt`.
            ContractError: if the model is not a detector folder.
        """
        if tensorrt:
            raise ExportError(
                f"expected none, found {tensorrt!r}; convert the SavedModel with TensorRT's own tools",
                where="tensorrt",
            )
        return export_saved_model(
            self._path, output_dir, SavedModelOptions(signatures="automl", frozen_graph=True)
        )

    def visualize(
        self,
        image: np.ndarray,
        boxes: np.ndarray,
        classes: np.ndarray,
        scores: np.ndarray,
        *,
        min_score_thresh: float = 0.01,
        max_boxes_to_draw: int = 1000,
        line_thickness: int = 2,
    ) -> np.ndarray:
        """Draw detections of an image.

        Args:
            image: uint8 [H, W, 3], RGB.
            boxes: float32 [D, 4], in pixels.
            classes: [D], from 1.
            scores: float32 [D], descending.
            min_score_thresh: only detections with a higher score are drawn.
            max_boxes_to_draw: most boxes; 0: all.
            line_thickness: pixels of the boxes' lines.

        Returns:
            uint8 [H, W, 3], RGB.
        """
        sides = np.tile(np.float32(image.shape[:2]), 2)
        shown = [
            LabelledBox(
                box=tuple((np.asarray(box, np.float32) / sides).tolist()),
                label=int(label) - FIRST_CLASS,
                text=f"{self.label_map.get(int(label), int(label))} {score:.2f}",
            )
            for box, label, score in zip(boxes, classes, scores, strict=True)
            if score > min_score_thresh
        ][: max_boxes_to_draw or None]
        return np.asarray(draw_boxes(Image.fromarray(image), shown, thickness=line_thickness))


def _from_base64(text: str | bytes, place: int) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    plain = data.translate(bytes.maketrans(b"-_", b"+/"))
    try:
        return base64.b64decode(plain + b"=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise DataError(f"expected base64, found what is none ({error})", where=f"image {place}") from error
