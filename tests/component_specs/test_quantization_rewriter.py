from component_specs import QuantizationRewriterJob, TrainerJob
from tests.component_specs.contract import carried


def test_overrides_keep_the_order_in_which_they_are_applied():
    overrides = {"graph_rewriter": "{}", "batch_size": 2}
    texts = carried(QuantizationRewriterJob, overrides=overrides)
    assert texts["overrides"] == '{"graph_rewriter": "{}", "batch_size": 2}'
    assert carried(QuantizationRewriterJob)["checkpoint_minutes"] == carried(TrainerJob)["checkpoint_minutes"]
