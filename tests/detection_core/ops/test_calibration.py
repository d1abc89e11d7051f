import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.ops.calibration import PerClass, PiecewiseLinear, Temperature


@settings(deadline=None, max_examples=40)
@given(x=st.lists(st.integers(0, 50), min_size=1, max_size=6, unique=True), seed=st.integers(0, 2**32 - 1))
def test_piecewise_linear_equals_numpy(x, seed):
    rng = np.random.default_rng(seed)
    xs = np.sort(np.array(x)) / 50
    ys = rng.uniform(0, 1, len(xs))
    scores = rng.uniform(-0.2, 1.2, (2, 3)).astype(np.float32)
    found = PiecewiseLinear(x=tuple(xs), y=tuple(ys))(scores)
    np.testing.assert_allclose(found, np.interp(scores, xs, ys), rtol=1e-4, atol=1e-5)


def test_per_class_leaves_the_others_alone_and_temperature_divides():
    line = PiecewiseLinear(x=(0.0, 1.0), y=(1.0, 0.0))
    scores = np.float32([[0.1, 0.2, 0.3]])
    np.testing.assert_allclose(PerClass(functions={1: line, 7: line})(scores), [[0.1, 0.8, 0.3]], rtol=1e-5)
    np.testing.assert_allclose(Temperature(scaler=4.0)(np.float32([2.0, -8.0])), [0.5, -2.0])
