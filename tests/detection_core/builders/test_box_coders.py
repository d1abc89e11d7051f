import numpy as np

from detection_core.builders.box_coders import BOX_CODERS, build_box_coder
from detection_core.protos.box_coder_pb2 import BoxCoder
from tests.support.cases import cases
from tests.support.configs import parsed
from tests.support.golden_cases import cases_of

BUILT = [c for c in cases_of("detection_core/detectors/parts/box_coders", "box_coders").values() if c.config]
TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}


@cases(*BUILT)
def test_golden(*, case):
    coder = build_box_coder(parsed(BoxCoder, case.config))
    assert coder.code_size == case.params["code_size"]
    keypoints = (case.inputs["keypoints"],) if "keypoints" in case.inputs else ()
    anchors = case.inputs["anchors"]
    encoded = coder.encode(case.inputs["boxes"], anchors, *keypoints)
    np.testing.assert_allclose(encoded, case.outputs["encoded"], **TOLERANCE)
    decoded = coder.decode(case.inputs["codes"], anchors)
    np.testing.assert_allclose(decoded, case.outputs["decoded_codes"], **TOLERANCE)
    if "round_trip" in case.outputs:
        np.testing.assert_allclose(coder.decode(encoded, anchors), case.outputs["round_trip"], **TOLERANCE)
    if keypoints:
        points = coder.decode_keypoints(case.inputs["codes"], anchors)
        np.testing.assert_allclose(points, case.outputs["decoded_keypoints"], **TOLERANCE)


def test_every_arm_has_a_golden():
    assert {case.config.split()[0] for case in BUILT} == set(BOX_CODERS)
