import contextlib
import faulthandler
import os
import random
import shutil
import signal
import struct

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import tensor_bundle_pb2 as bundle

from detection_core.artifacts import checkpoint_index
from detection_core.artifacts.checkpoint_index import check_index
from detection_core.errors import ModelError
from detection_core.training.checkpoint_file import CheckpointFile
from tests.support.cases import cases, refused
from tests.support.checkpoint_damage import KEY, altered, masked_crc, varint, write_table


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    tf.train.Checkpoint(v=tf.Variable(tf.ones([3, 4])), n=tf.Variable(7)).write(str(folder / "ckpt"))
    return folder


def dimensions(entry, *sizes) -> None:
    del entry.shape.dim[:]
    for size in sizes:
        entry.shape.dim.add(size=size)


def add_part(entry, *extents) -> None:
    part = entry.slices.add()
    for start, length in extents:
        part.extent.add(start=start, length=length)


DAMAGE = {
    "300 dimensions": lambda entry: dimensions(entry, *[1] * 300),
    "least -7": lambda entry: dimensions(entry, -7),
    "more elements than": lambda entry: dimensions(entry, 2**40, 2**40),
    "more elements": lambda entry: dimensions(entry, 2**40, 2**40, 0),
    "48 bytes for 13": lambda entry: dimensions(entry, 13),
    "a shape of 2": lambda entry: setattr(entry.shape, "unknown_rank", True),
    "a type 99": lambda entry: setattr(entry, "dtype", 99),
    "a file that there is not": lambda entry: setattr(entry, "shard_id", 5),
    "a file that there": lambda entry: setattr(entry, "offset", -5),
    "behind the end": lambda entry: setattr(entry, "offset", 2**62),
    "lies outside": lambda entry: add_part(entry, (9, -3), (0, 0)),
    "part of another shape": lambda entry: entry.slices.add(),
}


def test_an_index_of_tensorflow_passes_and_impossible_shapes_would_end_the_process(saved, tmp_path):
    check_index(str(saved / "ckpt"))
    check_index(altered(saved, tmp_path, lambda entry: None))
    assert CheckpointFile(altered(saved, tmp_path, lambda entry: None)).shapes[KEY.decode()] == (3, 4)
    # Why there is this check.
    assert read_in_a_child(str(saved / "ckpt")) == 0
    assert read_in_a_child(altered(saved, tmp_path, DAMAGE["300 dimensions"])) < 0


@cases(*DAMAGE)
def test_what_an_index_cannot_say_is_one_message(saved, tmp_path, *, message):
    prefix = altered(saved, tmp_path, DAMAGE[message])
    for use in (check_index, CheckpointFile):
        error = refused(ModelError, f"readable checkpoint, found a damaged.*{message}", use, prefix)
        assert error.where == prefix


@cases(1, 2)
def test_checkpoints_of_tensorflow_1_pass_in_both_formats(tmp_path, *, version):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.get_variable("weights", [64, 64], initializer=tf.compat.v1.zeros_initializer())
        tf.compat.v1.get_variable("parts", [10, 4], partitioner=tf.compat.v1.fixed_size_partitioner(3))
        session.run(tf.compat.v1.global_variables_initializer())
        saver = tf.compat.v1.train.Saver(write_version=version)
        prefix = saver.save(session, str(tmp_path / "m"), write_meta_graph=False)
    check_index(prefix)
    assert CheckpointFile(prefix).shapes == {"weights": (64, 64), "parts": (10, 4)}


def test_snappy_is_undone():
    assert checkpoint_index._uncompressed(b"\x0a\x08abc" + bytes([0b1101, 3])) == b"abcabcabca"
    for bad in (b"\xff\xff\xff\x7f\x00a", b"\x05\x00a" + bytes([0b1, 9]), b"\x05\x00a"):
        refused(ValueError, "a", checkpoint_index._uncompressed, bad)


def test_blocks_that_are_listed_again_and_a_pipe_are_refused(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "c")
    content = (tmp_path / "c" / "ckpt.index").read_bytes()
    entries = {b"%08d" % number: varint(0) + varint(len(content) // 4) for number in range(2000)}
    write_table(tmp_path / "c" / "ckpt.index", entries)
    refused(ModelError, "found a damaged", check_index, str(tmp_path / "c" / "ckpt"))
    os.mkfifo(tmp_path / "a.index")
    refused(ModelError, "regular file", check_index, str(tmp_path / "a"))


def read_in_a_child(prefix: str) -> int:
    """Read everything of a checkpoint; return how the process ended."""
    child = os.fork()
    if child == 0:
        faulthandler.disable()
        signal.alarm(20)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        with contextlib.suppress(Exception):
            reader = tf.train.load_checkpoint(prefix)
            for key in reader.get_variable_to_shape_map():
                with contextlib.suppress(Exception):
                    reader.get_tensor(key)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@cases(2**40, 2**64 - 1)
def test_a_text_longer_than_its_file_is_refused(saved, tmp_path, *, length):
    """With a right checksum of its length; TensorFlow would write where there is no memory."""
    shutil.copytree(saved, tmp_path / "c")
    data = tmp_path / "c" / "ckpt.data-00000-of-00001"
    entries = dict(checkpoint_index._entries((tmp_path / "c" / "ckpt.index").read_bytes()))
    entry = bundle.BundleEntryProto.FromString(entries[b"_CHECKPOINTABLE_OBJECT_GRAPH"])
    forged = varint(length) + masked_crc(struct.pack("<Q", length))
    content = data.read_bytes()
    data.write_bytes(content[: entry.offset] + forged + content[entry.offset + len(forged) :])
    refused(ModelError, "with texts of", CheckpointFile, str(tmp_path / "c" / "ckpt"))
    assert read_in_a_child(str(tmp_path / "c" / "ckpt")) < 0


def at_random(saved, folder, seed: int) -> str:
    """A checkpoint with fields of its entries exchanged, or bytes of its files."""
    chance = random.Random(seed)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(saved, folder)
    index = folder / "ckpt.index"
    entries = dict(checkpoint_index._entries(index.read_bytes()))
    odd = [-1, 0, 1, 255, 2**31, 2**33, 2**62, 2**63 - 1, -(2**63)]
    changes = (
        lambda entry: dimensions(entry, *chance.choices(odd, k=chance.choice([1, 2, 5, 255, 300]))),
        lambda entry: setattr(entry, "dtype", chance.randrange(0, 30)),
        lambda entry: setattr(entry, "size", chance.choice(odd)),
        lambda entry: setattr(entry, "offset", chance.choice(odd)),
        lambda entry: add_part(
            entry, *[chance.choices(odd, k=2) for _ in range(chance.choice([1, 2, 3, 300]))]
        ),
    )
    for key in chance.sample([key for key in entries if key], 2):
        change = chance.choice((*changes, None))
        if change:
            entry = bundle.BundleEntryProto.FromString(entries[key])
            change(entry)
            entries[key] = entry.SerializeToString()
        else:
            value = bytearray(entries[key])
            value[chance.randrange(len(value))] = chance.randrange(256)
            entries[key] = bytes(value)
    write_table(index, entries)
    if chance.random() < 0.3:
        content = bytearray(index.read_bytes())
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        index.write_bytes(bytes(content))
    return str(folder / "ckpt")


@pytest.mark.parametrize("first", [0, pytest.param(1_000, marks=pytest.mark.faults)])
def test_what_passes_does_not_end_the_process(saved, tmp_path, first):
    passed = 0
    for seed in range(first, first + (40 if first == 0 else 1_000)):
        prefix = at_random(saved, tmp_path / "r", seed)
        try:
            check_index(prefix)
        except ModelError:
            continue
        passed += 1
        assert read_in_a_child(prefix) == 0, seed
    assert passed
