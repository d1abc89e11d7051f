import pytest

from components.runtime.config_artifact import read_pipeline_config
from detection_core.errors import ConfigError


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pipeline.config").write_text("train_config { num_steps: 3 batch_size: 2 }")
    return str(tmp_path)


def test_changes_are_applied_in_their_order(folder, tmp_path):
    field = "train_config.num_steps"
    changes = {"train_config": {"num_steps": 4}, "train_config.batch_size": 8, field: None}
    config = read_pipeline_config(folder, changes)
    assert config.train_config.batch_size == 8 and not config.train_config.HasField("num_steps")
    with pytest.raises(ConfigError, match=r"pipeline\.config"):
        read_pipeline_config(str(tmp_path / "none"), {})
