import re

from detection_core.config.automl.defaults import DEFAULTS
from detection_core.config.automl.fates import FATES, MODEL
from detection_core.config.automl.typed_values import load_hyperparameters
from detection_core.protos.efficientdet_pb2 import EfficientDet


def test_every_hyperparameter_has_a_fate_with_a_reason_or_a_field():
    assert list(FATES) == list(DEFAULTS)
    fields = EfficientDet.DESCRIPTOR.fields_by_name
    for fate in FATES.values():
        assert fate.text
        if fate.text.startswith(f"{MODEL}."):
            name = re.split("[,; .]", fate.text.removeprefix(f"{MODEL}."))[0]
            assert name in fields
        assert bool(fate.expected) == bool(fate.remedy)
        assert fate.expected or fate.kind != "refused"
    values = load_hyperparameters("efficientdet-d0").values
    assert all(fate.fits(values) for fate in FATES.values())
