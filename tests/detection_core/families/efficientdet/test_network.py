"""Networks with weights that follow from their names, against google/automl's."""

import functools

import numpy as np
import pytest

from detection_core.families.efficientdet.checkpoint_names import automl_variables
from detection_core.families.efficientdet.network import build_network
from tests.support import efficientdet_goldens as goldens
from tests.support.cases import cases
from tests.support.replicas import assert_prints_equal


@pytest.mark.slow
@cases("efficientdet-d0", "efficientdet-lite0")
def test_forward_passes_equal_the_reference(*, name):
    _assert_forward(name, "net256", (256, 256))
    if name != "efficientdet-d0":
        return
    _assert_forward(name, "train256", (256, 256), training=True)
    network, settings = _network(name, (256, 256))
    _network.cache_clear()  # its statistics have moved
    found = {own: variable for _, own, variable in automl_variables(network, settings)}
    golden = goldens.arrays(f"{name}.forward")
    for scope in ("efficientnet-b0/stem/tpu_batch_normalization", "class_net/class-0-bn-3"):
        key = f"train256/bn_after/{scope}/moving_mean".replace("/stem/", "/stem_1/")
        np.testing.assert_allclose(found[f"{scope}/moving_mean"], golden[key], 1e-4, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", [f"efficientdet-{name}" for name in ("d0", "d1", "d2", "lite0", "lite1")])
def test_forward_passes_on_odd_sizes_and_variables_equal_the_reference(name):
    _assert_forward(name, "net200x296", (200, 296))
    goldens.assert_variables(name, *_network(name, (200, 296)))
    _network.cache_clear()


# google/automl's README, in millions; lite without the classes' own. The settings of those between are
# compared in tests/detection_core/config/messages/test_efficientdet.py.
@pytest.mark.slow
@pytest.mark.parametrize(("name", "millions"), [("d3", 12.0), ("d7x", 77.0)])
def test_networks_have_as_many_parameters_as_published(name, millions):
    settings = goldens.settings(f"efficientdet-{name}")
    network = build_network(settings, (128, 128), None)
    assert network.count_params() / 1e6 == pytest.approx(millions, rel=0.02)


@functools.cache
def _network(name, size):
    settings = goldens.settings(name)
    network = build_network(settings, size, None)
    goldens.set_deterministic_weights(network, settings)
    return network, settings


def _assert_forward(name, key, size, training=False):
    network, settings = _network(name, size)
    pixels = np.random.RandomState(0).standard_normal((1, *size, 3)).astype(np.float32)
    heads, golden = network(pixels, training=training), goldens.arrays(f"{name}.forward")
    goldens.assert_levels(settings, size, heads, golden, key + "/{kind}/level_{level}")


@pytest.mark.slow
def test_replicas_share_the_statistics_of_their_images_where_that_is_asked_for():
    """Outputs, moving means and gradients of two replicas are those of the whole batch on one."""
    assert_prints_equal("""
        from detection_core.families.efficientdet.settings import settings_of
        from detection_core.families.efficientdet.network import build_network
        from tests.support import efficientdet_goldens as goldens

        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})  # run once
        pixels = np.random.RandomState(0).standard_normal((4, 64, 64, 3)).astype(np.float32)
        pixels[2:] = 3 * pixels[2:] + 1  # a replica by itself has other statistics

        def trained(devices, shared):
            strategy = tf.distribute.MirroredStrategy(devices)
            fields = {"fpn_cell_repeats": 1, "box_class_repeats": 1, "num_classes": 3, "max_level": 5}
            message = goldens.message("efficientdet-d0", 64, sync_batch_norm=shared, **fields)
            with strategy.scope():
                network = build_network(settings_of(message), (64, 64), None)
                goldens.set_deterministic_weights(network, settings_of(message))

            def replica(images):
                with tf.GradientTape() as tape:
                    codes, logits = network(images, training=True)
                    loss = tf.reduce_sum(codes**2) + tf.reduce_sum(tf.sigmoid(logits))
                found = tape.gradient(loss, network.get_layer("backbone_stem").trainable_variables[0])
                everywhere = tf.distribute.get_replica_context().all_reduce("sum", found)
                return codes, logits, everywhere

            share = 4 // len(devices)
            images = strategy.experimental_distribute_values_from_function(
                lambda context: tf.constant(pixels[context.replica_id_in_sync_group * share :][:share])
            )
            outputs = tf.function(lambda: strategy.run(replica, (images,)))()
            codes, logits, gradient = map(strategy.experimental_local_results, outputs)
            mean = network.get_layer("bifpn_0_0_bn").moving_mean.numpy()
            return [np.concatenate(codes), np.concatenate(logits), gradient[0].numpy(), mean]

        one, two = ["/cpu:0"], ["/cpu:0", "/cpu:1"]
        whole, halves = trained(one, False), trained(two, True)
        for found, again in zip(trained(one, True), whole):
            np.testing.assert_array_equal(found, again)  # one replica: to the bit
        for found, wanted in zip(halves, whole):
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())
        print("equal")
    """)
