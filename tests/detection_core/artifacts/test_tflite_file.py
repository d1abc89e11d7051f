"""TensorFlow Lite files read without an interpreter: whole or damaged, graph, metadata, provenance."""

import collections
import contextlib
import dataclasses
import io
import os
import random
import re
import struct
import zipfile
from pathlib import Path
from typing import Any

import flatbuffers
import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from flatbuffers import number_types as types

import detection_core
from detection_core.artifacts import tflite_metadata, tflite_provenance
from detection_core.artifacts import tflite_metadata as slots
from detection_core.artifacts.flatbuffer_table import FlatbufferError, Table, read_root, tables
from detection_core.artifacts.tflite_file import (
    MAX_FILE_BYTES,
    OperatorInfo,
    TensorInfo,
    TFLiteGraph,
    network_operators,
    network_outputs,
    read_graph,
    read_tflite,
    verify_tflite,
)
from detection_core.artifacts.tflite_metadata import (
    MAX_ARCHIVED_BYTES,
    TFLiteDescription,
    read_decoding,
    read_description,
)
from detection_core.artifacts.tflite_provenance import archive, read_provenance, unmeasured, with_provenance
from detection_core.errors import ContractError, ModelError
from detection_core.exporters.tflite_description import add_description
from tests.support.bare_tflite import DECODING, DESCRIPTION, bare_file, heads, packed
from tests.support.cases import cases, refused
from tests.support.tiny_files import integer_file

ROOT = Path(detection_core.__file__).parent
# Operation, inputs, output; tensors beside those that an operation gives, and the picture, are constants.
SSD = (
    ("QUANTIZE", "picture", "pixels"),
    ("CONV_2D", "pixels kernel", "stem"),
    ("LOGISTIC", "stem", "gate"),
    ("MUL", "stem gate", "swish"),
    ("CONV_2D", "swish kernel", "box_map"),
    ("CONV_2D", "swish kernel", "class_map"),
    ("RESHAPE", "box_map shape", "box_rows"),
    ("RESHAPE", "class_map shape", "class_rows"),
    ("CONCATENATION", "box_rows", "codes"),
    ("DEQUANTIZE", "codes", "float_codes"),
    ("LOGISTIC", "class_rows", "scores"),
    ("TFLite_Detection_PostProcess", "float_codes scores anchors", "detections"),
    ("RESHAPE", "detections shape", "rows"),
)
_MADE = {"written_by": "detflow 1.2.3", "model": "tiny", "format": "int8", "quantization": "aware"}
_OF = {"config_hash": "0123456789abcdef", "data_fingerprint": "fedcba9876543210", "trained_as": "aaaa"}
_MEASURED = {"split": "eval", "metrics": {"mAP": 0.5, "mAP (large)": None}}
ORIGIN = tflite_provenance.Provenance(**_MADE, **_OF, **_MEASURED)


def test_identifiers_are_the_published_ones_and_no_reader_or_writer_states_one_or_a_slot():
    assert (slots.METADATA_IDENTIFIER, slots.DETECTOR_IDENTIFIER) == (b"M001", b"V001")
    readers = [ROOT / "artifacts" / f"tflite_{name}.py" for name in ("metadata", "file")]
    called = r"\.(place|number|raw|text|floats|table|tables)\(\d"
    for path in (*readers, ROOT / "exporters" / "tflite_description.py"):
        code = path.read_text(encoding="utf-8")
        assert not re.search(called, code) and not re.search(r'\(\d+, "(offset|u?int\d+)"', code), path
        assert 'b"TFL3"' not in code and code.count('b"M001"') == path.stem.endswith("metadata"), path


def flat_table() -> bytes:
    data = bytearray(struct.pack("<I", 14))  # root: the table at 14
    data += struct.pack("<HHHHH", 10, 16, 4, 8, 12)  # its layout at 4: size, table's size, three fields
    data += struct.pack("<i", 10)  # at 14: back to the layout
    data += struct.pack("<III", 12, 14, 7)  # at 18: the text at 30, the numbers at 36; a number
    data += struct.pack("<I", 2) + b"hi" + struct.pack("<Iff", 2, -5, 6)
    return bytes(data)


def test_fields_are_read_by_their_slots_and_damage_is_an_error_of_its_own_kind():
    data = flat_table()
    found = Table.root(data)
    assert (found.text(0), found.floats(1), found.number(2, types.Uint32Flags)) == ("hi", (-5, 6), 7)
    assert (found.number(3, types.Uint32Flags), found.raw(3), found.floats(3), found.place(3)) == (
        0,
        b"",
        (),
        0,
    )
    assert found.place(2) == 26
    for end in range(len(data)):
        with pytest.raises(FlatbufferError):
            cut = Table.root(data[:end])
            _ = cut.text(0), cut.floats(1), cut.number(2, types.Uint32Flags)
    refused(FlatbufferError, "without one of its parts", found.table, 3)
    refused(FlatbufferError, "no UTF-8", Table.root(data.replace(b"hi", b"\xff\xfe")).text, 0)
    long = data[:36] + struct.pack("<I", 2**31) + data[40:]
    for read in (Table.root(long).floats, Table.root(long).tables):
        refused(FlatbufferError, "a list of 2147483648 items", read, 1)


def test_what_generated_accessors_read_is_checked():
    # As a TensorMap the table has a text that ends behind the data, which flatbuffers would cut.
    data = flat_table()
    long = data[:30] + struct.pack("<I", 15) + data[34:]
    entry = read_root(schema.TensorMap, long)
    assert schema.TensorMap.GetRootAs(long).Name() == long[34:]
    refused(FlatbufferError, "a list of 15 items that ends behind the file's end", entry.Name)
    # As a SignatureDef it has one of tables, the first of which would lie outside.
    refused(FlatbufferError, "an offset to byte", tables, read_root(schema.SignatureDef, data), "Outputs")


def changed(change) -> bytes:
    model: Any = schema.ModelT.InitFromPackedBuf(bare_file(), 0)
    change(model)
    return packed(model)


def test_a_whole_file_passes_and_what_is_longer_than_offsets_reach_is_not_read(tmp_path):
    path = tmp_path / "m.tflite"
    path.write_bytes(bare_file())
    assert read_tflite(str(path)) == bare_file()
    os.truncate(path, MAX_FILE_BYTES + 1)
    for place in (str(path), "/dev/zero"):
        refused(ModelError, "expected a TensorFlow Lite file", read_tflite, place)
    verify_tflite(bare_file())
    verify_tflite(changed(lambda model: None))


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(st.integers(8, 10**6))
def test_a_file_that_was_cut_is_refused_or_lost_nothing_that_counts(end):
    content = bare_file()[: min(end, len(bare_file()) - 1)]
    try:
        verify_tflite(content, where="m.tflite")
    except ModelError as error:
        assert "m.tflite: expected a whole TensorFlow Lite file" in str(error)


@hypothesis.settings(max_examples=150, deadline=None)
@hypothesis.given(st.integers(0, 2**32 - 1), st.sampled_from([1, 4, 16, 64]))
def test_flipped_bytes_end_in_nothing_else_than_a_model_error(seed, count):
    rng, content = random.Random(seed), bytearray(bare_file())
    for _ in range(count):
        content[rng.randrange(8, len(content))] = rng.randrange(256)
    with contextlib.suppress(ModelError):
        verify_tflite(bytes(content))


def shape(model, sides):
    model.subgraphs[0].tensors[0].shape = sides


def index(model, field, value):
    setattr(model.subgraphs[0].operators[0], field, value)


def lengthen(model):
    next(t for t in model.subgraphs[0].tensors if model.buffers[t.buffer].data is not None).shape = [3]


DAMAGE = {
    "4 bytes for a tensor of 12": lengthen,
    "a tensor of the shape": lambda model: shape(model, [2**20, 2**20]),
    "a tensor of the shape .*-7": lambda model: shape(model, [-7]),
    "a reference to tensor 99": lambda model: index(model, "inputs", [99]),
    "a reference to tensor 3": lambda model: index(model, "inputs", [len(model.subgraphs[0].tensors)]),
    "a reference to tensor -1": lambda model: index(model, "outputs", [-1]),
    "an operation of no kind": lambda model: index(model, "opcodeIndex", 7),
    "a tensor in buffer 1000": lambda model: setattr(model.subgraphs[0].tensors[0], "buffer", 1000),
    "no graph": lambda model: setattr(model, "subgraphs", []),
}


@cases(
    *[(r"pass a \.tflite", content) for content in (b"", b"PK\x03\x04zip archive", b"\0\0\0\0TFLITE")],
    *[("found a damaged one, with", bare_file()[:end]) for end in (8, 16, 40, 100, 300)],
    *[(message, changed(change)) for message, change in DAMAGE.items()],
)
def test_another_file_and_one_without_what_it_refers_to_is_refused(*, message, content):
    refused(ModelError, message, verify_tflite, content)


def shared(tensors: int, graphs: int, name: str) -> bytes:
    """A file whose lists name one graph and one tensor again and again."""
    builder = flatbuffers.Builder(1024)

    def listed(start, offset, count):
        start(builder, count)
        for _ in range(count):
            builder.PrependUOffsetTRelative(offset)
        return builder.EndVector()

    text = builder.CreateString(name)
    schema.BufferStart(builder)
    buffers = listed(schema.ModelStartBuffersVector, schema.BufferEnd(builder), 1)
    schema.TensorStart(builder)
    schema.TensorAddName(builder, text)
    entries = listed(schema.SubGraphStartTensorsVector, schema.TensorEnd(builder), tensors)
    schema.SubGraphStart(builder)
    schema.SubGraphAddTensors(builder, entries)
    subgraphs = listed(schema.ModelStartSubgraphsVector, schema.SubGraphEnd(builder), graphs)
    schema.ModelStart(builder)
    schema.ModelAddSubgraphs(builder, subgraphs)
    schema.ModelAddBuffers(builder, buffers)
    builder.Finish(schema.ModelEnd(builder), b"TFL3")
    return bytes(builder.Output())


@cases((2000, 2000, "x"), (4000, 1, "x" * 4000))
def test_a_small_file_of_lists_that_share_their_bytes_is_refused(*, tensors, graphs, name):
    assert len(shared(tensors, graphs, name)) < 21_000
    refused(ModelError, "share their bytes", verify_tflite, shared(tensors, graphs, name))
    verify_tflite(shared(20, 20, "x" * 20))


def test_the_graph_is_the_one_that_litert_sees():
    content = integer_file()
    graph = read_graph(content)
    resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_content=content, experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    seen = interpreter._get_ops_details()
    assert [op.name for op in graph.operators] == [op["op_name"] for op in seen]
    assert [op.outputs for op in graph.operators] == [tuple(op["outputs"]) for op in seen]
    for details in interpreter.get_tensor_details():
        tensor = graph.tensors[details["index"]] if details["index"] < len(graph.tensors) else None
        if tensor is None:
            continue  # scratch memory of a kernel
        assert (tensor.name, tensor.shape) == (details["name"], tuple(details["shape"]))
        assert tensor.dtype == details["dtype"].__name__
        scales = details["quantization_parameters"]["scales"]
        assert (tensor.quantization.scale if tensor.quantization else ()) == pytest.approx(scales)
        if tensor.quantization:
            assert tensor.quantization.zero_point == tuple(details["quantization_parameters"]["zero_points"])
    assert graph.inputs == tuple(d["index"] for d in interpreter.get_input_details())
    assert graph.tensors[graph.inputs[0]].dtype == "uint8"
    assert not any(graph.tensors[i].is_constant for i in (*graph.inputs, *graph.outputs))
    for convolution in (op for op in graph.operators if op.name == "CONV_2D"):
        assert all(graph.tensors[i].is_constant for i in convolution.inputs[1:])
    counts = graph.operator_counts()
    assert counts == collections.Counter(op["op_name"] for op in seen)
    assert list(counts.values()) == sorted(counts.values(), reverse=True)
    found = r"m\.tflite: expected a whole TensorFlow Lite file"
    refused(ModelError, found, read_graph, content[: len(content) // 2], where="m.tflite")


def graph_of(rows, outputs: str) -> TFLiteGraph:
    names = ["picture"] + [output for _, _, output in rows]
    names += sorted({n for _, inputs, _ in rows for n in inputs.split()} - set(names))
    made = {"picture", *(output for _, _, output in rows)}
    index = {name: place for place, name in enumerate(names)}
    plain = {"shape": (1,), "dtype": "float32", "quantization": None}

    def places(texts: str) -> tuple[int, ...]:
        return tuple(index[name] for name in texts.split())

    return TFLiteGraph(
        schema_version=3,
        tensors=tuple(
            TensorInfo(name=n, content=np.zeros(4 * (n not in made), np.uint8), **plain) for n in names
        ),
        operators=tuple(
            OperatorInfo(name=kind, is_custom=False, inputs=places(inputs), outputs=places(output))
            for kind, inputs, output in rows
        ),
        inputs=(0,),
        outputs=places(outputs),
        signature_names={},
    )


@cases(
    (SSD, "rows", ["class_rows", "codes"]),
    # Headless: what the graph gives are the heads.
    (SSD[:9], "codes class_rows", ["class_rows", "codes"]),
    # Without box codes joined: each level is a head.
    (SSD[:6], "box_map class_map", ["box_map", "class_map"]),
)
def test_heads_are_what_the_last_convolutions_give_moved_and_joined(*, rows, outputs, heads):
    graph = graph_of(rows, outputs)
    assert [graph.tensors[i].name for i in network_outputs(graph)] == heads


def test_an_activation_belongs_to_the_network_where_a_convolution_follows():
    graph = graph_of(SSD, "rows")
    inside = [graph.operators[position].name for position in network_operators(graph)]
    assert inside == [kind for kind, _, _ in SSD[:9]]
    graph = graph_of((("ADD", "picture one", "sum"),), "sum")
    assert network_operators(graph) == [] and network_outputs(graph) == []


@cases(True, False)
def test_what_is_written_is_read_back_and_damage_is_a_clear_error(*, sigmoid):
    written = dataclasses.replace(DECODING, sigmoid=sigmoid)
    content = add_description(heads(), DESCRIPTION, written)
    assert read_decoding(content) == written
    # A file of another program has MediaPipe's record only.
    model = content[: content.index(b"PK\x03\x04")]
    found = read_decoding(model).post_process
    assert found.scales == DECODING.post_process.scales
    assert (found.num_classes, found.max_detections, found.nms_iou_threshold) == (3, 100, 0.3)
    torn = model + archive({"post_process.json": b"{}"})
    refused(ContractError, r"heads\.tflite", read_decoding, torn, where="heads.tflite")
    assert read_description(content) == DESCRIPTION
    assert tflite_metadata.read_tensor_names(content) == (("image",), ("score", "location"))
    start = content.index(b"V001") - 4
    damaged = content[:start] + b"\xff\xff\xff\x7f" + content[start + 4 :]
    refused(ModelError, r"heads\.tflite", read_decoding, damaged, where="heads.tflite")
    assert read_decoding(heads()) is None


def with_labels(data: bytes, method: int = zipfile.ZIP_STORED, name: str = "labels.txt") -> bytes:
    """A described file with an archive of somebody else's at its end."""
    description = TFLiteDescription(name="m", mean=(0.0,), std=(1.0,), labels=("own",))
    described = add_description(bare_file(), description)
    stream = io.BytesIO(described[: described.rfind(b"PK\x03\x04")])
    stream.seek(0, io.SEEK_END)
    with zipfile.ZipFile(stream, "a") as archive:
        archive.writestr(zipfile.ZipInfo(name), data, method)
    return stream.getvalue()


def test_labels_of_any_usual_compression_are_read_and_damage_is_one_message():
    broken = bytearray(with_labels(b"abc\ndef\n"))
    broken[broken.rfind(b"abc\ndef")] = 88
    for content in (b"", b"PK\x03\x04zip archive", b"0123TFL"):
        refused(ModelError, "expected a TensorFlow Lite file", read_description, content)
    for content in (with_labels(b"\xff\xfe\n"), bytes(broken)):
        refused(ModelError, "expected an archive at the file's end", read_description, content)
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA):
        assert read_description(with_labels(b"a\nb\n", method)).labels == ("a", "b")
    content = with_labels(b"a\n" * (8 * MAX_ARCHIVED_BYTES), zipfile.ZIP_DEFLATED)
    assert len(content) < MAX_ARCHIVED_BYTES
    with pytest.raises(
        ModelError, match=r"m\.tflite: expected at most 4194304 bytes, found more in labels.txt"
    ):
        read_description(content, where="m.tflite")
    content = with_labels(b"a\n")
    place = content.index(b"M001") - 4  # the metadata's own root offset
    with pytest.raises(ModelError, match="found a damaged one, with an offset to byte"):
        read_description(content[:place] + b"\xff\xff\xff\x7f" + content[place + 4 :])
    refused(ModelError, r"bare.tflite: expected metadata", read_description, bare_file(), where="bare.tflite")


@pytest.fixture(scope="module")
def described() -> bytes:
    description = TFLiteDescription(name="m", mean=(0.0,), std=(1.0,), labels=("a", "b"))
    return add_description(bare_file(), description)


def test_it_is_read_back_replaced_removed_and_no_hindrance(described):
    content = with_provenance(described, ORIGIN)
    assert read_provenance(content) == ORIGIN and read_description(content) == read_description(described)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.namelist() == ["labels.txt", "detflow.json"]
        # MediaPipe's reader of associated files takes stored entries alone.
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
    noisy = dataclasses.replace(ORIGIN, metrics={"mAP": 0.50000012345, "mAP (large)": None})
    assert with_provenance(described, noisy) == with_provenance(described, ORIGIN)
    other = dataclasses.replace(ORIGIN, format="float32")
    assert with_provenance(with_provenance(described, other), ORIGIN) == with_provenance(described, ORIGIN)
    assert unmeasured(with_provenance(described, ORIGIN)) == described and unmeasured(described) == described
    assert unmeasured(with_provenance(bare_file(), ORIGIN)) == bare_file()
    interpreter = Interpreter(model_content=with_provenance(described, ORIGIN))
    interpreter.allocate_tensors()
    interpreter.invoke()
    assert read_provenance(bare_file()) is None and read_provenance(described) is None


def test_a_score_threshold_goes_with_it_and_a_newer_or_damaged_one_is_refused(described):
    described = add_description(heads(), dataclasses.replace(DESCRIPTION, score_threshold=0.0), DECODING)
    measured = with_provenance(tflite_metadata.with_score_threshold(described, 0.25), ORIGIN)
    assert read_description(measured).score_threshold == 0.25 and unmeasured(measured) == described
    with pytest.raises(ModelError, match="expected metadata with a score threshold, found none"):
        tflite_metadata.with_score_threshold(bare_file(), 0.25)
    content = with_provenance(described, ORIGIN)
    with pytest.raises(ModelError, match=r"m\.tflite: expected an archive"):
        read_provenance(content.replace(b'"aaaa"', b'"bbbb"'), where="m.tflite")
    stream = io.BytesIO(described)
    stream.seek(0, io.SEEK_END)
    with zipfile.ZipFile(stream, "a") as newer:
        newer.writestr(tflite_provenance.PROVENANCE.name, '{"schema_version": 99}')
    refused(ContractError, "a newer detflow", read_provenance, stream.getvalue())
