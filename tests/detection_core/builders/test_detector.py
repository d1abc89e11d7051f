import pytest
from google.protobuf import text_format

from detection_core.builders.detector import build_detector
from detection_core.config.messages.families import ConfigFamily
from detection_core.detectors import family as families
from detection_core.detectors.family import Family
from detection_core.errors import ConfigError
from detection_core.protos import model_pb2


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("center_net {}", "expected ssd, found center_net: CenterNet is not built here"),
        ("", "expected ssd, found none: set one"),
        ("ssd {}", "model.ssd.box_coder: expected one of"),
    ],
)
def test_what_cannot_be_built_is_refused(text, match):
    with pytest.raises(ConfigError, match=match):
        build_detector(text_format.Parse(text, model_pb2.DetectionModel()))


def test_the_family_gets_its_message_its_path_and_the_seed(monkeypatch):
    family = Family(
        name="toy",
        build=lambda message, where, seed: (message.name, where, seed),
        check=ConfigFamily(),
        describe=lambda message, detector: None,
        extractor_types=(),
        loss_names={},
    )
    monkeypatch.setitem(families.FAMILIES, "toy", family)
    message = text_format.Parse('experimental_model { name: "toy" }', model_pb2.DetectionModel())
    assert build_detector(message, seed=3) == ("toy", "model.experimental_model", 3)
