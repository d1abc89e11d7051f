import contextlib
import os
import random
from typing import Any

import flatbuffers
import hypothesis
import hypothesis.strategies as st
from tensorflow.lite.python import schema_py_generated as schema

from detection_core.artifacts.tflite_file import MAX_FILE_BYTES, read_tflite, verify_tflite
from detection_core.errors import ModelError
from tests.support.bare_tflite import bare_file, packed
from tests.support.cases import cases, refused


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
    constant = next(t for t in model.subgraphs[0].tensors if model.buffers[t.buffer].data is not None)
    constant.shape = [3]


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
