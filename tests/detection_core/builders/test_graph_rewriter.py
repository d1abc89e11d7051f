from detection_core.builders.graph_rewriter import build_quantization_options, find_quantization_options
from detection_core.config.load import parse_pipeline_config
from detection_core.quantization.options import QuantizationOptions
from tests.support.cases import config_refused

TEXT = "graph_rewriter { quantization { delay: 3 weight_bits: 8 activation_bits: 7 symmetric: true } }"


def test_the_block_says_how_to_quantize():
    config = parse_pipeline_config(TEXT)
    wanted = QuantizationOptions(delay=3, weight_bits=8, activation_bits=7, symmetric=True)
    assert build_quantization_options(config) == find_quantization_options(config) == wanted
    for text in ("", "graph_rewriter { }"):
        config = parse_pipeline_config(text)
        assert find_quantization_options(config) is None
        message = "graph_rewriter: expected a graph_rewriter block, .*found none"
        config_refused(message, build_quantization_options, config)
        assert config == parse_pipeline_config(text), "reading a field would set it"
