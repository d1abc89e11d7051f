import itertools

import numpy as np

from detection_core.detectors.parts.anchors.coverage import AnchorMap
from detection_core.detectors.parts.anchors.multiscale import (
    MultiscaleAnchorGenerator,
    MultiscaleAnchorOptions,
)
from tests.support.cases import cases
from tests.support.laid_anchors import lay_anchors


def _generator(normalize):
    levels = {"min_level": 3, "max_level": 4, "anchor_scale": 4.0}
    options = {"aspect_ratios": (1.0, 2.0), "scales_per_octave": 2, "normalize_coordinates": normalize}
    return MultiscaleAnchorGenerator(MultiscaleAnchorOptions(**levels, **options))


def _slow(shape, level, height, width):
    stride = 2**level
    scales = [(4 * stride * 2**octave, ratio) for ratio in (1.0, 2.0) for octave in (0, 0.5)]
    sizes = [(side / ratio**0.5, side * ratio**0.5) for side, ratio in scales]
    offset = [stride / 2 if size % stride == 0 else 0 for size in (height, width)]
    return lay_anchors([AnchorMap(shape=shape, stride=(stride, stride), offset=offset, sizes=sizes)])


@cases(*itertools.product([True, False], [(32, 48), (36, 48)]))
def test_equals_a_loop(*, normalize, size):
    shapes = [(5, 6), (3, 3)]
    unit = np.array([*size, *size]) if normalize else 1.0
    for level, anchors in enumerate(_generator(normalize).generate(shapes, *size), 3):
        expected = _slow(shapes[level - 3], level, *size) / unit
        np.testing.assert_allclose(anchors, expected, rtol=1e-5, atol=1e-5)


def test_as_many_anchors_as_promised():
    generator = _generator(True)
    assert generator.num_anchors_per_location() == [4, 4]
    assert [len(a) for a in generator.generate([(2, 3), (1, 2)], 16, 24)] == [24, 8]
