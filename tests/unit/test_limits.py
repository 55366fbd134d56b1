# SPDX-License-Identifier: GPL-2.0
"""The sizes and habits that keep the code readable in an evening."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ferry import paths

SOURCES = sorted(p for folder in ("lab", "tests", "tools") for p in (paths.ROOT / folder).rglob("*.py"))
C_FOLDERS = ("kernel/src", "kernel/bases", "bench", "server", "tests", "tools")
C_LINES = 700
C_FUNCTION = 55


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(paths.ROOT)))
def test_files_and_functions_are_short_and_licensed(path: Path) -> None:
    text = path.read_text()
    assert "SPDX-License-Identifier: GPL-2.0" in text[:200]
    assert len(text.splitlines()) <= 500
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 50, node.name


def functions(text: str) -> Iterator[tuple[str, int]]:
    """Each function of a C file in the kernel's style, and the lines of its body."""
    lines = text.splitlines()
    begin = 0
    for number, line in enumerate(lines):
        if line == "{":
            begin = number
        elif line == "}" and begin:
            head = begin - 1
            while head and lines[head].startswith(("\t", " ")):
                head -= 1
            yield lines[head].replace("(", " ").replace(",", " ").replace(")", " "), number - begin - 1
            begin = 0


def _c_files() -> list[Path]:
    listed = ["git", "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard", "--", *C_FOLDERS]
    names = subprocess.run(listed, cwd=paths.ROOT, capture_output=True, text=True, check=True).stdout
    return [paths.ROOT / name for name in names.split() if name.endswith((".c", ".h"))]


def test_functions_of_c_are_found() -> None:
    text = "static int one(void)\n{\n\treturn 1;\n}\n\nvoid two(int a,\n\t int b)\n{\n\ta();\n\tb();\n}\n"
    assert [(head.split(), lines) for head, lines in functions(text)] == [
        (["static", "int", "one", "void"], 1),
        (["void", "two", "int", "a"], 2),
    ]


@pytest.mark.parametrize("path", _c_files(), ids=lambda p: str(p.relative_to(paths.ROOT)))
def test_files_and_functions_of_c_are_short(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= C_LINES
    for head, lines in functions(text):
        assert lines <= C_FUNCTION, head
