from detection_core.builders.detector import build_detector
from detection_core.detectors.family import Family, register_family, unregister_family
from detection_core.protos.model_pb2 import DetectionModel
from tests.support.cases import cases, config_refused
from tests.support.configs import parsed


@cases(
    ("center_net {}", "expected ssd or efficientdet, found center_net: CenterNet is not built here"),
    ("", "expected ssd or efficientdet, found none: set one"),
    ("ssd {}", "model.ssd.num_classes: expected the number of classes"),
    ("ssd { num_classes: 2 }", "model.ssd.box_coder: expected one of"),
)
def test_what_cannot_be_built_is_refused(*, text, match):
    config_refused(match, build_detector, parsed(DetectionModel, text))


def test_the_family_gets_its_message_its_path_and_the_seed():
    family = Family(
        name="toy",
        build=lambda message, where, seed: (message.name, where, seed),
        describe=lambda message, detector: None,
        loss_names={},
        input_size=lambda message: (8, 8),
    )
    register_family(family)
    text = 'experimental_model { name: "toy" num_classes: 1 }'
    try:
        built = build_detector(parsed(DetectionModel, text), seed=3)
    finally:
        unregister_family("toy")
    assert built == ("toy", "model.experimental_model", 3)
