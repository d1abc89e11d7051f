import errno
import os

import numpy as np
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from detection_core.data import image_cache as module
from detection_core.data.decode import DecodeOptions, decode_example
from detection_core.data.image_cache import FOLDER, GIGABYTES, ImageCache, image_cache
from detection_core.data.resize import FixedShapeResizer
from detection_core.errors import ConfigError
from tests.support.cases import cases, refused
from tests.support.dataset_files import subfolder
from tests.support.record_files import example, image_bytes
from tests.support.storage_faults import few_descriptors

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
    tmp_path = subfolder(tmp_path, 1)
    (tmp_path / "ab").mkdir()
    old, new = tmp_path / "ab" / "abc.1.partial", tmp_path / "ab" / "abd.2.partial"
    old.write_bytes(b"x")
    new.write_bytes(b"x")
    os.utime(old, (0, 0))
    ImageCache(str(tmp_path), 1000)
    assert entries(tmp_path) == [new]


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
        for way, pixels in zip(ways, wanted, strict=True):
            options = DecodeOptions(channels=way.channels, target_size=way.target_size, cache=cache)
            run = tf.function(lambda o=options: decode_example(record, options=o), autograph=False)
            np.testing.assert_array_equal(run().sample.image, pixels)

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
