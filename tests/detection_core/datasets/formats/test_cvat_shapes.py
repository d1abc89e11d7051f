from xml.etree import ElementTree

import pytest
from pycocotools import mask as coco_mask

from detection_core.datasets.annotated_images import Polygons, Rejected
from detection_core.datasets.formats.cvat_shapes import read_objects
from tests.support.cases import cases, refused

BOX = 'label="cat" xtl="10" ytl="10" xbr="20" ybr="14"'
_MASK = '<mask label="cat" left="4" top="5" width="3" height="2" rle="{}"/>'


def _read(text, names=None):
    image = ElementTree.fromstring(f"<image>{text}</image>")
    return read_objects(image, 40, 30, {} if names is None else names)


def test_attributes_rows_of_masks_and_skeletons_are_read():
    inside = '<attribute name="Difficult">true</attribute><attribute name="color">red</attribute>'
    (item,) = _read(f'<box {BOX} occluded="1">{inside}</box>')
    assert item.box == (10, 10, 20, 14) and (item.occluded, item.difficult, item.truncated) == (1, 1, None)
    (item,) = _read(_MASK.format("1,1,2,2"))
    runs = {"size": [30, 40], "counts": list(item.mask.counts)}
    whole = coco_mask.decode(coco_mask.frPyObjects(runs, 30, 40))
    assert whole[5:7, 4:7].tolist() == [[0, 1, 0], [0, 1, 1]] and whole.sum() == 3
    assert item.box == (4, 5, 7, 7)
    points = '<points label="tail" points="3,4" occluded="1"/><points label="nose" points="9,8"/>'
    text = f'<skeleton label="cat">{points}<points label="ear" points="30,20" outside="1"/></skeleton>'
    (item,) = _read(text, {"cat": ["nose", "ear", "tail"]})
    assert item.keypoints == [(9, 8, 2), (30, 20, 0), (3, 4, 1)] and item.box == (3, 4, 9, 8)
    names = {}
    _read(text, names)
    assert names == {"cat": ["ear", "nose", "tail"]}


def test_turned_boxes_polygons_and_ellipses_have_outlines():
    (item,) = _read(f'<box {BOX} rotation="90"/>')
    assert item.box == pytest.approx((13, 7, 17, 17)) and len(item.mask.rings[0]) == 8
    polygon = '<polygon label="cat" points="{}" group_id="{{}}"/>'
    one = polygon.format("1,1;3,1;3,3") + polygon.format("8,8;9,8;9,9")
    (item,) = _read(one.format(4, 4))
    assert item.mask == Polygons([[1, 1, 3, 1, 3, 3], [8, 8, 9, 8, 9, 9]]) and item.box == (1, 1, 9, 9)
    assert len(_read(one.format(4, 5))) == len(_read(one.format(0, 0))) == 2
    (item,) = _read('<ellipse label="cat" cx="10" cy="10" rx="4" ry="2"/>')
    assert item.box == pytest.approx((6, 8, 14, 12)) and item.mask


@cases(
    '<box label="cat" xtl="1" ytl="2" xbr="x" ybr="4"/>', "<box/>",
    '<box label="cat" xtl="1" ytl="2" xbr="nan" ybr="4"/>', '<box label="cat"/>',
    '<polygon label="cat" points="1,2;3,4"/>', '<polygon label="cat" points="1,2;3;4"/>',
    '<polygon label="cat" points="1,2;x,4;5,6"/>', '<polyline label="cat" points="1,2;3,4"/>',
    '<skeleton label="cat"/>', *map(_MASK.format, ("1,1", "-1,7", "x")),
)  # fmt: skip
def test_what_cannot_be_used_is_refused_by_its_place(*, text):
    error = refused(Rejected, " 1: label" if text == "<box/>" else " 1: ", _read, text)
    assert error.reason == ("malformed_record" if text == "<box/>" else "malformed_annotation")


def test_what_asks_for_too_much_is_refused(monkeypatch):
    def skeleton(points):
        names = "".join(f'<points label="{n}" points="1,1"/>' for n in range(points))
        return f'<skeleton label="cat">{names}</skeleton>'

    polygon = f'<polygon label="cat" points="{"1,1;" * 100_001}"/>'
    refused(Rejected, "at most 100,000 points of an outline", _read, polygon)
    refused(Rejected, "at most 1,000 keypoints of an object", _read, skeleton(1_001))
    monkeypatch.setattr("detection_core.datasets.formats.cvat_shapes.MAX_VALUES", 25)
    refused(Rejected, "at most 25 keypoints of an image", _read, skeleton(10) + skeleton(1) * 2)
    mask = '<mask label="cat" rle="0,2500000000" left="0" top="0" width="50000" height="50000"/>'
    refused(Rejected, "expected runs of 50000x50000 pixels", _read, mask)
