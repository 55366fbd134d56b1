# SPDX-License-Identifier: GPL-2.0
"""The sizes and habits that keep the code readable in an evening."""

import ast
from pathlib import Path

import pytest

from ferry import paths

SOURCES = sorted(p for folder in ("lab", "tests", "tools") for p in (paths.ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(paths.ROOT)))
def test_files_and_functions_are_short_and_licensed(path: Path) -> None:
    text = path.read_text()
    assert "SPDX-License-Identifier: GPL-2.0" in text[:200]
    assert len(text.splitlines()) <= 500
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 50, node.name
