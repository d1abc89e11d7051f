"""Data sets are written as COCO, and converted."""

import ast
import gc
import itertools
import json
import math
import os
import subprocess
import sys
import unittest.mock

from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pycocotools import mask as coco_mask

from detection_core.data.label_map import label_map_from_names
from detection_core.datasets import annotated_images, grouping
from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    AnnotatedObject,
    MaskFile,
    Polygons,
    Rejected,
    RunLengths,
)
from detection_core.datasets.classes import fill_label_map
from detection_core.datasets.dataset_conversion import convert_to_coco, open_coco
from detection_core.datasets.formats import coco
from detection_core.datasets.grouping import Grouping
from detection_core.datasets.layout_search import find_layout
from detection_core.datasets.layouts import check_splits, is_by_ratio, order_digest, split_at, split_position
from detection_core.datasets.readers import READERS, find_reader
from detection_core.errors import ConfigError, DataError
from tests.support.cases import cases, refused
from tests.support.dataset_files import Coco, picture, subfolder, voc_xml, write_files
from tests.support.memory import memory_below
from tests.support.same_set import IMAGES, WITH_OUTLINES, WRITERS, common_records


@cases(*READERS)
def test_a_converted_set_makes_the_records_of_the_one_it_was(tmp_path, *, data_format):
    WRITERS[data_format](tmp_path / "in")
    made = _convert(tmp_path)
    assert (made.layout.format, made.images, made.objects) == (data_format, len(IMAGES), 3)
    assert made.files == {"": "annotations.json"} and not any(made.rejected.values())
    assert not (tmp_path / "out" / "quarantine.jsonl").exists()
    layout = find_layout(str(tmp_path / "out"))
    read = [find_reader(each.format).read_split(each.path, None, None) for each in (layout, made.layout)]
    copied, records = map(common_records, read)
    assert layout.format == "coco" and copied == records and len(records) == len(IMAGES)
    content = json.loads((tmp_path / "out" / "annotations.json").read_text())
    outlined = [a for a in content["annotations"] if "segmentation" in a]
    assert len(outlined) == (data_format in (*WITH_OUTLINES, "coco"))


def _convert(root, *options, to="out", **more):
    return convert_to_coco(str(root / "in"), str(root / to), *options, **more)


def test_splits_stay_splits_and_images_are_links_or_copies(tmp_path):
    for split in ("train", "val"):
        write_files(tmp_path / "in" / split, {"a.jpg": picture(), "a.xml": voc_xml("a")})
    files = {split: f"annotations/instances_{split}.json" for split in ("train", "eval")}
    assert _convert(tmp_path).files == files
    places = {split: {"annotations": path, "images": f"images/{split}"} for split, path in files.items()}
    assert find_layout(str(tmp_path / "out")).splits == places
    source = tmp_path / "in" / "train" / "a.jpg"
    assert (tmp_path / "out" / "images" / "train" / "a.jpg").samefile(source)
    _convert(tmp_path, to="copied", copy=True)
    copy = tmp_path / "copied" / "images" / "train" / "a.jpg"
    assert copy.read_bytes() == source.read_bytes() and not copy.samefile(source)


def test_what_cannot_be_used_is_listed_and_nothing_overwritten_or_half_written(tmp_path):
    data = Coco(tmp_path / "in", images=3)
    data.add_image(9, name="none.jpg", data=b"")
    data.add_image(10, name="../out.jpg", data=b"")
    data.write()
    assert _convert(tmp_path).images == 3
    lines = [json.loads(line) for line in (tmp_path / "out" / "quarantine.jsonl").read_text().splitlines()]
    assert sorted(line["reason"] for line in lines if "reason" in line) == ["missing_image", "path_outside"]
    below = subfolder(tmp_path, 1)
    Coco(below / "in").write()
    (below / "out").mkdir()
    _convert(below)
    refused(ConfigError, "holds something; name another", _convert, below)
    for path in (below / "in" / "images").iterdir():
        path.unlink()
    (below / "out").rename(below / "done")
    refused(DataError, "expected images that can be used, found none", _convert, below)
    assert sorted(path.name for path in below.iterdir()) == ["done", "in"]
    refused(DataError, "of the format voc, found others", _convert, below, "voc")


LABELS = fill_label_map(label_map_from_names(["cat", "dog"]), {}, {"cat": "RARE"})
POINTS = {"dog": ["nose", "tail"]}
_side = st.floats(0, 500, allow_nan=False)
_rings = st.lists(_side, min_size=6, max_size=8).filter(lambda ring: not len(ring) % 2)
_masks = st.one_of(
    st.lists(_rings, min_size=1, max_size=2).map(lambda rings: Polygons([tuple(ring) for ring in rings])),
    st.sampled_from([None, RunLengths(2, 3, [1, 2, 3]), RunLengths(2, 3, "123")]),
)
_points = st.none() | st.lists(st.tuples(_side, _side, st.integers(0, 2)), min_size=2, max_size=2)


def _make(name, corner, size, mask, points, crowd, area):
    box = (*corner, corner[0] + size[0], corner[1] + size[1])
    made = AnnotatedObject(name, box, mask=mask, keypoints=points if name == "dog" else None)
    return made._replace(crowd=crowd, area=area)


_names, _corners = st.sampled_from(["cat", "dog"]), st.tuples(*[st.integers(0, 99)] * 2)
_sizes, _areas = st.tuples(*[st.integers(1, 99)] * 2), st.floats(0.5, 1e6)
_objects = st.builds(_make, _names, _corners, _sizes, _masks, _points, st.integers(0, 1), _areas)
_files = st.text("ab \u00fc\u0301'\"\\", min_size=1)
_images = st.lists(st.tuples(_files, st.lists(_objects, max_size=3)), max_size=4)


@settings(deadline=None, max_examples=60)
@given(_images)
def test_what_is_written_is_read_back(tmp_path_factory, images):
    root = tmp_path_factory.mktemp("coco")
    drawn = [(str(number), *image) for number, image in enumerate(images, start=1)]
    written = [AnnotatedImage(n, f"{n}{name}.jpg", "", 640, 480, objects) for n, name, objects in drawn]
    with open_coco(str(root / "annotations.json"), LABELS, POINTS) as writer:
        for image in written:
            writer.add(image, image.filename, (image.width, image.height))
    found = coco.read(str(root), "annotations.json")
    assert not found.rejected and found.categories == {"cat": 1, "dog": 2} and found.keypoint_names == POINTS
    assert found.frequencies == {"cat": "RARE"}
    assert [_plain(image) for image in found.images] == [_plain(image) for image in written]


def _plain(image):
    def plain(item):
        mask = [list(ring) for ring in item.mask.rings] if isinstance(item.mask, Polygons) else item.mask
        return item._replace(label="", box=tuple(round(at, 6) for at in item.box), mask=mask)

    return image._replace(path="", objects=[plain(item) for item in image.objects])


def _write(path, image):
    with open_coco(str(path), LABELS, {}) as writer:
        writer.add(image, "a.jpg", (40, 30))
    return json.loads(path.read_text())


def test_fields_that_coco_lacks_are_kept_and_mask_files_become_run_lengths(tmp_path):
    values = {"difficult": 1, "truncated": 0, "pose": "Left", "occluded": 1, "group_of": 0, "depiction": 1,
              "confidence": 0.5, "weight": 2.0}  # fmt: skip
    item = AnnotatedObject("cat", (1, 2, 3, 4))._replace(**values)
    image = AnnotatedImage("a", "a.jpg", "", 40, 30, [item], [annotated_images.ImageLabel("dog", 0.25)])
    image = image._replace(absent=["dog"], not_exhaustive=["cat"])
    content = _write(tmp_path / "a.json", image)
    (entry,) = content["annotations"]
    assert entry["attributes"] | entry["detflow"] == values
    assert set(values) == {name for names in coco.EXTRA_FIELDS.values() for name in names}
    again = next(iter(coco.read(str(tmp_path), "a.json").images))
    (read,) = again.objects
    assert (again.absent, again.not_exhaustive) == (("dog",), ("cat",))
    assert again.labels == image.labels and {name: getattr(read, name) for name in values} == values
    assert content["images"][0]["detflow"] == {"labels": [{"category_id": 2, "confidence": 0.25}]}
    Image.new("L", (20, 15), 255).save(tmp_path / "mask.png")
    item = AnnotatedObject("cat", (1, 2, 3, 4), mask=MaskFile(str(tmp_path / "mask.png")))
    content = _write(tmp_path / "a.json", AnnotatedImage("a", "a.jpg", "", 40, 30, [item]))
    segmentation = content["annotations"][0]["segmentation"]
    assert coco_mask.decode(coco_mask.frPyObjects(segmentation, 30, 40)).all()
    assert segmentation["size"] == [30, 40]


@cases(
    AnnotatedObject("cat", (1, 2, math.nan, 4)),
    AnnotatedObject("cat", (1, 2, 3, 4), mask=Polygons([[1, math.inf]])),
    AnnotatedObject("cat", (1, 2, 3, 4), mask=MaskFile("/none.png")),
)  # fmt: skip
def test_what_json_cannot_hold_is_put_aside_and_leaves_no_trace(tmp_path, *, item):
    bad, good = (AnnotatedImage("a", "a.jpg", "", 40, 30, objects) for objects in ([item], []))
    with open_coco(str(tmp_path / "a.json"), LABELS, {}) as writer:
        refused(Rejected, "", writer.add, bad, "a.jpg", (40, 30))
        writer.add(good, "a.jpg", (40, 30))
    content = json.loads((tmp_path / "a.json").read_text())
    assert len(content["images"]) == 1 and content["annotations"] == []


STEPS = st.tuples(st.sampled_from(["image", "part"]), st.lists(st.integers(0, 9)))
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
@given(st.lists(STEPS), st.integers(1, 4))
def test_any_order_and_any_size_of_batches_gives_the_same(steps, batch):
    found, images, by_key, order = Grouping(), [], {}, []
    with unittest.mock.patch.object(grouping, "_BATCH", batch):
        for number, (kind, keys) in enumerate(steps):
            for key in keys:
                if kind == "image":
                    found.add_image(key, number)
                    images.append((key, number))
                    assert key in found
                    continue
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
        for _ in range(16):
            found.add_part(image, bytes(1 << 16))
    with memory_below(48 << 20):
        assert all(len(parts) == 16 for _, parts in found)
    refused(TypeError, "", Grouping().add_image, math.nan, 0)
    for key in ([], {}):
        refused(TypeError, "", Grouping().add_image, key, 0)
        refused(TypeError, "", Grouping().add_part, key, 0)
    for _ in range(3):
        Grouping().add_image(1, 1)
    assert next(iter(Grouping()), "none") == "none"
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
    assert file.startswith(str(tmp_path)) and file.endswith("(deleted)") and not list(tmp_path.iterdir())


RATIOS = {"eval": 0.1, "test": 0.1, "train": 0.8}


def _assign(ids):
    split_of = {item: split_at(split_position(item), RATIOS) for item in ids}
    return {name: [item for item in ids if split_of[item] == name] for name in RATIOS}


def test_splits_are_ratios_or_locations_and_shares_about_what_was_asked():
    by_ratio, located = (
        check_splits({"train": 0.8, "eval": 0.2}),
        check_splits({"b": "b.json", "a": "a.json"}),
    )
    assert list(by_ratio.ratios.items()) == [("eval", 0.2), ("train", 0.8)]
    assert by_ratio.locations == {"": None} and by_ratio.names == ["eval", "train"]
    assert list(located.locations) == located.names == ["a", "b"] and not located.ratios
    assert is_by_ratio({"train": 1}) and not is_by_ratio({"train": "ImageSets/Main/train.txt"})
    assigned = _assign([*map(str, range(10_000))])
    assert sorted(int(n) for part in assigned.values() for n in part) == list(range(10_000))
    # Three standard deviations of a share of 0.1 among 10,000 are 0.009.
    assert all(abs(len(assigned[name]) / 10_000 - share) < 0.012 for name, share in RATIOS.items())
    ids = [str(n) for n in range(1000)]
    ordered = sorted(ids, key=order_digest)
    assert ordered == sorted(reversed(ids), key=order_digest)
    assert sum(abs(int(a) - int(b)) == 1 for a, b in itertools.pairwise(ordered)) < 20


@cases(
    ({}, "train"), ({"../x": 1.0}, "letters"), ({"": 1.0}, "letters"),
    ({"train": 0.5, "eval": 0.4}, "add up to 1"), ({"train": 1.5, "eval": -0.5}, "above 0"),
    ({"train": 10**400, "eval": 0.5}, "above 0"), ({"train": float("nan")}, "add up to 1"),
    ({"train": 0.5, "eval": "eval.json"}, "both"),
)  # fmt: skip
def test_what_cannot_be_splits_is_refused(*, splits, message):
    refused(ConfigError, message, check_splits, splits)


@settings(deadline=None)
@given(st.lists(st.text(), unique=True), st.randoms())
def test_an_image_stays_in_its_split_whatever_is_added_or_listed_first(ids, chance):
    more = [*ids, "one more"]
    chance.shuffle(more)
    before, after = _assign(ids), _assign(more)
    for name in RATIOS:
        assert set(before[name]) <= set(after[name])
