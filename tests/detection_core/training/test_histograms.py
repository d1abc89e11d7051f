"""What is measured of a run, and graphs that are rewritten."""

import logging
import math

import numpy as np
import tensorflow as tf

from detection_core.loggers.tensorboard import TensorBoardLogger
from detection_core.training import step as step_module
from detection_core.training.actions import LoggedTraining, ProfileOptions, ProfilerTrace
from detection_core.training.histograms import BINS, as_histograms, measured_histograms
from detection_core.training.loop_options import TrainOptions
from detection_core.training.multi_scale import MultiScaleModel, resized
from detection_core.training.precision import Precision
from detection_core.training.step import compile_steps, gains_nothing_from_rewrites
from tests.detection_core.training.runs import assert_equal, state_of, train, whole_run
from tests.support.cases import cases
from tests.support.rewrites import rewrites
from tests.support.tiny_model import TinyModel, make_dataset


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


def traced(folder, first=2, steps=2, num_steps=5):
    """Train, or go on, with a trace of some updates; return the traces that are there."""
    trace = ProfilerTrace(ProfileOptions(first_step=first, steps=steps), str(folder / "logs"))
    whole_run(folder, None, trace, num_steps=num_steps, log_every=10, steps_per_call=4)
    return sorted((folder / "logs").glob("plugins/profile/*/*.xplane.pb"))


def test_a_trace_has_the_operations_of_the_updates_asked_for_as_far_as_there_are(tmp_path):
    (trace,) = traced(tmp_path)
    content = trace.read_bytes()
    assert b"Conv2DBackpropFilter" in content and b"train" in content
    assert traced(tmp_path, num_steps=7) == [trace]  # gone on with behind the span
    assert len(traced(tmp_path / "short", first=1, steps=50, num_steps=2)) == 1
    trace = ProfilerTrace(ProfileOptions(first_step=3, steps=4), str(tmp_path / "short"))
    assert [trace.steps_until_due(step) for step in (0, 2, 3, 6, 7)] == [3, 1, 4, 1, math.inf]


def test_a_profiler_that_is_busy_costs_the_training_nothing(tmp_path, caplog):
    tf.profiler.experimental.start(str(tmp_path / "other"))
    try:
        with caplog.at_level(logging.WARNING):
            assert not traced(tmp_path, first=0)
    finally:
        tf.profiler.experimental.stop(save=False)
    assert caplog.text.count("the profiler does not start, and nothing is traced") == 1


def test_a_size_stays_for_its_steps_and_pixels_and_masks_follow_it():
    def drawn(seed):
        scales = MultiScaleModel(TinyModel(), [0, 1, 2], seed=seed, steps_per_scale=4)
        return [scales.losses(step) for step in range(80)]

    turns = np.reshape(drawn(1), (20, 4))
    assert np.all(turns == turns[:, :1]) and set(turns[:, 0]) == {0, 1, 2}
    assert drawn(1) == drawn(1) != drawn(2)
    scales = MultiScaleModel(TinyModel(), [0], seed=0, steps_per_scale=4)
    assert [scales.steps_until_next(step) for step in range(6)] == [4, 3, 2, 1, 4, 3]
    (batch,) = make_dataset(0, batch_size=2).take(1)
    masks = np.zeros((2, 1, 8, 8), np.uint8)
    masks[0, :, :, 4:] = 1
    truth = batch.truth._replace(masks=tf.constant(masks))
    images = batch.images._replace(true_sizes=tf.constant([[8, 8], [4, 6]]))
    found = resized(batch._replace(truth=truth, images=images), (16, 4))
    assert found.images.pixels.shape == (2, 16, 4, 3)
    assert found.images.true_sizes.numpy().tolist() == [[16, 4], [8, 3]]
    expected = np.zeros((2, 1, 16, 4), np.uint8)
    expected[0, :, :, 2:] = 1
    np.testing.assert_array_equal(found.truth.masks, expected)
    assert found.truth.masks.dtype == tf.uint8
    np.testing.assert_array_equal(found.truth.boxes, batch.truth.boxes)
    whole = resized(batch, (16, 16))
    assert whole.truth.masks.shape == (2, 1, 0, 0)
    assert abs(float(tf.reduce_mean(whole.images.pixels) - tf.reduce_mean(batch.images.pixels))) < 1


def test_training_goes_through_the_sizes_and_on_as_if_never_stopped(tmp_path):
    """Each size is another network; here two makes of the same one stand for them."""

    def trained(folder, steps):
        model, used = TinyModel(), []

        def at(size):
            def losses(batch, training):
                used.append(size)
                return model.losses(resized(resized(batch, (size, size)), (8, 8)), training)

            return losses

        scales = MultiScaleModel(model, [at(8), at(4)], seed=3, steps_per_scale=2)
        train(scales, tmp_path / folder, num_steps=steps, checkpoint_every=3, log_every=10)
        return model.variables, used

    whole, used = trained("whole", 12)
    assert set(used) == {4, 8} and len(used) < 5  # traced, not called
    trained("again", 5)
    again, _ = trained("again", 12)
    assert_equal(whole, again, 0, 0)


class Watching(TinyModel):
    """Notes whether graphs are rewritten where its losses are asked for."""

    def losses(self, batch, training):
        self.rewrites = rewrites()
        return super().losses(batch, training)


def trained(steps=3, precision=Precision.FLOAT32, steps_per_call=1):
    model = Watching()
    options = TrainOptions(num_steps=steps, precision=precision, steps_per_call=steps_per_call)
    update = compile_steps(state_of(model, options), options, lambda outputs: None)
    batches = iter(make_dataset(0))
    for _ in range(steps // steps_per_call):
        update(batches, tf.constant(steps_per_call))
    return model


@cases(1, 3)
def test_an_update_is_the_same_without_them(monkeypatch, *, steps_per_call):
    as_written = trained(steps_per_call=steps_per_call)
    assert not as_written.rewrites
    assert rewrites()
    monkeypatch.setattr(step_module, "gains_nothing_from_rewrites", lambda precision: False)
    rewritten = trained(steps_per_call=steps_per_call)
    assert rewritten.rewrites
    for ours, theirs in zip(as_written.variables, rewritten.variables, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_other_precisions_and_replicas_and_gpus_are_rewritten(monkeypatch):
    assert gains_nothing_from_rewrites(Precision.FLOAT32)
    assert not gains_nothing_from_rewrites(Precision.BFLOAT16)
    assert trained(1, Precision.FLOAT16).rewrites
    with tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]).scope():
        assert not gains_nothing_from_rewrites(Precision.FLOAT32)
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: [kind])
    assert not gains_nothing_from_rewrites(Precision.FLOAT32)
