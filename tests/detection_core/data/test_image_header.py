import io
import struct
import subprocess
import sys
import zlib

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

from detection_core.data import image_header
from detection_core.data.image_header import MAX_PIXELS, ImageFault, ImageHeader, read_header, read_structure
from tests.support.cases import cases, refused
from tests.support.dataset_files import exif

PIXELS = np.random.default_rng(0).integers(0, 256, (20, 17, 3), dtype=np.uint8)


def _file(kind, mode="RGB", **options):
    buffer = io.BytesIO()
    Image.fromarray(PIXELS).convert(mode).save(buffer, kind, **options)
    return buffer.getvalue()


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
    assert header == ImageHeader(image.format.lower(), image.height, image.width)
    assert read_header(data + b"\0\0 uploaded by someone") == header
    for end in range(16, len(data)):
        assert _reason(data[:end]) == "truncated_image", end
    assert _reason(data[:2]) == "not_an_image"
    if header.format == "jpeg":  # another marker in its pixels
        at = data.rindex(b"\xff\xda") + 40
        assert _reason(data[:at] + b"\xff\xc0" + data[at:]) == "corrupt_image"


def test_other_formats_are_named_and_files_that_make_no_sense_refused():
    for kind in ("BMP", "GIF", "TIFF", "WEBP"):
        assert read_header(_file(kind)) == ImageHeader(kind.lower(), 0, 0)
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
    assert read_structure(data) == (read_header(data), has_notes)


def test_notes_behind_the_header_of_the_frame_count_and_those_in_the_scan_do_not():
    jpeg = _file("JPEG", exif=exif(6))
    begin = jpeg.index(b"\xff\xe1")
    end = begin + 2 + int.from_bytes(jpeg[begin + 2 : begin + 4])
    segment, plain = jpeg[begin:end], jpeg[:begin] + jpeg[end:]
    scan = plain.index(b"\xff\xda")
    assert read_structure(plain[:scan] + segment + plain[scan:]).has_notes
    assert not read_structure(plain[:-2] + segment + plain[-2:]).has_notes


def test_sizes_within_our_bound_are_no_warning_of_pillows():
    code = "import io, sys; from detection_core.data.orientation import read_orientation as read"
    code += "; read(sys.stdin.buffer.read(), 'png')"
    image = _png(10_000, 10_000, 8, 2, content=zlib.compress(bytes(100)))
    done = subprocess.run([sys.executable, "-c", code], input=image, capture_output=True, check=True)
    assert done.stderr == b""
