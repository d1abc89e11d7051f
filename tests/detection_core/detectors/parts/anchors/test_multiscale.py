import numpy as np
import pytest

from detection_core.detectors.parts.anchors.multiscale import (
    MultiscaleAnchorGenerator,
    MultiscaleAnchorOptions,
)


def _generator(normalize):
    return MultiscaleAnchorGenerator(
        MultiscaleAnchorOptions(
            min_level=3,
            max_level=4,
            anchor_scale=4.0,
            aspect_ratios=(1.0, 2.0),
            scales_per_octave=2,
            normalize_coordinates=normalize,
        )
    )


def _slow(shape, level, height, width):
    stride, boxes = 2**level, []
    offset = [stride / 2 if size % stride == 0 else 0 for size in (height, width)]
    for row in range(shape[0]):
        for column in range(shape[1]):
            for ratio in (1.0, 2.0):
                for octave in (0, 0.5):
                    side = 4 * stride * 2**octave
                    half_height, half_width = side / ratio**0.5 / 2, side * ratio**0.5 / 2
                    y, x = row * stride + offset[0], column * stride + offset[1]
                    boxes.append([y - half_height, x - half_width, y + half_height, x + half_width])
    return np.array(boxes)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("size", [(32, 48), (36, 48)])
def test_equals_a_loop(normalize, size):
    shapes = [(5, 6), (3, 3)]
    unit = np.array([*size, *size]) if normalize else 1.0
    for level, anchors in enumerate(_generator(normalize).generate(shapes, *size), 3):
        expected = _slow(shapes[level - 3], level, *size) / unit
        np.testing.assert_allclose(anchors, expected, rtol=1e-5, atol=1e-5)


def test_as_many_anchors_as_promised():
    generator = _generator(True)
    assert generator.num_anchors_per_location() == [4, 4]
    assert [len(a) for a in generator.generate([(2, 3), (1, 2)], 16, 24)] == [24, 8]
