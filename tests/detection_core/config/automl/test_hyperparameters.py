import dataclasses

from detection_core.config.automl.defaults import DEFAULTS
from detection_core.config.automl.hyperparameters import HyperParameters, NmsConfigs


def test_the_record_has_every_hyperparameter_and_describes_it():
    for record, names in ((HyperParameters, DEFAULTS), (NmsConfigs, DEFAULTS["nms_configs"])):
        assert [field.name for field in dataclasses.fields(record)] == list(names)
        described = [
            line.split(":")[0].strip() for line in (record.__doc__ or "").splitlines() if ":" in line
        ]
        assert [name for name in described if name in names] == list(names)
