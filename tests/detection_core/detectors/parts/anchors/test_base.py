import itertools

import numpy as np
import pytest

from detection_core.detectors.parts.anchors.base import check_map_count, size_of, tile
from detection_core.detectors.parts.anchors.coverage import AnchorMap
from detection_core.errors import ModelError
from tests.support.cases import cases
from tests.support.laid_anchors import lay_anchors


def _tile_slowly(shape, sizes, stride, offset):
    return lay_anchors([AnchorMap(shape=shape, sizes=sizes, stride=stride, offset=offset)])


@cases(*itertools.product([(1, 1), (2, 3), (5, 1)], [[(1.0, 1.0)], [(2.0, 1.0), (0.5, 4.0), (3.0, 3.0)]]))
def test_anchors_are_laid_by_row_column_and_size(*, shape, sizes):
    stride, offset = (16.0, 8.0), (7.5, 0.0)
    found = tile(shape, sizes, stride=stride, offset=offset)
    np.testing.assert_allclose(found, _tile_slowly(shape, sizes, stride, offset), atol=1e-5)


def test_a_map_without_cells_has_no_anchors():
    assert tile((0, 3), [(1.0, 1.0)], stride=(1.0, 1.0), offset=(0.0, 0.0)).shape == (0, 4)


@cases(0.5, 1.0, 2.0, 3.0)
def test_a_size_has_the_area_of_its_scale_and_its_aspect_ratio(*, ratio):
    height, width = size_of(0.3, ratio)
    assert height * width == pytest.approx(0.09) and width / height == pytest.approx(ratio)


def test_another_number_of_maps_is_refused_with_what_to_change():
    check_map_count(6, 6)
    with pytest.raises(ModelError, match=r"expected 6 feature maps.*found 5; make the levels \(num_layers"):
        check_map_count(5, 6)
