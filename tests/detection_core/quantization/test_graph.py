"""Reading and rebuilding functional networks."""

import numpy as np
import tf_keras

from detection_core.errors import ModelError
from detection_core.quantization.graph import read_graph, rebuild, split_sums
from tests.support.cases import refused
from tests.support.tiny_network import tiny_network


def assert_rebuilt(graph, network):
    """With the same layers a graph gives what its network gives."""
    again = rebuild(graph, lambda call: call.layer if call.inputs else None, name="again")
    x = np.random.default_rng(0).uniform(-1, 1, (1, *network.input_shape[1:])).astype(np.float32)
    for a, b in zip(network(x), again(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_calls_follow_their_inputs_and_shared_layers_are_listed_once_a_level():
    network = tiny_network()
    graph = read_graph(network)
    assert_rebuilt(graph, network)
    seen: set[str] = set()
    for call in graph.calls.values():
        assert set(call.inputs) <= seen
        seen.add(call.name)
    assert [graph.calls[f"box_codes_{i}"].inputs for i in (0, 1)] == [("box_level_0",), ("box_level_1",)]
    assert graph.calls["residual"].many and not graph.calls["stem"].many
    assert graph.inputs == ("pixels",) and graph.outputs == ("box_codes", "class_logits")
    assert graph.consumers()["residual"] == ["fine"]


def test_a_sum_of_more_than_two_tensors_is_taken_apart():
    pixels = tf_keras.Input((2, 2, 3))
    maps = [tf_keras.layers.ReLU(name=f"map_{number}")(pixels) for number in range(4)]
    network = tf_keras.Model(pixels, tf_keras.layers.Add(name="sum")(maps))
    graph = split_sums(read_graph(network))
    sums = [call for call in graph.calls.values() if isinstance(call.layer, tf_keras.layers.Add)]
    assert [call.name for call in sums] == ["sum_part_1", "sum_part_2", "sum"]
    assert all(len(call.inputs) == 2 for call in sums) and graph.outputs == ("sum",)
    assert_rebuilt(graph, network)


def test_what_is_no_flat_functional_network_is_refused():
    refused(ModelError, "functional", read_graph, type("Own", (tf_keras.Model,), {})())
    inner = tf_keras.Sequential([tf_keras.layers.Conv2D(2, 1)], name="inner")
    pixels = tf_keras.Input((4, 4, 3))
    network = tf_keras.Model(pixels, inner(pixels))
    refused(ModelError, "inner: expected a flat network", read_graph, network)
