"""Ordered read-ahead in several threads, within a budget of memory."""

from __future__ import annotations

import collections
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def done_ahead(
    items: Iterable[Item],
    work: Callable[[Item], Result],
    cost: Callable[[Item], int],
    *,
    budget: int,
    threads: int = 0,
) -> Iterator[Result]:
    """Yield `work(item)` of each item, in their order.

    Args:
        items: read one by one, no further ahead than there is work for.
        work: what takes time and lets go of Python's lock.
        cost: bytes that an item's result takes; of an item it raises for, nothing more is done.
        budget: bytes that results may take which the reader has not taken yet; one alone may exceed it.
        threads: how many work at once; 0: one a core.

    Raises:
        Exception: whatever `work` or `cost` raise, at the item's turn.
    """
    threads = threads or len(os.sched_getaffinity(0))
    waiting: collections.deque[tuple[Future[Result], int]] = collections.deque()
    spent = 0
    with ThreadPoolExecutor(threads, thread_name_prefix="ahead") as pool:
        try:
            for item in items:
                price = _price(cost, item)
                while waiting and (price is None or spent + price > budget or len(waiting) > threads):
                    future, paid = waiting.popleft()
                    spent -= paid
                    yield future.result()
                    del future  # or the result would live on while the next one is made
                waiting.append((pool.submit(work, item), cost(item) if price is None else price))
                spent += price or 0
            while waiting:
                yield waiting.popleft()[0].result()
        finally:
            for future, _ in waiting:
                future.cancel()


def _price(cost: Callable[[Item], int], item: Item) -> int | None:
    """Return what an item costs; None where it is not known, which is raised when all before it are done."""
    try:
        return cost(item)
    except Exception:
        return None
