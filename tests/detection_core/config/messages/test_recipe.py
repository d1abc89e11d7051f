from __future__ import annotations

import pytest
from google.protobuf import text_format

from detection_core.config.check import check_message
from detection_core.errors import ConfigError
from detection_core.protos.preprocessor_pb2 import PreprocessingStep


@pytest.mark.parametrize(
    "text, field",
    [
        ("mosaic { probability: 1.5 }", "mosaic.probability"),
        ("mosaic { height: 1 }", "mosaic.height"),
        ("mosaic { min_fraction: 0.5 }", "mosaic.min_fraction"),
        ("mosaic { per_channel_pad_value: 3 }", "mosaic.per_channel_pad_value"),
        ("mosaic { per_channel_pad_value: [1, 2, 300] }", "mosaic.per_channel_pad_value"),
    ],
)
def test_wrong_values_are_named(text: str, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_message(text_format.Parse(text, PreprocessingStep()), "step")
    assert f"step.{field}" in str(caught.value)


def test_defaults_are_accepted() -> None:
    check_message(text_format.Parse("mosaic {}", PreprocessingStep()), "step")
