"""Parts that Beam's workers measure: results in order or joined, and the first error of the user's."""

import errno
import operator
import os

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


def test_results_that_are_not_joined_pass_through_a_file_each_and_not_through_beam(tmp_path):
    measured = measure_parts(
        [3, 1, 2], lambda: lambda count: bytes(count << 20), str(tmp_path / "out"), IN_PROCESS
    )
    assert len(next(measured)) == 3 << 20
    sizes = {path.name: path.stat().st_size >> 20 for path in (tmp_path / "out.parts").iterdir()}
    assert sizes == {"0": 3, "1": 1, "2": 2, "joined": 0}
    assert [len(each) >> 20 for each in measured] == [1, 2] and not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_removed_hides_no_error(tmp_path, monkeypatch):
    def not_empty(path, **_):  # what rmdir says where a file came after the folder was listed
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)

    monkeypatch.setattr(os, "rmdir", not_empty)
    with pytest.raises(DataError, match="part -3: expected no debt"):
        list(measure_parts([1, -3], squares, str(tmp_path / "out"), IN_PROCESS))


def test_the_first_error_by_part_is_raised_and_others_as_beam_raises_them(tmp_path):
    for join in (None, operator.add):
        with pytest.raises(DataError, match="part -3: expected no debt, found -3"):
            list(measure_parts([1, 2, -3, 4, -5, -6], squares, str(tmp_path / "out"), IN_PROCESS, join))
    with pytest.raises(Exception, match="not supported between instances of 'str' and 'int'"):
        list(measure_parts(["x"], squares, str(tmp_path / "out"), IN_PROCESS))
    assert not list(tmp_path.iterdir())
