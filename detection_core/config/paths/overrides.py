"""Override single fields of a config by any path of the schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from detection_core.bounded.plain_yaml import parse_yaml
from detection_core.bounded.text_file import read_text_file
from detection_core.config.paths.field_paths import (
    Target,
    element_index,
    find_targets,
    is_map,
    is_new,
    leave_other_arm,
    map_entry,
    map_key,
)
from detection_core.config.paths.field_values import scalar_list, scalar_value
from detection_core.config.paths.short_names import expand_short_name
from detection_core.config.suggestions import describe_expected
from detection_core.config.text.text_proto import parse_message
from detection_core.errors import ConfigError
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig

# Clears a field of any type; to set a text field to this word, quote it.
UNSET = "unset"


YAML_SUFFIXES = (".yaml", ".yml")

Overrides = Mapping[str, Any] | Sequence[tuple[str, Any]]
"""Paths and values; a sequence of pairs may repeat a path."""


def apply_overrides(config: TrainEvalPipelineConfig, overrides: Overrides) -> TrainEvalPipelineConfig:
    """Return a copy of the config with some fields set.

    A path names any field: `model.ssd.num_classes`, `eval_input_reader[*].shuffle`,
    `train_config.data_augmentation_options[1].random_crop_image.min_area`. Paths and short names
    (`learning_rate`, `batch_size`, ...) are applied in the order given. Setting a field in another arm of a
    oneof clears the old arm.

    Args:
        config: not modified.
        overrides: path to value. A value is command line text, or a Python value as from YAML. It is a
            number, a boolean, text (quoted or not) or an enum name. `{...}` or a mapping replaces a whole
            message. `[...]`, a list, or numbers with commas replace a whole list. `unset` or None clears the
            field.

    Raises:
        ConfigError: naming the path, the values that it accepts, and the nearest paths if it does not exist.
    """
    result = type(config)()
    result.CopyFrom(config)
    for path, value in overrides.items() if isinstance(overrides, Mapping) else overrides:
        for full_path, full_value in expand_short_name(result, path, value):
            set_field(result, full_path, full_value)
    return result


def merge_override_text(
    config: TrainEvalPipelineConfig, text: str, where: str = ""
) -> TrainEvalPipelineConfig:
    """Return a copy of the config with a partial pipeline.config merged into it.

    Scalars are replaced, messages are merged field by field, and lists are extended. So an
    `eval_input_reader` in the text is added to the readers.

    Raises:
        ConfigError: when the text does not fit the schema, with line and field.
    """
    result = TrainEvalPipelineConfig()
    result.CopyFrom(config)
    result.MergeFrom(parse_message(text, TrainEvalPipelineConfig, where=where))
    return result


def merge_override_file(config: TrainEvalPipelineConfig, path: str) -> TrainEvalPipelineConfig:
    """Return a copy of the config with a file of overrides applied.

    The file is a partial pipeline.config to merge. A file with a YAML name is a mapping of paths to values,
    as `apply_overrides` takes them and `detflow tune` writes them.

    Raises:
        ConfigError: when the file cannot be read or does not fit the schema, with line and field.
    """
    if path.endswith(YAML_SUFFIXES):
        return apply_overrides(config, _read_mapping(path))
    return merge_override_text(config, read_text_file(path, what="file of overrides"), where=path)


def _read_mapping(path: str) -> Mapping[str, Any]:
    found = parse_yaml(read_text_file(path, what="file of overrides"), path)
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise ConfigError("expected a mapping of field paths to values, found none", where=path)
    return found


def set_field(message: Message, path: str, value: Any, *, where: str = "") -> None:
    """Set the field at a path of a message, in place; see `apply_overrides` for paths and values.

    `where` is the place for errors, the path itself by default.

    Raises:
        ConfigError: naming the path and the values that it accepts.
    """
    where = where or f"override {path}"
    targets = find_targets(message, path, where=where)
    if not targets:
        raise ConfigError("[*] matches nothing, as the list is empty; use [+] to add an element", where=where)
    for target in targets:
        if value is None or value == UNSET:
            _clear(target, where)
        elif is_map(target.field):
            _set_map(target, value, where)
        elif target.field.is_repeated:
            _set_repeated(target, value, where)
        else:
            _set_single(target, value, where)


def _clear(target: Target, where: str) -> None:
    values = getattr(target.container, target.field.name)
    if target.index is None:
        target.container.ClearField(target.field.name)
    elif not target.field.is_repeated:
        raise ConfigError(f"{target.field.name} is single; leave out [{target.index}]", where=where)
    elif is_map(target.field):
        values.pop(map_key(target.field, target.index, where), None)
    elif target.index == "*":
        del values[:]
    else:
        del values[element_index(target.index, len(values), where)]


def _set_single(target: Target, value: Any, where: str) -> None:
    field, container = target.field, target.container
    if target.index is not None:
        raise ConfigError(f"{field.name} is single; leave out [{target.index}]", where=where)
    leave_other_arm(container, field, where)
    if field.message_type is None:
        setattr(container, field.name, scalar_value(field, value, where=where))
        return
    child = getattr(container, field.name)
    child.CopyFrom(_message(type(container), field, value, where))
    child.SetInParent()


def _set_repeated(target: Target, value: Any, where: str) -> None:
    field, values = target.field, getattr(target.container, target.field.name)
    if target.index is None or is_new(target.index):
        parsed = _list(type(target.container), field, value, where)
        if target.index is None:
            del values[:]
        values.extend(parsed)
        return
    every = target.index == "*"
    for i in range(len(values)) if every else [element_index(target.index, len(values), where)]:
        if field.message_type is not None:
            values[i].CopyFrom(_message(type(target.container), field, value, where))
        else:
            values[i] = scalar_value(field, value, where=where)


def _set_map(target: Target, value: Any, where: str) -> None:
    field, values = target.field, getattr(target.container, target.field.name)
    if target.index is None:
        raise ConfigError(f"{field.name} is a map; write {field.name}[KEY]", where=where)
    key, entry_value = map_key(field, target.index, where), map_entry(field).fields_by_name["value"]
    if entry_value.message_type is None:
        values[key] = scalar_value(entry_value, value, where=where)
    else:
        values[key].CopyFrom(_message(GetMessageClass(map_entry(field)), entry_value, value, where))


def _list(container_type: type[Message], field: FieldDescriptor, value: Any, where: str) -> list[Any]:
    if field.message_type is None:
        return scalar_list(field, value, where=where)
    if isinstance(value, list | tuple):
        return [_message(container_type, field, element, where) for element in value]
    if isinstance(value, str) and value.strip().startswith("["):
        return list(getattr(_scratch(container_type, field, f"{field.name}: {value}", where), field.name))
    return [_message(container_type, field, value, where)]


def _message(container_type: type[Message], field: FieldDescriptor, value: Any, where: str) -> Message:
    """Return a message for a field, from text with or without outer braces, or from a mapping."""
    if isinstance(value, Mapping):
        message = GetMessageClass(cast(Descriptor, field.message_type))()
        for path, inner in value.items():
            set_field(message, str(path), inner, where=f"{where}, {path}")
        return message
    text = str(value).strip()
    text = text if text[:1] in ("{", "<") else f"{{ {text} }}"
    parsed = getattr(_scratch(container_type, field, f"{field.name} {text}", where), field.name)
    return parsed[0] if field.is_repeated else parsed


def _scratch(container_type: type[Message], field: FieldDescriptor, text: str, where: str) -> Message:
    """Parse the text of one field into an empty message of the field's container type."""
    try:
        message = parse_message(text, container_type)
    except ConfigError as error:
        raise ConfigError(error.message, where=where) from error
    if {known.name for known, _ in message.ListFields()} - {field.name}:
        raise ConfigError(
            f"expected {describe_expected(field)} and nothing after it, found {text}", where=where
        )
    return message
