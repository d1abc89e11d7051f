import gzip
import io
import struct

from detection_core.data.record_writer import masked_checksum, write_record
from detection_core.datasets.formats import tfrecord_files
from detection_core.datasets.layouts import RATIOS
from detection_core.errors import DataError
from detection_core.storage.file_parts import FilePart
from detection_core.storage.folder_listing import list_folder
from tests.support.cases import cases, refused
from tests.support.dataset_files import write_files

IMAGE = b"\x0aimage/encoded"


def _write(path, *records):
    out = io.BytesIO()
    for record in records:
        write_record(out, record)
    write_files(path.parent, {path.name: out.getvalue()})


@cases(
    (["train.record", "test.record"], {"train": "train.record", "eval": "test.record"}),
    (["my_train.record-00000-of-00002", "my_train.record-00001-of-00002", "my_val.record-00000-of-00001"],
     {"train": "my_train.record-0000*", "eval": "my_val.record-00000-of-00001"}),
    (["Split-train/x", "Split-eval/x"], {"train": "Split-train/x", "eval": "Split-eval/x"}),
    (["data.bin"], RATIOS), (["train/a", "more_train/b", "val/c"], RATIOS),
)  # fmt: skip
def test_files_of_any_name_are_found_by_what_is_in_them(tmp_path, *, names, splits):
    for name in names:
        _write(tmp_path / name, IMAGE, IMAGE)
    _write(tmp_path / "other", b"no picture")
    (tmp_path / "train.txt").write_text("image/")
    layout = tfrecord_files.find(list_folder(str(tmp_path)))
    assert layout.splits == splits and layout.images == 2 * len(names)
    assert f"{len(names)} TFRecord files" in layout.evidence


def _read(path):
    return list(tfrecord_files.read_records(str(path)))


def test_records_are_read_with_their_places_and_damaged_cut_or_endless_ones_told(tmp_path):
    (tmp_path / "a").write_bytes(b"image/" * 10)
    assert tfrecord_files.find(list_folder(str(tmp_path))) is None
    length = struct.pack("<Q", 1 << 60)
    assert tfrecord_files.record_length(length + struct.pack("<I", masked_checksum(length))) is None
    assert tfrecord_files.record_length(b"short") is None
    path = tmp_path / "a"
    _write(path, b"first", b"second")
    data = bytearray(path.read_bytes())
    first, second = FilePart(12, 5, str(path)), FilePart(33, 6, str(path))
    assert _read(path) == [(first, b"first"), (second, b"second")]
    for cut in (5, 14, 20, 22, 40):
        path.write_bytes(data[:cut])
        refused(DataError, r"expected record [01] of a TFRecord file.*copy it again", _read, path)
        assert tfrecord_files.count_records(str(path)) == (cut > 21)
    path.write_bytes(gzip.compress(data))
    packed = [(part._replace(packed=True), data) for part, data in ((first, b"first"), (second, b"second"))]
    assert _read(path) == packed and tfrecord_files.count_records(str(path)) == 2
    data[13] ^= 1
    path.write_bytes(data)
    assert _read(path) == [(first, None), (second, b"second")]
    assert tfrecord_files.count_records(str(path)) == 2
