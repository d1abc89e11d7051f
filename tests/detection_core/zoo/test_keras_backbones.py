"""The facts of Keras' published classifiers are Keras' own."""

import pytest

from detection_core.builders.backbones import BACKBONES
from detection_core.errors import ConfigError
from detection_core.zoo.keras_backbones import PUBLISHED_BACKBONES, find_backbone
from tests.support.cases import cases, refused

# Keras' Inception v3 has no scale in its batch norms, and numbers its layers by what was made before.
FOREIGN = ("inception_v2", "inception_v3", "mobilenet_edgetpu", "mobiledet")


def test_every_backbone_of_the_detectors_is_published_but_those_that_keras_does_not_have():
    foreign = {name for name in BACKBONES if BACKBONES[name].family in FOREIGN}
    assert {found.backbone for found in PUBLISHED_BACKBONES} == set(BACKBONES) - foreign
    assert len({found.file.path for found in PUBLISHED_BACKBONES}) == len(PUBLISHED_BACKBONES)


def test_addresses_and_digests_are_those_of_keras():
    from tf_keras.src.applications import efficientnet, mobilenet, mobilenet_v2, mobilenet_v3, resnet

    for found in PUBLISHED_BACKBONES:
        name = found.backbone
        number = name.rpartition("_")[2] if "eff" in name else name[6:].partition("_")[0]
        if found.backbone.startswith("mobilenet_v3"):
            variant = found.file.name.removeprefix("weights_mobilenet_v3_").removesuffix("_no_top_v2.h5")
            assert found.file.address == mobilenet_v3.BASE_WEIGHT_PATH + found.file.name
            assert found.file.digest == f"md5:{mobilenet_v3.WEIGHTS_HASHES[variant][1]}"
            continue
        resnets, efficientnets = (
            hashes.get(key, ("", ""))[1]
            for hashes, key in (
                (resnet.WEIGHTS_HASHES, f"resnet{number}"),
                (efficientnet.WEIGHTS_HASHES, number),
            )
        )
        folder, digest = {
            "mobilenet_v1": (mobilenet.BASE_WEIGHT_PATH, ""),
            "mobilenet_v2": (mobilenet_v2.BASE_WEIGHT_PATH, ""),
            f"resnet{number}_v1": (resnet.BASE_WEIGHTS_PATH, resnets),
            f"efficientnet_{number}": (efficientnet.BASE_WEIGHTS_PATH, efficientnets),
        }[found.backbone]
        assert found.file.address == folder + found.file.name
        assert found.file.digest == (f"md5:{digest}" if digest else "")


class _Asked(Exception):
    pass


@cases(("mobilenet_v1", 0.25), ("mobilenet_v2", 0.35))
def test_a_file_is_called_as_keras_asks_for_it(monkeypatch, *, backbone, multiplier):
    import tf_keras
    from tf_keras.src.utils import data_utils

    published, asked = find_backbone(backbone, multiplier), []

    def get_file(name, address, **options):
        asked.append(address)
        raise _Asked

    monkeypatch.setattr(data_utils, "get_file", get_file)
    with pytest.raises(_Asked):
        application = getattr(tf_keras.applications, published.application)
        application(include_top=False, weights="imagenet", input_shape=(224, 224, 3), alpha=multiplier)
    assert asked == [published.file.address]


def test_multipliers_are_found_in_spite_of_32_bits_and_what_is_not_published_is_said():
    import numpy as np

    assert find_backbone("mobilenet_v2", float(np.float32(0.35))).name == "imagenet:mobilenet_v2:0.35"
    assert find_backbone("resnet50_v1").name == "imagenet:resnet50_v1"
    with pytest.raises(ConfigError, match=r"depth_multiplier of 0.25, 0.5, 0.75, 1, found 0.3"):
        find_backbone("mobilenet_v1", 0.3)
    refused(ConfigError, r"mobilenet_v1, mobilenet_v2, mobilenet_v3.*found none", find_backbone, "")
