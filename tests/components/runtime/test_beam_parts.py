"""Parts that Beam's workers measure: results in order or joined, and the first error of the user's."""

import operator

import pytest

from components.runtime.beam_parts import measure_parts
from components.runtime.beam_pipeline import IN_PROCESS
from detection_core.errors import DataError


def squares():
    def square(number):
        if number < 0:
            raise DataError(f"expected no debt, found {number}", where=f"part {number}")
        return number**2

    return square


def test_results_come_in_the_order_of_the_parts_or_joined(tmp_path):
    folder = str(tmp_path / "out")
    assert list(measure_parts(range(40), squares, folder, IN_PROCESS)) == [n**2 for n in range(40)]
    assert list(measure_parts(range(40), squares, folder, IN_PROCESS, operator.add)) == [20540]
    assert not list(measure_parts([], squares, folder, IN_PROCESS))
    assert not list(tmp_path.iterdir())


def test_the_first_error_by_part_is_raised_and_others_as_beam_raises_them(tmp_path):
    for join in (None, operator.add):
        with pytest.raises(DataError, match="part -3: expected no debt, found -3"):
            list(measure_parts([1, 2, -3, 4, -5, -6], squares, str(tmp_path / "out"), IN_PROCESS, join))
    with pytest.raises(Exception, match="not supported between instances of 'str' and 'int'"):
        list(measure_parts(["x"], squares, str(tmp_path / "out"), IN_PROCESS))
    assert not list(tmp_path.iterdir())
