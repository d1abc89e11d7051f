"""Write a detector folder atomically, and read it without executing anything from it."""

import dataclasses
import logging
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

import tensorflow as tf

from detection_core.artifacts import detector as layout
from detection_core.artifacts.checkpoint_index import check_index
from detection_core.artifacts.detector import DetectorInfo, serving_dir
from detection_core.artifacts.graph_operations import check_graph
from detection_core.builders.detector import configured_model
from detection_core.config.check import check_detector
from detection_core.config.input_paths import with_keypoint_labels
from detection_core.config.label_map_file import load_label_map
from detection_core.config.load import format_pipeline_config, load_pipeline_config
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.data.label_map import LabelMap, format_label_map
from detection_core.detectors.base import Detector, count_parameters
from detection_core.detectors.quantization import QuantizedDetector
from detection_core.errors import ContractError, ModelError, as_user_error
from detection_core.exporters.signatures import SERVING_DEFAULT, save_signatures, serving_function
from detection_core.model_use import model_in_use
from detection_core.quantization.rewriting import read_options
from detection_core.storage import files
from detection_core.storage.files import local_copy

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoadedDetector:
    """A detector read from a folder, ready to train, quantize or convert.

    Attributes:
        model: the detector with the folder's weights.
        config: the pipeline.config of the detector.
        label_map: its classes.
        info: the folder's model.json.
        quantized: for a quantized one, the detector with its float network of the same weights; None for
            others.
    """

    model: Detector
    config: CheckedConfig
    label_map: LabelMap
    info: DetectorInfo
    quantized: QuantizedDetector | None = None


def write_detector(
    model: Detector,
    config: CheckedConfig,
    label_map: LabelMap,
    directory: str,
    *,
    kind: str = "float",
    extra: Mapping[str, Any] = MappingProxyType({}),
    texts: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write `directory/Format-Serving` atomically.

    Args:
        model: detector to write.
        config: the config it was built from.
        label_map: its classes.
        directory: detector folder; created if missing.
        kind: one of `layout.KINDS`.
        extra: JSON-able entries for `model.json`.
        texts: further text files beside it, name to content.

    Raises:
        ModelError: if the label map has more classes than the model.
    """
    if label_map.num_classes > model.num_classes:
        raise ModelError(
            f"expected a label map with the model's {model.num_classes} classes, found"
            f" one with {label_map.num_classes}; set num_classes in the config to the label map's largest id",
            where=directory,
        )
    with files.atomic_dir(files.join(directory, layout.SERVING)) as serving:
        function = serving_function(model, configured_model(config).build_resizer())
        save_signatures({SERVING_DEFAULT: function}, serving)
        beside = files.join(serving, layout.EXTRA)
        contents = {
            layout.PIPELINE_CONFIG: format_pipeline_config(config),
            layout.LABEL_MAP: format_label_map(label_map),
            layout.MODEL_INFO: layout.MODEL.format(_describe(model, config, kind, extra)),
            **texts,
        }
        for name, text in contents.items():
            files.write_text(files.join(beside, name), text)
        prefix = files.join(beside, layout.CHECKPOINT)
        files.make_dirs(prefix.rpartition("/")[0])
        tf.train.Checkpoint(model=model).write(prefix)
    _logger.info("export | %s detector written to %s", kind, directory)


def load_detector(directory: str, *, kinds: Collection[str] = layout.KINDS) -> LoadedDetector:
    """Read a detector folder; a quantized detector gets its fake quantization back.

    Args:
        directory: a detector folder, its `Format-Serving` or a published version.
        kinds: accepted kinds, of `layout.KINDS`.

    Raises:
        ContractError: if it is not a detector folder.
        ModelError: if its weights do not fit its config or it is of another kind. Also if its SavedModel,
            which is not run here, was altered to do more than compute.
        ConfigError: if its config cannot be used.
    """
    info = layout.read_info(directory)
    check_graph(serving_dir(directory))
    if info.kind not in kinds:
        raise ModelError(
            f"expected a {' or '.join(kinds)} detector, found kind {info.kind!r}; pass the"
            f" {' or '.join(kinds)} detector it was made from",
            where=directory,
        )
    for name in (layout.PIPELINE_CONFIG, layout.LABEL_MAP):
        layout.read_extra(directory, name)  # names the missing file
    label_map_path = layout.extra_file(directory, layout.LABEL_MAP)
    label_map = load_label_map(label_map_path)
    given = load_pipeline_config(layout.extra_file(directory, layout.PIPELINE_CONFIG))
    if any(item.keypoints for item in label_map.items):
        given = with_keypoint_labels(given, label_map_path)
    config = check_detector(given)
    model = configured_model(config).build()
    rewritten = _rewritten(model, config, directory) if info.kind == "quantized" else None
    model = rewritten.model if rewritten else model
    _restore(model, directory)
    return LoadedDetector(
        model=model,
        config=config,
        label_map=label_map,
        info=info,
        quantized=rewritten.as_trained() if rewritten else None,
    )


def _rewritten(model: Detector, config: CheckedConfig, directory: str) -> QuantizedDetector:
    """Add fake quantization to a newly built detector, as recorded in the folder."""
    text = layout.read_extra(directory, layout.QUANTIZATION)
    where = layout.extra_file(directory, layout.QUANTIZATION)
    support = configured_model(config).family.require_quantization()
    return support.rewrite(model, read_options(text, where=where), None)


def _restore(model: Detector, directory: str) -> None:
    """Restore every variable of the model from the folder's checkpoint."""
    prefix = layout.extra_file(directory, layout.CHECKPOINT)
    if not files.exists(prefix + ".index"):
        raise ContractError(
            "expected the detector's weights, found no checkpoint; pass a folder with all its files",
            where=prefix,
        )
    folder, _, name = prefix.rpartition("/")
    try:
        with local_copy(folder) as here:
            check_index(files.join(here, name), where=prefix)
            with model_in_use(directory):
                status = tf.train.Checkpoint(model=model).read(files.join(here, name))
            status.assert_existing_objects_matched()
    except (AssertionError, ValueError, tf.errors.OpError) as error:
        raise as_user_error(error) or ModelError(
            "expected a checkpoint with every variable of the model that its pipeline.config describes, found"
            f" another: {str(error).splitlines()[0]}; its files are not of one model, write it again",
            where=prefix,
        ) from error


def _describe(model: Detector, config: CheckedConfig, kind: str, extra: Mapping[str, Any]) -> DetectorInfo:
    configured = configured_model(config)
    return DetectorInfo(
        kind=kind,
        name=configured.extractor or configured.architecture,
        parameters=count_parameters(model.trainable_variables),
        num_classes=model.num_classes,
        input_size=model.input_shape.size or (0, 0),
        extra=dict(extra),
    )
