import io

import numpy as np
import pytest
from PIL import Image

from detection_core.data.image_conversion import CONVERTIBLE, convert_to_png
from detection_core.data.image_header import ImageFault, read_header
from tests.support.cases import cases

PIXELS = np.random.default_rng(0).integers(0, 256, (37, 53, 3), dtype=np.uint8)


def _file(image_format, image=None, **options):
    buffer = io.BytesIO()
    (image or Image.fromarray(PIXELS)).save(buffer, image_format, **options)
    return buffer.getvalue()


@cases("bmp", "tiff", "webp")
def test_the_pixels_stay_and_the_bytes_are_the_same_every_time(*, name):
    data = _file(CONVERTIBLE[name], **({"lossless": True} if name == "webp" else {}))
    stored, header = convert_to_png(data, name)
    assert header == read_header(stored) == ("png", 37, 53)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(stored))), PIXELS)
    assert convert_to_png(data, name)[0] == stored


def test_of_an_animation_the_first_frame_is_taken():
    frames = [Image.new("RGB", (20, 10), colour) for colour in ("red", "blue")]
    stored, header = convert_to_png(_file("GIF", frames[0], save_all=True, append_images=frames[1:]), "gif")
    assert header == ("png", 10, 20)
    assert np.asarray(Image.open(io.BytesIO(stored)))[0, 0].tolist() == [255, 0, 0]


@cases(*CONVERTIBLE)
def test_a_file_cut_short_is_refused(*, name):
    data = _file(CONVERTIBLE[name])
    for end in (12, 60, len(data) // 2):
        with pytest.raises(ImageFault) as caught:
            convert_to_png(data[:end], name)
        assert caught.value.reason == "corrupt_image"


def test_a_format_is_only_read_as_what_it_is():
    with pytest.raises(ImageFault) as caught:
        convert_to_png(_file("PNG"), "gif")
    assert caught.value.reason == "corrupt_image"


def test_a_size_beyond_memory_is_refused_before_decoding():
    data = bytearray(_file("BMP"))
    for side in (20_000, 60_000):
        data[18:26] = side.to_bytes(4, "little") * 2
        with pytest.raises(ImageFault) as caught:
            convert_to_png(bytes(data), "bmp")
        assert caught.value.reason == "decompression_bomb"


def test_more_than_eight_bits_are_refused_and_not_cut():
    deep = Image.fromarray(np.full((4, 4), 40_000, np.uint16))
    with pytest.raises(ImageFault) as caught:
        convert_to_png(_file("TIFF", deep), "tiff")
    assert caught.value.reason == "unsupported_image"
