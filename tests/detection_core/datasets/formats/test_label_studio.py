"""Annotation tools that write JSON: Label Studio, LabelMe and VIA."""

import base64
import csv
import io
import json
import os

import numpy as np
import pytest
from PIL import Image
from pycocotools import mask as coco_mask

from detection_core.bounded.limits import MAX_OBJECTS
from detection_core.datasets.annotated_images import Polygons, Rejected
from detection_core.datasets.formats import label_studio, labelme, via
from detection_core.datasets.formats.label_studio import file_name, read_objects
from detection_core.datasets.image_files import shown_size
from detection_core.datasets.layout_search import find_layout
from detection_core.errors import ConfigError, DataError
from detection_core.storage import files
from tests.support.cases import cases, refused
from tests.support.dataset_files import (
    brush_bytes,
    encoded,
    ids,
    picture,
    png_that_claims,
    reading,
    reasons,
    write_files,
)

_read = reading(label_studio)
SIZE = {"original_width": 40, "original_height": 30}
PLACE = {"x": 25, "y": 50, "width": 25, "height": 50, "rotation": 0}
BOX = {**SIZE, "type": "rectanglelabels", "id": "r", "value": {**PLACE, "rectanglelabels": ["cat"]}}
HERE = {"annotations": "export.json", "images": "."}


def _done(*results, **more):
    return {"result": list(results), **more}


def _task(number=1, image="/data/upload/1/0123abcd-a.jpg", annotations=({"result": [BOX]},)):
    return {"id": number, "data": {"image": image}, "annotations": list(annotations)}


def _write(root, *tasks):
    write_files(root, {"export.json": json.dumps(tasks), "a.jpg": picture(), "b.jpg": picture()})


@cases(
    ("/data/upload/1/0123abcd-a%20b.jpg", "0123abcd-a b.jpg"),
    ("/data/local-files/?d=in/side/a.jpg", "a.jpg"), ("s3://bucket/in/a.jpg", "a.jpg"),
    ("https://host/a.jpg?token=1", "a.jpg"), ("a.jpg", "a.jpg"), ("http://[::1/a.jpg", "a.jpg"),
    ("//[/a.jpg", "a.jpg"), ("http://[v1.x]/a.jpg", "a.jpg"),
)  # fmt: skip
def test_a_file_name_ends_an_address_and_one_that_is_none_is_a_path(tmp_path, *, address, name):
    assert file_name(address) == name
    _write(tmp_path, _task(image=address))
    found = _read(tmp_path, HERE)
    assert not found.rejected and (name != "a.jpg" or [i.filename for i in found.images] == [name])


def test_the_shorter_export_and_the_annotation_that_counts_are_read(tmp_path):
    region = {**PLACE, **SIZE, "rectanglelabels": ["cat"]}
    _write(tmp_path, {"image": "/data/upload/1/0123abcd-b.jpg", "id": 1, "label": [region]})
    layout = find_layout(str(tmp_path))
    (image,) = _read(layout.path).images
    assert layout.format == "label_studio" and image.filename == "b.jpg"
    assert image.objects[0].box == (10, 15, 20, 30)
    dog = {**BOX, "value": {**PLACE, "rectanglelabels": ["dog"]}}
    cancelled = _done(BOX, was_cancelled=True)
    first = _task(1, "a.jpg", [cancelled, _done(dog), _done(BOX)])
    second = _task(2, "b.jpg", [_done(BOX), _done(dog, ground_truth=True)])
    _write(tmp_path, first, second, _task(3, "a.jpg", []), _task(4, "a.jpg", [cancelled]))
    found = _read(tmp_path, HERE)
    assert [item.name for image in found.images for item in image.objects] == ["dog", "dog"]
    assert not found.rejected and found.categories == {"dog": 0}


def test_keypoints_have_one_order_whichever_comes_first(tmp_path):
    def point(name, x):
        value = {"x": x, "y": 50, "width": 1, "keypointlabels": [name]}
        return {**SIZE, "type": "keypointlabels", "id": name, "parentID": "r", "value": value}

    nose, ear = point("nose", 50), point("ear", 25)
    _write(tmp_path, _task(1, "a.jpg", [_done(BOX, nose)]), _task(2, "b.jpg", [_done(ear, BOX)]))
    found = _read(tmp_path, HERE)
    assert found.keypoint_names == {"cat": ["ear", "nose"]}
    first, second = [image.objects[0].keypoints for image in found.images]
    assert (first, second) == ([(0, 0, 0), (20, 15, 2)], [(10, 15, 2), (0, 0, 0)])


@cases(
    (5, "malformed_record"), ({"id": 9, "data": 5, "annotations": [_done(BOX)]}, "malformed_record"),
    (_task(9, None), "malformed_record"), (_task(9, "x\ny.jpg"), "malformed_record"),
    (_task(9, "/data/local-files/?d=.."), "path_outside"), (_task(9, annotations=[5]), "malformed_record"),
    (_task(9, annotations=[{"result": 5}]), "malformed_record"),
    (_task(9, annotations=[_done({**BOX, "type": "videorectangle"})]), "malformed_annotation"),
)  # fmt: skip
def test_a_bad_task_costs_only_itself(tmp_path, *, task, reason):
    _write(tmp_path, _task(1, "a.jpg"), task)
    found = _read(tmp_path, HERE)
    assert reasons(found) == [reason] and len(found.images) == 1


def test_files_that_are_no_list_of_tasks_and_too_many_keypoints_are_refused(tmp_path, monkeypatch):
    message = r"export\.json: expected a JSON export of Label Studio"
    for text in ("{}", "[", "5"):
        write_files(tmp_path, {"export.json": text})
        refused(DataError, message, _read, tmp_path, HERE)
    _write(tmp_path, _task())
    os.truncate(tmp_path / "export.json", 5 * 2**30)  # and not searched for keypoints
    refused(DataError, f"{message}: expected JSON", _read, tmp_path, HERE)
    monkeypatch.setattr(label_studio.shapes, "MAX_VALUES", 3)
    point = {**SIZE, "type": "keypointlabels", "id": "p", "parentID": "r"}
    points = [{**point, "value": {"x": 1, "y": 1, "keypointlabels": [name]}} for name in "ab"]
    more = [{**BOX, "id": str(number)} for number in range(2)]
    _write(tmp_path, _task(annotations=[_done(BOX, *points)]), _task(2, "b.jpg", [_done(*more)]))
    found = _read(tmp_path, HERE)
    assert [image.filename for image in found.images] == ["a.jpg"]
    (rejection,) = found.rejected
    assert rejection.detail == "expected at most 3 keypoints of an image, found more"


def _result(kind, value, name="cat", **more):
    return {**SIZE, "type": kind, "id": kind, "value": {**value, kind: [name]}, **more}


PART = {"x": 25, "y": 50, "width": 25, "height": 20}
POINT = _result("keypointlabels", {"x": 1, "y": 1}, "nose", parentID="rectanglelabels")
REGION_BOX = _result("rectanglelabels", PART)


def test_places_are_in_percent_of_width_and_height_and_turn_about_the_first_corner():
    [item], _, size = read_objects([_result("rectanglelabels", {**PART, "rotation": 90})])
    assert size == (40, 30) and item.box == pytest.approx((4, 15, 10, 25)) and item.mask
    [item], *_ = read_objects([_result("polygonlabels", {"points": [[0, 0], [50, 0], [50, 100]]})])
    assert item.box == (0, 0, 20, 30)
    round_ = {"x": 50, "y": 50, "radiusX": 10, "radiusY": 20, "rotation": 0}
    [item], *_ = read_objects([_result("ellipselabels", round_)])
    assert item.box == pytest.approx((16, 9, 24, 21))
    assert read_objects([{"type": "choices", "value": {"choices": ["good"]}}]) == ([], [], (0, 0))
    value = {"format": "rle", "rle": brush_bytes(40, 30, {(5, 7), (6, 7), (6, 8)})}
    [item], *_ = read_objects([_result("brushlabels", value)])
    assert item.box == (7, 5, 9, 7) and sum(item.mask.counts[1::2]) == 3


@cases(
    [{**REGION_BOX, "value": 5}], [{**REGION_BOX, "type": 5}], [{**REGION_BOX, "type": "rectangle"}],
    [{**REGION_BOX, "original_width": None}], [{**REGION_BOX, "image_rotation": 90}],
    [{**REGION_BOX, "value": {**PART, "rectanglelabels": ["cat", "dog"]}}],
    [{**REGION_BOX, "value": {**PART, "x": "1", "rectanglelabels": ["cat"]}}],
    [_result("polygonlabels", {"points": [[1, 2], [3, 4]]})],
    [_result("polygonlabels", {"points": [1, 2, 3]})], [_result("brushlabels", {"rle": [1, 2, 3]})],
    [_result("brushlabels", {"rle": ["a"]})], [_result("brushlabels", {"rle": brush_bytes(40, 30, set())})],
    [POINT], [REGION_BOX, POINT, POINT],
)  # fmt: skip
def test_what_cannot_be_used_is_refused(*, results):
    refused(Rejected, "", read_objects, results)


_read_labelme = reading(labelme)
RECTANGLE = {"label": "cat", "points": [[1, 2], [9, 8]], "shape_type": "rectangle", "group_id": 1}


def _write_labelme(root, name="a", shapes=(RECTANGLE,), **changed):
    content = {"shapes": shapes, "imagePath": f"{name}.jpg", "imageWidth": 40, "imageHeight": 30}
    text = json.dumps({**content, "imageData": "x" * 100, **changed})
    write_files(root, {f"{name}.json": text, f"{name}.jpg": picture()})


def test_points_of_a_group_are_keypoints_and_labels_of_its_own_no_classes(tmp_path):
    nose = {"label": "nose", "points": [[3, 4]], "shape_type": "point", "group_id": 1}
    ear = {"label": "ear", "points": [[5, 6]], "shape_type": "point", "group_id": 1}
    _write_labelme(tmp_path, "a", [nose, RECTANGLE])
    _write_labelme(tmp_path, "b", [RECTANGLE, nose, ear, {**RECTANGLE, "label": "dog", "group_id": None}])
    found = _read_labelme(tmp_path)
    assert found.keypoint_names == {"cat": ["ear", "nose"]}
    first, second = found.images
    assert first.objects[0].keypoints == [(0, 0, 0), (3, 4, 2)]
    assert [item.keypoints for item in second.objects] == [[(5, 6, 2), (3, 4, 2)], None]
    below = tmp_path / "below"
    shapes = [
        RECTANGLE,
        {**RECTANGLE, "label": "__ignore__", "shape_type": "line"},
        {**RECTANGLE, "label": "_background_"},
    ]
    _write_labelme(below, "a", shapes=shapes)
    found = _read_labelme(below)
    assert not found.rejected and found.categories == {"cat": 0}
    assert [item.name for item in found.images[0].objects] == ["cat"]


def test_folders_are_searched_and_what_is_no_file_of_labelme_is_said(tmp_path):
    root = str(tmp_path)
    refused(ConfigError, "a folder of LabelMe files", labelme.locate, root, {"a": "b"})
    refused(DataError, "found nothing", labelme.locate, root, "none")
    refused(DataError, "expected LabelMe files, found none", _read_labelme, root)
    for split in ("train", "val"):
        _write_labelme(tmp_path / split)
    layout = find_layout(root)
    assert (layout.format, layout.splits) == ("labelme", {"train": "train", "eval": "val"})
    (image,) = _read_labelme(root, "val").images
    assert (image.source_id, image.path) == ("val/a", f"{root}/val/a.jpg")
    assert len(_read_labelme(root).images) == 2


@cases(
    ({"shapes": 5}, "malformed_record"), ({"shapes": [5]}, "malformed_record"),
    ({"imagePath": None}, "malformed_record"), ({"imagePath": "../../\0"}, "malformed_record"),
    ({"imageWidth": "40"}, "malformed_annotation"), (None, "unreadable_annotation"), ("[]", None),
    ({"shapes": [{**RECTANGLE, "label": 3}]}, "malformed_record"), ("{", None), ("5", None),
    ({"shapes": [{**RECTANGLE, "points": [[1]]}]}, "malformed_annotation"), ('"shapes"', None),
    ({"shapes": [{**RECTANGLE, "shape_type": "line"}]}, "malformed_annotation"),
)  # fmt: skip
def test_a_bad_file_or_a_folder_in_its_place_costs_only_its_image(tmp_path, *, changed, reason):
    _write_labelme(tmp_path, "good")
    if isinstance(changed, dict):
        _write_labelme(tmp_path, "bad", **changed)
    elif changed is None:
        (tmp_path / "bad.json").mkdir()
    else:
        write_files(tmp_path, {"bad.json": changed})
    write_files(tmp_path, {"settings.json": '{"mine": 1}'})
    found = _read_labelme(tmp_path)
    assert [r.file for r in found.rejected] == ["bad.json"] and ids(found) == ["good"]
    assert reason in (None, *reasons(found))


def test_files_are_read_one_by_one_and_an_image_inside_one_where_none_is_beside(tmp_path, monkeypatch):
    for name in "abc":
        _write_labelme(tmp_path, name)
    opened, real = [], labelme.parse_json
    monkeypatch.setattr(labelme, "parse_json", lambda path: (opened.append(path), real(path))[1])
    images = iter(labelme.read(str(tmp_path), None).images)
    assert not opened and [len(opened) for _ in images] == [1, 2, 3]
    tmp_path /= "below"
    data = picture()
    text = base64.b64encode(data).decode()
    _write_labelme(tmp_path, "alone", imagePath="C:\\me\\alone.jpg", imageData=text)
    (tmp_path / "alone.jpg").unlink()
    _write_labelme(tmp_path, "beside", imageData=text)
    alone, beside = _read_labelme(tmp_path).images
    assert beside.path == str(tmp_path / "beside.jpg") and files.read_regular(alone.path, len(data)) == data
    assert (alone.filename, shown_size(alone.path)) == ("alone.jpg", (40, 30))
    path = tmp_path / "alone.json"
    path.write_text(path.read_text().replace("/9j/", "\\/9j\\/"))
    assert reasons(_read_labelme(tmp_path)) == ["unreadable_annotation"]


def _shape(kind, *points, label="cat", **more):
    return {"label": label, "shape_type": kind, "points": [list(point) for point in points], **more}


def _png(pixels):
    return _text(encoded(Image.fromarray(pixels), "PNG"))


def _text(data):
    return base64.b64encode(data).decode()


def _shapes(*shapes):
    return labelme.read_objects(shapes, 40, 30)[0]


BIG, LINE, NOSE = 2**31 - 1, [(1, 2), (3, 4)], _shape("point", (1, 2), label="n", group_id=1)


@cases(
    ("rectangle", [(9, 8), (1, 2)]), ("rectangle", [(1, 2), (9, 2), (9, 8), (1, 8)]),
    ("polygon", [(1, 2), (9, 4), (5, 8)]), (None, [(1, 2), (9, 4), (5, 8)]), ("circle", [(5, 5), (8, 9)]),
)  # fmt: skip
def test_every_shape_has_the_box_around_it(*, kind, points):
    (item,) = _shapes(_shape(kind, *points))
    box = (0, 0, 10, 10) if kind == "circle" else (1, 2, 9, 8)
    assert item.name == "cat" and item.box == pytest.approx(box)


@cases(
    [_shape("linestrip", *LINE)], [_shape("point", (1, 2))], [_shape("point", (1, 2), group_id=1)],
    [_shape("circle", (1, 2))], [_shape("polygon", *LINE)], [_shape(["polygon"], *LINE, (5, 6))],
    [_shape("mask", *LINE)], [_shape("mask", *LINE, mask="no base64")],
    [_shape("mask", *LINE, mask=_text(b"no picture"))], [_shape("rectangle", *LINE, group_id=1), NOSE, NOSE],
    *[[_shape("mask", *LINE, mask=_text(png_that_claims(side, side)))] for side in (10, 12_000, 50_000, BIG)],
)  # fmt: skip
def test_what_has_no_area_or_owner_or_asks_for_too_much_is_refused(*, shapes):
    png = "expected a PNG file as base64 text" if "mask" in shapes[0] else ""
    assert refused(Rejected, rf"shape \d+: .*{png}", _shapes, *shapes).reason == "malformed_annotation"


def test_masks_lie_where_corners_say_and_groups_are_objects_however_many(monkeypatch):
    pixels = np.array([[1, 0, 1], [1, 1, 1]], np.uint8) * 255
    (item,) = _shapes(_shape("mask", (4, 5), (6, 6), mask=_png(pixels)))
    assert item.box == (4, 5, 7, 7)
    counts = coco_mask.frPyObjects({"size": [30, 40], "counts": list(item.mask.counts)}, 30, 40)
    whole = coco_mask.decode(counts)
    assert whole.sum() == 5 and (whole[5:7, 4:7] == pixels // 255).all()
    one = _shape("polygon", (1, 1), (3, 1), (3, 3), group_id=7)
    other = _shape("polygon", (8, 8), (9, 8), (9, 9), group_id=7)
    (item,) = _shapes(one, other)
    assert item.box == (1, 1, 9, 9) and item.mask == Polygons([[1, 1, 3, 1, 3, 3], [8, 8, 9, 8, 9, 9]])
    assert len(_shapes(one, {**other, "label": "dog"})) == len(_shapes(one, {**other, "group_id": None})) == 2
    (item,) = _shapes(*[_shape("polygon", (1, 2), (9, 4), (5, 8), group_id=1) for _ in range(20_000)])
    assert len(item.mask.rings) == 20_000 and item.box == (1, 2, 9, 8)
    boxes = [_shape("rectangle", (1, 2), (9, 8), group_id=i) for i in range(5_000)]
    points = [_shape("point", (3, 4), label="nose", group_id=i) for i in range(5_000)]
    assert labelme.read_objects([*boxes, *points], 40, 30)[1] == [{"nose": (3, 4)}] * 5_000
    monkeypatch.setattr("detection_core.datasets.shapes._MOST_DRAWN", 6_000)
    shape = _shape("mask", (0, 0), (9, 9), mask=_png(np.ones((10, 10), bool)))
    assert len(_shapes(*[shape] * 2)) == 2
    refused(Rejected, r"shape \d+: expected masks of at most 6,000 pixels", _shapes, *[shape] * 20)


_read_via = reading(via)
RECT = {"name": "rect", "x": 5, "y": 6, "width": 10, "height": 4}
ELLIPSE = {"name": "ellipse", "cx": 10, "cy": 10, "rx": 4, "ry": 2}
REGION = {"shape_attributes": RECT, "region_attributes": {"pet": "cat"}}


def _write_via(root, *regions):
    entry = {"filename": "a.jpg", "size": 1, "regions": regions}
    write_files(root, {"a.jpg": picture(), "via.json": json.dumps({"a.jpg1": entry})})
    return root


@cases(
    (RECT, (5, 6, 15, 10)), ({"name": "circle", "cx": 10, "cy": 10, "r": 4}, (6, 6, 14, 14)),
    (ELLIPSE, (6, 8, 14, 12)), ({**ELLIPSE, "theta": 1.5707963267948966}, (8, 6, 12, 14)),
    ({"name": "polygon", "all_points_x": [1, 9, 5], "all_points_y": [2, 3, 8]}, (1, 2, 9, 8)),
    ({**ELLIPSE, "theta": 1e308}, None),
)  # fmt: skip
def test_shapes_are_boxes_and_may_be_turned_by_any_angle(tmp_path, *, place, box):
    (image,) = _read_via(_write_via(tmp_path, {**REGION, "shape_attributes": place})).images
    (item,) = image.objects
    if box is None:
        box = item.box
        assert 6 <= box[0] <= box[2] <= 14 and 6 <= box[1] <= box[3] <= 14
    assert item.box == pytest.approx(box) and item.name == "cat" and (item.mask is None) == (place is RECT)


def test_rows_are_regions_and_an_overfull_image_or_a_damaged_file_is_refused(tmp_path):
    (note,) = _read_via(_write_via(tmp_path, REGION, *[None] * MAX_OBJECTS)).rejected
    assert note.detail == f"expected at most {MAX_OBJECTS:,} annotations of an image, found more"
    path = _write_via(tmp_path, REGION) / "via.json"
    path.write_text(path.read_text()[:-3])
    refused(DataError, "expected a file of VGG Image Annotator", _read_via, tmp_path)
    tmp_path /= "below"
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(["filename", "file_size", "region_shape_attributes", "region_attributes"])
    rows.writerows([["a.jpg", 1, json.dumps(RECT), '{"pet": "cat"}']] * 2 + [["b.jpg", 1, "{}", "{}"]])
    images = dict.fromkeys(("a.jpg", "b.jpg"), picture())
    write_files(tmp_path, {**images, "via_export_csv.csv": text.getvalue()})
    assert find_layout(str(tmp_path)).format == "via"
    found = _read_via(tmp_path)
    assert {image.filename: len(image.objects) for image in found.images} == {"a.jpg": 2, "b.jpg": 0}


@cases({"any": "cat"}, {"colour": "red", "Type": "cat"}, {"kind": {"cat": True, "dog": False}})
def test_the_class_is_what_attributes_tell(tmp_path, *, said):
    path = _write_via(tmp_path, {**REGION, "region_attributes": said}) / "via.json"
    content = json.loads(path.read_text())
    content["a.jpg1"]["regions"] = {"0": content["a.jpg1"]["regions"][0]}  # numbered as version 1 does
    for text in (path.read_text(), json.dumps(content)):
        path.write_text(text)
        assert [item.name for image in _read_via(tmp_path).images for item in image.objects] == ["cat"]


@cases(
    5, {**REGION, "region_attributes": {}}, {**REGION, "shape_attributes": {**RECT, "x": None}},
    {**REGION, "region_attributes": {"kind": {"cat": True, "dog": True}}},
    {**REGION, "shape_attributes": {"name": "polyline"}},
    {**REGION, "shape_attributes": {"name": "polygon", "all_points_x": [1], "all_points_y": []}},
)  # fmt: skip
def test_a_bad_region_costs_only_its_image(tmp_path, *, region):
    found = _read_via(_write_via(tmp_path, REGION, region))
    assert reasons(found) == ["malformed_record" if region == 5 else "malformed_annotation"]
    assert not found.images and not found.unannotated
