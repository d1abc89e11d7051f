from detection_core import ConfigError
from detflow.argument_checks import check_count, check_counts, is_number
from tests.support.refusals import not_refused


def test_counts_and_numbers():
    check_count("epochs", 1)
    check_counts(num_shards=3, max_num_images=None)
    cases = [(count, "^epochs: ") for count in (0, -1, 2.0, "3", True, None)]
    assert not not_refused(lambda count: check_count("epochs", count), cases, ConfigError)
    assert [is_number(value) for value in (1, 0.5, True, "1", None)] == [True, True, False, False, False]
