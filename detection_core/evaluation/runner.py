"""Run a detector as deployed: a SavedModel's signature, a frozen graph, a TensorFlow Lite or ONNX file."""

import functools
import logging
import os
from collections.abc import Callable

import tensorflow as tf

from detection_core.artifacts.detector import EXTRA, MODEL_INFO, find_ensemble, serving_dir
from detection_core.artifacts.graph_operations import read_frozen_graph
from detection_core.capabilities import capability
from detection_core.errors import ModelError
from detection_core.evaluation.loaded_model import SIGNATURE, LoadedModel, load_saved_model
from detection_core.evaluation.signature_runner import (
    OPTIONAL_OUTPUTS,
    OUTPUTS,
    Runner,
    SignatureRunner,
    first_line,
)
from detection_core.evaluation.tflite_runner import TFLiteRunner
from detection_core.storage import files

_logger = logging.getLogger(__name__)

OUTPUT_SHAPES: dict[str, list[int | None]] = {
    "detection_boxes": [1, None, 4],
    "detection_scores": [1, None],
    "detection_classes": [1, None],
    "num_detections": [1],
}


class SavedModelRunner(SignatureRunner):
    """A SavedModel with the Object Detection API's `image_tensor` signature."""

    def __init__(self, path: str, *, trust: bool = False) -> None:
        """Load the model of a folder; `trust` it even if its graph does more than compute.

        Raises:
            ModelError: if it is not a SavedModel or not a detector, is damaged, or does more than compute.
            ContractError: if there is no SavedModel in the folder.
        """
        loaded = load_saved_model(path, trust=trust)
        if not files.exists(files.join(serving_dir(path), EXTRA, MODEL_INFO)):
            _logger.warning("%s was not written by detflow; it is run as it is", path)
        _check_signature(loaded, path)
        ((name, images),) = loaded.inputs.items()
        self.takes_batches = images.shape.rank == 4 and images.shape[0] is None
        self.channels = images.shape[-1] if images.shape.rank == 4 else None
        super().__init__(lambda image: loaded(**{name: image}), path)


def _check_signature(loaded: LoadedModel, path: str) -> None:
    inputs, outputs = loaded.inputs, loaded.outputs
    if [s.dtype for s in inputs.values()] != [tf.uint8] or not set(OUTPUTS) <= set(outputs):
        raise ModelError(
            f"expected a signature {SIGNATURE!r} with one uint8 image as input and the outputs"
            f" {', '.join(OUTPUTS)}, found inputs {list(inputs.values())} and outputs {sorted(outputs)};"
            " export the model as image_tensor",
            where=path,
        )
    for name, shape in OUTPUT_SHAPES.items():
        found = outputs[name]
        number = found.dtype.is_floating or found.dtype.is_integer
        if not number or not tf.TensorShape(shape).is_compatible_with(found.shape):
            raise ModelError(
                f"expected numbers of the shape {shape} as {name}, found {found.dtype.name} of"
                f" {found.shape}; export the model as image_tensor",
                where=path,
            )


_INPUT = "image_tensor"


class FrozenGraphRunner(SignatureRunner):
    """A `frozen_inference_graph.pb` with the names of the Object Detection API's `image_tensor` exports."""

    def __init__(self, path: str, *, trust: bool = False) -> None:
        """Load a frozen graph; `trust` it even if it does more than compute.

        Raises:
            ModelError: if it is no graph, lacks a detector's input or outputs, or does more than compute.
        """
        graph = read_frozen_graph(path, trust=trust)
        nodes = {node.name for node in graph.node}
        if missing := [name for name in (_INPUT, *OUTPUTS) if name not in nodes]:
            raise ModelError(
                f"expected the node {_INPUT!r} and the nodes {', '.join(OUTPUTS)}, found none named"
                f" {', '.join(missing)}; export the model with the input type {_INPUT}",
                where=path,
            )
        try:
            imported = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(graph, name=""), [])
            fetched = {name: f"{name}:0" for name in (*OUTPUTS, *OPTIONAL_OUTPUTS) if name in nodes}
            images = imported.graph.get_tensor_by_name(f"{_INPUT}:0")
            function = imported.prune(images, fetched)
        except (ValueError, KeyError, tf.errors.OpError) as error:
            raise ModelError(
                f"expected a frozen graph, found one that cannot be loaded ({first_line(error)}); export the"
                " model again",
                where=path,
            ) from error
        self.takes_batches = images.shape.rank == 4 and images.shape[0] is None
        self.channels = images.shape[-1] if images.shape.rank == 4 else None
        super().__init__(function, path)


_LOADERS: dict[str, Callable[[str, int, bool], Runner]] = {
    ".tflite": lambda path, threads, _: TFLiteRunner(path, threads=threads),
    ".onnx": lambda path, threads, _: capability("detection_core.optional.onnx").OnnxRunner(
        path, threads=threads
    ),
    ".pb": lambda path, _, trust: FrozenGraphRunner(path, trust=trust),
    "": lambda path, _, trust: SavedModelRunner(path, trust=trust),
}


def load_runner(path: str, *, threads: int = 0, trust: bool = False) -> Runner:
    """Load a detector for evaluation or prediction.

    Args:
        path: a detector folder, a SavedModel's folder, a published version, a frozen graph (.pb), a .tflite
            or .onnx file, or the folder of an ensemble.
        threads: of LiteRT or ONNX Runtime; 0: one a core. TensorFlow chooses its own number.
        trust: run a SavedModel even if its graph does more than compute, such as reading files.

    Raises:
        ModelError: if the model cannot be loaded, does more than compute, or lacks a detector's inputs and
            outputs.
        ContractError: if there is no SavedModel in the folder.
        ConfigError: for an .onnx file without ONNX Runtime.
    """
    if not files.exists(path):
        raise ModelError(
            "expected a detector folder or a .tflite file, found nothing there; check the path", where=path
        )
    ensemble = find_ensemble(path)
    if ensemble is not None:
        runner: Runner = capability("detection_core.optional.ensembles").load_ensemble(
            path, ensemble, functools.partial(load_runner, threads=threads, trust=trust)
        )
        return runner
    kind = os.path.splitext(path)[1].lower()
    load = _LOADERS[kind if kind in _LOADERS else ""]
    return load(path, threads or os.cpu_count() or 1, trust)
