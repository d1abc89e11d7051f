"""Disk cache of decoded images, for data sets that do not fit in memory when decoded.

`DETFLOW_IMAGE_CACHE` is the folder and `DETFLOW_IMAGE_CACHE_GB` its size; without a folder nothing is cached.
An entry's key is made from the image file's bytes and the decoding options. So entries never become stale,
and several training runs can share the folder. Entries are written atomically and verified by checksum at
each cache hit.
"""

import contextlib
import functools
import logging
import os
import struct
import threading
from collections.abc import Callable

import google_crc32c
import numpy as np
import tensorflow as tf

from detection_core.errors import ConfigError
from detection_core.storage.disk_cache import Cache, entry_key, gigabytes_of

FOLDER, GIGABYTES = "DETFLOW_IMAGE_CACHE", "DETFLOW_IMAGE_CACHE_GB"

_logger = logging.getLogger(__name__)
_DEFAULT_GIGABYTES = "50"
# Rows, columns, channels, CRC-32C of the pixels.
_HEADER = struct.Struct("<IIII")
_NONE: np.ndarray = np.zeros((0, 0, 0), np.uint8)


class ImageCache:
    """A folder of decoded images; when it is full, further images are not cached."""

    def __init__(self, folder: str, limit: int) -> None:
        """Open the folder and keep its entries; `limit` is in bytes."""
        self.folder, self.limit = folder, limit
        self._cache = Cache(folder, spread=True)
        self._lock = threading.Lock()
        self._used = self._measure()
        self._is_full = False

    def kept(self, encoded: tf.Tensor, decode: Callable[[], tf.Tensor], variant: str) -> tf.Tensor:
        """Return an image file's pixels, uint8 [H, W, C], from the cache if possible; needs a graph.

        `decode` gives these pixels on a cache miss. `variant` names the way of decoding and is part of the
        key.
        """

        def find(content: bytes) -> np.ndarray:
            return self.find(entry_key(variant, content))

        def keep(content: bytes, pixels: np.ndarray) -> np.ndarray:
            self.keep(entry_key(variant, content), pixels)
            return pixels

        def decoded() -> tf.Tensor:
            return tf.numpy_function(keep, [encoded, decode()], tf.uint8)

        found = tf.numpy_function(find, [encoded], tf.uint8)
        found.set_shape([None, None, None])
        return tf.cond(tf.size(found) > 0, lambda: found, decoded)

    def find(self, name: str) -> np.ndarray:
        """Return the pixels of an entry, uint8 [H, W, C]; empty on a cache miss."""
        path = self._cache.path(name)
        try:
            with open(path, "rb") as file:
                content = file.read()
            rows, columns, channels, checksum = _HEADER.unpack_from(content)
        except OSError:  # missing, or unreadable for now, but not damaged
            return _NONE
        except struct.error:
            return self._without(path)
        pixels = np.frombuffer(content, np.uint8, offset=_HEADER.size)
        if pixels.size != rows * columns * channels or _checksum(pixels) != checksum:
            return self._without(path)
        return pixels.reshape(rows, columns, channels)

    def keep(self, name: str, pixels: np.ndarray) -> None:
        """Add an entry, uint8 [H, W, C], if there is room; training continues in any case."""
        size = _HEADER.size + pixels.nbytes
        with self._lock:
            if self._is_full:
                return
            if self._used + size > self.limit:
                self._give_up(f"{self.limit / 1e9:g} GB are full; {GIGABYTES} allows for more")
                return
            self._used += size
        content = np.ascontiguousarray(pixels)
        try:
            with self._cache.add(name) as path, open(path, "wb") as file:
                file.write(_HEADER.pack(*pixels.shape, _checksum(content)))
                file.write(content.data)
        except OSError as error:
            with self._lock:
                self._give_up(f"{error.strerror or error}; free some space, or name another {FOLDER}")

    def _give_up(self, reason: str) -> None:
        """Stop caching and log it once; call it with the lock held."""
        if not self._is_full:
            _logger.warning("decoded images | no more are kept in %s: %s", self.folder, reason)
        self._is_full = True

    def _without(self, path: str) -> np.ndarray:
        """Remove a damaged entry, so that its image is decoded and cached again."""
        _logger.warning("decoded images | %s is damaged and made again", path)
        with contextlib.suppress(OSError):
            os.remove(path)
        return _NONE

    def _measure(self) -> int:
        """Return the bytes of all entries; remove leftovers; ConfigError when the folder is read-only."""
        try:
            os.makedirs(self.folder, exist_ok=True)
            return self._cache.measure()
        except OSError as error:
            raise ConfigError(
                f"expected a folder to keep decoded images in, found {self.folder}, where it says:"
                f" {error.strerror}; name another one",
                where=FOLDER,
            ) from error


def _checksum(pixels: np.ndarray) -> int:
    # It takes an array directly; a conversion to bytes takes longer than the checksum.
    return int(google_crc32c.value(pixels))


def image_cache() -> ImageCache | None:
    """Return the cache that the environment configures, or None.

    Raises:
        ConfigError: for a size that is not a number above 0, or a folder that is not writable.
    """
    folder = os.environ.get(FOLDER)
    if not folder:
        return None
    limit = gigabytes_of(GIGABYTES, _DEFAULT_GIGABYTES)
    if not limit > 0:
        raise ConfigError(f"expected a number of gigabytes above 0, found {limit:g}", where=GIGABYTES)
    return _opened(folder, limit)


@functools.cache
def _opened(folder: str, limit: float) -> ImageCache:
    """Open each folder once, so that all readers share one count of its bytes."""
    cache = ImageCache(folder, int(limit * 1e9))
    _logger.info("decoded images | kept in %s, up to %g GB", folder, limit)
    return cache
