import io

import numpy as np
from PIL import Image

from detection_core.data.image_header import ImageFault
from detection_core.validation import perceptual_hash
from detection_core.validation.near_duplicates import MAX_DISTANCE
from detection_core.validation.perceptual_hash import SIDE, hash_distance, hash_image_file
from tests.detection_core.validation.pictures import ALIKE, drawing, jpeg, natural
from tests.support.cases import cases, refused
from tests.support.dataset_files import exif


@cases(natural, drawing)
def test_a_picture_that_was_stored_anew_keeps_its_hash(*, draw):
    rng = np.random.default_rng(7)
    for picture in (draw(rng) for _ in range(8)):
        before = hash_image_file(jpeg(picture, 95))
        after = {name: hash_image_file(change(picture)) for name, change in ALIKE.items()}
        far = {name: hash_distance(before, value) for name, value in after.items()}
        assert max(far.values()) <= MAX_DISTANCE, far


def test_other_pictures_have_other_hashes_of_their_cosine_transform():
    rng = np.random.default_rng(3)
    one, other = natural(rng), natural(rng)
    mirrored = one.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    hashes = [hash_image_file(jpeg(p)) for p in (one, other, mirrored, one.rotate(90))]
    for i, first in enumerate(hashes):
        for second in hashes[i + 1 :]:
            assert hash_distance(first, second) > 3 * MAX_DISTANCE
    for level in (0, 255, 130):  # a flat picture has none
        noise = np.clip(np.random.default_rng(0).normal(level, 4.0, (200, 300, 3)), 0, 255)
        assert hash_image_file(jpeg(Image.fromarray(noise.astype(np.uint8)))) is None, level
    refused(ImageFault, "", lambda: hash_image_file(jpeg(natural(np.random.default_rng(0)))[:300]))
    refused(ImageFault, "", hash_image_file, b"GIF89a")
    refused(ValueError, "64 x 64", lambda: perceptual_hash.perceptual_hash(np.zeros((32, 64))))
    # A wave of one frequency alone has one coefficient, which is above the median; others are rounded to 0.
    place = (np.arange(SIDE) + 0.5) / SIDE
    wave = 128 + 60 * np.outer(np.cos(3 * np.pi * place), np.cos(5 * np.pi * place))
    bits = np.unpackbits(np.frombuffer(perceptual_hash.perceptual_hash(wave), np.uint8))
    assert bits.sum() == 1
    assert perceptual_hash.lowest_frequencies()[int(bits.argmax())] == 3 * SIDE + 5


@cases((3, Image.Transpose.ROTATE_180), (6, Image.Transpose.ROTATE_90), (8, Image.Transpose.ROTATE_270))
def test_a_photo_that_the_camera_turned_has_the_hash_of_the_upright_one(*, orientation, turn):
    picture = natural(np.random.default_rng(5)).resize((160, 120))
    upright = hash_image_file(jpeg(picture))
    turned = jpeg(picture.transpose(turn), exif=exif(orientation))
    assert hash_distance(upright, hash_image_file(turned)) <= MAX_DISTANCE
    assert hash_distance(upright, hash_image_file(jpeg(picture.transpose(turn)))) > 3 * MAX_DISTANCE


@cases("L", "RGB", "RGBA", "P", "1", "CMYK", "I;16")
def test_every_kind_of_picture_has_a_hash(*, mode):
    picture = natural(np.random.default_rng(2))
    wide = np.asarray(picture.convert("L")).astype(np.uint16) * 257
    converted = Image.fromarray(wide) if mode == "I;16" else picture.convert(mode)
    stream = io.BytesIO()
    converted.save(stream, "JPEG" if mode == "CMYK" else "PNG")
    found = hash_image_file(stream.getvalue())
    assert found is not None and len(found) == perceptual_hash.HASH_BYTES == perceptual_hash.BITS // 8
    assert hash_distance(found, hash_image_file(jpeg(picture))) <= MAX_DISTANCE
