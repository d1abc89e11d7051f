from __future__ import annotations

import pytest

from detection_core import ConfigError
from detflow import model_spec, object_detector


@pytest.mark.parametrize(
    ("name", "size"), [("efficientdet_lite0", 320), ("efficientdet_lite2", 448), ("efficientdet_lite4", 640)]
)
def test_a_name_gives_a_specification(name, size):
    spec = model_spec.get(name, epochs=3)
    assert (spec.epochs, spec.batch_size, spec.config.image_size) == (3, 64, (size, size))
    assert model_spec.get(spec) is spec


def test_what_makes_one_is_called():
    assert model_spec.get(object_detector.EfficientDetLite1Spec, batch_size=4).batch_size == 4


@pytest.mark.parametrize(
    ("name", "hint"), [("efficientdet_lite5", "did you mean efficientdet_lite"), ("bert_qa", "other tasks")]
)
def test_another_name_is_refused(name, hint):
    with pytest.raises(ConfigError, match=hint) as caught:
        model_spec.get(name)
    assert caught.value.where == "model_spec"
    assert len(model_spec.OBJECT_DETECTION_MODELS) == 5
