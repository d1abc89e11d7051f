import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.data.record_scan import count_local_records
from detection_core.errors import DataError
from tests.support.record_files import write_records
from tests.support.storage_faults import few_descriptors


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("records") / "a.tfrecord"
    return Path(write_records(path, [b"one", b"", b"three" * 20])).read_bytes()


@settings(deadline=None, max_examples=60)
@given(kept=st.integers(0, 200), packed=st.booleans())
def test_only_the_ends_of_records_pass(stored, tmp_path_factory, kept, packed):
    cut = stored[:kept]
    path = tmp_path_factory.getbasetemp() / f"cut.tfrecord{'.gz' if packed else ''}"
    path.write_bytes(gzip.compress(cut) if packed else cut)
    ends = {0: 0, 19: 1, 35: 2, 151: 3}
    if len(cut) in ends:
        assert count_local_records(str(path)) == ends[len(cut)]
    else:
        with pytest.raises(DataError, match=r"found record [012] damaged"):
            count_local_records(str(path))


def test_packed_files_are_damaged_or_cannot_be_opened(stored, tmp_path):
    (tmp_path / "a.tfrecord.gz").write_bytes(gzip.compress(stored * 3)[:-20])
    with pytest.raises(DataError, match=r"a\.tfrecord\.gz, record \d: .*damaged"):
        count_local_records(str(tmp_path / "a.tfrecord.gz"))
    path = tmp_path / "a.tfrecord.gz"
    path.write_bytes(gzip.compress(stored))
    with few_descriptors(0), pytest.raises(OSError, match="Too many open files"):
        count_local_records(str(path))
