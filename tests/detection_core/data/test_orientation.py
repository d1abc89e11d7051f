import io
import itertools
import struct

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from detection_core.data import orientation as module
from detection_core.data.image_header import ImageFault, read_header
from detection_core.data.orientation import read_orientation, store_upright, turn_point, turn_upright
from detection_core.data.pixels import read_pixels, read_thumbnail
from tests.support.cases import cases, refused
from tests.support.turned_images import HEIGHT, WIDTH, smooth_picture, turned_by_xmp

ORIENTATIONS = range(1, 9)


def turned_file(orientation, kind="JPEG", picture=None, **options):
    exif = Image.Exif()
    exif[0x0112] = orientation
    buffer = io.BytesIO()
    (picture or smooth_picture()).save(buffer, kind, exif=exif, **options)
    return buffer.getvalue()


def test_the_orientation_is_read():
    for kind, orientation in itertools.product(("JPEG", "PNG", "WEBP", "TIFF"), ORIENTATIONS):
        assert read_orientation(turned_file(orientation, kind), kind.lower()) == orientation
    for meaningless in (0, 9, 77):
        assert read_orientation(turned_file(meaningless), "jpeg") == 1
    assert read_orientation(turned_by_xmp(6), "jpeg") == 6, "counts where there is no other"


def noted(orientation, other=1):
    """A JPEG whose notes hold numbers that do not fit the type that EXIF gives them."""
    tags = struct.pack("<HHHIIHHII", 2, 0x0103, 4, 1, other, 0x0112, 4, 1, orientation)
    segment = b"Exif\0\0II" + struct.pack("<HI", 42, 8) + tags + bytes(4)
    plain = turned_file(1)
    return plain[:2] + b"\xff\xe1" + struct.pack(">H", len(segment) + 2) + segment + plain[2:]


@cases((65537, 1, 1), (65537, 70_000, 1), (6, 70_000, 6))
def test_notes_with_odd_numbers_do_not_damage_the_picture(*, orientation, other, means):
    data = noted(orientation, other)
    expected = turn_upright(smooth_picture(), means).size
    assert read_orientation(data, "jpeg") == means
    assert read_pixels(io.BytesIO(data), upright=True).shape[1::-1] == expected
    assert read_thumbnail(io.BytesIO(data), 8).shape == (8, 8)
    header = store_upright(data, "jpeg")[1]
    assert (header.width, header.height) == expected


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_damaged_notes_never_stop_the_ingest(data):
    whole = bytearray(turned_file(6))
    for _ in range(data.draw(st.integers(1, 12))):
        whole[data.draw(st.integers(2, 120))] = data.draw(st.integers(0, 255))
    assert 1 <= read_orientation(bytes(whole), "jpeg") <= 8


@cases(*ORIENTATIONS)
def test_points_go_where_pillow_turns_their_pixels(*, orientation):
    for x, y in ((5, 7), (50, 40), (0, 0), (WIDTH - 1, HEIGHT - 1)):
        pixels = np.zeros((HEIGHT, WIDTH), np.uint8)
        pixels[y, x] = 255
        marked = Image.open(io.BytesIO(turned_file(orientation, "PNG", Image.fromarray(pixels))))
        row, column = np.argwhere(np.asarray(ImageOps.exif_transpose(marked)))[0]
        centre = turn_point(x + 0.5, y + 0.5, WIDTH, HEIGHT, orientation)
        assert centre == (column + 0.5, row + 0.5)
    assert module.upright_size(WIDTH, HEIGHT, orientation) == ImageOps.exif_transpose(marked).size


@cases(*itertools.product(range(2, 9), range(3)))
def test_a_turned_jpeg_keeps_its_pixels_but_for_rounding_and_its_size_in_bytes(*, orientation, subsampling):
    data = turned_file(orientation, quality=88, subsampling=subsampling)
    stored, header = store_upright(data, "jpeg")
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    kept = Image.open(io.BytesIO(stored))
    difference = np.abs(np.asarray(kept).astype(int) - np.asarray(upright))
    # This picture's chroma changes from pixel to pixel; photographs differ by a third of that.
    assert difference.mean() < 2 and (header.width, header.height) == upright.size == kept.size
    assert header == read_header(stored) and read_orientation(stored, "jpeg") == 1
    assert store_upright(data, "jpeg")[0] == stored
    assert len(stored) < 1.6 * len(data)


def test_a_turned_image_of_any_mode_shows_the_same_and_damage_is_a_fault_of_the_image():
    for mode in ("RGB", "L", "RGBA", "P", "1"):
        data = turned_file(6, "PNG", smooth_picture().convert(mode))
        stored, header = store_upright(data, "png")
        upright = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(stored))), np.asarray(upright)), mode
        assert (header.format, header.width, header.height) == ("png", HEIGHT, WIDTH)
    deep = Image.fromarray(np.arange(WIDTH * HEIGHT, dtype=np.uint16).reshape(HEIGHT, WIDTH) * 20)
    stored, _ = store_upright(turned_file(8, "PNG", deep), "png")
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(stored))), np.rot90(np.asarray(deep)))
    for mode in ("L", "CMYK"):
        data = turned_file(3, "JPEG", smooth_picture().convert(mode), quality=95)
        expected = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
        found = Image.open(io.BytesIO(store_upright(data, "jpeg")[0])).convert("RGB")
        assert np.abs(np.asarray(found).astype(int) - np.asarray(expected)).mean() < 2, mode
    fault = refused(ImageFault, "", store_upright, turned_file(6)[:-400], "jpeg")
    assert fault.reason == "undecodable_image"
