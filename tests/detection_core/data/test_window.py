import tensorflow as tf

from detection_core.data.sequence import SeededElement
from detection_core.data.window import element_at, window_size, with_following


def _windows(count, following):
    elements = tf.data.Dataset.range(count).map(
        lambda i: SeededElement((tf.fill([i + 1, 2], i), tf.strings.as_string(i)), tf.stack([i, i]))
    )
    found = []
    for window in with_following(elements, following):
        numbers = []
        for i in range(int(window_size(window))):
            (image, name), seed = element_at(window, tf.constant(i, tf.int64))
            number = int(seed[0])
            assert image.shape == (number + 1, 2) and int(name) == number
            numbers.append(number)
        found.append(numbers)
    return found


def test_each_element_has_those_that_follow_and_no_more_are_read():
    assert _windows(5, 2) == [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4], [4]]
    assert _windows(2, 9) == [[0, 1], [1]]
    read = []

    def seen(i):
        read.append(int(i))
        return i

    elements = tf.data.Dataset.range(1000).map(lambda i: tf.py_function(seen, [i], tf.int64))
    seeded = elements.map(lambda i: SeededElement(i, tf.stack([i, i])))
    # What tf.data reads ahead of its own accord is no part of a window.
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.inject_prefetch = False
    iterator = iter(with_following(seeded, 7).with_options(options))
    for _ in range(3):
        next(iterator)
    assert len(read) <= 3 + 7 + 1
