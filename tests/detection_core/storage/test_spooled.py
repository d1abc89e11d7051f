"""A spooled sequence is a list whose end is in a file."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detection_core.storage import spooled
from detection_core.storage.spooled import Spooled


@given(st.lists(st.lists(st.integers(), max_size=12), max_size=6), st.data())
def test_it_equals_a_list_between_reads_and_appends(parts, data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spooled, "_IN_MEMORY", 2)
        patch.setattr(spooled, "_BLOCK", 3)
        expected, found = [], Spooled()
        for part in parts:
            expected += part
            found.extend(part)
            assert list(found) == expected and len(found) == len(expected)
            if expected:
                place = data.draw(st.integers(-len(expected), len(expected) - 1))
                assert found[place] == expected[place]
            step = data.draw(st.sampled_from([1, 3, -2]))
            assert found[1:9:step] == expected[1:9:step]
        assert list(pickle.loads(pickle.dumps(found))) == expected
        with pytest.raises(IndexError):
            found[len(expected)]


def test_only_the_first_items_and_two_blocks_stay_in_memory():
    count = 10 * spooled._IN_MEMORY * spooled._BLOCK
    found = Spooled(bytearray(1000) for _ in range(count + 1))
    assert sum(map(len, found)) == 1000 * (count + 1)
    in_memory = [block for block in found._blocks if isinstance(block, list)]
    assert len(in_memory) == spooled._IN_MEMORY + 1 and len(found._read[1]) == spooled._BLOCK
