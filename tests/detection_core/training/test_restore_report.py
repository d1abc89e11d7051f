"""What a checkpoint of the field gave to a detector."""

from detection_core.training.restore_report import Outcome, RestoredVariable, RestoreReport, is_averaged
from tests.support.cases import cases

SLOT = "backbone/a/.OPTIMIZER_SLOT/optimizer/average/.ATTRIBUTES/VARIABLE_VALUE"


def _row(key, outcome=Outcome.RESTORED, **fields):
    return RestoredVariable(name=f"ours/{key}", key=key, outcome=outcome, shape=(2, 3), **fields)


def _report(rows, unused=()):
    return RestoreReport(prefix="ckpt", kind="full", variables=tuple(rows), unused=tuple(unused))


ROWS = (
    _row("net/stem/kernel/ExponentialMovingAverage"),
    _row("net/stem/mean"),
    _row("head/kernel", Outcome.SKIPPED_SHAPE, found_shape=(2, 9)),
    _row("head/bias", Outcome.MISSING, candidates=("head_1/bias", "head_2/bias")),
)


@cases(("a/kernel/ExponentialMovingAverage", True), (SLOT, True), ("a/.ATTRIBUTES/VARIABLE_VALUE", False))
def test_a_moving_average_shows_in_its_key(*, key, averaged):
    assert is_averaged(key) == _row(key).averaged == averaged
    assert not _row(key, Outcome.SKIPPED_SHAPE).averaged


def test_the_table_tells_of_each_variable_and_the_summary_has_the_parts():
    lines = _report(ROWS, ["other/kernel"]).table().splitlines()
    assert lines == [
        "full checkpoint ckpt: 2 restored, 1 skipped: another shape, 1 missing in the checkpoint, 1 of its"
        " own unused; what was restored are 1 moving averages and 1 plain values",
        "  skipped: another shape: ours/head/kernel [2, 3], found [2, 9] (head/kernel)",
        "  missing in the checkpoint: ours/head/bias [2, 3] (head/bias; it could be any of head_1/bias,"
        " head_2/bias)",
        "  restored, moving average: ours/net/stem/kernel/ExponentialMovingAverage [2, 3]"
        " (net/stem/kernel/ExponentialMovingAverage)",
        "  restored, plain value: ours/net/stem/mean [2, 3] (net/stem/mean)",
        "  unused: other/kernel",
    ]
    lines = _report(ROWS, ["other/kernel"]).summary().splitlines()
    assert lines[1:3] == [
        "  net: 2 of 2 restored (1 moving averages, 1 plain), such as"
        " net/stem/kernel/ExponentialMovingAverage",
        "  head: 0 of 2 restored (0 moving averages, 0 plain)",
    ]
    left = [line.partition(":")[0].strip() for line in lines[3:]]
    assert left == ["skipped", "missing in the checkpoint", "unused"]


def test_parts_are_told_apart_counted_and_bounded():
    report = _report([_row("model/net/a/kernel"), _row("model/head/b/kernel"), _row("model/head/c/kernel")])
    parts = [line.split(":")[0] for line in report.summary().splitlines()[1:]]
    assert parts == ["  model/net", "  model/head"]
    assert "kernel: 1 of 1" in _report([_row("kernel")]).summary()
    report = _report(ROWS, ["other/kernel"])
    assert report.counts() == {"restored": 2, "skipped_shape": 1, "missing": 1, "unused": 1}
    assert report.averaged == 1
    rows = [_row(f"part_{i}/kernel", Outcome.MISSING) for i in range(300)]
    report = _report([*rows, _row("net/kernel")], [f"other_{i}" for i in range(5000)])
    summary = report.summary().splitlines()
    assert len(summary) == 1 + 21 + 11 + 11
    assert "  and 290 more variables that were not restored" in summary
    assert summary[-1] == "  and 4,990 more unused"
    table = report.table().splitlines()
    assert len(table) == 1 + 301 + 1001 and table[-1] == "  and 4,000 more unused"
