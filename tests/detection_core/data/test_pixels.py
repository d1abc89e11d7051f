"""Pixels."""

import io
import threading
import time

import numpy as np
import pytest
from PIL import Image

from detection_core.data import pixels
from detection_core.data.image_header import ImageFault
from detection_core.data.pixels import check_with_both, check_with_pillow, mean_difference, read_pixels
from tests.support.cases import cases, refused
from tests.support.command_line import run_python
from tests.support.dataset_files import NO_PIXELS, WRONG_TABLE, encoded, exif

NOISE = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)
PICTURE = Image.fromarray(NOISE)
SOUND = {
    "noise": encoded(PICTURE, "JPEG", quality=75), "progressive": encoded(PICTURE, "JPEG", progressive=True),
    "grey": encoded(PICTURE.convert("L"), "JPEG"), "cmyk": encoded(PICTURE.convert("CMYK"), "JPEG"),
    "png": encoded(PICTURE, "PNG"), "palette": encoded(PICTURE.convert("P"), "PNG", transparency=0),
    "alpha": encoded(PICTURE.convert("RGBA"), "PNG"), "bits": encoded(PICTURE.convert("1"), "PNG"),
    "deep": encoded(Image.fromarray(NOISE[..., 0].astype(np.uint16) * 257), "PNG"),
}  # fmt: skip


@cases(*SOUND)
def test_both_decoders_see_the_same_and_a_thumbnail_is_the_picture_made_small(*, name):
    check_with_pillow(SOUND[name])
    check_with_both(SOUND[name])
    expected = Image.fromarray(read_pixels(io.BytesIO(SOUND[name]))).convert("L").resize((16, 16))
    found = pixels.read_thumbnail(io.BytesIO(SOUND[name]), 16)
    assert found.shape == (16, 16) and found.dtype == np.uint8
    # A JPEG file is decoded at a half of its size, with its own filters.
    assert mean_difference(found, np.asarray(expected)) < 8


def test_what_is_not_decodable_or_not_offered_is_refused():
    cut, message = SOUND["png"][:-200] + SOUND["png"][-100:], "a file that Pillow cannot decode"
    assert refused(ImageFault, message, check_with_pillow, cut).reason == "undecodable_image"
    for kind in ("ICO", "PPM", "PCX", "EPS"):
        refused(ImageFault, "cannot identify image file", read_pixels, io.BytesIO(encoded(PICTURE, kind)))
    for name in ("noise", "png"):
        half = io.BytesIO(SOUND[name][: len(SOUND[name]) // 2])
        refused(ImageFault, r"the file ends too early.*copy it again", read_pixels, half)
    bits = encoded(PICTURE.convert("1"), "BMP")
    for data, reason, text in (
        (NO_PIXELS, "undecodable_image", "that Pillow cannot decode"),
        (bits, "undecodable_image", "TensorFlow cannot decode the file: Number of channels"),
        (WRONG_TABLE, "decoders_differ", "the pixels of Pillow and TensorFlow differ by"),
    ):
        assert refused(ImageFault, text, check_with_both, data).reason == reason


def test_a_thumbnail_is_turned_as_exif_says_and_differences_are_means_over_all_rows():
    half = Image.fromarray(np.repeat(np.repeat(np.uint8([[[0] * 3], [[255] * 3]]), 100, 0), 300, 1))
    for orientation, bright in ((1, np.s_[9:]), (3, np.s_[:7]), (6, np.s_[:, :7]), (8, np.s_[:, 9:])):
        found = pixels.read_thumbnail(io.BytesIO(encoded(half, "JPEG", exif=exif(orientation))), 16)
        assert found[bright].min() > 250, orientation
        assert (found > 128).mean() == 0.5
    other = np.concatenate([NOISE] * 9)
    changed = other.copy()
    changed[300:] = 255 - changed[300:]
    expected = np.abs(other.astype(float) - changed).mean()
    assert mean_difference(other, changed) == pytest.approx(expected) and mean_difference(other, other) == 0


_PEAK = """
import io, resource, threading
from PIL import Image
from detection_core.data.pixels import read_pixels, read_thumbnail
stream = io.BytesIO()
Image.new("RGB", (8000, 8000), (9, 99, 200)).save(stream, "PNG", compress_level=1)
data = stream.getvalue()
Image.MAX_IMAGE_PIXELS = None
del stream
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
small, large = lambda: read_thumbnail(io.BytesIO(data), 32), lambda: read_pixels(io.BytesIO(data))
for reads in ((small, small, small), (small, large)):
    threads = [threading.Thread(target=read) for read in reads]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_large_pictures_are_decoded_one_at_a_time_and_not_twice():
    # 64 megapixels are 256 MB in Pillow's memory, which was there before, and 192 MB in an array.
    thumbnails, arrays = (int(kilobytes) / 1000 for kilobytes in run_python(_PEAK).stdout.split())
    assert thumbnails < 250 and arrays < 500


def test_a_large_picture_is_compared_by_one_thread_at_a_time(monkeypatch):
    monkeypatch.setattr("detection_core.data.pixels._LARGE", 10)
    inside, most = [], []

    def look(stream):
        inside.append(stream)
        most.append(len(inside))
        time.sleep(0.05)
        inside.pop()
        return read_pixels(stream)

    monkeypatch.setattr("detection_core.data.pixels.read_pixels", look)
    threads = [threading.Thread(target=check_with_both, args=(SOUND["noise"],)) for _ in range(4)]
    for act in (threading.Thread.start, threading.Thread.join):
        for thread in threads:
            act(thread)
    assert most == [1, 1, 1, 1]
