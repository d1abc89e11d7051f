from detection_core.detectors.efficientdet.build import build_efficientdet
from detection_core.detectors.efficientdet.description import describe_efficientdet
from tests.support import efficientdet_goldens as goldens


def test_a_description_names_model_backbone_and_anchors():
    message = goldens.message("efficientdet-lite0", (128, 192), fpn_cell_repeats=1, iou_loss_type="ciou")
    found = describe_efficientdet(build_efficientdet(message, "", None))
    assert found.summary() == "efficientdet-lite0 (efficientnet-lite0, 1 x 8 nodes of 64, sum)"
    assert found.rows()[:2] == [("anchors", f"{found.anchors:,}"), ("", "16 x 24 x 9")]
    assert found.anchors == 9 * (16 * 24 + 8 * 12 + 4 * 6 + 2 * 3 + 1 * 2)
    assert found.parts["losses"] == "focal + 50 x huber + 1 x ciou"


def test_a_segmentation_head_is_described():
    message = goldens.message("efficientdet-lite0", 128, fpn_cell_repeats=1, seg_num_classes=4)
    message.heads.extend(["object_detection", "segmentation"])
    found = describe_efficientdet(build_efficientdet(message, "", None))
    assert found.parts["head"] == "3 x 64, relu6; segmentation into 4"
    assert found.parts["losses"].endswith("+ cross entropy of pixels")
