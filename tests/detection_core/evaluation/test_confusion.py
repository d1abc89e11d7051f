from detection_core.evaluation.confusion import confusion_matrix
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from tests.support.evaluated_images import evaluated

LEFT, RIGHT = [0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0]


def test_confusion():
    objects = [LEFT, RIGHT, [0.5, 0, 1, 0.4]], [0, 2, 2]
    # A 0 taken for a 2, a 2 found, a false 0, and one below the threshold.
    found = [LEFT, RIGHT, [0, 0.6, 0.3, 0.9], LEFT], [0.9, 0.8, 0.7, 0.1], [2, 2, 0, 0]
    images = (evaluated(*objects, *found),)
    split = EvaluatedSplit(images=images, class_names={0: "cat", 2: "bird"})
    matrix = confusion_matrix(split, 0.5)
    assert matrix.tolist() == [[0, 1, 0], [0, 1, 1], [1, 0, 0]]
