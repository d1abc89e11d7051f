import numpy as np

from detection_core.detectors.parts.losses import masking


def test_targets_that_are_no_numbers_cost_nothing():
    prediction, target = np.float32([1.0, 2.0]), np.float32([np.nan, 5.0])
    np.testing.assert_array_equal(masking.replace_nan_targets(prediction, target), [1.0, 5.0])
