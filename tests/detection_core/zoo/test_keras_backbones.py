"""The facts of Keras' published classifiers are Keras' own."""

from unittest import mock

import pytest

from detection_core.builders.backbones import BACKBONES
from detection_core.zoo.keras_backbones import PUBLISHED_BACKBONES, find_backbone
from tests.support.cases import cases, config_refused

# Keras' Inception v3 has no scale in its batch norms, and numbers its layers by what was made before.
FOREIGN = ("inception_v2", "inception_v3", "mobilenet_edgetpu", "mobiledet")


def test_every_backbone_of_the_detectors_is_published_but_those_that_keras_does_not_have():
    foreign = {name for name in BACKBONES if BACKBONES[name].family in (*FOREIGN, "tests_plain")}
    assert {found.backbone for found in PUBLISHED_BACKBONES} == set(BACKBONES) - foreign
    assert len({found.file.path for found in PUBLISHED_BACKBONES}) == len(PUBLISHED_BACKBONES)


def test_addresses_and_digests_are_those_of_keras():
    from tf_keras.src.applications import efficientnet, mobilenet, mobilenet_v2, mobilenet_v3, resnet

    for found in PUBLISHED_BACKBONES:
        name, hashes, key = found.backbone, {}, ""
        if name.startswith("mobilenet_v3"):
            folder, hashes = mobilenet_v3.BASE_WEIGHT_PATH, mobilenet_v3.WEIGHTS_HASHES
            key = found.file.name.removeprefix("weights_mobilenet_v3_").removesuffix("_no_top_v2.h5")
        elif name.startswith("mobilenet"):
            folder = {"mobilenet_v1": mobilenet, "mobilenet_v2": mobilenet_v2}[name].BASE_WEIGHT_PATH
        elif name.startswith("resnet"):
            folder, hashes = resnet.BASE_WEIGHTS_PATH, resnet.WEIGHTS_HASHES
            key = name.removesuffix("_v1")
        else:
            folder, hashes = efficientnet.BASE_WEIGHTS_PATH, efficientnet.WEIGHTS_HASHES
            key = name.removeprefix("efficientnet_")
        assert found.file.address == folder + found.file.name
        assert found.file.digest == (f"md5:{hashes[key][1]}" if hashes else ""), name


@cases(("mobilenet_v1", 0.25), ("mobilenet_v2", 0.35))
def test_a_file_is_called_as_keras_asks_for_it(monkeypatch, *, backbone, multiplier):
    import tf_keras
    from tf_keras.src.utils import data_utils

    published = find_backbone(backbone, multiplier)
    get_file = mock.Mock(side_effect=InterruptedError)
    monkeypatch.setattr(data_utils, "get_file", get_file)
    with pytest.raises(InterruptedError):
        application = getattr(tf_keras.applications, published.application)
        application(include_top=False, weights="imagenet", input_shape=(224, 224, 3), alpha=multiplier)
    assert get_file.call_args.args[1] == published.file.address


def test_multipliers_are_found_in_spite_of_32_bits_and_what_is_not_published_is_said():
    import numpy as np

    assert find_backbone("mobilenet_v2", float(np.float32(0.35))).name == "imagenet:mobilenet_v2:0.35"
    assert find_backbone("resnet50_v1").name == "imagenet:resnet50_v1"
    config_refused("of 0.25, 0.5, 0.75, 1, found 0.3", find_backbone, "mobilenet_v1", 0.3)
    config_refused(r"mobilenet_v1, mobilenet_v2, mobilenet_v3.*found none", find_backbone, "")
