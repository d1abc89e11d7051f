from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides, merge_override_file
from pipeline.tuning.search import TrialRecord
from pipeline.tuning.winner import write_winner
from tests.support.tiny_training import config_text

OVERRIDES = {
    "train_config.batch_size": 3,
    "train_config.validation": {"every_steps": 4},
    "train_config.data_augmentation_options[+]": "random_horizontal_flip {}",
    "learning_rate": 1e-05,
}


def test_the_file_makes_the_config_that_of_the_trial(tmp_path):
    path = tmp_path / "best.yaml"
    best = TrialRecord(number=6, state="complete", score=0.75, overrides={})
    write_winner(str(path), best, OVERRIDES)
    assert path.read_text().startswith("# Trial 7 of `detflow tune`, score 0.75")
    config = parse_pipeline_config(config_text())
    assert merge_override_file(config, str(path)) == apply_overrides(config, OVERRIDES) != config
