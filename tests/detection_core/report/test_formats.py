import math

from detection_core.report import formats
from detection_core.report.formats import DASH


def test_numbers_durations_and_times_are_short_and_what_was_not_measured_is_a_dash():
    durations = {0.04: "0.0 s", 9.94: "9.9 s", 12.4: "12 s", 185: "3 min 05 s", 7620: "2 h 07 min"}
    assert {seconds: formats.duration(seconds) for seconds in durations} == durations
    assert formats.duration(None) == DASH
    assert {formats.metric(value) for value in (None, math.nan, math.inf, -1.0, "x")} == {DASH}
    assert formats.metric(0.12345) == "0.123"
    assert formats.metric(0.12345, 4) == "0.1235"
    assert formats.signed(-0.01) == "\N{MINUS SIGN}0.010"
    assert formats.signed(0.01, 4) == "+0.0100"
    assert formats.signed(None) == DASH
    assert [formats.size(n) for n in (999, 1500, 3_104_880, 5e9)] == ["999 B", "1.5 kB", "3.1 MB", "5.0 GB"]
    assert formats.thousands(1234567) == "1\u202f234\u202f567"
    assert formats.moment("2026-11-20T22:00:00+00:00") == "20 Nov 2026, 22:00 UTC"
    assert formats.moment("yesterday") == "yesterday"
    assert formats.seconds_between("2026-11-20T22:00:00", "2026-11-20T22:01:30") == 90
    assert formats.seconds_between("2026-11-20T22:00:00", "") is None
