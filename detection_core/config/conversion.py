"""Configs of TensorFlow 1's time: extractor names turned into their TensorFlow 2 counterparts."""

from __future__ import annotations

import dataclasses
import re
from typing import cast

from google.protobuf.descriptor import Descriptor

from detection_core.config.positions import field_lines
from detection_core.config.support.fields import find_refused, find_without_effect
from detection_core.config.text_proto import format_message, line_of, parse_message
from detection_core.errors import ConfigError
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.protos.train_pb2 import CheckpointVersion

# Extractors of TensorFlow 1 that TensorFlow 2 has under the same name with `_keras` behind it.
_WITH_COUNTERPART = (
    "faster_rcnn_inception_resnet_v2",
    "faster_rcnn_resnet101",
    "faster_rcnn_resnet152",
    "faster_rcnn_resnet50",
    "ssd_mobilenet_v1",
    "ssd_mobilenet_v1_fpn",
    "ssd_mobilenet_v2",
    "ssd_mobilenet_v2_fpn",
    "ssd_resnet101_v1_fpn",
    "ssd_resnet152_v1_fpn",
    "ssd_resnet50_v1_fpn",
)
COUNTERPARTS = {name: f"{name}_keras" for name in _WITH_COUNTERPART}

# Extractors that exist in TensorFlow 1 only -> what comes nearest.
WITHOUT_COUNTERPART = {
    "embedded_ssd_mobilenet_v1": "ssd_mobilenet_v1_keras",
    "faster_rcnn_inception_v2": "faster_rcnn_resnet50_keras",
    "faster_rcnn_nas": "faster_rcnn_inception_resnet_v2_keras",
    "faster_rcnn_pnas": "faster_rcnn_inception_resnet_v2_keras",
    "ssd_inception_v2": "ssd_mobilenet_v2_keras",
    "ssd_inception_v3": "ssd_mobilenet_v2_keras",
    "ssd_mobiledet_cpu": "ssd_mobilenet_v2_fpn_keras",
    "ssd_mobiledet_dsp": "ssd_mobilenet_v2_fpn_keras",
    "ssd_mobiledet_edgetpu": "ssd_mobilenet_v2_fpn_keras",
    "ssd_mobiledet_gpu": "ssd_mobilenet_v2_fpn_keras",
    "ssd_mobilenet_edgetpu": "ssd_mobilenet_v2_keras",
    "ssd_mobilenet_v1_ppn": "ssd_mobilenet_v1_fpn_keras",
    "ssd_mobilenet_v2_mnasfpn": "ssd_mobilenet_v2_fpn_keras",
    "ssd_mobilenet_v3_large": "ssd_mobilenet_v2_keras",
    "ssd_mobilenet_v3_small": "ssd_mobilenet_v2_keras",
    "ssd_pnasnet": "ssd_resnet50_v1_fpn_keras",
    "ssd_resnet101_v1_ppn": "ssd_resnet101_v1_fpn_keras",
    "ssd_resnet152_v1_ppn": "ssd_resnet152_v1_fpn_keras",
    "ssd_resnet50_v1_ppn": "ssd_resnet50_v1_fpn_keras",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Conversion:
    """A converted config.

    Attributes:
        text: of the new config; comments and layout of the old one are kept.
        changes: what was changed, one line each.
        notes: what was left as it is although it belongs to TensorFlow 1, and what to do about it.
    """

    text: str
    changes: tuple[str, ...]
    notes: tuple[str, ...]


def convert_config(text: str, where: str = "") -> Conversion:
    """Turn the extractor's name into TensorFlow 2's; everything else stays.

    Args:
        text: a pipeline.config.
        where: file it came from, for errors.

    Raises:
        ConfigError: when the text does not fit the schema, or its extractor has no counterpart.
    """
    config = parse_message(text, TrainEvalPipelineConfig, where=where)
    arm = config.model.WhichOneof("model")
    extractor = getattr(getattr(config.model, str(arm), None), "feature_extractor", None)
    old = extractor.type if extractor is not None else ""
    path = f"model.{arm}.feature_extractor.type"
    line = field_lines(text, cast(Descriptor, config.DESCRIPTOR)).get(path, 0)
    if old in WITHOUT_COUNTERPART:
        message = (
            f"{path}: expected an extractor that TensorFlow 2 has, found {old!r}, which has no counterpart; "
            f"{WITHOUT_COUNTERPART[old]} comes nearest, trained anew"
        )
        raise ConfigError(message, where=line_of(where, line) if line else where)
    new = COUNTERPARTS.get(old)
    if extractor is None or new is None:
        return Conversion(text=text, changes=(), notes=_notes(config))
    extractor.type = new
    changes = (f"line {line}: {path}: {old} -> {new}",)
    return Conversion(text=_replaced(text, line, old, config), changes=changes, notes=_notes(config))


def _replaced(text: str, line: int, old: str, config: TrainEvalPipelineConfig) -> str:
    """Put the new name into the line of the old one; where that is not enough, write the config anew."""
    rows = text.split("\n")
    name = config.model.ssd if config.model.HasField("ssd") else config.model.faster_rcnn
    quoted = rf"(?P<quote>[\"']){re.escape(old)}(?P=quote)"
    for i in range(line - 1, len(rows)):  # The value may stand below the field's name.
        rows[i], count = re.subn(
            quoted, rf"\g<quote>{name.feature_extractor.type}\g<quote>", rows[i], count=1
        )
        if count:
            break
    result = "\n".join(rows)
    try:
        same = parse_message(result, TrainEvalPipelineConfig) == config
    except ConfigError:
        same = False
    return result if same else format_message(config)


def _notes(config: TrainEvalPipelineConfig) -> tuple[str, ...]:
    """Say what cannot be followed, and what is accepted but changes nothing."""
    rest = [*find_refused(config), *find_without_effect(config)]
    return (*_checkpoint_note(config), *(f"{field.path}: {field.message}" for field in rest))


def _checkpoint_note(config: TrainEvalPipelineConfig) -> tuple[str, ...]:
    train = config.train_config
    if train.fine_tune_checkpoint and train.fine_tune_checkpoint_version == CheckpointVersion.V1:
        return (
            f"train_config.fine_tune_checkpoint: {train.fine_tune_checkpoint} counts as a checkpoint of "
            "TensorFlow 1; for one of TensorFlow 2 set fine_tune_checkpoint_version: V2",
        )
    return ()
