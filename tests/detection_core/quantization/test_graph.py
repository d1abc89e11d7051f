"""Reading and rebuilding functional networks."""

import numpy as np
import pytest
import tf_keras

from detection_core.errors import ModelError
from detection_core.quantization.graph import read_graph, rebuild, split_sums
from tests.support.tiny_network import tiny_network


def test_calls_follow_their_inputs_and_shared_layers_are_listed_once_a_level():
    graph = read_graph(tiny_network())
    seen: set[str] = set()
    for call in graph.calls.values():
        assert set(call.inputs) <= seen
        seen.add(call.name)
    assert graph.calls["box_codes_0"].inputs == ("box_level_0",)
    assert graph.calls["box_codes_1"].inputs == ("box_level_1",)
    assert graph.calls["residual"].many and not graph.calls["stem"].many
    assert graph.inputs == ("pixels",) and graph.outputs == ("box_codes", "class_logits")
    assert graph.consumers()["residual"] == ["fine"]


def test_rebuilding_with_the_same_layers_gives_the_same_network():
    network = tiny_network()
    graph = read_graph(network)
    again = rebuild(graph, lambda call: call.layer if call.inputs else None, name="again")
    x = np.random.default_rng(0).uniform(-1, 1, (1, 32, 32, 3)).astype(np.float32)
    for a, b in zip(network(x), again(x), strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_is_no_flat_functional_network_is_refused():
    class Own(tf_keras.Model):
        pass

    with pytest.raises(ModelError, match="functional"):
        read_graph(Own())
    inner = tf_keras.Sequential([tf_keras.layers.Conv2D(2, 1)], name="inner")
    pixels = tf_keras.Input((4, 4, 3))
    with pytest.raises(ModelError, match="inner: expected a flat network"):
        read_graph(tf_keras.Model(pixels, inner(pixels)))


def test_a_sum_of_more_than_two_tensors_is_taken_apart():
    pixels = tf_keras.Input((2, 2, 3))
    maps = [tf_keras.layers.ReLU(name=f"map_{number}")(pixels) for number in range(4)]
    network = tf_keras.Model(pixels, tf_keras.layers.Add(name="sum")(maps))
    graph = split_sums(read_graph(network))
    sums = [call for call in graph.calls.values() if isinstance(call.layer, tf_keras.layers.Add)]
    assert [call.name for call in sums] == ["sum_part_1", "sum_part_2", "sum"]
    assert all(len(call.inputs) == 2 for call in sums) and graph.outputs == ("sum",)
    rebuilt = rebuild(graph, lambda call: call.layer if call.inputs else None, name="rebuilt")
    values = np.random.default_rng(0).normal(size=(1, 2, 2, 3)).astype(np.float32)
    np.testing.assert_allclose(rebuilt(values), network(values), rtol=1e-6)
