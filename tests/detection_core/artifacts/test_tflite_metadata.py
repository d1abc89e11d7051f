import io
import zipfile

import pytest

from detection_core.artifacts.tflite_metadata import MAX_LABEL_BYTES, TFLiteDescription, read_description
from detection_core.errors import ModelError
from detection_core.exporters.tflite_description import add_description
from tests.support.bare_tflite import bare_file
from tests.support.cases import refused


def with_labels(data: bytes, method: int = zipfile.ZIP_STORED, name: str = "labels.txt") -> bytes:
    """A described file with an archive of somebody else's at its end."""
    description = TFLiteDescription(name="m", mean=(0.0,), std=(1.0,), labels=("own",))
    described = add_description(bare_file(), description)
    stream = io.BytesIO(described[: described.rfind(b"PK\x03\x04")])
    stream.seek(0, io.SEEK_END)
    with zipfile.ZipFile(stream, "a") as archive:
        archive.writestr(zipfile.ZipInfo(name), data, method)
    return stream.getvalue()


def test_labels_of_any_usual_compression_are_read_and_damage_is_one_message():
    broken = bytearray(with_labels(b"abc\ndef\n"))
    broken[broken.rfind(b"abc\ndef")] = 88
    for content in (b"", b"PK\x03\x04zip archive", b"0123TFL"):
        refused(ModelError, "expected a TensorFlow Lite file", read_description, content)
    for content in (with_labels(b"\xff\xfe\n"), bytes(broken)):
        refused(ModelError, "expected labels in the archive", read_description, content)
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA):
        assert read_description(with_labels(b"a\nb\n", method)).labels == ("a", "b")
    content = with_labels(b"a\n" * (8 * MAX_LABEL_BYTES), zipfile.ZIP_DEFLATED)
    assert len(content) < MAX_LABEL_BYTES
    with pytest.raises(ModelError, match=r"m\.tflite: expected labels of at most 4194304 bytes, found more"):
        read_description(content, where="m.tflite")
    content = with_labels(b"a\n")
    place = content.index(b"M001") - 4  # the metadata's own root offset
    with pytest.raises(ModelError, match="found a damaged one, with an offset to byte"):
        read_description(content[:place] + b"\xff\xff\xff\x7f" + content[place + 4 :])
    refused(ModelError, r"bare.tflite: expected metadata", read_description, bare_file(), where="bare.tflite")
