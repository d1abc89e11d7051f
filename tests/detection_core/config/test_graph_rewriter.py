from detection_core.config import graph_rewriter as blocks
from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides

WITH = parse_pipeline_config("train_config { num_steps: 3 } graph_rewriter { quantization { delay: 7 } }")
WITHOUT = parse_pipeline_config("train_config { num_steps: 3 }")


def test_the_block_is_taken_out_and_put_back():
    rest = parse_pipeline_config(blocks.format_without_graph_rewriter(WITH))
    assert rest == WITHOUT == parse_pipeline_config(blocks.format_without_graph_rewriter(WITHOUT))
    assert apply_overrides(rest, {blocks.FIELD: blocks.format_graph_rewriter(WITH)}) == WITH
    assert WITH.graph_rewriter.quantization.delay == 7, "the config itself stays as it is"
    assert blocks.has_graph_rewriter(WITH) and not blocks.has_graph_rewriter(WITHOUT)
    assert blocks.format_graph_rewriter(WITHOUT) == ""
    assert blocks.has_graph_rewriter(parse_pipeline_config("graph_rewriter {}"))
