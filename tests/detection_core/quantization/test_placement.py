"""Where fake quantization goes."""

import tf_keras
from tf_keras import layers

from detection_core.detectors.parts.layers.activations import hard_swish
from detection_core.detectors.parts.layers.gates import hard_sigmoid
from detection_core.detectors.parts.necks.bifpn_fusion import WeightedFusion
from detection_core.quantization.folding import fold_batch_norms
from detection_core.quantization.graph import read_graph
from detection_core.quantization.placement import Placement, place_quantizers
from tests.support.tiny_network import tiny_network


def outputs_of(found: Placement) -> dict[str, str]:
    return {name: entry.record()["output"] for name, entry in found.quantized.items()}


def test_every_call_is_quantized_and_each_output_has_a_range_once():
    graph = read_graph(fold_batch_norms(tiny_network()).network)
    placement = place_quantizers(graph)
    assert placement.not_quantized == {}
    levels = [f"{name}_level_{level}" for name in ("tower", "box", "class") for level in (0, 1)]
    kernels = dict.fromkeys(("stem", "project", "fine", "coarse", *levels), "kernel")
    weights = {name: e.weights for name, e in placement.quantized.items() if e.weights}
    assert weights == kernels | {"dw": "depthwise_kernel"}
    expected = {
        "pixels": "own",
        "stem_pad": "pixels",  # moves values
        "stem": "stem_relu",  # the activation is fused, what is before it is never written
        "stem_relu": "own",
        "project": "own",  # read by an Add, which needs its scale
        "residual": "own",
        "fine": "own",  # read twice
        "coarse_pool": "fine",
        "up": "coarse",
        "box_level_0": "box_codes",  # all levels of a concatenation share a scale
        "box_codes_1": "box_codes",
        "class_logits": "own",
    }
    assert outputs_of(placement).items() >= expected.items()
    assert placement.observed.count("box_codes") == 1 and "stem" not in placement.observed
    # What is left in float is named, and the rest stays as it was.
    found = place_quantizers(graph, ["project", "box_codes"])
    assert set(found.not_quantized) == {"project", "box_codes"}
    rest = {name: entry for name, entry in placement.quantized.items() if name not in found.not_quantized}
    assert found.quantized == rest


def test_what_has_no_integer_rule_is_named_with_the_reason():
    pixels = tf_keras.Input((8, 8, 3), name="pixels")
    x = layers.BatchNormalization(name="norm")(pixels)
    x = layers.Conv2D(4, 1, activation="tanh", name="tanh_conv")(x)
    x = layers.UpSampling2D(2, interpolation="bilinear", name="up")(x)
    x = layers.LeakyReLU(name="leaky")(x)
    found = place_quantizers(read_graph(tf_keras.Model(pixels, x)))
    assert set(found.quantized) == {"pixels"}
    assert "follows no convolution" in found.not_quantized["norm"]
    assert "activation 'tanh'" in found.not_quantized["tanh_conv"]
    assert found.not_quantized["up"] == "no integer rule for layers of class UpSampling2D"
    assert found.not_quantized["leaky"] == "no integer rule for layers of class LeakyReLU"


def test_weighted_sums_of_earlier_records_run_in_float_and_sigmoids_on_their_fixed_grid():
    pixels = tf_keras.Input((8, 8, 3), name="pixels")
    x = layers.Conv2D(4, 1, name="left")(pixels)
    x = WeightedFusion("fast_attention", name="sum")([x, layers.Conv2D(4, 1, name="right")(pixels)])
    gate = layers.Activation("sigmoid", name="gate")(x)
    x = layers.Multiply(name="product")([x, gate])
    scores = layers.Activation("sigmoid", name="scores")(x)
    found = place_quantizers(read_graph(tf_keras.Model(pixels, [x, scores])))
    own = dict.fromkeys(("pixels", "left", "right", "sum", "product"), "own")
    assert outputs_of(found) == {**own, "gate": "fixed"}
    assert set(found.not_quantized) == {"weighted_sums", "scores"}
    assert "gate" not in found.observed


def test_a_hard_swish_and_the_steps_of_a_hard_sigmoid_run_in_integers():
    pixels = tf_keras.Input((8, 8, 3), name="pixels")
    x = layers.Activation(hard_swish, name="swish")(layers.Conv2D(4, 1, name="conv")(pixels))
    gate = hard_sigmoid(layers.Conv2D(4, 1, name="gate_conv")(x), "gate")
    network = tf_keras.Model(pixels, layers.Multiply(name="product")([x, gate]))
    graph = read_graph(fold_batch_norms(network).network)
    found = place_quantizers(graph)
    own = dict.fromkeys(("pixels", "conv", "swish", "gate_clip", "gate", "product"), "own")
    assert outputs_of(found) == {**own, "gate_conv": "gate_clip"}
    assert found.not_quantized == {}
    assert set(place_quantizers(graph, hard_swish=False).not_quantized) == {"swish"}


def test_a_product_has_the_range_of_its_input_times_the_factor_if_that_has_one():
    """A sum of two weighted maps, taken apart; one of them pooled."""
    pixels = tf_keras.Input((8, 8, 3), name="pixels")
    left = layers.MaxPooling2D(1, name="pool")(layers.Conv2D(4, 1, name="left")(pixels))
    x = WeightedFusion("fast_attention", name="sum")([left, layers.Conv2D(4, 1, name="right")(pixels)])
    graph = read_graph(fold_batch_norms(tf_keras.Model(pixels, x), weighted_sums=True).network)
    found = place_quantizers(graph)
    assert found.not_quantized == {}
    entry = found.quantized["sum_share_0"]
    record = {"layer": "sum_share_0", "kind": "ScaledMap", "weights": "factor", "output": "product"}
    assert entry.record() == record
    assert entry.range_owner == "sum_share_0" and "sum_share_0" not in found.observed
    for in_float in ("left", "pool"):
        found = place_quantizers(graph, [in_float])
        assert set(found.not_quantized) == {in_float, "sum_share_0"}
        assert "its input, which stays in float" in found.not_quantized["sum_share_0"]
