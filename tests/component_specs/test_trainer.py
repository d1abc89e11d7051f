from component_specs import QuantizationRewriterJob, TrainerJob
from component_specs.trainer import OVERRIDES
from tests.component_specs.contract import carried


def test_overrides_keep_the_order_in_which_they_are_applied():
    for job in (TrainerJob, QuantizationRewriterJob):
        for overrides in ({"b": 1, "a": None}, {"a": None, "b": 1}):
            text = carried(job, overrides=overrides)["overrides"]
            assert list(OVERRIDES.decode(text).items()) == list(overrides.items())
