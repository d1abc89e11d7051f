import numpy as np

from detection_core.detectors.parts.anchors.grid import GridAnchorGenerator, GridAnchorOptions


def test_by_hand():
    options = GridAnchorOptions(
        height=10.0, width=20.0, stride=(4.0, 8.0), offset=(1.0, 2.0), scales=(1.0, 2.0), aspect_ratios=(4.0,)
    )
    generator = GridAnchorGenerator(options)
    assert generator.num_anchors_per_location() == [2]
    assert not generator.normalised
    (anchors,) = generator.generate([(1, 2)], 100, 100)
    # Aspect ratio 4 halves heights and doubles widths: 5 x 40, then 10 x 80.
    expected = [[-1.5, -18, 3.5, 22], [-4, -38, 6, 42], [-1.5, -10, 3.5, 30], [-4, -30, 6, 50]]
    np.testing.assert_allclose(anchors, expected)
