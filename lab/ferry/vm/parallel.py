# SPDX-License-Identifier: GPL-2.0
"""Several VMs at a time, of which none is left running when one fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import TypeVar

Part = TypeVar("Part")
Found = TypeVar("Found")


def run(
    measure: Callable[[Part, threading.Event], Found], parts: Sequence[Part], at_once: int
) -> Iterator[Found]:
    """What each part found, as they end. If one fails, or the user has enough, the event is set for all."""
    cancelled = threading.Event()
    with ThreadPoolExecutor(at_once) as pool:
        waiting = {pool.submit(measure, part, cancelled) for part in parts}
        try:
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for each in done:
                    yield each.result()
        except BaseException:
            cancelled.set()
            pool.shutdown(cancel_futures=True)
            raise
