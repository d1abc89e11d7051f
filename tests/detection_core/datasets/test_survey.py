"""What is counted of a data set: classes, boxes, and what a survey sees."""

import collections
import itertools
import json
import math
import os
import random
import sys

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.artifacts.dataset_card import CARD
from detection_core.data.label_map import LabelMap, LabelMapItem
from detection_core.datasets.annotated_images import AnnotatedObject, Rejection
from detection_core.datasets.card import make_card
from detection_core.datasets.classes import make_label_map, similar_names
from detection_core.datasets.counts import (
    ASPECTS,
    BOX_SIDES,
    GRID,
    PER_IMAGE,
    SIDES,
    SIDES_PX,
    BoxCounter,
    Counts,
)
from detection_core.datasets.encoding import CheckedExample
from detection_core.datasets.layouts import check_splits, split_at, split_position
from detection_core.datasets.survey import OPENED_IMAGES, survey
from detection_core.errors import DataError
from tests.support.cases import cases, refused
from tests.support.dataset_files import Coco, exif, picture, stored_image, voc_xml, write_files, write_voc
from tests.support.same_set import WRITERS

RATIOS = {"train": 0.8, "eval": 0.2}


def _survey(data):
    return survey(data.write(), "coco", RATIOS)


def test_what_is_seen_is_what_is_there(tmp_path):
    data = Coco(tmp_path, images=30)
    data.add_box(2, [0, 0, 20, 15], category_id=1)
    data.add_box(99, [0, 0, 20, 15])
    seen = _survey(data)
    assert (seen.images, seen.empty_images, seen.most_objects) == (30, 10, 2)
    assert seen.classes == {"cat": 20, "dog": 1} and seen.objects == 21
    assert seen.rejected == {"unknown_image": 1} and (seen.opened, seen.unreadable) == (30, ())
    assert (seen.sizes == (30, 40)).all() and len(seen.sizes) == 30
    expected = [(0, 0, 15 / 30, 20 / 40), (3 / 30, 2 / 40, 23 / 30, 12 / 40)]
    np.testing.assert_allclose(np.unique(seen.boxes, axis=0), expected, rtol=1e-6)


def test_masks_and_keypoints_are_counted_but_no_outlines_of_boxes(tmp_path):
    data = Coco(tmp_path, images=3)
    data.annotate_shapes()
    data.annotations[1]["keypoints"] = [0] * 9
    data.add_box(2, [2, 3, 10, 20], segmentation=[[2, 3, 12, 3, 12, 23, 2, 23, 2, 3]])
    seen = _survey(data)
    assert (seen.objects, seen.masks, seen.keypoints) == (3, 2, {"cat": 1})
    assert seen.keypoint_names == {"cat": ["left_foot", "right_foot", "head"]}
    seen = _survey(Coco(tmp_path / "boxes", images=3))
    assert (seen.masks, seen.keypoints, seen.keypoint_names) == (0, {}, {})


def test_splits_are_counted_rare_classes_shown_and_many_sizes_and_boxes_sampled(tmp_path, monkeypatch):
    names = [f"image-{i}" for i in range(200)]
    path = write_voc(tmp_path, names=names, **{"image-33": voc_xml("image-33", label="rare")})
    seen = survey(path, "voc", RATIOS, shown=4)
    assert len(seen.examples) == 4
    assert any(item.name == "rare" for image in seen.examples for item in image.objects)
    for ratios in (RATIOS, {"train": 0.8, "eval": 0.1, "test": 0.1}, {"train": 0.5, "eval": 0.5}):
        made = collections.Counter(
            split_at(split_position(name), check_splits(ratios).ratios) for name in names
        )
        assert {name: seen.count(name, ratios) for name in ratios} == made
    write_files(tmp_path / "ImageSets" / "Main", {"val.txt": "image-0\nimage-1\n"})
    splits = {"train": "ImageSets/Main/train.txt", "eval": "ImageSets/Main/val.txt"}
    seen = survey(path, "voc", splits)
    assert [seen.count(name, splits) for name in ("train", "eval", "test")] == [200, 2, 0]
    data = Coco(tmp_path / "boxes", images=259)
    data.annotations.clear()
    for number in range(1, 260):
        data.add_box(number, [2, 3, 10, 20])
    seen = _survey(data)
    assert (OPENED_IMAGES // 2 < seen.opened <= OPENED_IMAGES) and len(seen.boxes) == 259
    monkeypatch.setattr("detection_core.datasets.survey.SAMPLED_BOXES", 100)
    seen = _survey(data)
    assert len(seen.boxes) == 100 and seen.objects == 259


def test_what_is_no_image_rejected_or_without_a_shape_is_counted_and_told(tmp_path, monkeypatch):
    data = Coco(tmp_path, images=5)
    for name in ("1.jpg", "4.jpg"):
        (tmp_path / "images" / name).unlink()
    (tmp_path / "images" / "2.jpg").write_bytes(b"nothing")
    os.mkfifo(tmp_path / "images" / "4.jpg")
    seen = _survey(data)
    assert seen.opened == 5
    assert sorted(fault.partition(":")[0] for fault in seen.unreadable) == ["1.jpg", "2.jpg", "4.jpg"]
    monkeypatch.setattr("detection_core.datasets.survey.SAMPLED_BOXES", 10)
    data = Coco(tmp_path / "boxes", images=1)
    for box in ([0, 0, 0, 5], [10, 10, -4, 5], [float("nan"), 0, 5, 5], [500, 500, 5, 5]):
        data.add_box(1, box)
    for number in range(30):
        data.add_box(1_000 + number, [0, 0, 5, 5])
    seen = _survey(data)
    assert len(seen.boxes) == 1 and np.isfinite(seen.boxes).all() and seen.rejected == {"unknown_image": 30}


def test_sizes_are_those_of_the_pictures_as_they_are_shown(tmp_path):
    data = Coco(tmp_path / "turned", images=0)
    data.add_image(1, data=picture(exif=exif(6)), width=0, height=0)
    seen = _survey(data)
    assert seen.sizes.tolist() == [[40, 30]]
    # The annotation says no size: boxes are fractions of the picture's.
    np.testing.assert_allclose(seen.boxes, [[3 / 40, 2 / 30, 23 / 40, 12 / 30]], rtol=1e-6)
    data = Coco(tmp_path / "huge", images=20)
    for image in data.images:
        image["width"] = 10**400
    seen = _survey(data)
    assert (seen.sizes == (30, 40)).all() and 0 < seen.boxes.max() <= 1
    for name in ("yolo", "coco"):  # boxes in fractions, and in pixels
        WRITERS[name](tmp_path / name)
    by_format = [survey(str(tmp_path / name), name, RATIOS) for name in ("yolo", "coco")]
    for field in ("boxes", "sizes"):
        one, other = (np.sort(getattr(seen, field), axis=0) for seen in by_format)
        np.testing.assert_allclose(one, other, atol=1e-4)
    assert by_format[0].empty_images == by_format[1].empty_images == 1


def test_examples_come_from_all_splits_and_folders(tmp_path):
    for split, camera, number in itertools.product(("train", "val", "test"), ("one", "two"), range(40)):
        name = f"{split}-{camera}-{number}"
        write_files(tmp_path / split / camera, {f"{name}.jpg": picture(), f"{name}.xml": voc_xml(name)})
    places = {"train": "train", "eval": "val", "test": "test"}
    splits = {name: {"annotations": folder, "images": folder} for name, folder in places.items()}
    seen = survey(str(tmp_path), "voc", splits)
    folders = {os.path.dirname(os.path.relpath(image.path, tmp_path)) for image in seen.examples}
    assert len(seen.examples) == 12 and len(folders) == 6
    assert [seen.count_annotated(name, splits) for name in ("train", "eval", "none")] == [80, 80, 0]


@cases(
    ((), "expected annotated objects, found none on 1 images"),
    (("/elsewhere/a.jpg", b""), r"of 1 that cannot be used one is /elsewhere/a\.jpg: .*leaves the"),
)
def test_a_set_without_objects_is_refused_with_what_is_wrong_with_the_first(tmp_path, *, image, message):
    data = Coco(tmp_path, images=0)
    data.add_image(1, *image, boxes=[[2, 3, 10, 20]] if image else [])
    refused(DataError, message, _survey, data)


def _example(number, boxes, area=0.0):
    image = stored_image(b"12345", 200, 100 + number, source_id=str(number), sha256=f"{number:064x}")
    objects = [AnnotatedObject("cat", box, area, 1, 1, 0, None, "") for box in boxes]
    return CheckedExample(data=b"", image=image, objects=objects, boxes=boxes, clipped=1, converted=True)


_BOXES = [(0, 0, 10, 10), (0, 0, 200, 101)]
EXAMPLES = [_example(0, []), _example(1, _BOXES), _example(2, [(0, 0, 40, 40)], area=50.0)]


def _counted(*examples):
    counts = Counts()
    for example in examples:
        counts.add(example)
    return counts


def test_every_example_is_counted_and_parts_sum_up_to_the_whole_through_json():
    whole, merged = _counted(*EXAMPLES), Counts()
    total = {"images": 3, "empty_images": 1, "converted_images": 3, "image_bytes": 15, "objects": 3}
    total |= {"clipped_boxes": 3, "crowd": 3, "difficult": 3, "truncated": 0, "decoded_images": 0}
    total |= {"turned_images": 0, "annotated_as_stored": 0, "passed_through": 0}
    assert whole.counts["total"] == total and whole.counts["classes"] == {"cat": 3}
    assert whole.counts["box_areas"] == {"small": 2, "large": 1}
    assert whole.counts["box_sides"] == {"0.1": 1, "1.0": 1, "0.3": 1}
    assert whole.ranges["height"] == [3, 303, 100, 102]
    for example in EXAMPLES:
        merged.merge(Counts(json.loads(json.dumps(_counted(example).state()))))
    assert merged.state() == whole.state()
    assert _counted(_example(0, [(0, 0, 200, 100)])).counts["box_sides"] == {str(BOX_SIDES[-1]): 1}


def test_counts_cost_a_handful_of_calls_and_are_the_same_however_many_wait(monkeypatch):
    rng = random.Random(5)
    boxes = [[(0, 0, rng.randint(1, 200), rng.uniform(1, 100)) for _ in range(n % 4)] for n in range(40)]
    examples = [_example(n, own, area=rng.choice([0.0, 1024.0, 9216.0])) for n, own in enumerate(boxes)]
    found = set()
    for chunk in (0, 7, 10_000):
        monkeypatch.setattr("detection_core.datasets.counts._CHUNK", chunk)
        found.add(json.dumps(_counted(*examples).state(), sort_keys=True))
    assert len(found) == 1
    example = _example(1, [(0, 0, 10, 10)] * 50)
    counts, calls = Counts(), []
    sys.setprofile(lambda frame, event, arg: calls.append(event))
    try:
        counts.add(example)
    finally:
        sys.setprofile(None)
    assert len(calls) < 50


_SIDE, _DRAWN = st.integers(8, 300), st.lists(st.tuples(*[st.floats(0, 1)] * 4), max_size=5)
IMAGES = st.lists(st.tuples(_SIDE, _SIDE, _DRAWN), max_size=8)


def counted(images):
    counter = BoxCounter()
    for width, height, boxes in images:
        counter.add(boxes, width, height)
    return counter


def in_pixels(drawn):
    images = []
    for width, height, boxes in drawn:
        pixels = []
        for a, b, c, d in boxes:
            box = (min(a, c) * width, min(b, d) * height, max(a, c) * width, max(b, d) * height)
            if box[2] - box[0] > 0.01 and box[3] - box[1] > 0.01:
                pixels.append(box)
        images.append((width, height, pixels))
    return images


def slot(value, up_to):
    return next((i for i, edge in enumerate(up_to) if value <= edge), len(up_to) - 1)


def by_looping(images):
    """The definitions, box by box and cell by cell."""
    shapes = {"sizes": (len(SIDES), len(SIDES)), "centres": (GRID, GRID), "coverage": (GRID, GRID)}
    shapes |= {"aspects": len(ASPECTS), "sides_px": len(SIDES_PX), "per_image": len(PER_IMAGE)}
    tables = {name: np.zeros(shape, int) for name, shape in shapes.items()}
    for width, height, boxes in images:
        tables["per_image"][slot(len(boxes), PER_IMAGE)] += 1
        for xmin, ymin, xmax, ymax in boxes:
            w, h = xmax - xmin, ymax - ymin
            tables["sizes"][slot(h / height, SIDES), slot(w / width, SIDES)] += 1
            tables["aspects"][slot(w / h, ASPECTS)] += 1
            tables["sides_px"][slot(math.sqrt(w * h), SIDES_PX)] += 1
            row, column = ((ymin + ymax) / 2 / height * GRID, (xmin + xmax) / 2 / width * GRID)
            tables["centres"][min(int(row), GRID - 1), min(int(column), GRID - 1)] += 1
            for i in range(GRID):
                for j in range(GRID):
                    y, x = (i + 0.5) / GRID * height, (j + 0.5) / GRID * width
                    tables["coverage"][i, j] += ymin <= y < ymax and xmin <= x < xmax
    return tables


@settings(max_examples=60, deadline=None)
@given(drawn=IMAGES)
def test_counts_are_what_the_definitions_say(drawn):
    images = in_pixels(drawn)
    profile, expected = counted(images).profile(), by_looping(images)
    assert profile.boxes == sum(len(boxes) for _, _, boxes in images)
    for name in ("sizes", "aspects", "sides_px", "per_image"):
        assert getattr(profile, name).counts == expected[name].tolist(), name
    assert profile.centres == expected["centres"].tolist()
    # A middle on the very edge of a box may fall to either side by a rounding error.
    assert np.abs(np.array(profile.coverage) - expected["coverage"]).sum() <= 1


@settings(max_examples=30, deadline=None)
@given(drawn=IMAGES, at=st.integers(0, 8))
def test_parts_add_up_to_the_whole_also_when_they_travelled_as_json(drawn, at):
    images = in_pixels(drawn)
    first, second = counted(images[:at]), counted(images[at:])
    total = BoxCounter(json.loads(json.dumps(second.state())))
    total.merge(first)
    assert total.profile() == counted(images).profile()


def test_what_is_counted_does_not_wait_in_memory_and_outer_bins_have_what_lies_outside():
    for images in (1, 5000):
        counter = counted([(100, 50, [(10.0, 10.0, 30.0, 20.0)])] * images)
        assert len(counter._boxes) <= 4096
        assert counter.profile().boxes == counter.profile().per_image.counts[1] == images
    profile = counted([(10_000, 10_000, [(0.0, 0.0, 10_000.0, 10_000.0), (1.0, 1.0, 2.0, 9999.0)])]).profile()
    assert profile.sizes.counts[-1][-1] == profile.sides_px.counts[-1] == 1
    assert profile.aspects.counts[0] == profile.coverage[0][0] == 1


LABELS = LabelMap(items=(LabelMapItem(id=1, name="n01", display_name="cat"), LabelMapItem(id=4, name="dog")))


def _counts(images, classes, digests):
    counts = {"total": {"images": images}, "classes": classes, "box_sides": {"0.1": 2}}
    state = {"counts": counts, "ranges": {"width": [images, 100 * images, 90, 110]}, "digests": digests}
    return Counts(state)


def test_the_card_holds_counts_by_split_and_in_all():
    train = _counts(3, {"n01": 2, "cat": 1}, ["a", "b", "b"])
    counts = {"train": train, "eval": _counts(1, {"dog": 1}, ["b"])}
    quarantine = {"train": [Rejection("x.jpg", "9", "empty_image", "")]}
    made = make_card("coco", LABELS, counts, {"train": 2, "eval": 1}, quarantine)
    card = CARD.encode(made)
    assert card["classes"] == [{"id": 1, "name": "cat", "objects": 3}, {"id": 4, "name": "dog", "objects": 1}]
    assert card["total"]["images"] == 4
    assert card["quarantine"] == {"records": 1, "fraction": 0.2, "reasons": {"empty_image": 1}}
    assert card["images_in_two_splits"] == 1
    train = card["splits"]["train"]
    assert (train["shards"], train["images"], train["quarantined"]) == (2, 3, {"empty_image": 1})
    assert train["classes"] == {"cat": 3, "dog": 0}
    assert train["width"] == {"min": 90, "mean": 100.0, "max": 110}
    assert dict(zip(*train["box_sides_of_image"].values(), strict=True))[0.1] == 2
    assert list(train)[:3] == ["images", "empty_images", "objects"] and "spans" not in card
    assert CARD.parse(CARD.format(made), "dataset_card.json") == made


def test_ids_are_kept_or_numbered_by_name_and_splits_that_contradict_each_other_refused():
    label_map = make_label_map([{"cat": 3}, {"dog": 1, "cat": 3}])
    assert [(item.id, item.name) for item in label_map.items] == [(1, "dog"), (3, "cat")]
    splits = [{"rbc": 0}, {"wbc": 0, "platelets": 0}]
    label_map = make_label_map(splits)
    assert label_map == make_label_map(reversed(splits))
    assert [(item.id, item.name) for item in label_map.items] == [(1, "platelets"), (2, "rbc"), (3, "wbc")]
    refused(DataError, r"'cat', found 3 and 4", make_label_map, [{"cat": 3}, {"cat": 4}])
    refused(DataError, "ids used twice", make_label_map, [{"cat": 3}, {"dog": 3}])
    refused(DataError, "found none", make_label_map, [{}, {}])
    refused(DataError, "one that cannot be used: a", make_label_map, [{}], "a.csv: found more")
    names = ["RBC", "rbc", "white cell", "White  cell ", "whitecell", "other"]
    assert similar_names(names) == [["RBC", "rbc"], ["White  cell ", "white cell", "whitecell"]]
    assert similar_names(["a", "a", "b"]) == []
