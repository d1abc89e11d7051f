import threading
import time

import pytest

from detection_core.data.ahead import done_ahead
from tests.support.cases import cases


@cases(1, 10, 1000)
def test_results_come_in_order_and_no_more_wait_than_the_budget_allows(*, budget):
    costs = [3, 1, 20, 1, 1, 7, 2, 50, 1, 1] * 3
    lock, waiting, most, done = threading.Lock(), 0, 0, []

    def work(item):
        nonlocal waiting, most
        with lock:
            waiting += item[1]
            most = max(most, waiting)
        time.sleep(0.001)
        return item[0]

    for index in done_ahead(enumerate(costs), work, lambda item: item[1], budget=budget, threads=3):
        done.append(index)
        with lock:
            waiting -= costs[index]
    assert done == list(range(len(costs)))
    # One that is more than the whole budget goes alone, while the reader holds the one before.
    assert most <= max(budget, *costs) + max(costs)


def test_a_failure_comes_at_its_turn_and_no_more_is_read_than_there_is_work_for():
    def work(item):
        if item == 3:
            raise KeyError(item)
        return item

    def cost(item):
        if item == 5:
            raise ValueError(item)
        return 1

    found = []
    with pytest.raises(KeyError):
        list(done_ahead(range(9), work, lambda _: 1, budget=9, threads=2))
    with pytest.raises(ValueError, match="5"):
        for item in done_ahead(range(9), str, cost, budget=9, threads=2):
            found.append(item)
    assert found == ["0", "1", "2", "3", "4"]
    read = []
    items = (read.append(n) or n for n in range(1000))
    stream = done_ahead(items, str, lambda _: 1, budget=100, threads=2)
    assert next(stream) == "0"
    assert len(read) <= 5
    stream.close()
