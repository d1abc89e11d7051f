"""How parameters and gradients are spread: what is measured, when, and what TensorBoard reads of it."""

import numpy as np
import tensorflow as tf

from detection_core.loggers.tensorboard import TensorBoardLogger
from detection_core.training.actions import LoggedTraining
from detection_core.training.histograms import BINS, as_histograms, measured_histograms
from tests.detection_core.training.runs import assert_equal, whole_run
from tests.support.cases import cases


def measured(values, due=True):
    variable = tf.Variable(values, name="a/kernel")
    found = measured_histograms(tf.constant(due), [variable], [2.0 * variable], 1)
    assert set(found) == {"gradients/a/kernel", "parameters/a/kernel"}
    twice = found["gradients/a/kernel"].numpy()
    np.testing.assert_allclose(twice[:, :2], 2 * found["parameters/a/kernel"][:, :2], rtol=1e-5, atol=1e-10)
    return found["parameters/a/kernel"].numpy()


def test_it_is_numpy_s_histogram_where_it_is_due():
    assert not measured(np.ones([3], np.float32), due=False).any()
    rows = measured(np.arange(31, dtype=np.float32))
    found = as_histograms({"a": rows})["a"]
    np.testing.assert_allclose(found.edges, np.arange(31), atol=1e-5)
    assert found.counts.sum() == 31
    values = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    rows = measured(values)
    counts, edges = np.histogram(values, BINS)
    np.testing.assert_allclose(rows[:, 0], edges[:-1], atol=1e-5)
    np.testing.assert_allclose(rows[:, 1], edges[1:], atol=1e-5)
    assert np.abs(rows[:, 2] - counts).sum() <= 2 and rows[:, 2].sum() == 200  # at an edge float32 rounds


@cases(([0.0] * 7, 7), ([-3.0] * 7, 7), ([1e6] * 7, 7), ([1.0, np.nan, 2.0, np.inf], 1), ([np.nan], 0))
def test_equal_values_are_in_one_bin_and_what_is_not_finite_in_none(*, values, most):
    rows = measured(np.array(values, np.float32))
    assert rows[:, 2].max() == most and rows[:, 2].sum() == np.isfinite(values).sum()
    assert np.isfinite(rows).all() and np.all(rows[:, 1] >= rows[:, 0])
    assert rows[-1, 1] > rows[0, 0] or not most


def test_a_training_writes_them_for_tensorboard_and_ends_as_without(tmp_path):
    plain = whole_run(tmp_path / "0", num_steps=5, gradient_clipping_by_norm=1.0)
    logger = LoggedTraining([TensorBoardLogger(str(tmp_path / "logs"))])
    chosen = {"gradient_clipping_by_norm": 1.0, "histograms_every_steps": 2}
    measured = whole_run(tmp_path / "2", None, logger, num_steps=5, **chosen)
    found = {}
    for file in (tmp_path / "logs" / "train").glob("events*"):
        for record in tf.data.TFRecordDataset(str(file)).as_numpy_iterator():
            event = tf.compat.v1.Event.FromString(record)
            for value in event.summary.value:
                if value.metadata.plugin_data.plugin_name == "histograms":
                    found[event.step, value.tag] = tf.make_ndarray(value.tensor)
    assert sorted({step for step, _ in found}) == [2, 4]
    trained = ("stem/kernel", "stem/bias", "stem_bn/gamma", "stem_bn/beta", "head/kernel", "head/bias")
    assert {name for _, name in found} == {f"{k}/{n}" for k in ("gradients", "parameters") for n in trained}
    for (_, name), rows in found.items():
        size = {"stem/kernel": 3 * 3 * 3 * 4, "head/kernel": 4 * 7, "head/bias": 7}
        assert rows.shape == (BINS, 3) and rows[:, 2].sum() == size.get(name.partition("/")[2], 4)
    assert_equal(plain.model.variables, measured.model.variables, 0, 0)
