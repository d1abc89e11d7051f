"""Ordered read-ahead in several threads, within a memory budget."""

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
    """Yield `work(item)` of each item, in order.

    Args:
        items: read lazily, no further ahead than there is work for.
        work: a slow function that releases the GIL.
        cost: bytes of an item's result.
        budget: bytes of results that the consumer has not taken yet; a single result may exceed it.
        threads: number of workers; 0: one per core.

    Raises:
        Exception: from `work` or `cost`, at the item's turn.
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
                    del future  # else this result would stay in memory while the next is made
                if price is None:
                    price = cost(item)  # raises before any work on the item, after all items before it
                waiting.append((pool.submit(work, item), price))
                spent += price
            while waiting:
                yield waiting.popleft()[0].result()
        finally:
            for future, _ in waiting:
                future.cancel()


def _price(cost: Callable[[Item], int], item: Item) -> int | None:
    """Return an item's cost; None if it raises, and the error follows after all earlier items."""
    try:
        return cost(item)
    except Exception:
        return None
