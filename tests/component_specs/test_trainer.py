from component_specs import TrainerJob
from component_specs.trainer import OVERRIDES
from tests.component_specs.contract import carried


def test_overrides_keep_the_order_in_which_they_are_applied():
    for overrides in ({"b": 1, "a": None}, {"a": None, "b": 1}):
        text = carried(TrainerJob, overrides=overrides)["overrides"]
        assert list(OVERRIDES.decode(text).items()) == list(overrides.items())
    texts = carried(TrainerJob)
    assert (texts["train_steps"], texts["learning_rate"], texts["overrides"]) == (0, 0.0, "{}")
    assert carried(TrainerJob, learning_rate=1)["learning_rate"] == 1.0
