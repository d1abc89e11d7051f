"""The graph_rewriter block, taken out and put back."""

from detection_core.config.graph_rewriter import (
    FIELD,
    format_graph_rewriter,
    format_without_graph_rewriter,
    has_graph_rewriter,
)
from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides

WITH = parse_pipeline_config("train_config { num_steps: 3 } graph_rewriter { quantization { delay: 7 } }")
WITHOUT = parse_pipeline_config("train_config { num_steps: 3 }")


def test_the_block_is_taken_out_and_put_back():
    rest = parse_pipeline_config(format_without_graph_rewriter(WITH))
    assert rest == WITHOUT == parse_pipeline_config(format_without_graph_rewriter(WITHOUT))
    assert apply_overrides(rest, {FIELD: format_graph_rewriter(WITH)}) == WITH
    assert WITH.graph_rewriter.quantization.delay == 7, "the config itself stays as it is"
    assert has_graph_rewriter(WITH) and not has_graph_rewriter(WITHOUT)
    assert format_graph_rewriter(WITHOUT) == ""
    assert has_graph_rewriter(parse_pipeline_config("graph_rewriter {}"))
