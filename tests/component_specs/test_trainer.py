from component_specs import TrainerJob
from component_specs.trainer import OVERRIDES
from tests.component_specs.contract import carried, wiring


def test_what_it_takes_and_gives():
    assert wiring("trainer", TrainerJob) == {
        "examples": "Examples",
        "pipeline_config": "PipelineConfig",
        "warm_start": "Model?",
        "model": "Model",
        "model_run": "ModelRun",
    }


def test_overrides_keep_the_order_in_which_they_are_applied():
    for overrides in ({"b": 1, "a": None}, {"a": None, "b": 1}):
        text = carried(TrainerJob, overrides=overrides)["overrides"]
        assert list(OVERRIDES.decode(text).items()) == list(overrides.items())


def test_numbers_stay_what_the_config_says_unless_they_are_given():
    texts = carried(TrainerJob)
    assert (texts["train_steps"], texts["learning_rate"], texts["overrides"]) == (0, 0.0, "{}")
    assert carried(TrainerJob, learning_rate=1)["learning_rate"] == 1.0
