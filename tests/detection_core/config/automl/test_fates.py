from __future__ import annotations

from detection_core.config.automl.defaults import DEFAULTS
from detection_core.config.automl.fates import FATES, MODEL
from detection_core.config.automl.typed_values import load_hyperparameters
from detection_core.protos.efficientdet_pb2 import EfficientDet


def test_every_hyperparameter_has_a_fate_with_a_reason_or_a_field() -> None:
    assert list(FATES) == list(DEFAULTS)
    assert all(fate.text for fate in FATES.values())


def test_fields_of_the_model_that_follow_exist() -> None:
    fields = EfficientDet.DESCRIPTOR.fields_by_name
    for fate in FATES.values():
        if fate.text.startswith(f"{MODEL}."):
            assert (
                fate.text.removeprefix(f"{MODEL}.").split(",")[0].split(";")[0].split(".")[0].split()[0]
                in fields
            )


def test_nothing_is_refused_of_the_defaults() -> None:
    values = load_hyperparameters("efficientdet-d0").values
    assert all(fate.fits(values) for fate in FATES.values())


def test_what_is_refused_says_what_is_expected_and_what_to_do() -> None:
    for fate in FATES.values():
        assert bool(fate.expected) == bool(fate.remedy)
        assert fate.expected or fate.kind != "refused"
