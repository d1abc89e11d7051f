import pytest

from detection_core.datasets.annotated_images import Rejected
from detection_core.datasets.formats.label_studio_results import read_objects
from tests.support.brushes import brush_bytes
from tests.support.cases import cases, refused

SIZE = {"original_width": 40, "original_height": 30}


def _result(kind, value, name="cat", **more):
    return {**SIZE, "type": kind, "id": kind, "value": {**value, kind: [name]}, **more}


PLACE = {"x": 25, "y": 50, "width": 25, "height": 20}
POINT = _result("keypointlabels", {"x": 1, "y": 1}, "nose", parentID="rectanglelabels")
BOX = _result("rectanglelabels", PLACE)


def test_places_are_in_percent_of_width_and_height_and_turn_about_the_first_corner():
    (item,), size = read_objects([_result("rectanglelabels", {**PLACE, "rotation": 90})], {})
    assert size == (40, 30) and item.box == pytest.approx((4, 15, 10, 25)) and item.mask
    points = {"points": [[0, 0], [50, 0], [50, 100]]}
    (item,), _ = read_objects([_result("polygonlabels", points)], {})
    assert item.box == (0, 0, 20, 30)
    round_ = {"x": 50, "y": 50, "radiusX": 10, "radiusY": 20, "rotation": 0}
    (item,), _ = read_objects([_result("ellipselabels", round_)], {})
    assert item.box == pytest.approx((16, 9, 24, 21))
    choice = {"type": "choices", "value": {"choices": ["good"]}}
    assert read_objects([choice], {}) == ([], (0, 0))
    value = {"format": "rle", "rle": brush_bytes(40, 30, {(5, 7), (6, 7), (6, 8)})}
    (item,), _ = read_objects([_result("brushlabels", value)], {})
    assert item.box == (7, 5, 9, 7) and sum(item.mask.counts[1::2]) == 3


@cases(
    [{**BOX, "value": 5}], [{**BOX, "type": 5}], [{**BOX, "type": "rectangle"}],
    [{**BOX, "original_width": None}], [{**BOX, "image_rotation": 90}],
    [{**BOX, "value": {**PLACE, "rectanglelabels": ["cat", "dog"]}}],
    [{**BOX, "value": {**PLACE, "x": "1", "rectanglelabels": ["cat"]}}],
    [_result("polygonlabels", {"points": [[1, 2], [3, 4]]})],
    [_result("polygonlabels", {"points": [1, 2, 3]})], [_result("brushlabels", {"rle": [1, 2, 3]})],
    [_result("brushlabels", {"rle": ["a"]})], [_result("brushlabels", {"rle": brush_bytes(40, 30, set())})],
    [POINT], [BOX, POINT, POINT],
)  # fmt: skip
def test_what_cannot_be_used_is_refused(*, results):
    refused(Rejected, "", read_objects, results, {})
