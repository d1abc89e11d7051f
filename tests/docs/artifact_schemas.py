"""JSON Schemas of the artifacts' files, made from their dataclasses: `python -m tests.docs.artifact_schemas`.

With `--check` nothing is written, and a schema that is not up to date is an error.
"""

import collections.abc
import dataclasses
import importlib
import json
import pkgutil
import re
import sys
import types
import typing
from pathlib import Path
from typing import Any

import detection_core.artifacts
from detection_core.artifacts.json_file import JsonFile, JsonLines
from detection_core.artifacts.json_values import field_types, is_optional, json_key
from detection_core.artifacts.model_run import QUANTIZATION_REPORT
from detection_core.artifacts.pictures import PICTURES
from detection_core.artifacts.prediction import PREDICTION
from detection_core.artifacts.shard_manifest import MANIFEST

FOLDER = Path(__file__).parents[2] / "docs" / "reference" / "artifacts"
AnyFile = JsonFile[Any] | JsonLines[Any]
_STEMS: dict[AnyFile, str] = {
    MANIFEST: "shard_manifest",
    PICTURES: "pictures",
    PREDICTION: "prediction",
    QUANTIZATION_REPORT: "train_report.quantized",
}
"""Names of schemas that do not follow from the files' own."""
_SCALARS = {str: "string", bool: "boolean", int: "integer", float: "number", types.NoneType: "null"}
_ATTRIBUTE = re.compile(r"^        (\w+): (.*?)(?=^        \w+: |\Z)", re.MULTILINE | re.DOTALL)


def files() -> list[AnyFile]:
    """Every file that a module of `detection_core.artifacts` declares."""
    found: dict[int, AnyFile] = {}
    for info in pkgutil.iter_modules(detection_core.artifacts.__path__, "detection_core.artifacts."):
        values = vars(importlib.import_module(info.name)).values()
        found |= {id(value): value for value in values if isinstance(value, JsonFile | JsonLines)}
    return sorted(found.values(), key=schema_name)


def schema_name(file: AnyFile) -> str:
    """Name of the schema of a file."""
    return f"{_STEMS.get(file, file.name.partition('.')[0].lower())}.schema.json"


def schema_of(file: AnyFile) -> dict[str, Any]:
    """JSON Schema of a file, of JSON Lines that of a line; fields that it does not know are allowed."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"a line of {file.name}" if isinstance(file, JsonLines) else file.name,
    }
    schema = {**head, **_object(file.content)}
    if isinstance(file, JsonFile):
        version = {"type": "integer", "maximum": file.version, "description": "of the layout; 1 if missing"}
        schema["properties"] = {**schema["properties"], file.version_key: version}
    return schema


def _object(cls: type) -> dict[str, Any]:
    text, told = cls.__doc__ or "", {}
    for base in reversed(cls.__mro__):
        attributes = (base.__doc__ or "").partition("Attributes:")[2]
        told |= {name: " ".join(words.split()) for name, words in _ATTRIBUTE.findall(attributes)}
    fields, hints = dataclasses.fields(cls), field_types(cls)
    return {
        "type": "object",
        "description": text.partition("\n")[0],
        "properties": {json_key(f): {**_type(hints[f.name]), "description": told[f.name]} for f in fields},
        "required": [json_key(f) for f in fields if not is_optional(f)],
    }


def _type(expected: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(expected):
        return _object(typing.cast(type, expected))
    origin, members = typing.get_origin(expected), typing.get_args(expected)
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [_type(member) for member in members]}
    if origin is tuple and members[-1] is not Ellipsis:
        count = len(members)
        items = [_type(member) for member in members]
        return {"type": "array", "prefixItems": items, "minItems": count, "maxItems": count}
    if origin in (list, tuple, collections.abc.Sequence):
        return {"type": "array", "items": _type(members[0])}
    if origin in (dict, collections.abc.Mapping):
        return {"type": "object", "additionalProperties": _type(members[1])}
    return {} if expected is Any else {"type": _SCALARS[expected]}


def texts() -> dict[str, str]:
    """Name of a schema to its text."""
    return {schema_name(file): json.dumps(schema_of(file), indent=1) + "\n" for file in files()}


def main() -> int:
    """Write the schemas, or compare them."""
    expected = texts()
    if "--check" in sys.argv[1:]:
        found = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
        stale = sorted(name for name in {*expected, *found} if expected.get(name) != found.get(name))
        print("up to date" if not stale else f"write them again, they differ: {', '.join(stale)}")
        return bool(stale)
    for path in FOLDER.glob("*.json"):
        path.unlink()
    for name, text in expected.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    print(f"{len(expected)} schemas in {FOLDER}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
