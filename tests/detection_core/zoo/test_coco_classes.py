from detection_core.zoo.coco_classes import COCO_CLASSES


def test_the_classes_are_those_that_the_published_heads_were_trained_on():
    """Numbers and names of https://cocodataset.org, `categories` of instances_val2017.json."""
    assert len(COCO_CLASSES) == 80 and max(COCO_CLASSES) == 90 and 12 not in COCO_CLASSES
    known = {1: "person", 13: "stop sign", 18: "dog", 31: "handbag", 44: "bottle", 62: "chair", 70: "toilet"}
    known |= {67: "dining table", 72: "tv", 77: "cell phone", 84: "book", 90: "toothbrush"}
    assert {number: COCO_CLASSES[number] for number in known} == known
