"""What a network computes in: chosen by the device, float32 where it counts, resumed in any other."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.builders.detector import build_detector
from detection_core.config.load import parse_pipeline_config
from detection_core.detectors.base import TOTAL_LOSS, Detector
from detection_core.training import precision as rules
from detection_core.training.loop import TrainingResult, run_training
from detection_core.training.loop_options import TrainOptions
from detection_core.training.precision import (
    Precision,
    choose_precision,
    computing_in,
    device_precision,
)
from detection_core.training.step import TrainState, train_step
from tests.detection_core.training.test_loop import Collect, Crash, momentum
from tests.support.tiny_model import TinyModel, make_dataset
from tests.support.tiny_training import config_text

HALVES = (Precision.BFLOAT16, Precision.FLOAT16)
AUTOML = """
model {
  efficientdet {
    name: "efficientdet-lite0" num_classes: 2 fpn_cell_repeats: 1 box_class_repeats: 1 fpn_num_filters: 8
    survival_prob: 0 image_resizer { automl_resizer { height: 128 width: 128 } } MORE
  }
}
"""
MODELS = {
    "ssd": config_text(),
    "ssd, bidirectional pyramid": config_text()
    .replace("ssd_mobilenet_v2_fpn_keras", "ssd_efficientnet-b0_bifpn_keras")
    .replace(
        "fpn { min_level: 3 max_level: 5 additional_layer_depth: 8 }",
        "bifpn { num_filters: 8 num_iterations: 1 }",
    )
    .replace("max_level: 5 anchor_scale", "max_level: 7 anchor_scale")
    .replace("use_depthwise: true depth_multiplier: 0.25 min_depth: 8", ""),
    "efficientdet, plain sums": AUTOML.replace("MORE", ""),
    "efficientdet, weighted, two heads": AUTOML.replace(
        "MORE",
        'fpn_weight_method: "fastattn" act_type: "srelu" heads: "object_detection" heads: "segmentation"'
        " seg_num_classes: 3",
    ),
}


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ([(8, 0)], Precision.BFLOAT16),
        ([(12, 0)], Precision.BFLOAT16),
        ([(9, 0), (7, 5)], Precision.FLOAT16),
        ([(7, 0)], Precision.FLOAT16),
        ([(6, 1)], Precision.FLOAT32),
        ([None], Precision.FLOAT32),
        ([], Precision.FLOAT32),
    ],
)
def test_a_machine_is_as_able_as_its_weakest_gpu(monkeypatch, capabilities, expected):
    monkeypatch.setattr(
        tf.config, "list_physical_devices", lambda kind: capabilities if kind == "GPU" else []
    )
    found = "compute_capability"
    monkeypatch.setattr(
        tf.config.experimental, "get_device_details", lambda gpu: {} if gpu is None else {found: gpu}
    )
    assert device_precision() is expected
    assert choose_precision(None) is expected


def test_a_precision_that_is_slow_here_is_taken_and_named(caplog):
    with caplog.at_level(logging.INFO):
        assert choose_precision(Precision.FLOAT32) is Precision.FLOAT32
        assert choose_precision(None) is Precision.FLOAT32
        assert not caplog.messages
        assert choose_precision(Precision.BFLOAT16) is Precision.BFLOAT16
    assert caplog.messages == [
        "train_config.precision BFLOAT16 is slow here: there is no GPU, and processors are faster in float32"
    ]


def test_the_policy_is_that_of_a_block():
    with pytest.raises(KeyError), computing_in(Precision.FLOAT16):
        assert tf_keras.layers.Dense(1).compute_dtype == "float16"
        raise KeyError
    assert tf_keras.layers.Dense(1).compute_dtype == "float32"


def built(name: str, precision: Precision) -> Detector:
    with computing_in(precision):
        return build_detector(parse_pipeline_config(MODELS[name]).model)


def batch_for(model: Detector) -> Any:
    """Two noisy images with an object each, and its mask."""
    height, width = model.input_shape.smallest
    (batch,) = make_dataset(0, batch_size=2).take(1)
    sizes = tf.fill([2, 2], height)
    pixels = tf.random.stateless_uniform([2, height, width, 3], [1, 2], 0.0, 255.0)
    images = batch.images._replace(pixels=pixels, true_sizes=sizes, original_sizes=sizes)
    return batch._replace(
        images=images, truth=batch.truth._replace(masks=tf.ones([2, 1, height, width], tf.uint8))
    )


@pytest.mark.parametrize(
    ("name", "precision"),
    [*((name, Precision.BFLOAT16) for name in MODELS), (list(MODELS)[-1], Precision.FLOAT16)],
)
def test_what_counts_stays_float32(name, precision):
    exact, half = built(name, Precision.FLOAT32), built(name, precision)
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


def tiny(precision: Precision, seed: int = 0) -> TinyModel:
    with computing_in(precision):
        return TinyModel(seed)


def state_in_float16(**options: Any) -> tuple[TrainState, TrainOptions]:
    options = TrainOptions(num_steps=9, precision=Precision.FLOAT16, **options)
    return TrainState(tiny(Precision.FLOAT16), momentum(average=0.9), options, None), options


def test_gradients_do_not_depend_on_the_factor_of_the_loss():
    (batch,) = make_dataset(0).take(1)
    weights = []
    for scale in (1.0, 1024.0):
        state, options = state_in_float16(initial_loss_scale=scale)
        outputs = train_step(state, options, 1, batch)
        assert float(outputs.scalars["loss_scale"]) == scale
        weights.append(state.model.network.variables[0].numpy())
    np.testing.assert_allclose(*weights, rtol=0.01, atol=1e-4)


@pytest.mark.parametrize(
    "clipped", [{}, {"gradient_clipping_by_norm": 1.0}, {"gradient_clipping_by_variable_norm": 1.0}]
)
def test_an_update_that_overflows_is_left_out_and_counted(clipped):
    (batch,) = make_dataset(0).take(1)
    state, options = state_in_float16(initial_loss_scale=2.0**24, **clipped)
    before = [v.numpy() for v in state.variables]
    train_step(state, options, 1, batch)
    for value, variable in zip(before, state.variables, strict=True):
        np.testing.assert_array_equal(value, variable)
    assert int(state.step) == int(state.optimization.optimizer.iterations) == 1
    again = train_step(state, options, 1, batch)
    assert float(again.scalars["loss_scale"]) == 2.0**23


def test_many_good_updates_double_the_factor():
    (batch,) = make_dataset(0).take(1)
    state, options = state_in_float16(initial_loss_scale=8.0)
    (part,) = state.updates.checkpointed().values()
    part.good.assign(1998)
    factors = [float(train_step(state, options, 1, batch).scalars["loss_scale"]) for _ in range(3)]
    assert factors == [8.0, 8.0, 16.0]


def fit(
    model: TinyModel, folder: Path, precision: Precision, *actions: Any, **changes: Any
) -> TrainingResult:
    options = TrainOptions(
        num_steps=10,
        log_every=1,
        checkpoint_every=5,
        precision=precision,
        initial_loss_scale=2.0**22,
        **changes,
    )
    return run_training(model, make_dataset, momentum(average=0.9), options, str(folder), actions=actions)


@pytest.mark.parametrize("precision", HALVES)
def test_a_training_that_was_killed_is_the_undisturbed_one_to_the_bit(tmp_path, precision):
    straight, told = tiny(precision), Collect()
    fit(straight, tmp_path / "straight", precision, told)
    with pytest.raises(RuntimeError, match="killed"):
        fit(tiny(precision), tmp_path / "killed", precision, Crash(7))
    resumed, again = tiny(precision, seed=1), Collect()
    assert fit(resumed, tmp_path / "killed", precision, again).start_step == 5
    for a, b in zip(straight.variables, resumed.variables, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=a.name)
    factors = [[report.scalars.get("loss_scale") for report in each.reports] for each in (told, again)]
    assert factors[0][5:] == factors[1]
    if precision is Precision.FLOAT16:
        assert (
            factors[0][5] < factors[0][0] == 2.0**22
        )  # the factor had to fall, which a resumed one remembers


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Precision.FLOAT32, Precision.FLOAT16),
        (Precision.FLOAT16, Precision.BFLOAT16),
        (Precision.BFLOAT16, Precision.FLOAT32),
    ],
)
def test_a_training_goes_on_in_another_precision(tmp_path, first, second):
    with pytest.raises(RuntimeError, match="killed"):
        fit(tiny(first), tmp_path, first, Crash(6))
    names = dict(tf.train.list_variables(str(tmp_path / "checkpoints" / "ckpt-5")))
    reader = tf.train.load_checkpoint(str(tmp_path / "checkpoints" / "ckpt-5"))
    kinds = {
        reader.get_tensor(name).dtype for name in names if name.startswith(("model", "moving", "optimizer"))
    }
    assert np.dtype("float32") in kinds and kinds <= {np.dtype("float32"), np.dtype("int64")}
    model = tiny(second, seed=1)
    result = fit(model, tmp_path, second)
    assert result.start_step == 5
    straight = tiny(Precision.FLOAT32)
    fit(straight, tmp_path / "straight", Precision.FLOAT32)
    if Precision.FLOAT16 in (first, second):
        return  # some updates were left out
    for a, b in zip(straight.variables, model.variables, strict=True):
        np.testing.assert_allclose(a, b, rtol=0.1, atol=0.05, err_msg=a.name)


def test_workers_that_differ_compute_in_float32(monkeypatch):
    others = {Precision.BFLOAT16: Precision.FLOAT16, Precision.FLOAT16: Precision.FLOAT16}
    for own, other in others.items():
        asked: list[Precision] = []

        def on_any_worker(flag: bool, other: Precision = other, asked: list[Precision] = asked) -> bool:
            candidate = list(others)[len(asked)]
            asked.append(candidate)
            return flag or other is not candidate

        monkeypatch.setattr(rules, "on_any_worker", on_any_worker)
        assert rules._agreed(own) is (own if own is other else Precision.FLOAT32)
