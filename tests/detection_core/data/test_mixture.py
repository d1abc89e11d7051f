import numpy as np
import tensorflow as tf

from detection_core.data.mixture import mixture, taken_before

WEIGHTS = (1.0, 2.0, 5.0)


def _numbers(part):
    return lambda start: tf.data.Dataset.range(start, 1 << 40).map(lambda i: i * 10 + part)


def _take(start, count):
    dataset = mixture([_numbers(part) for part in range(3)], WEIGHTS, seed=6, start=start)
    return [int(i) for i in dataset.take(count)]


def test_a_mixture_is_entered_anywhere():
    found = np.array(_take(0, 4000))
    counts = np.bincount(found % 10)
    np.testing.assert_allclose(counts / 4000, np.array(WEIGHTS) / 8, atol=0.03)
    for part in range(3):
        assert (found[found % 10 == part] // 10 == np.arange(counts[part])).all()
    whole = _take(0, 9000)
    for start in (1, 4095, 4096, 8200):
        assert _take(start, 50) == whole[start : start + 50]
    found = np.array(_take(0, 5000))
    assert taken_before(WEIGHTS, seed=6, start=5000) == np.bincount(found % 10).tolist()
    assert taken_before(WEIGHTS, seed=6, start=0) == [0, 0, 0]
