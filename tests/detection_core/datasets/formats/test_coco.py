"""COCO: its annotation file, its folders, and JSON files."""

import json
import math
import os
import time

from detection_core.datasets import annotated_images, json_lists
from detection_core.datasets.annotated_images import AnnotatedObject, Rejected, RunLengths
from detection_core.datasets.classes import make_label_map
from detection_core.datasets.formats import coco, createml, json_files
from detection_core.datasets.layout_search import find_layout
from detection_core.errors import ConfigError, DataError
from detection_core.storage.folder_listing import list_folder
from tests.support.cases import cases, refused
from tests.support.dataset_files import Coco, ids, picture, reading, reasons, subfolder, whole, write_files
from tests.support.memory import memory_below


def _read(data):
    return whole(coco.read(data.write(), None))


def test_boxes_masks_and_keypoints_are_kept_and_empty_ones_are_none(tmp_path):
    data = Coco(tmp_path, images=0)
    data.add_image(7, name="sub.jpg", boxes=[])
    data.add_box(7, [2, 3.5, 10, 20], iscrowd=1, category_id=1)
    (image,) = _read(data).images
    assert (image.source_id, image.filename, image.width, image.height) == ("7", "sub.jpg", 40, 30)
    assert image.path == str(tmp_path / "images" / "sub.jpg")
    box = (2.0, 3.5, 12.0, 23.5)
    assert image.objects == [AnnotatedObject("dog", box, 123.5, 1, None, None, None, "annotation 0")]
    data.categories = [{"id": 1, "name": "cat", "keypoints": ["nose", "tail"]}, {"id": 2, "name": "dog"}]
    data.annotations, ring, size = [], [1.5, 1, 9, 1, 9, 9], {"size": [30, 40]}
    for segmentation in ([ring], [], [[]], {**size, "counts": [1200]}, {**size, "counts": "Z"}):
        data.add_box(7, [1, 1, 8, 8], category_id=2, segmentation=segmentation)
    data.add_box(7, [1, 1, 8, 8], category_id=1, keypoints=[3, 4.5, 2, 0, 0, 0], num_keypoints=1)
    data.add_box(7, [1, 1, 8, 8], category_id=2, keypoints=[])
    found = _read(data)
    [image] = found.images
    polygons, *masks = [item.mask for item in image.objects]
    assert list(map(list, polygons.rings)) == [ring]
    assert masks == [None, None, RunLengths(30, 40, [1200]), RunLengths(30, 40, "Z"), None, None]
    assert [item.keypoints for item in image.objects[5:]] == [[(3.0, 4.5, 2), (0.0, 0.0, 0)], None]
    assert found.keypoint_names == {"cat": ["nose", "tail"]}


_WRONG = {
    "segmentation": [
        "RLE", [1, 2, 3, 4, 5, 6], [["1"] * 6], {"counts": [5]}, {"size": [3], "counts": [5]},
        {"size": ["3", 4], "counts": [5]}, {"size": [3, 4], "counts": 5},
    ],
    "keypoints": [[1, 2], [1, 2, "2"], {"nose": [1, 2]}, [1, 2, float("nan")]],
    "bbox": [None, "1234", [1, 2, 3], [1, 2, 3, True], [1, 2, 3, "4"], [1, 2, 3, 10**400]],
    "category_id": [[]], "area": ["big"], "iscrowd": [2],
}  # fmt: skip


@cases(*[(field, value) for field, values in _WRONG.items() for value in values])
def test_an_annotation_of_any_wrong_form_costs_only_its_image(tmp_path, *, field, value):
    data = Coco(tmp_path)
    data.annotations[0][field] = value
    found = _read(data)
    part = {"segmentation": "mask", "keypoints": "keypoints"}.get(field, "annotation")
    reason = f"malformed_{part}"
    assert len(found.images) == 5 and [(r.record, r.reason) for r in found.rejected] == [("1", reason)]
    assert "annotation 0" in found.rejected[0].detail


def test_classes_are_numbered_kept_or_left_out_as_label_maps_and_supercategories_want(tmp_path):
    data = Coco(tmp_path)
    cats_and_dogs = data.categories
    assert _read(data).categories == {"dog": 1, "cat": 3}
    data.categories = [{"id": 5, "name": "cat"}, {"id": 0, "name": "dog"}]
    assert coco.read(data.write(), None).categories == {"dog": 1, "cat": 2}
    data.categories = [{**entry, "supercategory": entry["name"]} for entry in cats_and_dogs]
    assert _read(data).categories == {"dog": 1, "cat": 3}
    above = {"id": 0, "name": "pets", "supercategory": "none", "keypoints": ["nose"]}
    data.categories = [above, *({**entry, "supercategory": "pets"} for entry in cats_and_dogs)]
    found = _read(data)
    assert found.categories == {"dog": 1, "cat": 3} and not found.keypoint_names
    data.add_box(1, [0, 0, 5, 5], category_id=0)
    assert set(_read(data).categories) == {"pets", "dog", "cat"}


@cases(
    ("{", "cannot be parsed"), ("[" * 100_000, "cannot be parsed"), ("[]", "list 'images'"),
    ('{"images": [], "annotations": {}}', "list 'annotations'"), ([{"id": 1}], "category with id and name"),
    ([{"id": 1, "name": "a"}, {"id": 1, "name": "b"}], "unique"),
    ([{"id": 1, "name": "a"}, {"id": 2, "name": "a"}], "unique"), ([{"id": "1", "name": "a"}], "whole ids"),
    ([{"id": 1, "name": "a", "keypoints": ["b", "b"]}], "unique names"),
    ([{"id": 1, "name": "a", "keypoints": [7]}], "unique names"),
)  # fmt: skip
def test_a_file_of_which_nothing_can_be_read_is_one_error_that_names_it(tmp_path, *, content, message):
    whole_file = {"images": [], "annotations": [], "categories": content}
    text = content if isinstance(content, str) else json.dumps(whole_file)
    (tmp_path / "annotations.json").write_text(text)
    error = refused(DataError, message, coco.read, str(tmp_path), None)
    assert error.where == str(tmp_path / "annotations.json")


@cases(
    None, 5, "text", [], {}, {"id": 9}, {"file_name": "a.jpg"}, {"id": [], "file_name": "a.jpg"},
    {"id": 9, "file_name": "a\udc80.jpg"}, {"id": 9, "file_name": "a.jpg", "width": "40"},
    {"id": 9, "file_name": "a.jpg", "width": float("nan")},
)  # fmt: skip
def test_an_image_entry_of_any_wrong_form_costs_only_itself(tmp_path, *, entry):
    data = Coco(tmp_path)
    data.images.append(entry)
    found = _read(data)
    assert len(found.images) == 6 and reasons(found) == ["malformed_record"]


def test_the_annotation_file_is_found_or_the_error_says_how_to_name_it(tmp_path):
    data, root = Coco(tmp_path), str(tmp_path)
    refused(DataError, "found none; name the file", coco.locate, root, None)
    data.write("one.json")
    assert coco.locate(root, None) == (f"{root}/one.json", f"{root}/images")
    for location in (5, ["one.json"], {"images": "images"}, {"annotations": "one.json", "image": "images"}):
        refused(ConfigError, "annotations", coco.locate, root, location)
    for location in ("no.json", {"annotations": "one.json", "images": "no"}):
        refused(DataError, "found nothing", coco.locate, root, location)
    data.write("two.json")
    refused(DataError, r"one.json.*two.json", coco.locate, root, None)
    assert coco.locate(root, "two.json")[0] == f"{root}/two.json"
    assert coco.locate(root, {"annotations": "two.json", "images": "."})[1] == root
    mine = Coco(tmp_path / "a[1]", images=2).write("mine.json")
    Coco(tmp_path / "a1", images=5).write("theirs.json")
    assert coco.locate(mine, None)[0].endswith("a[1]/mine.json")
    os.truncate(tmp_path / "one.json", 5 * 2**30)  # sparse
    os.mkfifo(tmp_path / "pipe.json")
    said = {"pipe": "cannot be read: expected a regular file", "one": r"(expected JSON|extra data)"}
    for name, message in said.items():
        refused(DataError, rf"{name}\.json: .*{message}", _images, root, f"{name}.json")


def test_many_categories_take_no_longer_than_their_number_and_huge_ids_are_refused(tmp_path):
    data = Coco(tmp_path, images=1)
    data.categories = [{"id": number, "name": f"class {number}"} for number in range(1, 60_001)]
    begin = time.process_time()
    assert len(coco.read(data.write(), None).categories) == 60_000
    # Half a minute when each name was looked for among all before it.
    assert time.process_time() - begin < 5
    for number in (100_001, 2**31 - 1, 10**30):  # each would make a huge detector
        data.categories = [{"id": number, "name": "far"}]
        found = coco.read(data.write(), None).categories
        refused(DataError, r"expected ids up to 100,000, found .* of 'far'", make_label_map, [found])


def _images(root, name):
    return list(coco.read(str(root), name).images)


_LONG = "more than 65,536 characters"


@cases(
    ('{"images": [{"id": 1, "file_name": "', "x", '"}]}', _LONG),
    ('{"images": [{', '"key": 1, ', '"id": 1}]}', _LONG), ('{"info": "', "x", '"}', _LONG),
    ('{"images": [], "annotations": [{"segmentation": [[', "1.5, ", "1]]}]}", _LONG),
    ('{"images": ', "[", "", "recursion"),
    ('{"images": [', " ", '], "annotations": []}', "a list 'categories', found none"),
)  # fmt: skip
def test_one_endless_line_is_refused_in_bounded_memory(tmp_path, monkeypatch, *, begin, unit, end, said):
    monkeypatch.setattr(json_lists, "PIECE", 1 << 12)
    monkeypatch.setattr(json_lists, "MAX_ELEMENT", 1 << 16)
    Coco(tmp_path)
    (tmp_path / "train.json").write_text(begin + unit * ((8 << 20) // len(unit)) + end)
    with memory_below(4 << 20):
        refused(DataError, said, _images, tmp_path, "train.json")


@cases(
    ({"attributes": {"occluded": True, "difficult": 0, "truncated": "very", "color": "red"}}, (1, 0, None)),
    ({"attributes": [1]}, (None, None, None)),
    ({"attributes": {"occluded": 2, "truncated": 1.0}}, (None, None, None)),
    ({"detflow": {"weight": "heavy", "pose": 5, "confidence": float("nan")}}, (None, None, None)),
)  # fmt: skip
def test_attributes_are_read_where_they_are_flags(tmp_path, *, beside, said):
    data = Coco(tmp_path, images=0)
    data.add_image(1, boxes=[])
    data.add_box(1, [2, 3, 10, 20], **beside)
    ((item,),) = [image.objects for image in _read(data).images]
    assert (item.occluded, item.difficult, item.truncated) == said
    assert (item.weight, item.pose, item.confidence) == (None, None, None)


@cases(None, 7, [], "x", {"image_id": []}, {"id": 3}, {"id": 3, "image_id": {}})
def test_an_entry_that_is_no_annotation_is_put_aside_and_masks_beside_it_are_kept(tmp_path, *, odd):
    data = Coco(tmp_path, images=0)
    for number in range(3):
        data.add_image(number, boxes=[])
        data.add_box(number, [1, 1, 8, 8], segmentation=[[1, 1, 9, 1, 9, 9]])
    data.annotations.insert(1, odd)
    found = _read(data)
    rings = [list(map(list, item.mask.rings)) for image in found.images for item in image.objects]
    assert rings == [[[1, 1, 9, 1, 9, 9]]] * 3 and reasons(found) == ["malformed_annotation"]


def test_too_many_annotations_of_an_image_or_that_cannot_be_used_are_not_read_on(tmp_path, monkeypatch):
    monkeypatch.setattr("detection_core.datasets.grouping.MAX_OBJECTS", 5)
    monkeypatch.setattr(annotated_images.check_count, "__defaults__", ("annotations of an image", 5))
    monkeypatch.setattr(annotated_images, "MAX_REJECTED", 3)
    data = Coco(tmp_path, images=0)
    data.add_image(1, boxes=[[1, 1, 8, 8]] * 7)
    data.add_image(2, boxes=[[1, 1, 8, 8]] * 5)
    found = _read(data)
    assert [len(image.objects) for image in found.images] == [5]
    (rejection,) = found.rejected
    assert rejection.detail == "expected at most 5 annotations of an image, found more"
    data.annotations += [None] * 4
    refused(DataError, "at most 3 annotations that cannot be used, .* found None", _read, data)


IMAGES = [{"id": n, "file_name": f"{n}.jpg"} for n in range(3)]
BOXES = [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 1, 1]}]
SET = {"images": IMAGES, "annotations": BOXES, "categories": [{"id": 1, "name": "cat"}]}


@cases(
    (SET, True), (dict(reversed(SET.items())), True), ({**SET, "annotations": []}, True), ({}, False),
    ({"images": IMAGES, "annotations": [{"id": 1, "image_id": 1, "caption": "a cat"}]}, False),
    ({**SET, "annotations": [{"segments_info": []}]}, False), ({"shapes": [], "imagePath": "a.jpg"}, False),
    ([{"images": IMAGES, "category_id": 1}], False),
)  # fmt: skip
def test_a_file_is_known_by_its_lists(*, content, expected):
    assert coco.is_coco(json.dumps(content).encode(), b"") is expected


def test_only_some_files_of_a_folder_and_parts_of_a_long_one_are_read(tmp_path):
    images = [{"id": n, "file_name": f"{n:06}.jpg", "note": "x" * 100} for n in range(20_000)]
    text = json.dumps({**SET, "images": images})
    write_files(tmp_path, {"long.json": text.replace('"000000.jpg"', '"no escape: \\q"')})
    (file,) = coco.find_files(list_folder(str(tmp_path))).values()
    assert file.names[0] != "no escape: q" and file.names[-1] == "019999.jpg"
    assert all(name.removesuffix(".jpg").isdigit() for name in file.names)
    below = subfolder(tmp_path, 1)
    write_files(below, {f"{n:03}.json": '{"shapes": []}' for n in range(100)})
    write_files(below, {"050.json": json.dumps({"images": [], "categories": []})})
    assert coco.find_files(list_folder(str(below))) == {}


@cases("images", "data/pictures", ".", None)
def test_images_are_found_in_whatever_folder_or_said_to_be_nowhere(tmp_path, *, folder):
    if folder:
        write_files(tmp_path / folder, {image["file_name"]: b"image" for image in IMAGES})
    write_files(tmp_path, {"boxes.json": json.dumps(SET)})
    layout = coco.find(list_folder(str(tmp_path)))
    assert layout.images == (3 if folder else 0)
    assert ("no folder that was found" in layout.evidence) == (folder is None)
    assert coco.locate(str(tmp_path), None)[1] == str(tmp_path / (folder or "."))


@cases(
    (None, "missing_annotation"), (b"{", "unreadable_annotation"), (b"\xff", "unreadable_annotation"),
    (b"[" * 100_000, "unreadable_annotation"), (b"", "unreadable_annotation"),
)  # fmt: skip
def test_a_file_that_cannot_be_parsed_has_a_reason(tmp_path, *, data, reason):
    if data is not None:
        (tmp_path / "a").write_bytes(data)
    assert refused(Rejected, "", json_files.parse_json, str(tmp_path / "a")).reason == reason


def test_sound_values_are_given_back_and_others_refused(tmp_path):
    for value in (None, True, "1", [1], math.nan, math.inf, 10**400):
        refused(Rejected, "expected x as", json_files.number_of, value, "x")
        refused(Rejected, "", json_files.point_of, [1, value], "x")
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbf[1]")
    assert json_files.parse_json(str(tmp_path / "a")) == [1] and json_files.number_of(2, "x") == 2.0
    assert json_files.point_of([1, 2.5], "x") == (1.0, 2.5)
    assert json_files.size_of(40, 30.0) == (40, 30) and json_files.size_of(None, None) == (0, 0)
    assert json_files.mapping_of({}, "x") == {} and json_files.list_of([], "x") == []
    for size in ((-1, 2), (1.5, 2), ("4", 3)):
        refused(Rejected, "", json_files.size_of, *size)
    refused(Rejected, "expected x as a list", json_files.list_of, {}, "x")
    for value in (None, 1, "x", []):
        refused(Rejected, "expected x as a JSON object", json_files.mapping_of, value, "x")
        refused(Rejected, "", json_files.point_of, value, "x")


_read_createml = reading(createml)
BOX = {"label": "cat", "coordinates": {"x": 20, "y": 10, "width": 10, "height": 4}}


def _write(root, *entries):
    names = [entry.get("image") for entry in entries if isinstance(entry, dict)]
    write_files(root, {name: picture() for name in names if name})
    write_files(root, {"_annotations.createml.json": json.dumps(entries)})
    return root


def test_boxes_are_about_their_centers_and_folders_of_splits_those_of_roboflow(tmp_path):
    entries = {"image": "a.jpg", "annotations": [BOX]}, {"image": "b.jpg", "annotations": []}
    found = _read_createml(_write(tmp_path, *entries))
    assert [(image.source_id, len(image.objects)) for image in found.images] == [("a.jpg", 1), ("b.jpg", 0)]
    assert found.images[0].objects[0].box == (15, 8, 25, 12) and found.categories == {"cat": 0}
    below = subfolder(tmp_path, 1)
    for split in ("train", "valid"):
        _write(below / split, {"image": f"{split}.jpg", "annotations": [BOX]})
    layout = find_layout(str(below))
    location = {"annotations": "train/_annotations.createml.json", "images": "train"}
    assert layout.format == "createml" and layout.splits["train"] == location
    assert len(createml.locate(str(below), location)) == 2


@cases(
    (5, "malformed_record"), ({"annotations": [BOX]}, "malformed_record"),
    ({"image": "../none.jpg", "annotations": [BOX]}, "path_outside"),
    ({"image": "b.jpg", "annotations": 5}, "malformed_record"),
    ({"image": "b.jpg", "annotations": [{**BOX, "label": None}]}, "malformed_record"),
    ({"image": "b.jpg", "annotations": [{**BOX, "coordinates": 5}]}, "malformed_annotation"),
    ({"image": "b.jpg", "annotations": [{**BOX, "coordinates": {"x": 1}}]}, "malformed_annotation"),
)  # fmt: skip
def test_a_bad_entry_costs_only_its_image(tmp_path, *, entry, reason):
    found = _read_createml(_write(tmp_path / "set", {"image": "a.jpg", "annotations": [BOX]}, entry))
    assert reasons(found) == [reason] and ids(found) == ["a.jpg"]
    assert not any(image.filename == "b.jpg" for image in found.unannotated)
