import pytest
from google.protobuf.message import Message

from detection_core.builders.detector import build_detector
from detection_core.config.check import check_message
from detection_core.config.load import parse_pipeline_config
from detection_core.detectors.base import count_parameters
from detection_core.errors import ConfigError
from detection_core.zoo.networks import find_model, list_models, read_networks
from tests.support.cases import cases, refused
from tests.support.zoo_configs import golden_name, zoo_config

# What the published configurations set and nothing here follows; see `config.check`.
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
    ssd = parse_pipeline_config(model.text(7)).model.ssd
    check_message(ssd, "model.ssd")
    assert ssd.num_classes == 7 and ssd.feature_extractor.type == model.extractor
    if golden := golden_name(model.name):
        ours = parse_pipeline_config(model.text(90)).model
        assert _set_fields(ours) == _set_fields(zoo_config(golden).model)
    # Classes may be left to the label map.
    assert not parse_pipeline_config(model.text()).model.ssd.HasField("num_classes")


@pytest.mark.slow
@cases("efficientdet_d1_coco17_tpu-32", "ssd_mobilenet_v1_fpn_640x640_coco17_tpu-8")
def test_parameters_where_the_reference_has_no_such_network(*, name):
    model = find_model(name)
    detector = build_detector(parse_pipeline_config(model.text(90)).model, seed=None)
    assert count_parameters(detector.variables) == model.parameters


_FILE = """
parts: {body: "ssd { $num_classes $options }", options: ""}
kinds:
  small: {text: "model { $body }"}
networks:
  one: {kind: small, speed: fast, side: 320, parameters: 1_000, multiply_adds: 2}
  two: {kind: small, speed: fast, side: 320, parameters: 1_000, multiply_adds: 2, values: {options: "$name"}}
"""


def test_a_file_of_networks_is_read():
    kinds, networks = read_networks(_FILE, "networks.yaml")
    assert list(kinds) == ["small"] and list(networks) == ["one", "two"]
    assert networks["one"].text(7).split() == ["model", "{", "ssd", "{", "num_classes:", "7", "}", "}"]
    assert networks["two"].text().split() == ["model", "{", "ssd", "{", "two", "}", "}"]


@cases(
    ("side: 320", "size: 320", r"expected one of name, kind, .* as a key of networks.one, found 'size'"),
    ("side: 320", "side: wide", "expected a whole number as networks.one.side, found 'wide'"),
    ("side: 320", "side: 0", "networks.one: expected positive numbers"),
    (", side: 320", "", "expected side in networks.one, found none"),
    ("kind: small", "kind: large", "expected one of small as networks.one.kind, found 'large'"),
    ("speed: fast", "speed: slow", "networks.one: expected one of fast, balanced, accurate as speed"),
    ("parameters:", "published: x, parameters:", "expected coco_map in networks.one, found none"),
    ('options: "$name"', 'options: "$x"', r"networks.two: expected a value of \$x, found none"),
    ('options: "$name"', 'options: "$options"', "networks.two: expected parts in parts at most 8"),
    ('options: "$name"', "name: x", "networks.two: .*multiple values"),
    ('options: "$name"', "options: [0.5]", r"expected .* as networks.two.values.options, found \[0.5\]"),
    ("{text:", "{weights: mine, text:", "kinds.small: expected one of nothing, automl, tensorflow_1"),
    ("{text:", "{augmentation: none, text:", "kinds.small: expected one of crop, scale_jitter as augm"),
    ("{text:", "{texts: x, text:", "expected one of text, values, .* as a key of kinds.small"),
    ("  one: {", "  one: {} #", "expected one of small as networks.one.kind, found None"),
    ("kinds:", "sorts:", "expected one of kinds, networks, parts as a key, found 'sorts'"),
    ("  one:", "  two:", ":7:3: the key 'two' is given twice"),
)
def test_what_is_wrong_is_said_with_file_and_entry(*, old, new, message):
    changed = _FILE.replace(old, new, 1)
    refused(ConfigError, f"^networks.yaml.*{message}", read_networks, changed, "networks.yaml")
