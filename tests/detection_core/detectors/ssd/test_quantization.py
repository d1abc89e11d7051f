import logging

from detection_core.builders.detector import build_detector
from detection_core.config.load import parse_pipeline_config
from detection_core.detectors.ssd.quantization import rewrite_ssd
from detection_core.quantization.options import QuantizationOptions
from detection_core.quantization.rewriting import FLOAT_STAGES
from tests.support.tiny_training import config_text


def test_the_network_is_quantized_and_what_follows_it_is_listed_as_float(caplog):
    model = build_detector(parse_pipeline_config(config_text()).model, seed=None)
    with caplog.at_level(logging.WARNING):
        rewritten = rewrite_ssd(model, QuantizationOptions(delay=0), None)
    assert type(rewritten.model) is type(model) and rewritten.model.network is not model.network
    assert {entry.layer for entry in rewritten.describe().not_quantized} == set(FLOAT_STAGES)
    assert not rewritten.float_layers() and "stays in float" not in caplog.text
