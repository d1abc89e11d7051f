import json

from detection_core.artifacts import quantization
from detection_core.artifacts.quantization import QUANTIZATION, QuantizedLayer

SETTINGS = {"delay": 0, "weight_bits": 8, "activation_bits": 8, "symmetric": False}


def test_coverage_is_a_number_or_detailed_and_a_layer_without_a_range_says_nothing_of_one():
    layers = [{"layer": "a", "kind": "Conv2D"}] * 2
    for coverage in (0.75, {"fraction": 0.75, "convolutions": 4}):
        text = json.dumps({"settings": SETTINGS, "quantized": layers, "coverage": coverage})
        found = QUANTIZATION.parse(text, "quantization.json")
        assert found.counts.fraction == 0.75
        assert (found.kinds, found.not_quantized) == ({"Conv2D": 2}, [])
    layers = [QuantizedLayer(layer="a", range=(0.0, 6.0)), QuantizedLayer(layer="b", folded="bn")]
    settings = quantization.QuantizationSettings(**SETTINGS)
    text = QUANTIZATION.format(quantization.Quantization(settings=settings, quantized=layers))
    first, second = json.loads(text)["quantized"]
    assert first["range"] == [0.0, 6.0] and "folded" not in first
    assert second["folded"] == "bn" and "range" not in second
    assert QUANTIZATION.parse(text, "quantization.json").quantized == layers
