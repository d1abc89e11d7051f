import numpy as np

from detection_core.detectors.efficientdet.anchors import anchor_maps, anchors_px
from tests.support import efficientdet_goldens as goldens
from tests.support.cases import cases

LAID = [name for name, case in goldens.cases("anchors").items() if "error" not in case]


@cases(*LAID)
def test_anchors_equal_the_reference(*, case):
    golden = goldens.cases("anchors")[case]
    found = anchors_px(*goldens.anchor_settings(golden["params"]))
    expected = goldens.wanted("anchors", case)
    assert len(found) == golden["fact"]["count"]
    boxes = expected.get("boxes", expected.get("boxes_sampled"))
    np.testing.assert_allclose(found if "boxes" in expected else goldens.sampled(found), boxes, 1e-5, 1e-4)
    np.testing.assert_allclose(found.astype(np.float64).sum(axis=0), expected["column_sums"], 1e-5)


def test_maps_have_as_many_anchors_as_are_laid():
    settings = goldens.settings(size=(100, 150))
    assert sum(level.count for level in anchor_maps(settings, (100, 150))) == len(
        anchors_px(settings, (100, 150))
    )
