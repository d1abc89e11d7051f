import csv
import io
import json

import pytest

from detection_core.bounded.limits import MAX_OBJECTS
from detection_core.datasets.formats import via
from detection_core.datasets.layout_search import find_layout
from detection_core.errors import DataError
from tests.support.cases import cases, refused
from tests.support.dataset_files import picture, reading, reasons, subfolder, write_files

_read = reading(via)
RECT = {"name": "rect", "x": 5, "y": 6, "width": 10, "height": 4}
ELLIPSE = {"name": "ellipse", "cx": 10, "cy": 10, "rx": 4, "ry": 2}
REGION = {"shape_attributes": RECT, "region_attributes": {"pet": "cat"}}


def _write(root, *regions):
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
    (image,) = _read(_write(tmp_path, {**REGION, "shape_attributes": place})).images
    (item,) = image.objects
    if box is None:
        box = item.box
        assert 6 <= box[0] <= box[2] <= 14 and 6 <= box[1] <= box[3] <= 14
    assert item.box == pytest.approx(box) and item.name == "cat"
    assert (item.mask is None) == (place is RECT)


def test_rows_are_regions_and_an_overfull_image_or_a_damaged_file_is_refused(tmp_path):
    (note,) = _read(_write(tmp_path, REGION, *[None] * MAX_OBJECTS)).rejected
    assert note.detail == f"expected at most {MAX_OBJECTS:,} annotations of an image, found more"
    path = _write(tmp_path, REGION) / "via.json"
    path.write_text(path.read_text()[:-3])
    refused(DataError, "expected a file of VGG Image Annotator", _read, tmp_path)
    tmp_path = subfolder(tmp_path, 1)
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(["filename", "file_size", "region_shape_attributes", "region_attributes"])
    rows.writerows([["a.jpg", 1, json.dumps(RECT), '{"pet": "cat"}']] * 2 + [["b.jpg", 1, "{}", "{}"]])
    images = dict.fromkeys(("a.jpg", "b.jpg"), picture())
    write_files(tmp_path, {**images, "via_export_csv.csv": text.getvalue()})
    assert find_layout(str(tmp_path)).format == "via"
    found = _read(tmp_path)
    assert {image.filename: len(image.objects) for image in found.images} == {"a.jpg": 2, "b.jpg": 0}


@cases({"any": "cat"}, {"colour": "red", "Type": "cat"}, {"kind": {"cat": True, "dog": False}})
def test_the_class_is_what_attributes_tell(tmp_path, *, said):
    path = _write(tmp_path, {**REGION, "region_attributes": said}) / "via.json"
    content = json.loads(path.read_text())
    content["a.jpg1"]["regions"] = {"0": content["a.jpg1"]["regions"][0]}  # numbered as version 1 does
    for text in (path.read_text(), json.dumps(content)):
        path.write_text(text)
        assert [item.name for image in _read(tmp_path).images for item in image.objects] == ["cat"]


@cases(
    5, {**REGION, "region_attributes": {}}, {**REGION, "shape_attributes": {**RECT, "x": None}},
    {**REGION, "region_attributes": {"kind": {"cat": True, "dog": True}}},
    {**REGION, "shape_attributes": {"name": "polyline"}},
    {**REGION, "shape_attributes": {"name": "polygon", "all_points_x": [1], "all_points_y": []}},
)  # fmt: skip
def test_a_bad_region_costs_only_its_image(tmp_path, *, region):
    found = _read(_write(tmp_path, REGION, region))
    assert reasons(found) == ["malformed_record" if region == 5 else "malformed_annotation"]
    assert not found.images and not found.unannotated
