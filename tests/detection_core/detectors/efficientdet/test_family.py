import subprocess
import sys

from detection_core.detectors.family import FAMILIES, family_of
from detection_core.protos.model_pb2 import DetectionModel


def test_the_family_is_found_by_its_arm():
    model = DetectionModel()
    model.efficientdet.name = "efficientdet-d0"
    family = family_of(model)
    assert family.name == "efficientdet" and family.name in FAMILIES
    assert family.input_size(model.efficientdet) == (512, 512)


def test_the_record_needs_no_tensorflow():
    code = (
        "import sys; import detection_core.detectors.efficientdet.family;"
        " sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
