import numpy as np

from detection_core.detectors.parts.anchors.flexible_grid import AnchorGrid, FlexibleGridAnchorGenerator

GRIDS = (
    AnchorGrid(base_sizes=(8.0, 4.0), aspect_ratios=(1.0, 4.0), stride=(8.0, 8.0), offset=(4.0, 4.0)),
    AnchorGrid(base_sizes=(16.0,), aspect_ratios=(1.0,), stride=(16.0, 16.0), offset=(0.0, 8.0)),
)


def test_pixels_by_hand():
    generator = FlexibleGridAnchorGenerator(GRIDS, normalize_coordinates=False)
    assert generator.num_anchors_per_location() == [2, 1]
    fine, coarse = generator.generate([(1, 2), (1, 1)], 16, 32)
    np.testing.assert_allclose(fine, [[0, 0, 8, 8], [3, 0, 5, 8], [0, 8, 8, 16], [3, 8, 5, 16]])
    np.testing.assert_allclose(coarse, [[-8, 0, 8, 16]])


def test_normalised_is_pixels_over_the_image():
    pixels = FlexibleGridAnchorGenerator(GRIDS, normalize_coordinates=False).generate(
        [(1, 2), (1, 1)], 16, 32
    )
    found = FlexibleGridAnchorGenerator(GRIDS, normalize_coordinates=True).generate([(1, 2), (1, 1)], 16, 32)
    for one, other in zip(found, pixels, strict=True):
        np.testing.assert_allclose(one, other / np.float32([16, 32, 16, 32]))
