from detection_core.config.rules import DECAY, POSITIVE_FRACTION, Rules, no_problems, up_to
from tests.support.cases import cases


@cases(
    (up_to(64), (1, 64), (0, 65)),
    (POSITIVE_FRACTION, (1e-9, 1.0), (0.0, 1.001)),
    (DECAY, (0.0, 0.999), (1.0, -0.1)),
)
def test_ends_of_an_interval(*, interval, inside, outside):
    assert all(map(interval.holds, inside))
    assert not any(map(interval.holds, outside))


def test_an_interval_tells_its_ends_and_rules_have_readers():
    assert up_to(10_000, 0).text == "a number from 0 to 10,000"
    assert Rules("a").readers == ("a",)
    assert Rules(("a", "b")).readers == ("a", "b")
    assert list(Rules().check(None, "p")) == list(no_problems(None, "p")) == []
