import numpy as np

from detection_core.artifacts.tflite_graph import read_graph
from detection_core.exporters.delegation import xnnpack_delegation
from detection_core.exporters.tflite_upsampling import repeat_by_copies
from tests.support.cases import cases
from tests.support.edge_files import upsampling
from tests.support.tflite_operations import infer

IMAGE = np.random.default_rng(7).normal(size=(1, 3, 5, 6)).astype(np.float32)


@cases(False, True)
def test_copies_give_the_same_bits(*, half_pixel):
    for rows, columns in ((6, 10), (9, 10), (3, 20), (15, 5)):
        before = upsampling(rows, columns, half_pixel=half_pixel)
        after = repeat_by_copies(before)
        names = read_graph(after).operator_counts()
        assert "RESIZE_NEAREST_NEIGHBOR" not in names
        assert (names["CONCATENATION"], names["RESHAPE"]) == (2, 2)
        for delegate in ("none", "xnnpack"):
            found, expected = (infer(each, IMAGE, delegate)[0] for each in (after, before))
            np.testing.assert_array_equal(found, expected)


def test_xnnpack_takes_over_one_part_and_other_factors_stay_as_they_are():
    before = upsampling(6, 10)
    names = [op.name for op in read_graph(before).operators]
    found = xnnpack_delegation(before)
    assert [names[index] for index in found.left] == ["RESIZE_NEAREST_NEIGHBOR"]
    assert len(found.partitions) == 2
    found = xnnpack_delegation(repeat_by_copies(before))
    assert found.left == () and len(found.partitions) == 1
    for rows, columns in ((7, 10), (6, 11), (18, 5)):
        content = upsampling(rows, columns)
        assert repeat_by_copies(content) == content, (rows, columns)
