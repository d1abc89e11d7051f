"""Every reader, and what a reader of any format must do."""

import contextlib
import functools
import json
import math
import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.datasets.annotated_images import REASONS
from detection_core.datasets.layout_search import find_layout, find_layouts
from detection_core.datasets.readers import READERS, find_reader, register_reader
from detection_core.errors import ConfigError, DataError
from detection_core.storage.file_parts import file_part
from pipeline.settings.workflow_settings import DataSettings
from tests.support import same_set
from tests.support.cases import cases, refused
from tests.support.dataset_files import in_pixels, picture, whole, write_files
from tests.support.same_set import CLASSES, HEIGHT, IMAGES, RING, WIDTH, WRITERS, common_records


@cases(*READERS)
def test_a_reader_finds_what_it_locates_and_makes_the_same_records(tmp_path, *, data_format):
    WRITERS[data_format](tmp_path)
    layout, reader = find_layout(str(tmp_path)), find_reader(data_format)
    assert layout.format == data_format and layout.images == len(IMAGES) and reader.looks_for
    found = whole(reader.read_split(layout.path, None, None))
    assert len(found.images) == len(IMAGES) and not found.rejected and set(found.categories) == set(CLASSES)
    located = [p for p in reader.locate(layout.path, None) if p]
    path = found.images[0].path
    part = file_part(path)
    assert any((part.path if part else path).startswith(p) for p in located)
    WRITERS["coco"](tmp_path / "same")
    same = find_reader("coco").read_split(str(tmp_path / "same"), None, None)
    assert common_records(found) == common_records(same)
    if data_format in same_set.WITH_OUTLINES:
        objects = [item for image in found.images for item in in_pixels(image, WIDTH, HEIGHT).objects]
        (mask,) = [item.mask for item in objects if item.mask]
        assert [list(ring) for ring in mask.rings] == [pytest.approx(RING)]


NASTY = (
    b"", b"\0", b"\xff", b'"', b"'", b"<", b"&", b"{", b"]", b",", b";", b"-", b"1e999", b"nan", b"null",
    b"..\\..\\", b"../", b"\n", b"\xcc\x88", b"!!python/name:os.system ", b"<!DOCTYPE x>", b"9" * 400,
    b"[" * 2000,
)  # fmt: skip
EDITS = st.tuples(st.floats(0, 1), st.integers(0, 6), st.sampled_from(NASTY))


@cases(*READERS)
def test_any_damage_to_annotations_is_put_aside_or_one_error(tmp_path, *, data_format):
    WRITERS[data_format](tmp_path)
    annotations = [p for p in sorted(tmp_path.rglob("*")) if p.is_file() and p.suffix != ".jpg"]

    @settings(deadline=None, max_examples=25)
    @given(st.integers(0, 3), st.lists(EDITS, min_size=1))
    def damage(which, edits):
        path = annotations[which % len(annotations)]
        sound = data = path.read_bytes()
        try:
            for at, length, text in edits:
                begin = int(at * len(data))
                data = data[:begin] + text + data[begin + length :]
            path.write_bytes(data)
            for act in (find_layouts, functools.partial(_read_whole, data_format)):
                with contextlib.suppress(ConfigError, DataError):
                    act(str(tmp_path))
        finally:
            path.write_bytes(sound)

    damage()


WRONG = (None, True, -1, 0.5, 1e308, math.nan, 10**400, "", "x", "a\nb", "\ud800", [], [[]], {}, {"a": 1})


@cases("coco", "label_studio", "labelme", "createml", "via")
def test_a_wrong_type_anywhere_is_put_aside_or_one_error(tmp_path, *, data_format):
    WRITERS[data_format](tmp_path)
    path = next(p for p in sorted(tmp_path.rglob("*.json")) if b"dog" in p.read_bytes())
    sound, read, refused = json.loads(path.read_text()), 0, 0
    for place in _places(sound):
        for value in WRONG:
            path.write_text(json.dumps(_with(sound, place, value)))
            try:
                _read_whole(data_format, str(tmp_path))
                read += 1
            except (ConfigError, DataError):
                refused += 1
    assert read > refused


def _places(value, at=()):
    yield at
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in pairs:
        yield from _places(part, (*at, key))


def _with(value, place, new):
    if not place:
        return new
    copy = value.copy()
    copy[place[0]] = _with(value[place[0]], place[1:], new)
    return copy


def _read_whole(data_format, root):
    found = find_reader(data_format).read(root, None)
    for image in found.images:
        part = file_part(image.path)
        assert os.path.realpath(part.path if part else image.path).startswith(os.path.realpath(root))
        image.source_id.encode()
    assert all(rejection.reason in REASONS for rejection in found.rejected)


PAGE = Path(__file__).parents[3] / "docs" / "own-data.md"
_SECTION = re.compile(r"### [^\n]*: `(\w+)`\n(.*?)(?=\n##)", re.DOTALL)
_FILE = re.compile(r"^`([^`]+)`(?:, with `([^`]+)`)?:\n\n```\w*\n(.*?)```", re.DOTALL | re.MULTILINE)
EXAMPLES = {name: _FILE.findall(text) for name, text in _SECTION.findall(PAGE.read_text())}


@cases(*[name for name, found in EXAMPLES.items() if found])
def test_the_page_s_smallest_example_of_a_format_is_found_and_read(tmp_path, *, data_format):
    for name, image, text in EXAMPLES[data_format]:
        write_files(tmp_path, {name: text} | ({image: picture()} if image else {}))
    layout = find_layout(str(tmp_path))
    assert (layout.format, layout.images) == (data_format, 1)
    (image,) = find_reader(data_format).read(layout.path, None).images
    assert os.path.isfile(image.path)
    (item,) = in_pixels(image).objects
    assert item.name == "cat" and item.box == pytest.approx((5, 6, 20, 25), abs=0.02)


def test_every_format_is_on_the_page_and_one_from_outside_may_be_named_by_settings():
    assert set(EXAMPLES) == set(READERS), "the page has a section for each, and a row"
    assert set(re.findall(r"^\| \[`(\w+)`\]", PAGE.read_text(), re.MULTILINE)) == set(READERS)
    refused(ConfigError, r"coco.*voc.*found 'yolo9'", find_reader, "yolo9")
    refused(ValueError, "coco", lambda: DataSettings(path="data", format="toy"))
    register_reader("toy", READERS["coco"])
    try:
        assert DataSettings(path="data", format="toy").format == "toy"
        assert find_reader("toy") is READERS["coco"]
        refused(ValueError, "'toy', which is taken", register_reader, "toy", READERS["voc"])
        refused(ValueError, "coco", lambda: DataSettings(path="data", format="yolo9"))
    finally:
        READERS.pop("toy", None)
    refused(ConfigError, "found 'toy'", find_reader, "toy")
