"""The verb `export-saved-model`: export a detector as the Object Detection API or google/automl does."""

import dataclasses
import itertools
import logging
from collections.abc import Callable, Mapping
from typing import Any

from detection_core.artifacts import detector as layout
from detection_core.builders.detector import configured_model
from detection_core.config.input_paths import split_pattern
from detection_core.data.records import expand_patterns, read_records
from detection_core.detectors.family import TFLiteOutputOptions
from detection_core.errors import ConfigError, ExportError
from detection_core.exporters.detector_folder import LoadedDetector, load_detector
from detection_core.exporters.frozen_graph import (
    FROZEN_GRAPH,
    PORTABLE_INPUT,
    frozen_graph,
    plain_graph,
    portable_function,
)
from detection_core.exporters.signatures import (
    IMAGE_TENSOR,
    SERVING_DEFAULT,
    automl_functions,
    find_input_type,
    save_signatures,
    serving_function,
)
from detection_core.exporters.tflite import check_convertible
from detection_core.exporters.warm_up import MOST_REQUESTS, write_warm_up
from detection_core.storage import files
from detection_core.tasks.examples import check_split

_logger = logging.getLogger(__name__)

SAVED_MODEL_DIR = "saved_model"
CHECKPOINT_DIR = "checkpoint"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SavedModelOptions:
    """Options of the export.

    Attributes:
        input_type: of `signatures.INPUT_TYPES`; the input of `serving_default`.
        batch_size: fixed batch size of requests; 0: any.
        signatures: of `SIGNATURES`; defines names and outputs.
        additional_output_tensor_names: further tensors of the graph to return.
        side_input_names: refused, because no detector here has side inputs.
        frozen_graph: also write a frozen GraphDef beside the SavedModel.
        warm_up_requests: number of examples to write as warm-up requests of TensorFlow Serving, if examples
            are given.
        warm_up_split: split of these examples.
    """

    input_type: str = IMAGE_TENSOR
    batch_size: int = 0
    signatures: str = "object_detection_api"
    additional_output_tensor_names: tuple[str, ...] = ()
    side_input_names: tuple[str, ...] = ()
    frozen_graph: bool = False
    warm_up_requests: int = 10
    warm_up_split: str = "eval"

    def __post_init__(self) -> None:
        """Refuse unsupported options and numbers out of range.

        Raises:
            ExportError: for side inputs, and an unknown input type.
            ConfigError: for other values.
        """
        find_input_type(self.input_type)
        if self.side_input_names:
            raise ExportError(
                "expected no side inputs, as every detector here takes images alone (the Object Detection"
                f" API has them for Context R-CNN's features), found {', '.join(self.side_input_names)}",
                where="side_input_names",
            )
        if self.signatures not in SIGNATURES:
            raise ConfigError(
                f"expected {' or '.join(SIGNATURES)}, found {self.signatures!r}", where="signatures"
            )
        if self.batch_size < 0 or not 1 <= self.warm_up_requests <= MOST_REQUESTS:
            raise ConfigError(
                f"expected a batch size of at least 0 and 1 to {MOST_REQUESTS} requests, found"
                f" {self.batch_size} and {self.warm_up_requests}",
                where="batch_size, warm_up_requests",
            )


def _own_functions(detector: LoadedDetector, options: SavedModelOptions) -> dict[str, Any]:
    function = serving_function(
        detector.model,
        configured_model(detector.config).build_resizer(),
        input_type=options.input_type,
        batch_size=options.batch_size or None,
        additional=options.additional_output_tensor_names,
    )
    return {SERVING_DEFAULT: function}


def _automl_functions(detector: LoadedDetector, options: SavedModelOptions) -> dict[str, Any]:
    if options.additional_output_tensor_names or options.input_type != IMAGE_TENSOR:
        raise ConfigError(
            f"expected input_type {IMAGE_TENSOR} and no additional tensors, found others: with signatures"
            " automl, serving_base64 takes encoded images and predict gives the network's outputs",
            where="signatures",
        )
    model = configured_model(detector.config)
    return automl_functions(detector.model, model.family, model.build_resizer(), options.batch_size or None)


def _portable_functions(detector: LoadedDetector, options: SavedModelOptions) -> dict[str, Any]:
    """Make the signature for converters to other runtimes; see `portable_function`."""
    if options.additional_output_tensor_names or options.input_type != IMAGE_TENSOR or options.batch_size > 1:
        raise ConfigError(
            f"expected input_type {IMAGE_TENSOR}, no additional tensors and no batch size above 1, found"
            f" others: with signatures {options.signatures} a SavedModel takes the pixels of one image",
            where="signatures",
        )
    check_convertible(detector.config)
    tflite = configured_model(detector.config).family.require_tflite()
    outputs = TFLiteOutputOptions(
        max_detections=MAX_DETECTIONS,
        classes_per_detection=1,
        use_regular_nms=True,
        form=PORTABLE[options.signatures],
    )
    function = tflite.function(detector.model, detector.config, outputs, False)
    return {SERVING_DEFAULT: portable_function(function, tflite.normalisation(detector.model))}


PORTABLE = {"portable": "plain_nms", "portable_heads": "headless"}
MAX_DETECTIONS = 100

SIGNATURES: Mapping[str, Callable[[LoadedDetector, SavedModelOptions], dict[str, Any]]] = {
    "object_detection_api": _own_functions,
    "automl": _automl_functions,
    "portable": _portable_functions,
    "portable_heads": _portable_functions,
}
"""Name of a set of signatures to the function that makes it."""


def export_saved_model(
    model_dir: str, output_dir: str, options: SavedModelOptions, *, examples_dir: str = ""
) -> str:
    """Write a detector in the layout of the Object Detection API's exporter.

    It consists of `saved_model/`, `checkpoint/ckpt-0`, `pipeline.config`, `label_map.pbtxt` and, on request,
    `frozen_inference_graph.pb`. The detector's weights already are the moving averages of the training.

    Args:
        model_dir: detector folder, float or quantized.
        output_dir: folder to write; created if missing.
        options: what to write.
        examples_dir: output of ExampleGen, for warm-up requests; "": none are written.

    Returns:
        The folder of the SavedModel.

    Raises:
        DetectionError: if the detector cannot be read or exported as asked, or an example has no image.
    """
    if examples_dir:
        if options.signatures in PORTABLE:
            raise ConfigError(
                f"expected no examples with signatures {options.signatures}, whose SavedModel is for"
                " converters and not for TensorFlow Serving; leave them out",
                where="signatures",
            )
        check_split(examples_dir, options.warm_up_split)
    detector = load_detector(model_dir)
    functions = SIGNATURES[options.signatures](detector, options)
    saved_model = files.join(output_dir, SAVED_MODEL_DIR)
    with files.atomic_dir(saved_model) as folder:
        save_signatures(functions, folder)
        files.copy_tree(layout.extra_file(model_dir, "").rstrip("/"), files.join(folder, layout.EXTRA))
        if examples_dir:
            _write_warm_up(folder, functions[SERVING_DEFAULT], detector, options, examples_dir)
    for name in (layout.PIPELINE_CONFIG, layout.LABEL_MAP):
        files.write_text(files.join(output_dir, name), layout.read_extra(model_dir, name))
    checkpoint = layout.extra_file(model_dir, layout.CHECKPOINT).rpartition("/")[0]
    files.copy_tree(checkpoint, files.join(output_dir, CHECKPOINT_DIR))
    if options.frozen_graph:
        function, portable = functions[SERVING_DEFAULT], options.signatures in PORTABLE
        graph = frozen_graph(function, PORTABLE_INPUT if portable else options.input_type)
        if portable:  # for importers that do not fold constants
            graph = plain_graph(graph, function.structured_outputs)
        files.write_bytes(files.join(output_dir, FROZEN_GRAPH), graph)
    _logger.info("export | SavedModel with %s written to %s", ", ".join(functions), saved_model)
    return saved_model


def _write_warm_up(
    folder: str, function: Any, detector: LoadedDetector, options: SavedModelOptions, examples_dir: str
) -> None:
    (name,) = function.structured_input_signature[1] or [function.structured_input_signature[0][0].name]
    record_files = expand_patterns([split_pattern(examples_dir, options.warm_up_split)], where=examples_dir)
    examples = (record for file in record_files for record in read_records(file).as_numpy_iterator())
    count = write_warm_up(
        folder,
        itertools.islice(examples, options.warm_up_requests),
        find_input_type(options.input_type, detector.model.channels),
        name=name,
        model=detector.info.name,
        signature=SERVING_DEFAULT,
        batch_size=options.batch_size or 1,
    )
    _logger.info("export | %d requests to warm up with", count)
