import itertools

from hypothesis import given
from hypothesis import strategies as st

from detection_core.datasets.decoding import DECODINGS, find_decoding
from detection_core.errors import ConfigError
from tests.support.cases import refused


@given(st.sampled_from(sorted(DECODINGS)), st.integers(0, 10_000), st.integers(1, 50))
def test_the_parts_of_a_split_add_up(name, records, parts):
    decoding = find_decoding(name)
    edges = [i * records // parts for i in range(parts + 1)]
    counts = [decoding.images_in(a, b, records) for a, b in itertools.pairwise(edges)]
    assert sum(counts) == decoding.images_of(records)
    assert all(0 <= count <= b - a for count, a, b in zip(counts, edges[:-1], edges[1:], strict=True))


def test_a_sample_is_small_and_never_nothing_and_another_word_is_refused():
    assert [DECODINGS["sample"].images_of(n) for n in (0, 5, 100, 118_287)] == [0, 5, 16, 119]
    assert DECODINGS["all"].images_of(118_287) == 118_287 and DECODINGS["none"].images_of(118_287) == 0
    refused(ConfigError, r"decode_images: expected one of .*'all'.*, found 'some'", find_decoding, "some")
