import numpy as np

from detection_core.detectors.parts.losses import masking


def test_targets_that_are_no_numbers_cost_nothing():
    prediction, target = np.float32([1.0, 2.0]), np.float32([np.nan, 5.0])
    np.testing.assert_array_equal(masking.replace_nan_targets(prediction, target), [1.0, 5.0])


def test_only_some_classes_and_images():
    weights = np.float32([[[0.5], [0.25]], [[1.0], [2.0]]])
    found = masking.only_classes(weights, [0, 2], 3)
    np.testing.assert_array_equal(found[0], [[0.5, 0, 0.5], [0.25, 0, 0.25]])
    kept = masking.only_images(weights, np.array([False, True]))
    np.testing.assert_array_equal(kept, [[[0], [0]], [[1], [2]]])
