"""Fake quantization of EfficientDets."""

import pytest

from detection_core.detectors.efficientdet.build import build_efficientdet
from detection_core.detectors.efficientdet.quantization import rewrite_efficientdet
from detection_core.quantization.options import QuantizationOptions
from detection_core.quantization.rewriting import FLOAT_STAGES
from tests.support import efficientdet_goldens as goldens


@pytest.mark.parametrize("name", ["lite0", pytest.param("d0", marks=pytest.mark.slow)])
def test_the_network_is_quantized_and_what_follows_it_is_listed_as_float(name):
    """At 160 pixels maps of 3 x 3 and 5 x 5 are resized into each other."""
    fields = {"fpn_cell_repeats": 1, "box_class_repeats": 1, "max_level": 6}
    message = goldens.message(f"efficientdet-{name}", 160, **fields)
    model = build_efficientdet(message, "model.efficientdet", None)
    rewritten = rewrite_efficientdet(model, QuantizationOptions(delay=0), None)
    assert type(rewritten.model) is type(model) and rewritten.model.network is not model.network
    described = rewritten.describe()
    assert {entry.layer for entry in described.not_quantized} <= set(FLOAT_STAGES)
    assert described.coverage.fraction == 1.0
    assert len(rewritten.model.trainable_variables) > 0
