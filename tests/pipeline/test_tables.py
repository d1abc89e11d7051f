from __future__ import annotations

from pipeline.tables import table


def test_columns_are_as_wide_as_their_widest_cell():
    assert table([("name", "state"), ("a longer name", "on"), ("b", "")]) == (
        "name           state\na longer name  on\nb"
    )
