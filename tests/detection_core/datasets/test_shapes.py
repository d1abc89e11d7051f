import math

import pytest

from detection_core.datasets.annotated_images import Polygons, Rejected
from detection_core.datasets.shapes import box_around, ellipse, make_object, polygon_object, rectangle, turn
from tests.support.cases import cases, refused


def test_polygons_ellipses_and_rectangles_have_boxes_and_turn_clockwise():
    item = polygon_object("cat", [[(1, 2), (3, 2), (3, 5)], [(7, 0), (9, 1), (8, 1)]], "shape 1")
    assert item.box == (1, 0, 9, 5) and item.mask == Polygons([[1, 2, 3, 2, 3, 5], [7, 0, 9, 1, 8, 1]])
    assert item == make_object("cat", item.box, "shape 1", item.mask)
    assert box_around(ellipse((10, 20), (4, 2))) == pytest.approx((6, 18, 14, 22))
    assert box_around(ellipse((10, 20), (4, 2), 90)) == pytest.approx((8, 16, 12, 24))
    corners = rectangle(0, 0, 4, 2)
    assert corners == [(0, 0), (4, 0), (4, 2), (0, 2)] == turn(corners, (9, 9), 0)
    (x, y), *_ = turn([(4, 0)], (0, 0), 90)
    assert (x, y) == pytest.approx((0, 4))


@cases([], [(1, 2), (3, 4)], [(1, 2), (3, math.nan), (5, 6)])
def test_what_is_no_polygon_is_refused(*, ring):
    refused(Rejected, "shape 1: expected a polygon of 3 points", polygon_object, "cat", [ring], "shape 1")
