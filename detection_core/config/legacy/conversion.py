"""Convert TensorFlow 1 configs to the current names and fields."""

import dataclasses
from typing import Any, cast

from google.protobuf.descriptor import Descriptor

from detection_core.config.check import find_problems, find_refused, find_without_effect
from detection_core.config.legacy import tensorflow_1
from detection_core.config.text import source_text
from detection_core.config.text.text_proto import format_message, line_of, parse_message
from detection_core.errors import ConfigError
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.protos.train_pb2 import CheckpointVersion, TrainConfig

_FROZEN = "model.ssd.freeze_batchnorm: set it to true, as batch_norm_trainable: false meant"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Conversion:
    """A converted config.

    Attributes:
        text: of the new config; comments and layout of the old one are kept.
        changes: the changes, one line each.
        notes: TensorFlow 1 fields that were kept, and what to do about them.
    """

    text: str
    changes: tuple[str, ...]
    notes: tuple[str, ...]


def convert_config(text: str, where: str = "") -> Conversion:
    """Rename TensorFlow 1 names to TensorFlow 2's, and remove a field that no longer exists.

    Raises:
        ConfigError: when the text does not fit the schema, or its extractor has no counterpart.
    """
    values = source_text.written_values(text, cast(Descriptor, TrainEvalPipelineConfig.DESCRIPTOR))
    gone = [value for value in values if value.path == tensorflow_1.BATCH_NORM_TRAINABLE]
    removals = [source_text.removal(text, value) for value in gone]
    config = parse_message(source_text.blanked(text, removals), TrainEvalPipelineConfig, where=where)
    names = _rename(config, values, where)
    renamed = [(value, names[value.path]) for value in values if value.path in names]
    old = bool(gone) or any(path.endswith("feature_extractor.type") for path in names) or _kept(config)
    discount = _discount(config, text, values) if old else None
    edits = [*removals, *(source_text.replacement(v, new) for v, (_, new) in renamed)]
    changes = [(value.line, f"{value.path}: {old} -> {new}") for value, (old, new) in renamed]
    changes += [
        (value.line, f"{value.path}: {value.text} removed, as it is no field any more") for value in gone
    ]
    if discount is not None:
        changes.append((discount.line, discount.change))
        edits += discount.edits
    return Conversion(
        text=_written_as(config, text, edits),
        changes=tuple(f"line {line}: {change}" for line, change in sorted(changes)),
        notes=(
            *((_FROZEN,) if any(value.text.lower() in ("false", "f", "0") for value in gone) else ()),
            *(
                f"{path}: {tensorflow_1.SECOND_STAGES[new]}"
                for path, (_, new) in names.items()
                if new in tensorflow_1.SECOND_STAGES
            ),
            *(discount.notes if discount else ()),
            *_notes(config),
        ),
    )


def _kept(config: TrainEvalPipelineConfig) -> bool:
    """Tell whether the extractor exists only in TensorFlow 1 and is built here under that name."""
    extractor = _extractor(config)
    return extractor is not None and extractor.type in tensorflow_1.KEPT


def _extractor(config: TrainEvalPipelineConfig) -> Any:
    """Return the message of the feature extractor; None without one."""
    return getattr(
        getattr(config.model, str(config.model.WhichOneof("model")), None), "feature_extractor", None
    )


_RMS_PROP = "train_config.optimizer.rms_prop_optimizer"
_TF1_DISCOUNT = 0.9


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Discount:
    line: int
    change: str
    edits: list[source_text.Edit]
    notes: tuple[str, ...]


def _discount(
    config: TrainEvalPipelineConfig, text: str, values: list[source_text.Written]
) -> _Discount | None:
    """Set RMSProp's `decay` to 0: TensorFlow 2 lowers the rate by it, and its discount is 0.9."""
    if not config.train_config.optimizer.HasField("rms_prop_optimizer"):
        return None
    optimizer = config.train_config.optimizer.rms_prop_optimizer
    found = optimizer.decay
    if not found:
        return None
    optimizer.decay = 0.0
    root = cast(Descriptor, TrainEvalPipelineConfig.DESCRIPTOR)
    written = next((value for value in values if value.path == f"{_RMS_PROP}.decay"), None)
    if written:
        edits = [source_text.Edit(start=written.start, end=written.end, text="0")]
    else:
        inserted = source_text.insertion(text, root, _RMS_PROP, "decay: 0")
        edits = [inserted] if inserted else []
    line = (
        written.line if written else source_text.nearest_line(_RMS_PROP, source_text.field_lines(text, root))
    )
    was = f"{found:g}" if written else f"not set, which meant {found:g},"
    note = (
        f"{_RMS_PROP}.decay: TensorFlow 1 discounted squared gradients by {found:g}; here the discount is"
        f" {_TF1_DISCOUNT:g} whatever the config says, so training goes a little differently"
    )
    differs = abs(found - _TF1_DISCOUNT) > 1e-6
    return _Discount(
        line=line,
        change=f"{_RMS_PROP}.decay: {was} -> 0, as TensorFlow 2 discounts by {_TF1_DISCOUNT:g} without it,"
        f" and with {found:g} divides the learning rate by 1 + {found:g} x updates",
        edits=edits,
        notes=(note,) if differs else (),
    )


def _rename(
    config: TrainEvalPipelineConfig, values: list[source_text.Written], where: str
) -> dict[str, tuple[str, str]]:
    """Rename outdated names in the config; return field path -> old name and new."""
    names: dict[str, tuple[str, str]] = {}
    extractor = _extractor(config)
    path = f"model.{config.model.WhichOneof('model')}.feature_extractor.type"
    old = extractor.type if extractor is not None else ""
    if old in tensorflow_1.WITHOUT_COUNTERPART:
        line = source_text.nearest_line(path, {value.path: value.line for value in values})
        message = f"{path}: {tensorflow_1.without_counterpart(old)}"
        raise ConfigError(message, where=line_of(where, line) if line else where)
    if old in tensorflow_1.COUNTERPARTS:
        extractor.type = tensorflow_1.COUNTERPARTS[old]
        names[path] = (old, tensorflow_1.COUNTERPARTS[old])
    sets = config.eval_config.metrics_set
    for i, name in enumerate(sets):
        if name in tensorflow_1.RENAMED_METRICS:
            sets[i] = tensorflow_1.RENAMED_METRICS[name]
            names[f"eval_config.metrics_set[{i}]"] = (name, tensorflow_1.RENAMED_METRICS[name])
    return names


def _written_as(config: TrainEvalPipelineConfig, text: str, edits: list[source_text.Edit]) -> str:
    """Apply the edits; if the result does not parse to the config, format the whole config instead."""
    result = source_text.edited(text, edits)
    try:
        same = parse_message(result, TrainEvalPipelineConfig) == config
    except ConfigError:
        same = False
    return result if same else format_message(config)


def _notes(config: TrainEvalPipelineConfig) -> tuple[str, ...]:
    found = {problem.path: problem for problem in [*find_problems(config), *find_refused(config)]}
    notes = [f"{p.path}: {p.message}" for p in [*found.values(), *find_without_effect(config)]]
    return (*_training_notes(config.train_config), *notes)


def _training_notes(train: TrainConfig) -> tuple[str, ...]:
    notes = []
    if train.fine_tune_checkpoint and train.fine_tune_checkpoint_version == CheckpointVersion.V1:
        notes.append(
            f"train_config.fine_tune_checkpoint: {train.fine_tune_checkpoint} counts as a checkpoint of "
            "TensorFlow 1; for one of TensorFlow 2 set fine_tune_checkpoint_version: V2"
        )
    if train.optimizer.rms_prop_optimizer.decay and train.optimizer.HasField("rms_prop_optimizer"):
        notes.append(
            "train_config.optimizer.rms_prop_optimizer.decay: set it to 0, as TensorFlow 2 discounts by 0.9"
            f" without it, and with {train.optimizer.rms_prop_optimizer.decay:g} divides the learning rate by"
            f" 1 + {train.optimizer.rms_prop_optimizer.decay:g} x updates"
        )
    if train.HasField("optimizer") and not train.num_steps:
        notes.append("train_config.num_steps: set it; without it TensorFlow 1 trained until it was stopped")
    return tuple(notes)
