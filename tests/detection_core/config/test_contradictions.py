from detection_core.config.contradictions import contradictions
from detection_core.protos.losses_pb2 import Loss
from detection_core.protos.train_pb2 import TrainConfig
from tests.support.configs import parsed


def _paths(message, path):
    return [problem.path for problem in contradictions(message, path)]


def test_parts_come_before_what_they_are_parts_of_and_what_is_missing_is_named():
    assert _paths(Loss(), "loss") == ["loss.localization_loss", "loss.classification_loss"]
    assert _paths(TrainConfig(batch_size=1), "") == ["optimizer"]
    problems = list(contradictions(parsed(Loss, "classification_loss {}"), "l"))
    assert "registered" in problems[0].message
    assert "mask_rcnn" not in " ".join(problem.message for problem in problems)
    text = "optimizer { momentum_optimizer { learning_rate { manual_step_learning_rate {} } } }"
    text += " data_augmentation_options {}"
    found = _paths(parsed(TrainConfig, text), "train_config")
    rate = "train_config.optimizer.momentum_optimizer.learning_rate.manual_step_learning_rate"
    assert set(found) == {"train_config.data_augmentation_options[0]", f"{rate}.schedule"}
    miner = "classification_loss {} localization_loss { weighted_l2 {} }"
    miner += " hard_example_miner {} random_example_sampler {}"
    found = _paths(parsed(Loss, miner), "l")
    assert found == ["l.classification_loss", "l.random_example_sampler"]
