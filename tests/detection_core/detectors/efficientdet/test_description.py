"""What `detflow validate` says of an EfficientDet."""

from detection_core.detectors.efficientdet.description import describe_efficientdet
from tests.support import efficientdet_goldens as goldens


def test_a_description_names_model_backbone_anchors_and_heads():
    found = describe_efficientdet(goldens.small_detector(None, size=(128, 192), iou_loss_type="ciou"))
    assert found.summary() == "efficientdet-lite0 (efficientnet-lite0, 1 x 8 nodes of 64, sum)"
    assert found.rows()[:2] == [("anchors", f"{found.anchors:,}"), ("", "16 x 24 x 9")]
    assert found.anchors == 9 * (16 * 24 + 8 * 12 + 4 * 6 + 2 * 3 + 1 * 2)
    assert found.parts["losses"] == "focal + 50 x huber + 1 x ciou"
    heads = ["object_detection", "segmentation"]
    both = goldens.small_detector(None, heads=heads, seg_num_classes=4, max_level=6)
    found = describe_efficientdet(both)
    assert found.parts["head"] == "1 x 64, relu6; segmentation into 4"
    assert found.parts["losses"].endswith("+ cross entropy of pixels")
