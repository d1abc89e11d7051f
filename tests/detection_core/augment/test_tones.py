import numpy as np
import tensorflow as tf

from detection_core.augment import tones
from tests.support.cases import cases
from tests.support.golden_cases import load_cases

CASES = load_cases(__file__, "autoaugment")
IMAGE = CASES["input"].inputs["image"]
TONES = {
    "autocontrast": lambda image, given: tones.autocontrast(image),
    "equalize": lambda image, given: tones.equalize(image),
    "posterize": lambda image, given: tones.posterize(image, tf.constant(float(given["bits"]))),
    "solarize_add": lambda image, given: tones.solarize_add(image, tf.constant(float(given["addition"]))),
    "solarize": lambda image, given: tones.solarize(image, tf.constant(float(given["threshold"]))),
    "color": lambda image, given: tones.enhance_colour(image, tf.constant(given["factor"])),
    "contrast": lambda image, given: tones.enhance_contrast(image, tf.constant(given["factor"])),
    "brightness": lambda image, given: tones.enhance_brightness(image, tf.constant(given["factor"])),
    "sharpness": lambda image, given: tones.enhance_sharpness(image, tf.constant(given["factor"])),
}


@cases(*[name for name in CASES if name.startswith(tuple(TONES))])
def test_golden(*, name):
    tone = max((tone for tone in TONES if name.startswith(tone)), key=len)
    found = TONES[tone](tf.constant(IMAGE), CASES[name].params).numpy()
    golden = CASES[name].outputs["image"]
    if tone == "sharpness":
        golden = np.where(_whole_averages() & (np.abs(golden.astype(int) - found) == 1), found, golden)
    np.testing.assert_array_equal(found, golden)


def _whole_averages():
    """Tell where the smoothed value is a whole number.

    The reference adds thirteenths, so its processor decided whether such a value was cut to the byte below.
    """
    padded = np.pad(IMAGE.astype(int), ((1, 1), (1, 1), (0, 0)))
    rows, columns = IMAGE.shape[:2]
    around = sum(padded[r : r + rows, c : c + columns] for r in range(3) for c in range(3))
    return (around + 4 * IMAGE.astype(int)) % 13 == 0


def test_averages_are_not_cut_to_the_byte_below_and_factor_one_changes_nothing():
    values = np.repeat(np.arange(256, dtype=np.uint8), 3)[:, np.newaxis]
    rows = tf.constant(np.broadcast_to(values[..., np.newaxis], [768, 3, 3]))
    found = tones.enhance_sharpness(rows, tf.constant(0.0))
    np.testing.assert_array_equal(found[1::3, 1], rows[1::3, 1])
    even = tf.constant(np.full((4, 5, 3), 77, np.uint8))
    for tone in (tones.autocontrast, tones.equalize):
        np.testing.assert_array_equal(tone(even), even)
    for name in ("colour", "contrast", "brightness", "sharpness"):
        enhance = getattr(tones, f"enhance_{name}")
        np.testing.assert_array_equal(enhance(tf.constant(IMAGE), tf.constant(1.0)), IMAGE)
