"""Pixels, and the cache of images."""

import errno
import io
import os
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from detection_core.data import image_cache as module
from detection_core.data import pixels
from detection_core.data.decode import DecodeOptions, decode_example
from detection_core.data.image_cache import FOLDER, GIGABYTES, ImageCache, image_cache
from detection_core.data.image_header import ImageFault
from detection_core.data.pixels import check_with_both, check_with_pillow, mean_difference, read_pixels
from detection_core.data.resize import FixedShapeResizer
from detection_core.errors import ConfigError
from tests.support.cases import cases, refused
from tests.support.command_line import run_python
from tests.support.dataset_files import encoded, exif
from tests.support.record_files import example, image_bytes
from tests.support.storage_faults import few_descriptors

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

    def look(data):
        inside.append(data)
        most.append(len(inside))
        time.sleep(0.05)
        inside.pop()

    monkeypatch.setattr("detection_core.data.pixels._check_with_both", look)
    threads = [threading.Thread(target=check_with_both, args=(SOUND["noise"],)) for _ in range(4)]
    for act in (threading.Thread.start, threading.Thread.join):
        for thread in threads:
            act(thread)
    assert most == [1, 1, 1, 1]


PIXELS = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)


def entries(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


@given(arrays.arrays(np.uint8, st.tuples(*[st.integers(1, 5)] * 2, st.sampled_from([1, 3]))))
def test_what_is_kept_is_found_by_another_process(tmp_path_factory, pixels):
    folder = str(tmp_path_factory.mktemp("kept"))
    ImageCache(folder, 1000).keep("abc", pixels)
    np.testing.assert_array_equal(ImageCache(folder, 1000).find("abc"), pixels)
    assert ImageCache(folder, 1000).find("abd").size == 0


@cases(lambda c: c[:-1], lambda c: c[:-1] + bytes([c[-1] ^ 1]), lambda c: b"", lambda c: c + b"x")
def test_a_damaged_entry_is_removed_and_made_again(tmp_path, *, damaged):
    cache = ImageCache(str(tmp_path), 1000)
    cache.keep("abc", PIXELS)
    (path,) = entries(tmp_path)
    path.write_bytes(damaged(path.read_bytes()))
    assert cache.find("abc").size == 0 and not entries(tmp_path)
    cache.keep("abc", PIXELS)
    with few_descriptors(0):
        assert cache.find("abc").size == 0, "cannot be opened now"
    np.testing.assert_array_equal(cache.find("abc"), PIXELS)


def test_no_more_than_the_limit_is_kept_and_nothing_of_a_killed_process(tmp_path, caplog):
    size = 16 + PIXELS.nbytes
    cache = ImageCache(str(tmp_path), 2 * size)
    for name in ("aa", "bb", "cc", "dd"):
        cache.keep(name, PIXELS)
    assert len(entries(tmp_path)) == 2
    (message,) = caplog.messages
    assert f"no more are kept in {tmp_path}" in message and GIGABYTES in message
    again = ImageCache(str(tmp_path), 3 * size)  # counts what is there
    again.keep("ee", PIXELS)
    again.keep("ff", PIXELS)
    assert len(entries(tmp_path)) == 3
    old = tmp_path / "aa" / "abc.1.partial"
    old.write_bytes(b"x")
    os.utime(old, (0, 0))
    ImageCache(str(tmp_path), 1000)
    assert not old.exists() and len(entries(tmp_path)) == 3


def test_a_full_disk_leaves_nothing_half_and_training_goes_on(tmp_path, monkeypatch, caplog):
    """write(2) and rename(2) both end so where a disk is full."""

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    cache = ImageCache(str(tmp_path), 1000)
    monkeypatch.setattr(module.os, "replace", full)
    cache.keep("abc", PIXELS)
    cache.keep("abd", PIXELS)
    assert not entries(tmp_path)
    (message,) = caplog.messages
    assert "No space left on device; free some space" in message


@cases("JPEG", "PNG")
def test_an_image_is_decoded_once_for_each_way_of_decoding(tmp_path, monkeypatch, *, kind):
    record = tf.constant(example({"image/encoded": [image_bytes(40, 60, kind=kind)]}))
    small = FixedShapeResizer(height=8, width=8).resized_size
    ways = [DecodeOptions(), DecodeOptions(channels=1), DecodeOptions(target_size=small)]
    wanted = [decode_example(record, options=way).sample.image for way in ways]
    cache = ImageCache(str(tmp_path), 1_000_000)

    def decode_all():
        for way, shown in zip(ways, wanted, strict=True):
            options = DecodeOptions(channels=way.channels, target_size=way.target_size, cache=cache)
            run = tf.function(lambda o=options: decode_example(record, options=o), autograph=False)
            np.testing.assert_array_equal(run().sample.image, shown)

    decode_all()
    assert len(entries(tmp_path)) == len(ways)
    monkeypatch.setattr(ImageCache, "keep", None)  # nothing is decoded any more
    decode_all()


def test_the_environment_says_where_and_how_much(tmp_path, monkeypatch):
    monkeypatch.delenv(FOLDER, raising=False)
    assert image_cache() is None
    monkeypatch.setenv(FOLDER, str(tmp_path / "new"))
    monkeypatch.setenv(GIGABYTES, "2.5")
    cache = image_cache()
    assert cache is not None and (cache.folder, cache.limit) == (str(tmp_path / "new"), 2_500_000_000)
    for wrong in ("many", "0", "nan"):
        monkeypatch.setenv(GIGABYTES, wrong)
        refused(ConfigError, rf"{GIGABYTES}: expected a number of gigabytes.*{wrong}", image_cache)
    monkeypatch.setenv(GIGABYTES, "1")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(FOLDER, str(tmp_path / "file"))
    refused(ConfigError, rf"{FOLDER}: expected a folder to keep decoded images in", image_cache)
