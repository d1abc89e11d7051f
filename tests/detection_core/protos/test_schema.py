"""The compiled messages: they belong to the .proto files, and existing configs and records rely on them."""

import importlib
import json
import struct
from pathlib import Path

import pytest
import yaml
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

import detection_core.protos
from detection_core.protos import compile as compiling
from tests.support.cases import cases, refused
from tests.support.command_line import run_python

FACTS = json.loads((Path(__file__).parent / "data" / "schema.json").read_text())
PREFIX = f".{FACTS['package']}."
KINDS = {number: name.removeprefix("TYPE_").lower() for name, number in FieldDescriptorProto.Type.items()}
LABELS = {number: name.removeprefix("LABEL_").lower() for name, number in FieldDescriptorProto.Label.items()}
OWN = yaml.safe_load((Path(__file__).parent / "data" / "own_schema.yaml").read_text(encoding="utf-8"))
OWN_NUMBERS = 1000


def compiled(name):
    module = importlib.import_module(f"detection_core.protos.{name.removesuffix('.proto')}_pb2")
    file = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    return file


def literal(text, kind):
    """A default in a form that does not depend on how the number was written."""
    if kind == "float":
        return struct.unpack("f", struct.pack("f", float(text)))[0]
    return text


def fact_field(text):
    declaration, *options = text.split("; ")
    left, number = declaration.rsplit(" = ", 1)
    label, *kind, name = left.split(" ")
    field = {"label": label, "type": " ".join(kind), "name": name, "number": int(number)}
    for option in options:
        key, _, value = option.partition(" ")
        field[key] = literal(json.loads(value), kind[0]) if key == "default" else value
    return field


def compiled_field(field, message):
    kind = KINDS[field.type]
    full = f"{kind} {field.type_name.removeprefix(PREFIX)}" if field.type_name else kind
    result = {"label": LABELS[field.label], "type": full, "name": field.name, "number": field.number}
    if field.HasField("default_value"):
        result["default"] = literal(field.default_value, kind)
    if field.HasField("oneof_index"):
        result["oneof"] = message.oneof_decl[field.oneof_index].name
    if field.options.deprecated:
        result["deprecated"] = ""
    return result


def enum_values(enums):
    return {enum.name: {value.name: value.number for value in enum.value} for enum in enums}


def walk(messages, scope=""):
    for message in messages:
        yield scope + message.name, message
        yield from walk(message.nested_type, f"{scope}{message.name}.")


@cases(*sorted(FACTS["files"]))
def test_messages_equal_the_facts(*, name):
    file, facts = compiled(name), FACTS["files"][name]
    assert file.package == FACTS["package"] and file.syntax in ("", "proto2")
    assert enum_values(file.enum_type) == facts["enums"]
    messages = dict(walk(file.message_type))
    assert set(messages) - set(OWN["messages"]) == set(facts["messages"])
    for full_name, fact in facts["messages"].items():
        message = messages[full_name]
        expected = {field["number"]: field for field in map(fact_field, fact["fields"])}
        found = {f.number: compiled_field(f, message) for f in message.field if f.number < OWN_NUMBERS}
        assert found == expected, full_name
        assert enum_values(message.enum_type) == fact.get("enums", {})
        assert [[r.start, r.end] for r in message.extension_range] == fact.get("extension_ranges", [])
        assert [[r.start, r.end] for r in message.reserved_range] == fact.get("reserved_ranges", [])
        assert message.options.map_entry == fact.get("map_entry", False)


def test_the_facts_are_the_whole_schema_and_what_is_not_of_it_is_known():
    folder = Path(detection_core.protos.__file__).parent
    assert {path.name for path in folder.glob("*.proto")} == {*FACTS["files"], *OWN["files"]}
    messages = [fact for file in FACTS["files"].values() for fact in file["messages"].values()]
    assert (len(FACTS["files"]), sum(len(message["fields"]) for message in messages)) == (34, 824)
    own = {
        f"{scope}.{field.name}"
        for name in FACTS["files"]
        for scope, message in walk(compiled(name).message_type)
        if scope not in OWN["messages"]
        for field in message.field
        if field.number >= OWN_NUMBERS
    }
    assert own == {f"{scope}.{name}" for scope, names in OWN["fields"].items() for name in names}


pytest.importorskip("grpc_tools")


def test_checked_in_modules_are_what_the_compiler_gives():
    assert compiling.main(["--check"]) == 0


def test_a_changed_proto_is_found_and_recompiled(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "detection_core" / "protos"
    folder.mkdir(parents=True)
    for name in ("fpn.proto", "matcher.proto", "argmax_matcher.proto", "bipartite_matcher.proto"):
        (folder / name).write_bytes((compiling.FOLDER / name).read_bytes())
    monkeypatch.setattr(compiling, "FOLDER", folder)
    monkeypatch.setattr(compiling, "SOURCE_ROOT", tmp_path)
    compiling.recompile()
    proto = folder / "fpn.proto"
    proto.write_text(proto.read_text().replace("default = 256", "default = 128"))
    assert compiling.main(["--check"]) == 1
    assert "fpn_pb2.py differs" in capsys.readouterr().err
    assert compiling.main([]) == 0
    assert compiling.main(["--check"]) == 0
    # A module without its file is removed.
    proto.unlink()
    assert compiling.drifted_files() == ["fpn_pb2.py", "fpn_pb2.pyi"]
    compiling.recompile()
    assert not list(folder.glob("fpn_pb2*"))
    proto.write_text("message {")
    refused(RuntimeError, "protoc ended with status 1", compiling.drifted_files)


def test_messages_and_readers_of_them_import_no_heavy_libraries():
    code = "import sys, detection_core.config.load, detection_core.config.automl.hparams"
    code += "; sys.exit(not sys.modules.keys().isdisjoint(('tensorflow', 'numpy', 'grpc_tools')))"
    run_python(code)
