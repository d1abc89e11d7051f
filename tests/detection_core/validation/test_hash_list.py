import pytest
from hypothesis import given
from hypothesis import strategies as st

from detection_core.validation.hash_list import HashList
from detection_core.validation.perceptual_hash import HASH_BYTES


@given(hashes=st.lists(st.none() | st.binary(min_size=HASH_BYTES, max_size=HASH_BYTES)))
def test_it_holds_what_a_list_holds(hashes):
    kept = HashList()
    for found in hashes:
        kept.append(found)
    assert len(kept) == len(hashes) and list(kept) == hashes
    assert kept[1:] == hashes[1:] and kept[-2:] == hashes[-2:]
    for place in range(-len(hashes), len(hashes)):
        assert kept[place] == hashes[place]
    with pytest.raises(IndexError):
        kept[len(hashes)]
