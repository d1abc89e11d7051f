import ast
import gc
import math
import os
import subprocess
import sys
import unittest.mock

from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.datasets import grouping
from detection_core.datasets.grouping import Grouping
from tests.support.cases import refused
from tests.support.memory import memory_below

STEPS = st.tuples(st.sampled_from(["image", "part", "parts"]), st.lists(st.integers(0, 9)))
KEYS = st.integers(-3, 3) | st.sampled_from(["1", "ä", "\ud800", None, 1.0, 2.5, True, 2**70, "\0None"])
PARTS = st.lists(st.tuples(KEYS, st.text(st.characters())))  # also of halves of surrogate pairs


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(KEYS, st.integers())), PARTS, st.booleans())
def test_parts_come_with_their_images_as_from_a_dictionary(images, parts, parts_first):
    found, by_key = Grouping(), {}
    steps = [lambda: [found.add_image(key, [key, value]) for key, value in images]]
    steps.insert(0 if parts_first else 1, lambda: [found.add_part(key, value) for key, value in parts])
    for step in steps:
        step()
    for key, value in parts:
        by_key.setdefault(key, []).append(value)
    listed = {key for key, _ in images}
    expected = [([key, value], by_key.get(key, [])) for key, value in images]
    expected += [(None, [value]) for key, value in parts if key not in listed]
    assert list(found) == expected


@settings(max_examples=100, deadline=None)
@given(st.lists(STEPS), st.sampled_from([0, 40, 1 << 20]), st.integers(1, 4), st.integers(1, 4))
def test_any_order_and_any_size_of_blocks_gives_the_same(steps, packed_bytes, block, batch):
    found, images, by_key, order = Grouping(), [], {}, []
    sizes = {"MOST_PACKED_BYTES": packed_bytes, "BLOCK": block, "_BATCH": batch}
    with unittest.mock.patch.multiple(grouping, **sizes):
        for number, (kind, keys) in enumerate(steps):
            if kind == "parts":
                found.add_parts(keys, [[number, key] for key in keys])
            for key in keys:
                if kind == "image":
                    found.add_image(key, number)
                    images.append((key, number))
                    assert key in found
                    continue
                if kind == "part":
                    found.add_part(key, [number, key])
                by_key.setdefault(key, []).append([number, key])
                order.append((key, [number, key]))
        listed = {key for key, _ in images}
        expected = [(number, by_key.get(key, [])) for key, number in images]
        assert list(found) == expected + [(None, [part]) for key, part in order if key not in listed]


def test_many_parts_are_not_in_memory_together_and_keys_of_no_image_refused():
    found = Grouping()
    for image in range(64):
        found.add_image(image, image)
        found.add_parts([image] * 16, [bytes(1 << 16)] * 16)
    assert 3 * grouping.MOST_PACKED_BYTES < 64 << 20
    with memory_below(3 * grouping.MOST_PACKED_BYTES):
        assert all(len(parts) == 16 for _, parts in found)
    refused(TypeError, "", Grouping().add_image, math.nan, 0)
    for key in ([], {}):
        refused(TypeError, "", Grouping().add_image, key, 0)
        refused(TypeError, "", Grouping().add_part, key, 0)
    for _ in range(3):
        Grouping().add_image(1, 1)
    found = iter(Grouping())
    assert next(found, "none") == "none"
    gc.collect()


FILL = """
import os, random
from detection_core.datasets import grouping
grouping.CACHE_KIB = 64
index = grouping.open_index("CREATE TABLE images (value BLOB);")
index.executemany("INSERT INTO images VALUES (?)", ((random.randbytes(10_000),) for _ in range(200)))
print([os.readlink(f.path) for f in os.scandir("/proc/self/fd") if "etilqs" in os.readlink(f.path)])
"""


def test_what_memory_does_not_hold_is_in_the_temporary_folder_and_has_no_name_there(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    environment.pop("SQLITE_TMPDIR", None)
    said = subprocess.check_output([sys.executable, "-c", FILL], env=environment, text=True)
    [file] = ast.literal_eval(said)
    assert file.startswith(str(tmp_path)) and file.endswith("(deleted)")
    assert not list(tmp_path.iterdir())
