"""Images: header, orientation, conversion and masks."""

import io
import itertools
import struct
import subprocess
import sys
import zlib

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image, ImageOps, PngImagePlugin

from detection_core.data import image_header
from detection_core.data import orientation as module
from detection_core.data.image_header import MAX_PIXELS, ImageFault, ImageHeader, read_header
from detection_core.data.orientation import (
    CONVERTIBLE,
    convert_to_png,
    read_orientation,
    store_upright,
    turn_point,
    turn_upright,
)
from detection_core.data.pixels import read_pixels, read_thumbnail
from detection_core.datasets.masks import encode_mask_pngs
from tests.support.cases import cases, refused
from tests.support.dataset_files import HEIGHT, WIDTH, encoded, exif, smooth_picture, turned_by_xmp

PIXELS = np.random.default_rng(0).integers(0, 256, (20, 17, 3), dtype=np.uint8)


def _file(kind, mode="RGB", **options):
    return encoded(Image.fromarray(PIXELS).convert(mode), kind, **options)


def _chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png(*header, content=b""):
    """A PNG of a header's fields and of packed rows."""
    chunks = (b"IHDR", struct.pack(">IIBBBBB", *header, 0, 0, 0)), (b"IDAT", content), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)


FILES = {
    "jpeg": _file("JPEG"), "progressive": _file("JPEG", progressive=True), "grey": _file("JPEG", mode="L"),
    "cmyk": _file("JPEG", mode="CMYK"), "restarts": _file("JPEG", restart_marker_rows=1),
    "comment": _file("JPEG", comment=b"\xff\xd9 looks like an end"),
    "exif": _file("JPEG", exif=b"Exif\0\0" + _file("JPEG")),
    "png": _file("PNG"), "palette": _file("PNG", mode="P"), "alpha": _file("PNG", mode="RGBA"),
}  # fmt: skip


def _reason(data):
    reason = refused(ImageFault, "", read_header, data).reason
    assert reason in image_header.IMAGE_FAULTS
    return reason


@cases(*FILES.values())
def test_the_size_is_what_pillow_says_it_is_and_a_cut_is_noticed(*, data):
    image, header = Image.open(io.BytesIO(data)), read_header(data)
    assert header[:3] == (image.format.lower(), image.height, image.width)
    assert read_header(data + b"\0\0 uploaded by someone") == header
    for end in range(16, len(data)):
        assert _reason(data[:end]) == "truncated_image", end
    assert _reason(data[:2]) == "not_an_image"
    if header.format == "jpeg":  # another marker in its pixels
        at = data.rindex(b"\xff\xda") + 40
        assert _reason(data[:at] + b"\xff\xc0" + data[at:]) == "corrupt_image"


def test_other_formats_are_named_and_files_that_make_no_sense_refused():
    for kind in ("BMP", "GIF", "TIFF", "WEBP"):
        assert read_header(_file(kind))[:3] == (kind.lower(), 0, 0)
    assert _reason(b"") == "empty_image"
    for data in (b"\0" * 100, b"<html>", b"BM says a text", b"\xff\xd8", b"%!PS-Adobe-3.0"):
        assert _reason(data) == "not_an_image"
    data = bytearray(FILES["png"])
    data[len(data) // 2] ^= 1
    assert _reason(bytes(data)) == "corrupt_image"
    for data in (_with_frame(12, 20, 17), _with_frame(8, 0, 17), _with_frame(8, 20, 17, marker=0xC3)):
        assert _reason(data) == "unsupported_image"
    assert _reason(_with_frame(8, 65_535, 65_535)) == "decompression_bomb"
    assert _reason(_with_frame(8, 20, 0)) == "corrupt_image"
    height = MAX_PIXELS // 65_535
    assert read_header(_with_frame(8, height, 65_535)) == ImageHeader("jpeg", height, 65_535)
    assert _reason(_with_frame(8, height + 1, 65_535)) == "decompression_bomb"


def test_segments_of_a_jpeg_that_make_no_sense_or_keep_a_decoder_busy_are_refused():
    jpeg = FILES["jpeg"]
    frame, scan = jpeg.index(b"\xff\xc0"), jpeg.index(b"\xff\xda")
    length = struct.unpack_from(">H", jpeg, frame + 2)[0]
    assert _reason(jpeg[:frame] + jpeg[frame + 2 + length :]) == "corrupt_image"
    assert _reason(jpeg[:scan] + b"\xff\xd9") == "corrupt_image"
    for added in (b"\xff\xe1\0\1", b"junk"):
        assert _reason(jpeg[:scan] + added + jpeg[scan:]) == "corrupt_image"
    for added in (b"\xff" * (1 << 17), (b"\xff" * 9 + b"\xfe\0\2") * 10_000, b"\xff\xfe\0\2" * 30_000):
        assert _reason(jpeg[:2] + added + jpeg[2:]) == "corrupt_image"
    assert read_header(jpeg[:scan] + b"\xff\xff" + jpeg[scan:]) == read_header(jpeg)
    assert read_header(jpeg[:2] + b"\xff" * 1000 + jpeg[2:]) == read_header(jpeg)


def _with_frame(precision, height, width, marker=0xC0):
    jpeg = bytearray(FILES["jpeg"])
    frame = jpeg.index(b"\xff\xc0")
    jpeg[frame + 1] = marker
    struct.pack_into(">BHH", jpeg, frame + 4, precision, height, width)
    return bytes(jpeg)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(list(FILES)), st.data())
def test_damage_of_any_kind_gives_a_header_or_a_reason(name, chance):
    data = bytearray(FILES[name])
    for _ in range(chance.draw(st.integers(1, 4))):
        data[chance.draw(st.integers(0, len(data) - 1))] = chance.draw(st.integers(0, 255))
    try:
        header = read_header(bytes(data))
    except ImageFault as e:
        assert e.reason in image_header.IMAGE_FAULTS
    else:
        assert header.height * header.width <= MAX_PIXELS


def test_a_png_of_bits_that_there_are_not_is_damaged():
    for depth, colour in ((3, 2), (8, 5), (16, 3), (1, 6)):
        message = f"a PNG of colour type {colour} with {depth} bits"
        refused(ImageFault, message, read_header, _png(4, 4, depth, colour))


_COMMENT = PngImagePlugin.PngInfo()
_COMMENT.add_text("Comment", "made by hand")


@cases(
    ("JPEG", {}, False), ("JPEG", {"exif": exif(6)}, True), ("JPEG", {"comment": b"made by hand"}, False),
    ("JPEG", {"xmp": b"<x:xmpmeta xmlns:x='adobe:ns:meta/'/>"}, True), ("PNG", {}, False),
    ("PNG", {"exif": exif(6)}, True), ("PNG", {"pnginfo": _COMMENT}, True), ("WEBP", {}, False),
    ("WEBP", {"exif": exif(6)}, True), ("BMP", {}, False), ("GIF", {}, False), ("TIFF", {}, True),
)  # fmt: skip
def test_one_walk_tells_whether_a_file_may_say_how_it_is_turned(*, kind, options, has_notes):
    data = _file(kind, **options)
    assert read_header(data).has_notes == has_notes


def test_notes_behind_the_header_of_the_frame_count_and_those_in_the_scan_do_not():
    jpeg = _file("JPEG", exif=exif(6))
    begin = jpeg.index(b"\xff\xe1")
    end = begin + 2 + int.from_bytes(jpeg[begin + 2 : begin + 4])
    segment, plain = jpeg[begin:end], jpeg[:begin] + jpeg[end:]
    scan = plain.index(b"\xff\xda")
    assert read_header(plain[:scan] + segment + plain[scan:]).has_notes
    assert not read_header(plain[:-2] + segment + plain[-2:]).has_notes


def test_sizes_within_our_bound_are_no_warning_of_pillows():
    code = "import io, sys; from detection_core.data.orientation import read_orientation as read"
    code += "; read(sys.stdin.buffer.read(), 'png')"
    image = _png(10_000, 10_000, 8, 2, content=zlib.compress(bytes(100)))
    done = subprocess.run([sys.executable, "-c", code], input=image, capture_output=True, check=True)
    assert done.stderr == b""


DRAWN = np.random.default_rng(0).integers(0, 256, (37, 53, 3), dtype=np.uint8)


def _as_file(image_format, image=None, **options):
    return encoded(image or Image.fromarray(DRAWN), image_format, **options)


@cases("bmp", "tiff", "webp")
def test_the_pixels_stay_and_the_bytes_are_the_same_every_time(*, name):
    data = _as_file(name.upper(), **({"lossless": True} if name == "webp" else {}))
    stored, header = convert_to_png(data, name)
    assert header == read_header(stored) == ImageHeader("png", 37, 53)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(stored))), DRAWN)
    assert convert_to_png(data, name)[0] == stored


def _not_converted(data, name):
    return refused(ImageFault, "", convert_to_png, data, name).reason


def test_of_an_animation_the_first_frame_is_taken_and_what_cannot_be_converted_refused():
    frames = [Image.new("RGB", (20, 10), colour) for colour in ("red", "blue")]
    animation = _as_file("GIF", frames[0], save_all=True, append_images=frames[1:])
    stored, header = convert_to_png(animation, "gif")
    assert header == ImageHeader("png", 10, 20)
    assert np.asarray(Image.open(io.BytesIO(stored)))[0, 0].tolist() == [255, 0, 0]
    for name, kind in zip(CONVERTIBLE, map(str.upper, CONVERTIBLE), strict=True):
        data = _as_file(kind)
        for end in (12, 60, len(data) // 2):
            assert _not_converted(data[:end], name) == "corrupt_image", (name, end)
    assert _not_converted(_as_file("PNG"), "gif") == "corrupt_image"
    large = bytearray(_as_file("BMP"))
    for side in (20_000, 60_000):
        large[18:26] = side.to_bytes(4, "little") * 2
        assert _not_converted(bytes(large), "bmp") == "decompression_bomb"
    deep = Image.fromarray(np.full((4, 4), 40_000, np.uint16))
    assert _not_converted(_as_file("TIFF", deep), "tiff") == "unsupported_image"


MASKS = hnp.arrays(np.uint8, st.tuples(st.integers(1, 12), st.integers(1, 12)), elements=st.integers(0, 1))


def _edges(mask):
    return np.flatnonzero(np.diff(mask.T.ravel(), prepend=0, append=0))


@settings(max_examples=150, deadline=None)
@given(MASKS)
def test_any_mask_comes_back_as_it_was(mask):
    [data] = encode_mask_pngs([_edges(mask)], *mask.shape)
    image = Image.open(io.BytesIO(data))
    image.load()
    assert image.mode == "L"
    np.testing.assert_array_equal(np.asarray(image), mask)
    # Pillow stops before the checksum of the rows.
    at, found = 8, {}
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert struct.unpack_from(">I", data, at + 8 + size) == (zlib.crc32(kind + content),)
        found[kind] = content
        at += 12 + size
    assert len(zlib.decompress(found[b"IDAT"])) == mask.shape[0] * (mask.shape[1] + 1)


@cases((480, 640), (1, 1), (3, 70_000), (2000, 3))
def test_masks_of_any_size_are_read_by_tensorflow(*, size):
    coarse = np.random.default_rng(size[0]).integers(0, 2, (8, 8), dtype=np.uint8)
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


ORIENTATIONS = range(1, 9)


def turned_file(orientation, kind="JPEG", picture=None, **options):
    return encoded(picture or smooth_picture(), kind, exif=exif(orientation), **options)


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
        assert turn_point(x + 0.5, y + 0.5, WIDTH, HEIGHT, orientation) == (column + 0.5, row + 0.5)
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
    assert store_upright(data, "jpeg")[0] == stored and len(stored) < 1.6 * len(data)


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
    assert refused(ImageFault, "", store_upright, turned_file(6)[:-400], "jpeg").reason == "undecodable_image"
