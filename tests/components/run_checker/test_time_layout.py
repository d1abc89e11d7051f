import datetime

from components.run_checker.time_layout import format_time
from tests.support.cases import cases

NIGHT = datetime.datetime(2026, 11, 21, 3, 4, 5, tzinfo=datetime.UTC)
NOON = datetime.datetime(2028, 7, 4, 12, 30, 1, tzinfo=datetime.UTC)


# Each pair as Go 1.x itself writes it: time.Date(2026, 11, 21, 3, 4, 5, 0, time.UTC).Format(layout).
@cases(
    ("Mon Jan _2 15:04:05 2006", "Sat Nov 21 03:04:05 2026"),
    ("Mon Jan _2 15:04:05 MST 2006", "Sat Nov 21 03:04:05 UTC 2026"),
    ("02 Jan 06 15:04 MST", "21 Nov 26 03:04 UTC"),
    ("02 Jan 06 15:04 -0700", "21 Nov 26 03:04 +0000"),
    ("Monday, 02-Jan-06 15:04:05 MST", "Saturday, 21-Nov-26 03:04:05 UTC"),
    ("2006-01-02T15:04:05Z07:00", "2026-11-21T03:04:05Z"),
    ("2006-01-02T15:04:05.999999999Z07:00", "2026-11-21T03:04:05Z"),
    ("3:04PM", "3:04AM"),
    ("Jan _2 15:04:05.000", "Nov 21 03:04:05.000"),
    ("20060102150405", "20261121030405"),
    ("2006/01/02/15", "2026/11/21/03"),
    ("year=2006/day=002", "year=2026/day=325"),
    ("06_1_2", "26_1121"),
    ("Monday_3PM", "Saturday_3AM"),
    ("Janu Mond _2006", "Janu Mond _2026"),
    ("", ""),
)
def test_a_layout_is_read_as_go_reads_it(*, layout, written):
    assert format_time(NIGHT, layout) == written


def test_noon_and_other_time_zones():
    assert format_time(NOON, "3PM __2 January Monday") == "12PM 186 July Tuesday"
    east = NIGHT.astimezone(datetime.timezone(datetime.timedelta(hours=9)))
    assert format_time(east, "2006-01-02 15 -07:00") == "2026-11-21 03 +00:00"
