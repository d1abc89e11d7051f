"""Where quantizers stand, and what they do."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tf_keras import layers

from detection_core.artifacts.quantization import QuantizationOptions
from detection_core.parts.layers.keras_layers import hard_sigmoid, hard_swish
from detection_core.parts.necks import WeightedFusion
from detection_core.quantization import quantizers
from detection_core.quantization.folding import fold_batch_norms
from detection_core.quantization.graph import read_graph
from detection_core.quantization.placement import Placement, place_quantizers
from tests.support.cases import cases
from tests.support.command_line import run_python
from tests.support.tiny_network import tiny_network

OPTIONS, CLOCK = QuantizationOptions(delay=0), quantizers.Clock(0, None)


def kernel_by_hand(kernel: np.ndarray, bits: int) -> np.ndarray:
    """Round each output channel (last axis) to 2**bits - 1 steps around zero."""
    flat = kernel.reshape(-1, kernel.shape[-1])
    result = np.empty_like(flat)
    top = 2 ** (bits - 1) - 1
    for channel in range(flat.shape[1]):
        scale = np.abs(flat[:, channel]).max() / top
        result[:, channel] = np.round(flat[:, channel] / scale) * scale
    return result.reshape(kernel.shape)


def kernel_quantizer(bits: int = 8, **options) -> quantizers.KernelQuantizer:
    return quantizers.KernelQuantizer(bits, CLOCK, **{"depthwise": False, **options})


def scale_of(quantizer: quantizers.KernelQuantizer, kernel: np.ndarray) -> np.ndarray:
    """The quantizer's step of each channel, found by giving it a kernel with one value on every step."""
    ranges = []
    original = tf.quantization.fake_quant_with_min_max_vars_per_channel

    def spy(inputs, low, high, **options):
        ranges.append(np.asarray(high))
        return original(inputs, low, high, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf.quantization, "fake_quant_with_min_max_vars_per_channel", spy)
        quantizer(tf.constant(kernel), False, {})
    return ranges[0] / (2 ** (quantizer.bits - 1) - 1)


@cases(False, True)
def test_a_dead_channel_has_room_for_its_bias(*, depthwise):
    """A kernel of 1e-9 and a bias of 10: at the kernel's own scale those are steps beyond an int32."""
    kernel = np.full((3, 3, 4, 1) if depthwise else (3, 3, 2, 4), 0.5, np.float32)
    bias = np.float32([10.0, -10.0, 0.3, 0.0])
    kernel[(..., [0, 1], slice(None)) if depthwise else (..., [0, 1])] = 1e-9
    rule = quantizers.BiasRule(bias=tf.Variable(bias), input_range=lambda: (0.0, 6.0), activation_bits=8)
    found = scale_of(kernel_quantizer(depthwise=depthwise, bias_rule=rule), kernel)
    codes = np.abs(bias) / (found * 6.0 / 255)
    assert (codes <= quantizers.LARGEST_BIAS * 1.001).all() and codes[0] > 2**20
    np.testing.assert_allclose(found[2:], 0.5 / 127, rtol=1e-6)
    plain = scale_of(kernel_quantizer(depthwise=depthwise), kernel)
    assert abs(bias[0]) / (plain[0] * 6.0 / 255) > 2**31


def test_a_kernel_has_a_scale_per_output_channel_and_learns_as_if_it_were_not_rounded():
    rng = np.random.default_rng(0)
    kernel = (rng.normal(size=(3, 3, 4, 5)) * np.logspace(-3, 0, 5)).astype(np.float32)
    for bits in (4, 8):
        found = kernel_quantizer(bits)(tf.constant(kernel), False, {})
        np.testing.assert_allclose(found, kernel_by_hand(kernel, bits), rtol=1e-4, atol=1e-7)
        assert all(len(np.unique(np.asarray(found)[..., c])) <= 2**bits - 1 for c in range(5))
    dead = kernel_quantizer()(tf.zeros([1, 1, 2, 2]), False, {})
    np.testing.assert_array_equal(dead, np.zeros([1, 1, 2, 2]))
    # Of a depthwise one for each input channel and multiplier.
    kernel = rng.normal(size=(3, 3, 4, 2)).astype(np.float32)
    kernel *= np.array([1.0, 0.01, 3.0, 0.2], np.float32)[:, None]
    found = kernel_quantizer(depthwise=True)(tf.constant(kernel), False, {})
    expected = kernel_by_hand(kernel.reshape(3, 3, 8), 8).reshape(kernel.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-7)
    kernel = tf.Variable(np.random.default_rng(2).normal(size=(1, 1, 3, 4)).astype(np.float32))
    weight = tf.constant(np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(kernel_quantizer()(kernel, True, {}) * weight)
    np.testing.assert_allclose(tape.gradient(loss, kernel), weight)


def activation(options: QuantizationOptions, step: tf.Variable | None) -> tuple:
    layer = tf_keras.layers.Layer()
    quantizer = quantizers.ActivationQuantizer(options, quantizers.Clock(options.delay, step))
    return quantizer, quantizer.build((None, 4), "output", layer)


def test_the_range_follows_training_batches_and_until_the_delay_values_pass():
    quantizer, variables = activation(OPTIONS, None)
    variables["min"].assign(-1.0)
    variables["max"].assign(2.0)
    quantizer(tf.constant([[-3.0, 0.0, 1.0, 7.0]]), False, variables)
    assert (variables["min"].numpy(), variables["max"].numpy()) == (-1.0, 2.0)
    quantizer(tf.constant([[-3.0, 0.0, 1.0, 7.0]]), True, variables)
    np.testing.assert_allclose([variables["min"].numpy(), variables["max"].numpy()], [-1.02, 2.05], rtol=1e-5)
    step = tf.Variable(0, dtype=tf.int64)
    quantizer, variables = activation(QuantizationOptions(delay=2, activation_bits=2), step)
    values = tf.constant([[-6.0, 0.3, 1.0, 6.0]])
    untouched, rounded = [], []
    for _ in range(4):
        untouched.append(bool(tf.reduce_all(quantizer(values, True, variables) == values)))
        rounded.append(bool(tf.reduce_any(quantizer(values, False, variables) != values)))
        step.assign_add(1)
    assert untouched == [True, True, False, False]
    assert all(rounded)  # what is exported is quantized, whatever the delay


def test_zero_is_always_in_the_range_and_pixels_and_sigmoids_keep_their_256_values():
    low, high = quantizers.usable_range(0.5, 2.0, OPTIONS)
    assert (float(low), float(high)) == (0.0, 2.0)
    for bits in (4, 8):
        options = QuantizationOptions(delay=0, activation_bits=bits, symmetric=True)
        for low, high in ((-1.0, 3.0), (-5.0, 2.0), (0.0, 6.0)):
            found_low, found_high = (float(v) for v in quantizers.usable_range(low, high, options))
            steps = 2 ** (bits - 1)
            assert found_low <= low and found_high >= high * 0.999
            np.testing.assert_allclose(found_low / steps, -found_high / (steps - 1), rtol=1e-6)
    pixels = np.arange(256, dtype=np.float32) / 127.5 - 1
    found = np.asarray(
        quantizers.InputQuantizer(OPTIONS, CLOCK, (-1.0, 1.0), name="input")(pixels, training=False)
    )
    assert len(np.unique(found)) == 256 and np.abs(found - pixels).max() < 1 / 127.5
    values = tf.constant([0.0, 0.1, 0.5, 0.9999, 1.0])
    found = quantizers.SigmoidQuantizer(OPTIONS, CLOCK)(values, False, {})
    np.testing.assert_allclose(found, np.minimum(np.round(values * 256.0), 255.0) / 256.0, atol=1e-6)
    assert quantizers.SigmoidQuantizer(OPTIONS, CLOCK).build((4,), "gate", None) == {}
    # It is left alone before the delay has passed.
    step = tf.Variable(3, dtype=tf.int64)
    quantize = quantizers.SigmoidQuantizer(QuantizationOptions(delay=5), quantizers.Clock(5, step))
    values = tf.constant([0.1234])
    np.testing.assert_array_equal(quantize(values, True, {}), values)
    step.assign(5)
    assert float(quantize(values, True, {})[0]) == pytest.approx(32 / 256)


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


def test_sums_sigmoids_hard_swishes_and_products_have_ranges_of_their_own():
    pixels = tf_keras.Input((8, 8, 3), name="pixels")
    x = layers.Conv2D(4, 1, name="left")(pixels)
    x = layers.Add(name="sum")([x, layers.Conv2D(4, 1, name="right")(pixels)])
    gate = layers.Activation("sigmoid", name="gate")(x)
    x = layers.Multiply(name="product")([x, gate])
    scores = layers.Activation("sigmoid", name="scores")(x)
    found = place_quantizers(read_graph(tf_keras.Model(pixels, [x, scores])))
    own = dict.fromkeys(("pixels", "left", "right", "sum", "product"), "own")
    assert outputs_of(found) == {**own, "gate": "fixed"}
    assert set(found.not_quantized) == {"scores"} and "gate" not in found.observed
    pixels = tf_keras.Input((8, 8, 3), name="pixels")
    x = layers.Activation(hard_swish, name="swish")(layers.Conv2D(4, 1, name="conv")(pixels))
    gate = hard_sigmoid(layers.Conv2D(4, 1, name="gate_conv")(x), "gate")
    network = tf_keras.Model(pixels, layers.Multiply(name="product")([x, gate]))
    graph = read_graph(fold_batch_norms(network).network)
    found = place_quantizers(graph)
    own = dict.fromkeys(("pixels", "conv", "swish", "gate_clip", "gate", "product"), "own")
    assert outputs_of(found) == {**own, "gate_conv": "gate_clip"} and found.not_quantized == {}
    # A sum of two weighted maps, taken apart; one of them pooled.
    pixels = tf_keras.Input((8, 8, 3), name="pixels")
    left = layers.MaxPooling2D(1, name="pool")(layers.Conv2D(4, 1, name="left")(pixels))
    x = WeightedFusion("fast_attention", name="sum")([left, layers.Conv2D(4, 1, name="right")(pixels)])
    graph = read_graph(fold_batch_norms(tf_keras.Model(pixels, x)).network)
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


_SLOW = ("tensorflow_model_optimization", "keras", "sklearn", "matplotlib", "scipy.stats")


def test_what_describes_and_plans_a_training_imports_no_slow_library():
    code = (
        "import sys; from detection_core.quick_imports import import_quickly; import_quickly()\n"
        "import detection_core.tasks.describe, detection_core.builders.train_plan\n"
        f"print([name for name in {_SLOW!r} if name in sys.modules])"
    )
    assert run_python(code).stdout.split("\n")[-2] == "[]"
