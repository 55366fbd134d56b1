# SPDX-License-Identifier: GPL-2.0
"""What goes wrong in a way that a user can do something about."""

from collections.abc import Iterable


def quoted(lines: Iterable[str]) -> str:
    """What somebody else has said, as it follows a message: each line on one of its own."""
    return "".join(f"\n  | {line}" for line in lines)


class FerryError(Exception):
    """One clear line: what is wrong and what to do. The CLI prints it and exits with exit_code."""

    exit_code = 1


class UsageError(FerryError):
    """The user asked for something that makes no sense."""

    exit_code = 2


class CommandFailed(FerryError):
    """A command that Ferry ran failed. output is all that it said, where that was not too much."""

    def __init__(self, message: str, returncode: int, output: str = "") -> None:
        super().__init__(message)
        self.returncode = returncode
        self.output = output


def choose(what: str, words: Iterable[str], choices: Iterable[str]) -> None:
    """Raise UsageError for the first word that is none of the choices, which it names."""
    allowed = list(choices)
    for word in words:
        if word not in allowed:
            raise UsageError(f"no {what} '{word}': choose from {', '.join(allowed)}")
