from pipeline.report.step_table import step_summary
from tests.support.run_records import record, step


def test_bars_are_in_percent_of_the_longest_step():
    found = step_summary(record(step("trainer", seconds=2.0), step("pusher", "cached", seconds=0.5)))
    assert [row["percent"] for row in found["rows"]] == [100, 25]
    assert (found["seconds"], found["executed"], found["cached"]) == (2.5, 1, 1)
