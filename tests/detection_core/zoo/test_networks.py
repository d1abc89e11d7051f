import dataclasses
from pathlib import Path

import pytest
import yaml
from google.protobuf.message import Message

import detection_core
from detection_core.builders.detector import build_detector
from detection_core.config.check import check_pipeline_config
from detection_core.config.load import parse_pipeline_config
from detection_core.detectors.base import count_parameters
from detection_core.detectors.family import extractor_type, model_message
from detection_core.zoo.networks import (
    FINDINGS,
    SPEEDS,
    Kind,
    Network,
    PublishedModel,
    find_model,
    list_all,
    list_models,
    read_networks,
)
from tests.support.cases import cases, refused
from tests.support.zoo_configs import published_config

# What the published configurations set and nothing here follows; see `config.check`.
_WITHOUT_EFFECT = {
    "inplace_batchnorm_update", "use_matmul_gather", "op", "resize_masks", "use_static_shapes",
    "use_matmul_crop_and_resize", "use_static_balanced_label_sampler", "use_matmul_gather_in_matcher",
    "keypoint_label_map_path",
}  # fmt: skip


def _set_fields(message):
    """What a message says beyond defaults, field by field, as far as it changes anything here."""
    said = {}
    for field, value in message.ListFields():
        if field.name in _WITHOUT_EFFECT:
            continue
        if field.message_type and field.message_type.GetOptions().map_entry:
            said[field.name] = dict(value)
        elif field.is_repeated:
            said[field.name] = [_set_fields(v) if isinstance(v, Message) else v for v in value]
        elif isinstance(value, Message):
            said[field.name] = _set_fields(value)
        elif value != field.default_value:
            said[field.name] = value
    return said


def test_networks_pass_the_checks_and_are_those_of_the_published_configurations():
    compared = 0
    for model in list_models():
        config = parse_pipeline_config(model.text(7))
        check_pipeline_config(config, model.name)
        message, _ = model_message(config.model)
        assert message.num_classes == 7 and extractor_type(message) == model.extractor, model.name
        if published := published_config(model):
            compared += 1
            ours = parse_pipeline_config(model.text(90)).model
            assert _set_fields(ours) == _set_fields(published.model), model.name
        # Classes may be left to the label map.
        assert not model_message(parse_pipeline_config(model.text()).model)[0].HasField("num_classes")
    assert compared == sum(bool(model.config) for model in list_models()) == 35


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
not_built: {three: a cascade}
"""


def test_a_file_of_networks_is_read():
    kinds, networks, not_built = read_networks(_FILE, "networks.yaml")
    assert not_built == {"three": "a cascade"}
    assert (list(kinds), list(networks)) == (["small"], ["one", "two"])
    assert networks["one"].text(7).split() == ["model", "{", "ssd", "{", "num_classes:", "7", "}", "}"]
    assert networks["two"].text().split() == ["model", "{", "ssd", "{", "two", "}", "}"]


@cases(
    ("side: 320", "side: wide", "expected a whole number as networks.one.side, found 'wide'"),
    (", side: 320", "", "expected side in networks.one, found none"),
    ("parameters:", "published: x, parameters:", "expected coco_map in networks.one, found none"),
    ('options: "$name"', "options: [0.5]", r"expected .* as networks.two.values.options, found \[0.5\]"),
    ("{text:", "{augmentation: none, text:", "an object as kinds.small.augmentation, found 'none'"),
    ("{text:", "{rate: [1], text:", r"expected a list of 3 as kinds.small.rate, found \[1\]"),
)
def test_a_value_of_a_wrong_type_is_named(*, old, new, message):
    refused(ValueError, message, read_networks, _FILE.replace(old, new, 1), "networks.yaml")


@cases(('"$x"', r"expected a value of \$x, found none"), ('"$options"', "expected parts in parts at most 8"))
def test_a_text_that_cannot_be_filled_is_refused(*, options, message):
    networks = read_networks(
        _FILE.replace('options: "$name"', f"options: {options}", 1), "networks.yaml"
    ).networks
    refused(ValueError, message, networks["two"].text)


def test_the_files_of_all_families_have_known_keys_and_values():
    fields = {
        cls: {field.name for field in dataclasses.fields(cls)} for cls in (Kind, Network, PublishedModel)
    }
    known = {"kinds": [], "networks": [], "not_built": []}
    for path in Path(detection_core.__file__).parent.glob("families/*/networks.yaml"):
        file = yaml.safe_load(path.read_text())
        assert file.keys() <= {"parts", "kinds", "networks", "not_built"}, path
        for name, kind in file["kinds"].items():
            assert kind.keys() <= fields[Kind], name
        for name, network in file["networks"].items():
            assert network.keys() <= fields[PublishedModel if "published" in network else Network], name
        for part, names in known.items():
            names.extend(file.get(part, {}))
    assert all(len(names) == len(set(names)) for names in known.values())
    assert {network.name for network in list_all()} == set(known["networks"])
    for network in list_all():
        kind = network.kind
        assert network.speed in SPEEDS and kind.finds in FINDINGS, network.name
        assert kind.weights in ("", "automl", "tensorflow_1"), network.name
        assert kind.optimizer in ("momentum_optimizer", "adam_optimizer"), network.name
        assert min(network.side, network.parameters, network.multiply_adds) > 0, network.name
        assert network.training_bytes >= 0 and "$" not in network.text(7), network.name
