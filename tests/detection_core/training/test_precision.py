"""What a network computes in: chosen by the device, float32 where it counts, resumed in any other."""

import functools
import logging

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.builders.detector import build_detector
from detection_core.config.load import parse_pipeline_config
from detection_core.detectors.base import TOTAL_LOSS
from detection_core.training import precision as rules
from detection_core.training.loop_options import TrainOptions
from detection_core.training.precision import Precision, choose_precision, computing_in, device_precision
from detection_core.training.step import TrainState, train_step
from tests.detection_core.training.runs import assert_equal, momentum, whole_run
from tests.support.precision_models import MODELS, batch_for
from tests.support.tiny_model import TinyModel, make_dataset

FLOAT32, BFLOAT16, FLOAT16 = Precision.FLOAT32, Precision.BFLOAT16, Precision.FLOAT16


def test_a_machine_is_as_able_as_its_weakest_gpu(monkeypatch):
    details = lambda gpu: {} if gpu is None else {"compute_capability": gpu}  # noqa: E731
    monkeypatch.setattr(tf.config.experimental, "get_device_details", details)
    for capabilities, expected in (
        ([(8, 0)], BFLOAT16), ([(12, 0)], BFLOAT16), ([(9, 0), (7, 5)], FLOAT16), ([(7, 0)], FLOAT16),
        ([(6, 1)], FLOAT32), ([None], FLOAT32), ([], FLOAT32),
    ):  # fmt: skip
        found = {"GPU": capabilities}
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind, found=found: found.get(kind, []))
        assert device_precision() is choose_precision(None) is expected, capabilities


def test_a_precision_that_is_slow_here_is_taken_and_named_and_is_that_of_a_block(caplog):
    with caplog.at_level(logging.INFO):
        assert choose_precision(FLOAT32) is choose_precision(None) is FLOAT32
        assert not caplog.messages
        assert choose_precision(BFLOAT16) is BFLOAT16
    why = "there is no GPU, and processors are faster in float32"
    assert caplog.messages == [f"train_config.precision BFLOAT16 is slow here: {why}"]
    with pytest.raises(KeyError), computing_in(FLOAT16):
        assert tf_keras.layers.Dense(1).compute_dtype == "float16"
        raise KeyError
    assert tf_keras.layers.Dense(1).compute_dtype == "float32"


@functools.cache
def built(name, precision):
    with computing_in(precision):
        return build_detector(parse_pipeline_config(MODELS[name]).model)


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("plain", FLOAT16),
        ("plain, bidirectional pyramid", BFLOAT16),
        *(pytest.param(name, BFLOAT16, marks=pytest.mark.slow) for name in list(MODELS)[:3]),
        pytest.param("efficientdet, weighted, two heads", FLOAT16, marks=pytest.mark.slow),
    ],
)
def test_what_counts_stays_float32(name, precision):
    exact, half = built(name, FLOAT32), built.__wrapped__(name, precision)
    for a, b in zip(exact.variables, half.variables, strict=True):
        assert b.dtype == tf.float32
        np.testing.assert_array_equal(a, b)
    layers = half.networks["detector"].layers
    assert {layer.compute_dtype for layer in layers if layer.weights} == {precision.dtype}

    batch = batch_for(half)
    wanted, found = (model.losses(batch, training=False) for model in (exact, half))
    assert {value.dtype for value in found.values()} == {tf.float32}
    for key, value in wanted.items():
        np.testing.assert_allclose(found[key], value, rtol=0.03, err_msg=key)

    options = TrainOptions(num_steps=1, precision=precision, initial_loss_scale=16.0)
    state = TrainState(half, momentum(average=0.9), options, None)
    before = {v.name: v.numpy() for v in half.variables}
    outputs = train_step(state, options, 1, batch)
    assert np.isfinite(float(outputs.losses[TOTAL_LOSS]))
    moved = [v.name for v in half.variables if not np.array_equal(v, before[v.name])]
    assert any("moving_mean" in name for name in moved) and any("kernel" in name for name in moved)
    assert {v.dtype for v in [*half.variables, *state.average.averages]} == {tf.float32}
    for variable in half.variables:
        if "moving" in variable.name and np.any(variable):
            # A statistic that was kept in fewer bits would have zeros at its end.
            assert not np.array_equal(variable, tf.cast(tf.cast(variable, precision.dtype), tf.float32))


def tiny(precision, seed=0):
    with computing_in(precision):
        return TinyModel(seed)


def state_in_float16(**options):
    options = TrainOptions(num_steps=9, precision=FLOAT16, **options)
    return TrainState(tiny(FLOAT16), momentum(average=0.9), options, None), options


def test_gradients_do_not_depend_on_the_factor_of_the_loss_which_good_updates_double():
    (batch,) = make_dataset(0).take(1)
    weights = []
    for scale in (1.0, 1024.0):
        state, options = state_in_float16(initial_loss_scale=scale)
        outputs = train_step(state, options, 1, batch)
        assert float(outputs.scalars["loss_scale"]) == scale
        weights.append(state.model.network.variables[0].numpy())
    np.testing.assert_allclose(*weights, rtol=0.01, atol=1e-4)
    state, options = state_in_float16(initial_loss_scale=8.0)
    (part,) = state.updates.checkpointed().values()
    part.good.assign(1998)
    factors = [float(train_step(state, options, 1, batch).scalars["loss_scale"]) for _ in range(3)]
    assert factors == [8.0, 8.0, 16.0]


def test_an_update_that_overflows_is_left_out_and_counted():
    (batch,) = make_dataset(0).take(1)
    for clipped in ({}, {"gradient_clipping_by_norm": 1.0}, {"gradient_clipping_by_variable_norm": 1.0}):
        state, options = state_in_float16(initial_loss_scale=2.0**24, **clipped)
        before = [v.numpy() for v in state.variables]
        train_step(state, options, 1, batch)
        assert_equal(before, state.variables, 0, 0)
        assert int(state.step) == int(state.optimization.optimizer.iterations) == 1
        again = train_step(state, options, 1, batch)
        assert float(again.scalars["loss_scale"]) == 2.0**23


def fit(folder, precision, seed=0):
    chosen = {"precision": precision, "initial_loss_scale": 2.0**22}
    return whole_run(folder, tiny(precision, seed), **chosen)


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    return {each: fit(tmp_path_factory.mktemp(each.name), each) for each in Precision}


def test_a_training_goes_on_to_the_bit(straight, tmp_path):
    for precision in (BFLOAT16, FLOAT16):
        whole, folder = straight[precision], tmp_path / precision.name
        resumed = fit(whole.copy(5, folder), precision, seed=1)
        assert resumed.result.start_step == 5
        assert_equal(whole.model.variables, resumed.model.variables, 0, 0)
        reports = (run.seen.reports for run in (whole, resumed))
        ours, theirs = ([report.scalars.get("loss_scale") for report in each] for each in reports)
        assert ours[5:] == theirs
        if precision is FLOAT16:  # the factor had to fall, which a resumed one remembers
            assert ours[5] < ours[0] == 2.0**22


def test_a_training_goes_on_in_another_precision(straight, tmp_path):
    for first, second in ((FLOAT32, FLOAT16), (FLOAT16, BFLOAT16), (BFLOAT16, FLOAT32)):
        folder = straight[first].copy(5, tmp_path / first.name)
        reader = tf.train.load_checkpoint(str(folder / "checkpoints" / "ckpt-5"))
        names, parts = reader.get_variable_to_shape_map(), ("model", "moving", "optimizer")
        kinds = {reader.get_tensor(name).dtype for name in names if name.startswith(parts)}
        assert np.dtype("float32") in kinds and kinds <= {np.dtype("float32"), np.dtype("int64")}
        run = fit(folder, second, seed=1)
        assert run.result.start_step == 5
        if FLOAT16 not in (first, second):  # there some updates were left out
            assert_equal(straight[FLOAT32].model.variables, run.model.variables, 0.1, 0.05)


def test_workers_that_differ_compute_in_float32(monkeypatch):
    others = {BFLOAT16: FLOAT16, FLOAT16: FLOAT16}
    for own, other in others.items():
        asked = []

        def on_any_worker(flag, other=other, asked=asked):
            candidate = list(others)[len(asked)]
            asked.append(candidate)
            return flag or other is not candidate

        monkeypatch.setattr(rules, "on_any_worker", on_any_worker)
        assert rules._agreed(own) is (own if own is other else FLOAT32)
