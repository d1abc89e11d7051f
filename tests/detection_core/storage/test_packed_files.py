import gzip
import io
import random
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.storage import packed_files
from detection_core.storage.packed_files import PackedFile, PackedFiles, is_packed, unpack_beginning
from tests.support.cases import cases

_RANDOM = random.Random(0)
CONTENT = b"".join(_RANDOM.randbytes(700) + b"\0" * 800 for _ in range(2000))  # 3 MB


def _opener(data):
    return lambda: io.BytesIO(data)


def _members(*parts):
    return b"".join(gzip.compress(part, mtime=0) for part in parts)


FORMS = {
    "gzip": gzip.compress(CONTENT, mtime=0),
    "zlib": zlib.compress(CONTENT),
    "members": _members(CONTENT[:1000], b"", CONTENT[1000:2_000_000], CONTENT[2_000_000:]),
    "padded": gzip.compress(CONTENT, mtime=0) + b"\0" * 100,
}


@pytest.mark.parametrize("form", FORMS)
@settings(deadline=None, max_examples=20)
@given(reads=st.lists(st.tuples(st.integers(0, len(CONTENT)), st.integers(0, 5000)), min_size=1, max_size=4))
def test_any_part_in_any_order_is_what_the_content_holds(form, reads):
    file = PackedFile(_opener(FORMS[form]))
    for offset, length in reads:
        assert file.read(offset, length) == CONTENT[offset : offset + length]
    assert b"".join(piece for _, piece in file.pieces()) == CONTENT


def test_states_are_kept_for_a_second_read_and_bounded(monkeypatch):
    read = []

    class Counting(io.BytesIO):
        def read(self, *size):
            read.append(self.tell())
            return super().read(*size)

    file = PackedFile(lambda: Counting(FORMS["gzip"]))
    file.read(len(CONTENT) - 10, 10)
    assert file.places > 1
    read.clear()
    assert file.read(len(CONTENT) - 10, 10) == CONTENT[-10:]
    assert min(read) > len(FORMS["gzip"]) // 2
    monkeypatch.setattr(packed_files, "MOST_PLACES", 2)
    files = PackedFiles()
    for key in "abc":
        found = files.read(key, _opener(FORMS["gzip"]), len(CONTENT) - 10, 10)
        assert found == CONTENT[-10:]
    assert sum(file.places for file in files._files.values()) <= 5
    assert all(is_packed(data[:12]) for data in FORMS.values())
    assert not any(is_packed(data) for data in (b"", b"\x1f", b"\xff\xd8\xff", b"hello", b"\0\0"))
    assert unpack_beginning(FORMS["gzip"][:4096], 100) == CONTENT[:100]
    assert unpack_beginning(b"nothing", 100) == b""


@cases(*FORMS)
def test_what_is_cut_or_damaged_is_an_error(*, form):
    whole = FORMS[form]
    end = len(whole) - 100 * (form == "padded")
    with pytest.raises(OSError, match="cut"):
        PackedFile(_opener(whole[: end - 20])).read(0, len(CONTENT) + 1)
    with pytest.raises(OSError, match=r"damaged|cut"):
        PackedFile(_opener(whole[:5000] + b"\xff" * 5000 + whole[10000:])).read(0, len(CONTENT))
    with pytest.raises(OSError, match="cut"):
        PackedFile(_opener(b"")).read(0, 1)
