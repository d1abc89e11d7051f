import io
import os
import struct

import pytest
from PIL import Image

from detection_core.datasets.annotated_images import Rejected
from detection_core.datasets.image_sizes import shown_size, shown_sizes
from detection_core.storage import files
from tests.detection_core.data.test_orientation import turned_by_xmp
from tests.support.dataset_files import picture, png_that_claims
from tests.support.object_store import s3_server


def _turned(image_format, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    buffer = io.BytesIO()
    Image.new("RGB", (40, 30)).save(buffer, image_format, exif=exif)
    return buffer.getvalue()


@pytest.mark.parametrize("image_format", ["JPEG", "PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize(
    ("orientation", "size"), [(1, (40, 30)), (3, (40, 30)), (6, (30, 40)), (8, (30, 40))]
)
def test_a_size_is_that_of_the_image_as_it_is_shown(tmp_path, image_format, orientation, size):
    (tmp_path / "a").write_bytes(_turned(image_format, orientation))
    assert shown_size(str(tmp_path / "a")) == size


def _behind_pixels(data):
    """The same PNG with its eXIf chunk behind its pixels, where some programs put it."""
    chunks, at = [], 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        chunks.append(data[at : at + 12 + length])
        at += 12 + length
    order = sorted(chunks, key=lambda chunk: {b"eXIf": 1, b"IEND": 2}.get(chunk[4:8], 0))
    assert order != chunks
    return data[:8] + b"".join(order)


@pytest.mark.parametrize("noise", [False, True])
def test_an_orientation_behind_the_pixels_of_a_png_counts(tmp_path, noise):
    data = _turned("PNG", 6)
    if noise:  # more than the beginning that is read of a file on a store
        exif = Image.Exif()
        exif[0x0112] = 6
        data = picture("PNG", width=200, height=300, exif=exif.tobytes())
    (tmp_path / "a.png").write_bytes(_behind_pixels(data))
    size = (300, 200) if noise else (30, 40)
    assert shown_size(str(tmp_path / "a.png")) == size
    with s3_server() as bucket:
        files.copy_file(str(tmp_path / "a.png"), f"{bucket}/a.png")
        assert shown_size(f"{bucket}/a.png") == size


def test_an_orientation_that_only_xmp_notes_counts_as_it_does_when_the_image_is_stored(tmp_path):
    (tmp_path / "a.jpg").write_bytes(turned_by_xmp(6))
    assert shown_size(str(tmp_path / "a.jpg")) == (48, 64)


@pytest.mark.parametrize(
    ("data", "reason"),
    [(None, "missing_image"), (b"", "empty_image"), (b"text", "not_an_image"),
     (picture()[:50], "truncated_image"), (png_that_claims(1 << 20, 1 << 20), "decompression_bomb")],
)  # fmt: skip
def test_what_has_no_size_has_a_reason(tmp_path, data, reason):
    if data is not None:
        (tmp_path / "a").write_bytes(data)
    with pytest.raises(Rejected) as caught:
        shown_size(str(tmp_path / "a"))
    assert caught.value.reason == reason


def test_nothing_waits_for_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Rejected, match="expected a regular file"):
        shown_size(str(tmp_path / "pipe"))


def test_sizes_come_in_order_from_a_store_and_from_a_folder(tmp_path):
    sizes = [(40, 30), (30, 40), (8, 8), (64, 16)]
    for number, (width, height) in enumerate(sizes):
        # One with more before its size than is read at first.
        options = {"icc_profile": b"x" * 200_000} if number == 1 else {}
        (tmp_path / f"{number}.jpg").write_bytes(picture("JPEG", width, height, **options))
    names = ["0.jpg", "1.jpg", "2.jpg", "3.jpg"]
    assert list(shown_sizes([str(tmp_path / name) for name in names])) == sizes
    with s3_server() as bucket:
        files.copy_tree(str(tmp_path), f"{bucket}/a")
        *there, missing = shown_sizes([f"{bucket}/a/{name}" for name in [*names, "none.jpg"]])
    assert there == sizes and missing.reason == "missing_image"
