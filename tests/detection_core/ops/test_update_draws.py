"""What an update draws follows from the seed, from where in the training it is, and from who draws."""

import numpy as np
import tensorflow as tf

from detection_core.ops.update_draws import draw_seed, draw_uniform, update_draws

SHAPE = tf.constant([6])


def drawn(seed: int, *position: int, name: str = "a") -> bytes:
    with update_draws(seed, *position):
        return draw_uniform(name, SHAPE).numpy().tobytes()


def test_equal_places_draw_alike_and_every_part_of_the_place_counts() -> None:
    places = [(3, 10, 0, 0), (4, 10, 0, 0), (3, 11, 0, 0), (3, 10, 1, 0), (3, 10, 0, 1)]
    found = [drawn(*place) for place in places] + [drawn(*places[0], name="b")]
    assert len(set(found)) == len(found)
    tf.random.uniform([5])
    assert drawn(*places[0]) == found[0]


def test_a_second_draw_and_one_outside_of_an_update_differ() -> None:
    with update_draws(0, 1):
        first, second = (draw_uniform("a", SHAPE).numpy() for _ in range(2))
    assert not np.array_equal(first, second)
    assert draw_seed("a") is None
    assert not np.array_equal(draw_uniform("a", SHAPE), draw_uniform("a", SHAPE))


def test_a_compiled_update_draws_by_its_number() -> None:
    step = tf.Variable(0, dtype=tf.int64)

    @tf.function
    def draw() -> tf.Tensor:
        with update_draws(3, step, 0):
            return draw_uniform("a", SHAPE)

    found = []
    for number in (0, 1, 0):
        step.assign(number)
        found.append(draw().numpy().tobytes())
    assert found[0] == found[2] == drawn(3, 0, 0) and found[0] != found[1]
