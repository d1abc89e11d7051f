import json

from detection_core.artifacts.quantization import (
    QUANTIZATION,
    Quantization,
    QuantizationSettings,
    QuantizedLayer,
)
from tests.support.cases import cases

SETTINGS = {"delay": 0, "weight_bits": 8, "activation_bits": 8, "symmetric": False}


@cases(0.75, {"fraction": 0.75, "convolutions": 4})
def test_coverage_as_a_number_or_in_detail(*, coverage):
    layers = [{"layer": "a", "kind": "Conv2D"}] * 2
    text = json.dumps({"settings": SETTINGS, "quantized": layers, "coverage": coverage})
    found = QUANTIZATION.parse(text, "quantization.json")
    assert found.counts.fraction == 0.75
    assert (found.kinds, found.not_quantized) == ({"Conv2D": 2}, [])


def test_a_layer_without_a_range_of_its_own_says_nothing_of_one():
    layers = [QuantizedLayer(layer="a", range=(0.0, 6.0)), QuantizedLayer(layer="b", folded="bn")]
    text = QUANTIZATION.format(Quantization(settings=QuantizationSettings(**SETTINGS), quantized=layers))
    first, second = json.loads(text)["quantized"]
    assert first["range"] == [0.0, 6.0] and "folded" not in first
    assert second["folded"] == "bn" and "range" not in second
    assert QUANTIZATION.parse(text, "quantization.json").quantized == layers
