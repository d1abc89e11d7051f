import hypothesis
import hypothesis.strategies as st
import pytest

from component_specs.packed_text import PLAIN_BYTES, pack, unpack
from tests.support.cases import cases


@hypothesis.given(st.text())
def test_what_is_packed_comes_back(text):
    assert unpack(pack(text)) == text
    assert unpack(pack("bz2:" + text)) == "bz2:" + text


def test_short_texts_stay_readable_and_long_ones_get_short():
    assert pack("model { ssd { } }") == "model { ssd { } }"
    long = "feature_extractor { type: 'x' } " * 2000
    packed = pack(long)
    assert len(long) > 60_000 and len(packed) < 1000 and unpack(packed) == long
    assert pack("x" * PLAIN_BYTES) == "x" * PLAIN_BYTES
    # As bzip2 1.0 packs it; another outcome would train anew what was trained.
    assert pack("a" * 10_000) == ("bz2:QlpoOTFBWSZTWe20CmsAABWJAIgAIAAACCAAMMwFKacao2KjxdyRThQkO20CmsA=")


@cases("bz2:!", "bz2:QUJD", "bz2:QlpoOTFBWSZTWe20")
def test_a_broken_text_is_told(*, text):
    with pytest.raises(ValueError, match="not a packed text"):
        unpack(text)
