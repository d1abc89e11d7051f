"""Running numbers, as the goldens' checkpoint_restore tells of a second model in one process."""

from detection_core.detectors.efficientdet.running_names import running_names

BLOCK = "efficientnet-b0/blocks_0/conv2d/kernel"
AVERAGE = "/ExponentialMovingAverage"


def _stem(scope: str, conv: str, norm: str = "tpu_batch_normalization") -> list[str]:
    return [f"efficientnet-b0/{scope}/{conv}/kernel", f"efficientnet-b0/{scope}/{norm}/gamma"]


def _transposed(scope: str, numbers: range) -> list[str]:
    names = [f"{scope}/conv2d_transpose{f'_{number}' if number else ''}/kernel" for number in numbers]
    return [*names, f"{scope}/bn_0/gamma"]


def test_the_stem_of_a_second_network_is_the_stem_unless_it_could_be_either_of_two():
    plain, numbered = _stem("stem", "conv2d"), _stem("stem_1", "conv2d_5", "tpu_batch_normalization_49")
    found = running_names([BLOCK, *numbered, *(name + AVERAGE for name in numbered)])
    for name, stored in zip(plain, numbered, strict=True):
        assert found[name] == [stored] and found[name + AVERAGE] == [stored + AVERAGE]
    assert BLOCK not in found
    # What has its own name keeps it beside another.
    found = running_names([*plain, *_stem("stem_1", "conv2d_5")])
    assert all(found[name] == [name] for name in plain)
    two = [*_stem("stem_1", "conv2d_5"), *_stem("stem_2", "conv2d_10")]
    assert sorted(running_names(two)[plain[0]]) == sorted(name for name in two if name.endswith("kernel"))


def test_the_convolutions_of_a_second_segmentation_head_follow_each_other():
    numbered = _transposed("segmentation_head_1", range(5, 10))
    found = running_names(numbered)
    for name, stored in zip(_transposed("segmentation_head", range(5)), numbered, strict=True):
        assert found[name] == [stored]
    # A number that another layer has taken is not taken twice.
    stored = _transposed("segmentation_head", range(3, 8))
    found = running_names(stored)
    assert [found[name] for name in _transposed("segmentation_head", range(5))] == [[name] for name in stored]
    assert found["segmentation_head/conv2d_transpose_7/kernel"] == []
    # Numbers with gaps stay as they are.
    names = [f"segmentation_head/conv2d_transpose_{number}/kernel" for number in (1, 3)]
    found = {name: stored for name, stored in running_names(names).items() if stored}
    assert found == {name: [name] for name in names}
