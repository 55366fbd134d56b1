# SPDX-License-Identifier: GPL-2.0
"""One line of progress: alive on a terminal, a plain line now and then elsewhere (CI, a pipe)."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.status import Status

PLAIN_INTERVAL_S = 30.0


def elapsed(seconds: float) -> str:
    """Seconds as m:ss."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def note(text: str) -> None:
    """Tell the user one line that is neither a result nor an error."""
    print(text, file=sys.stderr, flush=True)


def _status(title: str) -> Status | None:
    """None before the environment is made: Debian's own Python may be without rich."""
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(stderr=True).status(title)


class Step:
    """Shows that something with a title is under way, how far it is, and how long it took.

    with Step("build ferry") as step:
        step.update("120/2400")
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self._start = self._shown = time.monotonic()
        self._live: Status | None = None

    def __enter__(self) -> Step:
        self._live = _status(self.title) if sys.stderr.isatty() else None
        if self._live:
            self._live.start()
        else:
            note(f"{self.title} ...")
        return self

    def update(self, text: str) -> None:
        """Say how far it is, by the last line of text; cheap enough to be called for each line of a build."""
        text = text.strip().rpartition("\n")[2]
        now = time.monotonic()
        spent = elapsed(now - self._start)
        if self._live:
            self._live.update(f"{self.title}: {text} [{spent}]".replace("[", r"\["))
        elif now - self._shown >= PLAIN_INTERVAL_S:
            self._shown = now
            note(f"{self.title}: {text} ({spent})")

    def __exit__(self, kind: object, *_: object) -> None:
        if self._live:
            self._live.stop()
        word = "done" if kind is None else "failed"
        note(f"{self.title}: {word} ({elapsed(time.monotonic() - self._start)})")
