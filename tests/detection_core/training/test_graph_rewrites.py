"""Steps on processors run as they are written."""

import numpy as np
import pytest
import tensorflow as tf

from detection_core.training import step as step_module
from detection_core.training.graph_rewrites import gains_nothing_from_rewrites, without_rewrites
from detection_core.training.loop_options import TrainOptions
from detection_core.training.precision import Precision
from detection_core.training.step import compile_steps
from tests.detection_core.training.runs import state_of
from tests.support.cases import cases
from tests.support.tiny_model import TinyModel, make_dataset


def rewrites():
    return not tf.config.optimizer.get_experimental_options().get("disable_meta_optimizer", False)


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


def test_rewrites_are_back_afterwards_whatever_happens():
    assert rewrites()
    with pytest.raises(ValueError, match="inside"), without_rewrites():
        assert not rewrites()
        with without_rewrites():
            pass
        assert not rewrites()
        raise ValueError("inside")
    assert rewrites()


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
