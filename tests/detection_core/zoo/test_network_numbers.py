import pytest

from detection_core.config.automl.hparams import MODELS
from detection_core.config.check import check_pipeline_config
from detection_core.config.load import parse_pipeline_config
from detection_core.config.model_fields import configured_classes, with_classes
from detection_core.errors import ConfigError
from detection_core.tasks.describe import describe
from detection_core.zoo.networks import SPEEDS, find_network, list_networks
from tests.support.cases import refused

NETWORKS = list_networks()
SMALL = "ssd_mobilenet_v2_fpnlite_half"
# Of each kind the smallest is built in every run of the tests; the others take minutes.
QUICK = (
    SMALL, "ssd_mobilenet_v2_320x320_coco17_tpu-8", "ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8",
    "efficientdet-lite0", "ssdlite_mobilenet_v3_small_320x320_coco", "centernet_mobilenetv2fpn_half_kpts",
)  # fmt: skip
BUILT = [n.name if n.name in QUICK else pytest.param(n.name, marks=pytest.mark.zoo) for n in NETWORKS]


def test_the_ladder_has_valid_configs_of_all_of_the_zoo_from_fast_to_accurate_and_no_other_name():
    scratch = {n.name: n.kind.finds for n in NETWORKS if n.from_scratch}
    keypoints = {"centernet_mobilenetv2fpn_half_kpts": "keypoints"}
    masks = dict.fromkeys(("mask_rcnn_inception_v2", "mask_rcnn_resnet50_v1"), "masks")
    assert scratch == {SMALL: "boxes", **keypoints, **masks}
    assert NETWORKS[0].name == SMALL
    automl = {n.name: n.side for n in NETWORKS if n.kind.weights == "automl"}
    assert automl == {name: values["image_size"] for name, values in MODELS.items()}
    speeds = [n.speed for n in NETWORKS]
    assert speeds == sorted(speeds, key=SPEEDS.index)
    assert all(n.parameters and n.multiply_adds for n in NETWORKS)
    for network in NETWORKS:
        config = parse_pipeline_config(network.text())
        assert configured_classes(config) is None, network.name
        check_pipeline_config(config)
    for name, message in (("efficientdet_d0", r"did you mean .*efficientdet-d0"), ("x", "--list-models")):
        refused(ConfigError, message, find_network, name)


@pytest.mark.parametrize("name", BUILT)
def test_the_numbers_are_those_of_the_network_that_is_built(name):
    network = find_network(name)
    found = describe(with_classes(parse_pipeline_config(network.text()), 90))
    assert found.input_shape.size == (network.side, network.side)
    assert (found.parameters, found.flops // 2) == (network.parameters, network.multiply_adds)
