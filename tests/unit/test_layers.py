# SPDX-License-Identifier: GPL-2.0
"""The lab's folders know each other in one direction: as docs/design.md says."""

import ast
import re

import pytest

from ferry import paths

LAB = paths.ROOT / "lab/ferry"
SECTION = (paths.ROOT / "docs/design.md").read_text().partition("## The lab:")[2].partition("\n## ")[0]
LAYERS = re.findall(r"^\| `(\w+)` \|", SECTION, re.MULTILINE)


def _imported(folder: str) -> set[str]:
    """The lab's folders that a folder imports from, be it at the top or within a function."""
    folders: set[str] = set()
    for path in (LAB / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{name.name}" for name in node.names)]
                folders |= {name.split(".")[1] for name in names if name.startswith("ferry.")}
    return folders & set(LAYERS)


def test_each_folder_is_said() -> None:
    assert sorted(LAYERS) == sorted(path.parent.name for path in LAB.glob("*/__init__.py"))


@pytest.mark.parametrize("folder", LAYERS)
def test_a_folder_knows_only_those_before_it(folder: str) -> None:
    assert _imported(folder) <= set(LAYERS[: LAYERS.index(folder) + 1])
