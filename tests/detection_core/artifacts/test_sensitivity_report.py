import dataclasses

from detection_core.artifacts.sensitivity_report import SENSITIVITY
from tests.support.artifact_samples import sensitivity


def test_it_is_read_as_written(tmp_path):
    for value in (sensitivity(), dataclasses.replace(sensitivity(), accuracy=None)):
        SENSITIVITY.write(str(tmp_path), value)
        assert SENSITIVITY.read(str(tmp_path)) == value
    assert '"schema_version": 1' in (tmp_path / "sensitivity.json").read_text()
