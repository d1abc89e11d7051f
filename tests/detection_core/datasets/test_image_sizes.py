import itertools
import os
import struct

from detection_core.datasets.annotated_images import Rejected
from detection_core.datasets.image_sizes import shown_size, shown_sizes
from detection_core.storage import files
from tests.support.cases import cases, refused
from tests.support.dataset_files import exif, picture, png_that_claims, subfolder
from tests.support.object_store import s3_server
from tests.support.turned_images import HEIGHT, WIDTH, turned_by_xmp


@cases(*itertools.product(["JPEG", "PNG", "TIFF", "WEBP"], [1, 3, 6, 8]))
def test_a_size_is_that_of_the_image_as_it_is_shown(tmp_path, *, image_format, orientation):
    (tmp_path / "a").write_bytes(picture(image_format, exif=exif(orientation)))
    assert shown_size(str(tmp_path / "a")) == ((40, 30) if orientation < 5 else (30, 40))


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


# The larger has more pixels than the beginning that is read of a file on a store.
@cases((40, 30), (200, 300))
def test_an_orientation_behind_the_pixels_of_a_png_counts(tmp_path, *, size):
    data = _behind_pixels(picture("PNG", *size, exif=exif(6)))
    (tmp_path / "a.png").write_bytes(data)
    assert shown_size(str(tmp_path / "a.png")) == size[::-1]
    with s3_server() as bucket:
        files.copy_file(str(tmp_path / "a.png"), f"{bucket}/a.png")
        assert shown_size(f"{bucket}/a.png") == size[::-1]


def test_sizes_come_in_order_with_the_orientation_of_xmp_and_without_pipes(tmp_path):
    (tmp_path / "a.jpg").write_bytes(turned_by_xmp(6))
    assert shown_size(str(tmp_path / "a.jpg")) == (HEIGHT, WIDTH)
    os.mkfifo(tmp_path / "pipe")
    refused(Rejected, "expected a regular file", shown_size, str(tmp_path / "pipe"))
    below = subfolder(tmp_path, 1)
    sizes = [(40, 30), (30, 40), (8, 8), (64, 16)]
    for number, (width, height) in enumerate(sizes):
        # One with more before its size than is read at first.
        options = {"icc_profile": b"x" * 200_000} if number == 1 else {}
        (below / f"{number}.jpg").write_bytes(picture("JPEG", width, height, **options))
    names = ["0.jpg", "1.jpg", "2.jpg", "3.jpg"]
    assert list(shown_sizes([str(below / name) for name in names])) == sizes
    with s3_server() as bucket:
        files.copy_tree(str(below), f"{bucket}/a")
        *there, missing = shown_sizes([f"{bucket}/a/{name}" for name in [*names, "none.jpg"]])
    assert there == sizes and missing.reason == "missing_image"


@cases(
    (None, "missing_image"), (b"", "empty_image"), (b"text", "not_an_image"),
    (picture()[:50], "truncated_image"), (png_that_claims(1 << 20, 1 << 20), "decompression_bomb"),
)  # fmt: skip
def test_what_has_no_size_has_a_reason(tmp_path, *, data, reason):
    if data is not None:
        (tmp_path / "a").write_bytes(data)
    assert refused(Rejected, "", shown_size, str(tmp_path / "a")).reason == reason
