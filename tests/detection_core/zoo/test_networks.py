import pytest
from google.protobuf.message import Message

from detection_core.builders.detector import build_detector
from detection_core.config.check import check_message
from detection_core.config.load import parse_pipeline_config
from detection_core.detectors.base import count_parameters
from detection_core.zoo.networks import network_text
from detection_core.zoo.published_models import find_model, list_models
from tests.support.cases import cases
from tests.support.zoo_configs import golden_name, zoo_config

# What the published configurations set and nothing here follows; see `config.refusals`.
_WITHOUT_EFFECT = {"inplace_batchnorm_update", "use_matmul_gather"}


def _set_fields(message):
    """What a message says beyond defaults, field by field, as far as it changes anything here."""
    said = {}
    for field, value in message.ListFields():
        if field.name in _WITHOUT_EFFECT:
            continue
        if field.is_repeated:
            said[field.name] = [_set_fields(v) if isinstance(v, Message) else v for v in value]
        elif isinstance(value, Message):
            said[field.name] = _set_fields(value)
        elif value != field.default_value:
            said[field.name] = value
    return said


@cases(*list_models())
def test_a_network_passes_the_checks_and_is_that_of_the_published_configuration(*, model):
    ssd = parse_pipeline_config(network_text(model, 7)).model.ssd
    check_message(ssd, "model.ssd")
    assert ssd.num_classes == 7 and ssd.feature_extractor.type == model.extractor
    if golden := golden_name(model.name):
        ours = parse_pipeline_config(network_text(model, 90)).model
        assert _set_fields(ours) == _set_fields(zoo_config(golden).model)
    # Classes may be left to the label map.
    assert not parse_pipeline_config(network_text(model)).model.ssd.HasField("num_classes")


@pytest.mark.slow
@cases("efficientdet_d1_coco17_tpu-32", "ssd_mobilenet_v1_fpn_640x640_coco17_tpu-8")
def test_parameters_where_the_reference_has_no_such_network(*, name):
    model = find_model(name)
    detector = build_detector(parse_pipeline_config(network_text(model, 90)).model, seed=None)
    assert count_parameters(detector.variables) == model.parameters
