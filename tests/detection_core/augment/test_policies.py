import numpy as np
import pytest
import tensorflow as tf

from detection_core.augment.policies import OPERATIONS, AutoAugmentImage, moves_in_boxes
from detection_core.augment.policy_tables import POLICIES
from detection_core.ops.objects import new_truth
from detection_core.structures import Sample
from tests.support.cases import cases
from tests.support.golden_cases import load_cases

CASES = load_cases(__file__, "autoaugment")
AUTOML = load_cases(__file__, "automl")
IMAGE, BOXES = (tf.constant(CASES["input"].inputs[name]) for name in ("image", "boxes"))
SEED = tf.constant([3, 4], tf.int64)


def _sample(count=3, dtype=tf.uint8):
    masks = np.zeros((count, 40, 56), np.uint8)
    for mask, box in zip(masks, BOXES.numpy(), strict=False):
        top, left, bottom, right = (box * [40, 56, 40, 56]).astype(int)
        mask[top:bottom, left:right] = 1
    truth = new_truth(BOXES[:count], tf.zeros([count], tf.int32), masks=tf.constant(masks))
    return Sample(tf.cast(IMAGE, dtype), truth, tf.constant(""))


def test_golden_policies_are_known_by_name():
    for name in [name for name in POLICIES if name != "randaug"]:
        expected = CASES[f"policy_{name}"].params["policy"]
        assert [[list(step) for step in sub_policy] for sub_policy in POLICIES[name]] == expected, name
    theirs = AUTOML["randaugment"].facts["fact"]
    assert theirs["num_layers"] == 1
    assert POLICIES["randaug"] == tuple(((name, 1.0, theirs["magnitude"]),) for name in theirs["operations"])
    assert [name for name in POLICIES if moves_in_boxes(name)] == ["v0", "v1"]
    with pytest.raises(ValueError, match=r"v0, v1, v2, v3, test, randaug, found 'v9'"):
        AutoAugmentImage(policy_name="v9")


@cases(*OPERATIONS)
def test_golden_amounts_of_levels(*, name):
    operation, beyond = OPERATIONS[name], AUTOML["level_to_argument"].facts["fact"]["table"][name]
    for level, amount in CASES["amounts"].params[name].items():
        assert operation.amount(float(level)) == pytest.approx(amount, rel=1e-6)
    assert operation.either_sign == (name in CASES["either_sign"].params["operations"])
    for level, arguments in beyond.items():
        assert operation.amount(float(level)) == pytest.approx(arguments[0] if arguments else 0.0, rel=1e-6)


def test_an_image_without_objects_is_changed_and_randaugment_always_applies_its_operation():
    for name in POLICIES:
        found = AutoAugmentImage(policy_name=name)(_sample(0), SEED)
        assert found.image.shape == IMAGE.shape and found.truth.boxes.shape == (0, 4), name
    step = AutoAugmentImage(policy_name="randaug")
    found = [step(_sample(), tf.constant([i, 1], tf.int64)).image for i in range(12)]
    assert not any(np.array_equal(image, IMAGE) for image in found)


@cases(*[n for n in CASES if n.startswith("only_bboxes")])
def test_golden_operation_in_a_box(*, name):
    given = CASES[name].params
    operation, certain = OPERATIONS[given["operation"]], tf.constant(3.0)
    found = operation.apply(_sample(1), tf.constant(given["amount"]), certain, SEED)
    np.testing.assert_array_equal(found.image, CASES[name].outputs["image"])


def test_one_sub_policy_is_applied_whole_and_policies_vary_in_a_graph():
    found = AutoAugmentImage(policy_name="test")(_sample(dtype=tf.float32), SEED)
    assert found.image.dtype == tf.float32
    move = OPERATIONS["TranslateX_BBox"].apply
    moved = [move(_sample(), tf.constant(by), 1.0, SEED).truth.boxes for by in (100.0, -100.0)]
    assert sum(np.array_equal(found.truth.boxes, boxes) for boxes in moved) == 1
    # Such a shift leaves nothing of a small image but the even fill, which equalising does not change.
    assert (np.asarray(found.image) == 128).all() and not np.any(found.truth.masks)
    sample = _sample(dtype=tf.float32)
    for policy, least, most in (("v3", 7, 12), ("test", 2, 2)):  # of one sub-policy both signs occur
        step = tf.function(AutoAugmentImage(policy_name=policy))
        found = [step(sample, tf.constant([i, 0], tf.int64)) for i in range(12)]
        values = [one.truth.boxes if policy == "test" else one.image for one in found]
        assert least <= len({np.asarray(value).tobytes() for value in values}) <= most
