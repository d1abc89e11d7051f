from detection_core.config.load import parse_pipeline_config
from detection_core.config.pipeline_config import PipelineConfig


def test_it_is_what_reading_a_config_gives():
    assert type(parse_pipeline_config("train_config { num_steps: 3 }")) is PipelineConfig
