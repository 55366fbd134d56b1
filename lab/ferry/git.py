# SPDX-License-Identifier: GPL-2.0
"""git, without the user's own configuration, so that the same input gives the same commits."""

from collections.abc import Mapping
from pathlib import Path

from ferry import proc

IDENTITY = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_NAME": "The Ferry developers",
    "GIT_AUTHOR_EMAIL": "ferry@ferry.invalid",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "The Ferry developers",
    "GIT_COMMITTER_EMAIL": "ferry@ferry.invalid",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
}


def git(
    tree: Path, *args: str | Path, env: Mapping[str, str] | None = None, input_text: str | None = None
) -> str:
    """Run git in a tree and return its output without the last newline."""
    full = {**IDENTITY, **(env or {})}
    return proc.output(
        ["git", "-c", "safe.directory=*", "-C", tree, *args], env=full, input_text=input_text
    ).rstrip("\n")
