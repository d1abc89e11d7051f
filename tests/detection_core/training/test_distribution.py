"""The choice of strategy, and that a mirrored one trains as one device does."""

import json

import pytest
import tensorflow as tf

from detection_core.errors import ConfigError
from detection_core.training.distribution import Worker, choose_strategy, this_worker
from tests.support.cases import refused
from tests.support.replicas import assert_prints_equal


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="this machine has a GPU")
def test_without_gpus_the_default_strategy_is_taken():
    assert choose_strategy() is tf.distribute.get_strategy()


REPLICAS = """
import sys
import tf_keras
from detection_core.parts.layers.layer_hyperparams import BatchNormOptions, LayerHyperparams
from detection_core.parts.layers.network_layers import NetworkLayers
from detection_core.training.loop import run_training
from detection_core.training.loop_options import TrainOptions
from detection_core.training.precision import Precision, computing_in
from detection_core.training.step import TrainState, compile_steps
from tests.detection_core.training.runs import assert_equal, momentum, state_of
from tests.support.tiny_model import TinyModel, make_dataset

# A second strategy for two devices would number its collectives from the start again.
ONE, TWO = (tf.distribute.MirroredStrategy(d) for d in (["/cpu:0"], ["/cpu:0", "/cpu:1"]))


def train_as_one(folder):
    weights = []
    for strategy in (ONE, TWO):
        with strategy.scope():
            model = TinyModel()
            model.network.get_layer("stem_bn").trainable = False  # its statistics are per replica
            for options in (TrainOptions(num_steps=3), TrainOptions(num_steps=6, steps_per_call=2)):
                work = f"{folder}/{strategy.num_replicas_in_sync}"
                result = run_training(model, make_dataset, momentum(average=0.9), options, work)
            weights.append([v.numpy() for v in model.network.trainable_variables])
            assert result.start_step == 3, result
    assert_equal(*weights, 1e-4, 1e-6)


def normalise_over_both():
    # A normalisation over one value a replica gives zeros, over both replicas' values it does not.
    values = TWO.experimental_distribute_values_from_function(
        lambda context: tf.constant([[4.0 * context.replica_id_in_sync_group]])
    )
    for synchronized, expected in ((False, [0.0, 0.0]), (True, [-1.0, 1.0])):
        with TWO.scope():
            inputs, options = tf_keras.Input((1,)), BatchNormOptions(synchronized=synchronized)
            layers = NetworkLayers(hyperparams=LayerHyperparams(batch_norm=options))
            norm = tf_keras.Model(inputs, layers.norm("n")(inputs))
        found = TWO.run(tf.function(lambda share: norm(share, training=True)), args=(values,))
        found = np.ravel(TWO.experimental_local_results(found))
        np.testing.assert_allclose(found, expected, atol=1e-3)


def train_two_parts_as_four():
    weights, histograms = [], []
    for strategy, parts in ((tf.distribute.get_strategy(), 4), (TWO, 2)):
        with strategy.scope():
            model = TinyModel()
            options = TrainOptions(num_steps=2, gradient_accumulation_steps=parts, histograms_every_steps=2)
            update = compile_steps(state_of(model, options), options, lambda outputs: None)
            data = make_dataset(0, batch_size=8).take(2)
            iterator = iter(strategy.experimental_distribute_dataset(data))
            for _ in range(2):
                outputs = update(iterator, tf.constant(1))
            weights.append([v.numpy() for v in model.network.trainable_variables])
            histograms.append({name: rows.numpy() for name, rows in outputs.histograms.items()})
    assert_equal(*weights, 1e-4, 1e-6)
    for name, rows in histograms[0].items():  # of the whole gradient, not of a replica's part of it
        np.testing.assert_allclose(rows[:, :2], histograms[1][name][:, :2], rtol=1e-3, atol=1e-6)
        assert rows[:, 2].sum() == histograms[1][name][:, 2].sum() > 0


def leave_out_in_both():
    # One image of the second replica is so bright that its gradients are beyond float16.
    weights = []
    for strategy in (ONE, TWO):
        with strategy.scope():
            with computing_in(Precision.FLOAT16):
                model = TinyModel()
            model.network.get_layer("stem_bn").trainable = False
            options = TrainOptions(num_steps=4, precision=Precision.FLOAT16, initial_loss_scale=2.0**14)
            state = TrainState(model, momentum(), options, None)
            batches = list(make_dataset(0).take(4))
            bright = [tf.fill([8, 8, 3], 6e5)]
            pixels = tf.tensor_scatter_nd_update(batches[1].images.pixels, [[3]], bright)
            batches[1] = batches[1]._replace(images=batches[1].images._replace(pixels=pixels))
            whole = tf.nest.map_structure(lambda *v: tf.stack(v), *batches)
            data = tf.data.Dataset.from_tensor_slices(whole)
            update = compile_steps(state, options, lambda outputs: None)
            iterator = iter(strategy.experimental_distribute_dataset(data))
            factors = [float(update(iterator, tf.constant(1)).scalars["loss_scale"]) for _ in range(4)]
            assert factors == [2.0**14, 2.0**14, 2.0**13, 2.0**13], factors
            assert state.step.numpy() == state.optimization.optimizer.iterations.numpy() == 4
            weights.append([v.numpy() for v in model.network.trainable_variables])
    assert_equal(*weights, 1e-2, 1e-3)


def agree_on_statistics_to_resume_to_the_bit():
    means = []
    for deterministic in (False, True):
        with TWO.scope():
            model, options = TinyModel(), TrainOptions(num_steps=2, deterministic=deterministic)
            update = compile_steps(state_of(model, options), options, lambda outputs: None)
            iterator = iter(TWO.experimental_distribute_dataset(make_dataset(0, batch_size=8).take(2)))
            for _ in range(2):
                update(iterator, tf.constant(1))
            mean = model.network.get_layer("stem_bn").moving_mean
            own = [value.numpy() for value in TWO.experimental_local_results(mean)]
            assert np.array_equal(*own) == deterministic, own
            means.append(mean.numpy())
    np.testing.assert_allclose(*means, rtol=1e-5, atol=1e-7)


train_as_one(sys.argv[1])
agree_on_statistics_to_resume_to_the_bit()
normalise_over_both()
train_two_parts_as_four()
leave_out_in_both()
print("equal")
"""


@pytest.mark.slow
def test_two_replicas_train_as_one(tmp_path):
    assert_prints_equal(REPLICAS, tmp_path)


def test_the_place_among_workers_is_read_and_a_broken_one_refused(monkeypatch):
    chief = {"chief": ["c:1"], "worker": ["a:1", "b:1"]}
    for cluster, kind, index, worker in (
        ({"worker": ["a:1", "b:1"]}, "worker", 1, Worker(index=1, count=2)),
        (chief, "worker", 0, Worker(index=1, count=3)),
        (chief, "chief", 0, Worker(index=0, count=3)),
    ):
        place = {"cluster": cluster, "task": {"type": kind, "index": index}}
        monkeypatch.setenv("TF_CONFIG", json.dumps(place))
        assert this_worker() == worker
        assert worker.is_chief == (worker.index == 0)
    beyond = '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}'
    for text in ("{", "[]", "{}", beyond):
        monkeypatch.setenv("TF_CONFIG", text)
        refused(ConfigError, "TF_CONFIG", this_worker)
