"""Data sets of VGG Image Annotator."""

import csv
import json

import pytest

from detection_core.bounded.limits import MAX_OBJECTS
from detection_core.datasets.formats import via
from detection_core.datasets.layout_search import find_layout
from detection_core.errors import DataError
from tests.support.cases import cases, refused
from tests.support.dataset_files import picture, whole
from tests.support.same_set import write_text

RECT = {"name": "rect", "x": 5, "y": 6, "width": 10, "height": 4}
ELLIPSE = {"name": "ellipse", "cx": 10, "cy": 10, "rx": 4, "ry": 2}
REGION = {"shape_attributes": RECT, "region_attributes": {"pet": "cat"}}


def _write(root, regions, name="a.jpg"):
    (root / name).write_bytes(picture())
    write_text(root / "via.json", json.dumps({f"{name}1": {"filename": name, "size": 1, "regions": regions}}))


def _only(root):
    (image,) = whole(via.read(str(root), None)).images
    return image


@cases(
    (RECT, (5, 6, 15, 10)), ({"name": "circle", "cx": 10, "cy": 10, "r": 4}, (6, 6, 14, 14)),
    (ELLIPSE, (6, 8, 14, 12)), ({**ELLIPSE, "theta": 1.5707963267948966}, (8, 6, 12, 14)),
    ({"name": "polygon", "all_points_x": [1, 9, 5], "all_points_y": [2, 3, 8]}, (1, 2, 9, 8)),
)  # fmt: skip
def test_shapes_are_boxes(tmp_path, *, place, box):
    _write(tmp_path, [{**REGION, "shape_attributes": place}])
    (item,) = _only(tmp_path).objects
    assert item.box == pytest.approx(box) and item.name == "cat"
    assert (item.mask is None) == (place is RECT)


def test_an_ellipse_may_be_turned_by_any_angle(tmp_path):
    _write(tmp_path, [{**REGION, "shape_attributes": {**ELLIPSE, "theta": 1e308}}])
    xmin, ymin, xmax, ymax = _only(tmp_path).objects[0].box
    assert 6 <= xmin <= xmax <= 14 and 6 <= ymin <= ymax <= 14


def test_an_overfull_image_is_refused_before_its_regions_are_looked_at(tmp_path):
    _write(tmp_path, [REGION, *[None] * MAX_OBJECTS])
    (note,) = whole(via.read(str(tmp_path), None)).rejected
    assert note.detail == f"expected at most {MAX_OBJECTS:,} annotations of an image, found more"


@cases({"any": "cat"}, {"colour": "red", "Type": "cat"}, {"kind": {"cat": True, "dog": False}})
def test_the_class_is_what_attributes_tell(tmp_path, *, said):
    _write(tmp_path, {"0": {**REGION, "region_attributes": said}})  # numbered as version 1 does
    assert _only(tmp_path).objects[0].name == "cat"


def test_rows_are_regions(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.jpg").write_bytes(picture())
    with (tmp_path / "via_export_csv.csv").open("w") as file:
        rows = csv.writer(file)
        rows.writerow(["filename", "file_size", "region_shape_attributes", "region_attributes"])
        for _ in range(2):
            rows.writerow(["a.jpg", 1, json.dumps(RECT), '{"pet": "cat"}'])
        rows.writerow(["b.jpg", 1, "{}", "{}"])
    assert find_layout(str(tmp_path)).format == "via"
    found = whole(via.read(str(tmp_path), None))
    assert {image.filename: len(image.objects) for image in found.images} == {"a.jpg": 2, "b.jpg": 0}


@cases(
    (5, "malformed_record"),
    ({**REGION, "region_attributes": {}}, "malformed_annotation"),
    ({**REGION, "region_attributes": {"kind": {"cat": True, "dog": True}}}, "malformed_annotation"),
    ({**REGION, "shape_attributes": {**RECT, "x": None}}, "malformed_annotation"),
    ({**REGION, "shape_attributes": {"name": "polyline"}}, "malformed_annotation"),
    (
        {**REGION, "shape_attributes": {"name": "polygon", "all_points_x": [1], "all_points_y": []}},
        "malformed_annotation",
    ),
)
def test_a_bad_region_costs_only_its_image(tmp_path, *, region, reason):
    _write(tmp_path, [REGION, region])
    found = whole(via.read(str(tmp_path), None))
    assert [r.reason for r in found.rejected] == [reason] and not found.images and not found.unannotated


def test_a_damaged_file_is_one_error(tmp_path):
    _write(tmp_path, [REGION])
    (tmp_path / "via.json").write_text((tmp_path / "via.json").read_text()[:-3])
    refused(DataError, "expected a file of VGG Image Annotator", lambda: whole(via.read(str(tmp_path), None)))
