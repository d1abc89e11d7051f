"""Override and list single fields of a config by any path of the schema."""

import copy
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from google.protobuf import text_encoding
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from detection_core.bounded.plain_yaml import read_yaml
from detection_core.config.paths import field_paths
from detection_core.config.paths.short_names import expand_short_name
from detection_core.config.suggestions import describe_expected, describe_wrong_value
from detection_core.config.text.text_proto import parse_message
from detection_core.errors import ConfigError
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.storage import files

M = TypeVar("M", bound=Message)

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
    result = copy.deepcopy(config)
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
    result = copy.deepcopy(config)
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
        found = read_yaml(path, what="file of overrides")
        if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
            raise ConfigError("expected a mapping of field paths to values, found none", where=path)
        return apply_overrides(config, found)
    return merge_override_text(config, files.read_user_text(path, what="file of overrides"), where=path)


def with_fields(message: M, changes: Mapping[str, Any]) -> M:
    """Return a copy of a message with fields set, path to value; see `set_field`."""
    result = copy.deepcopy(message)
    for path, value in changes.items():
        set_field(result, path, value)
    return result


def set_field(message: Message, path: str, value: Any, *, where: str = "") -> None:
    """Set the field at a path of a message, in place; see `apply_overrides` for paths and values.

    `where` is the place for errors, the path itself by default.

    Raises:
        ConfigError: naming the path and the values that it accepts.
    """
    where = where or f"override {path}"
    targets = field_paths.find_targets(message, path, where=where)
    if not targets:
        raise ConfigError("[*] matches nothing, as the list is empty; use [+] to add an element", where=where)
    for target in targets:
        if value is None or value == UNSET:
            _clear(target, where)
        elif field_paths.is_map(target.field):
            _set_map(target, value, where)
        elif target.field.is_repeated:
            _set_repeated(target, value, where)
        else:
            _set_single(target, value, where)


def _clear(target: field_paths.Target, where: str) -> None:
    values = getattr(target.container, target.field.name)
    if target.index is None:
        target.container.ClearField(target.field.name)
    elif not target.field.is_repeated:
        raise ConfigError(f"{target.field.name} is single; leave out [{target.index}]", where=where)
    elif field_paths.is_map(target.field):
        values.pop(field_paths.map_key(target.field, target.index, where), None)
    elif target.index == "*":
        del values[:]
    else:
        del values[field_paths.element_index(target.index, len(values), where)]


def _set_single(target: field_paths.Target, value: Any, where: str) -> None:
    field, container = target.field, target.container
    if target.index is not None:
        raise ConfigError(f"{field.name} is single; leave out [{target.index}]", where=where)
    field_paths.leave_other_arm(container, field, where)
    if field.message_type is None:
        setattr(container, field.name, scalar_value(field, value, where=where))
        return
    child = getattr(container, field.name)
    child.CopyFrom(_message(type(container), field, value, where))
    child.SetInParent()


def _set_repeated(target: field_paths.Target, value: Any, where: str) -> None:
    field, values = target.field, getattr(target.container, target.field.name)
    if target.index is None or field_paths.is_new(target.index):
        parsed = _list(type(target.container), field, value, where)
        if target.index is None:
            del values[:]
        values.extend(parsed)
        return
    every = target.index == "*"
    for i in range(len(values)) if every else [field_paths.element_index(target.index, len(values), where)]:
        if field.message_type is not None:
            values[i].CopyFrom(_message(type(target.container), field, value, where))
        else:
            values[i] = scalar_value(field, value, where=where)


def _set_map(target: field_paths.Target, value: Any, where: str) -> None:
    field, values = target.field, getattr(target.container, target.field.name)
    if target.index is None:
        raise ConfigError(f"{field.name} is a map; write {field.name}[KEY]", where=where)
    key, entry = field_paths.map_key(field, target.index, where), field_paths.map_entry(field)
    entry_value = entry.fields_by_name["value"]
    if entry_value.message_type is None:
        values[key] = scalar_value(entry_value, value, where=where)
    else:
        values[key].CopyFrom(_message(GetMessageClass(entry), entry_value, value, where))


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


_BOOLEANS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}
_LARGEST_FLOAT = 3.4028235e38  # of 32 bits
_ELEMENT = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^,]+)""")


def scalar_value(field: FieldDescriptor, value: Any, *, where: str) -> Any:
    """Convert text (quoted or not) or a scalar to a field's type; ConfigError names what it accepts."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    try:
        return _READERS[field.cpp_type](field, text.strip() if not _is_text(field) else text)
    except (ValueError, KeyError):
        raise ConfigError(describe_wrong_value(field, text or "nothing"), where=where) from None


def scalar_list(field: FieldDescriptor, value: Any, *, where: str) -> list[Any]:
    """Convert a value to the elements of a repeated field of numbers, booleans, enums or texts.

    The value is a list, text in brackets, numbers with commas, or a single element.

    Raises:
        ConfigError: naming the values that the field accepts.
    """
    if isinstance(value, list | tuple):
        return [scalar_value(field, element, where=where) for element in value]
    text = str(value).strip()
    bracketed = text.startswith("[") and text.endswith("]")
    if not bracketed and (_is_text(field) or not isinstance(value, str)):
        return [scalar_value(field, value, where=where)]
    elements = [e.strip() for e in _ELEMENT.findall(text[1:-1] if bracketed else text)]
    return [scalar_value(field, element, where=where) for element in elements if element]


def _is_text(field: FieldDescriptor) -> bool:
    return field.cpp_type == FieldDescriptor.CPPTYPE_STRING


def _integer(low: int, high: int) -> Callable[[FieldDescriptor, str], int]:
    def read(field: FieldDescriptor, text: str) -> int:
        number = int(text)
        if not low <= number <= high:
            raise ValueError(text)
        return number

    return read


def _number(field: FieldDescriptor, text: str) -> float:
    number = float(text)
    if not math.isfinite(number) or abs(number) > _LARGEST_FLOAT:
        raise ValueError(text)
    return number


def _enum(field: FieldDescriptor, text: str) -> int:
    values = cast(EnumDescriptor, field.enum_type)
    if text in values.values_by_name:
        return values.values_by_name[text].number
    return values.values_by_number[int(text)].number


def _text(field: FieldDescriptor, text: str) -> str:
    stripped = text.strip()
    if len(stripped) > 1 and stripped[0] == stripped[-1] and stripped[0] in "\"'":
        return text_encoding.CUnescape(stripped[1:-1]).decode("utf-8")
    return text


_READERS: dict[int, Callable[[FieldDescriptor, str], Any]] = {
    FieldDescriptor.CPPTYPE_INT32: _integer(-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_UINT32: _integer(0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_FLOAT: _number,
    FieldDescriptor.CPPTYPE_BOOL: lambda field, text: _BOOLEANS[text.lower()],
    FieldDescriptor.CPPTYPE_ENUM: _enum,
    FieldDescriptor.CPPTYPE_STRING: _text,
}


def field_texts(config: Message) -> dict[str, str]:
    """Return path to value of every set field, in schema order.

    The paths are valid for overrides; a message without fields has the value `{}`.
    """
    found = {}
    for path, message in field_paths.walk_messages(config):
        if path and not message.ListFields():
            found[path] = "{}"
        for field, value in message.ListFields():
            here = field_paths.child_path(path, field)
            if field_paths.is_map(field):
                found |= {f"{here}[{key}]": str(entry).strip() for key, entry in value.items()}
            elif field.message_type is None:
                texts = [_written(field, each) for each in (value if field.is_repeated else [value])]
                found[here] = f"[{', '.join(texts)}]" if field.is_repeated else texts[0]
    return found


def _written(field: FieldDescriptor, value: Any) -> str:
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.9g}" if isinstance(value, float) else str(value)
