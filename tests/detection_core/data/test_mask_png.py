import io
import struct
import zlib

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from detection_core.data.mask_png import encode_mask_pngs
from tests.support.cases import cases

MASKS = hnp.arrays(np.uint8, st.tuples(st.integers(1, 12), st.integers(1, 12)), elements=st.integers(0, 1))


def _edges(mask):
    return np.flatnonzero(np.diff(mask.T.ravel(), prepend=0, append=0))


def _chunks(data):
    at, found = 8, {}
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert struct.unpack_from(">I", data, at + 8 + size) == (zlib.crc32(kind + content),)
        found[kind] = content
        at += 12 + size
    return found


@settings(max_examples=150, deadline=None)
@given(MASKS)
def test_any_mask_comes_back_as_it_was(mask):
    [data] = encode_mask_pngs([_edges(mask)], *mask.shape)
    image = Image.open(io.BytesIO(data))
    image.load()
    assert image.mode == "L"
    np.testing.assert_array_equal(np.asarray(image), mask)
    # Pillow stops before the checksum of the rows.
    assert len(zlib.decompress(_chunks(data)[b"IDAT"])) == mask.shape[0] * (mask.shape[1] + 1)


@cases((480, 640), (1, 1), (3, 70_000), (2000, 3))
def test_masks_of_any_size_are_read_by_tensorflow(*, size):
    rng = np.random.default_rng(size[0])
    coarse = rng.integers(0, 2, (8, 8), dtype=np.uint8)
    full = np.asarray(Image.fromarray(coarse).resize(size[::-1], Image.Resampling.NEAREST))
    masks = [full, np.zeros(size, np.uint8), np.ones(size, np.uint8)]
    for mask, data in zip(masks, encode_mask_pngs(list(map(_edges, masks)), *size), strict=True):
        np.testing.assert_array_equal(tf.io.decode_png(data, channels=1)[..., 0], mask)


def test_equal_masks_are_equal_bytes_whatever_comes_before_them():
    rng = np.random.default_rng(3)
    one, two = (_edges(rng.integers(0, 2, (40, 60))) for _ in range(2))
    nothing = np.zeros(0, np.int64)
    alone = [encode_mask_pngs([e], 40, 60)[0] for e in (one, two, nothing)]
    assert encode_mask_pngs([two, one, nothing, two], 40, 60) == [alone[1], alone[0], alone[2], alone[1]]
