# SPDX-License-Identifier: GPL-2.0
"""The driver's protocol in user space, with an IOMMU that remembers inner entries; whole, and broken."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from ferry import paths

MODEL = paths.ROOT / "tests/iommu_model"
DRIVER = Path("kernel/src/drivers/iommu/intel")
SECONDS = "4"
BROKEN_SECONDS = "6"


@dataclass(frozen=True)
class Breakage:
    """A mistake that somebody could make: a rule's code, and what is left of it."""

    name: str
    file: str
    old: str
    new: str


BREAKAGES = (
    Breakage("dead_table_is_used", "empty_tables.c", "if (is_dead(table))\n\t\treturn false;", ""),
    Breakage("no_grace_period", "table_stock.c",
             "if (stock->running) {\n\t\tlist_splice_init(list, &stock->retired)",
             "if (1) {\n\t\tlist_splice_init(list, &stock->clean)"),
    Breakage("no_flush", "empty_tables.c", "invalidate(domain, burial->first, burial->last);", ""),
    Breakage("successor_ignores_unflushed", "empty_tables.c",
             "if (any_unflushed(domain, pfn))\n\t\tinvalidate", "if (0)\n\t\tinvalidate"),
    Breakage("unflushed_is_counted_late", "empty_tables.c",
             "atomic_inc(unflushed);\n\tif (whole)", "if (0) atomic_inc(unflushed);\n\tif (whole)"),
    Breakage("empty_table_is_not_reaped", "empty_tables.c",
             "if (to_table.val && drop(entry_table(&to_table), nr))", "if (0)"),
    Breakage("parent_is_not_dropped", "empty_tables.c",
             "if (level + 1 == top || !drop(tables[level + 1], 1))", "if (1)"),
    Breakage("freed_by_a_flush_of_another_range", "empty_tables.c",
             "/* May flush and free", "list_splice_tail_init(&burial.tables, &gather->freelist);\n\t/*"),
    Breakage("table_dies_with_entries", "empty_tables.c",
             "state = 0;\n\tbool killed", "state = atomic_read(table_state(table));\n\tbool killed"),
    Breakage("whole_table_counts_as_clear", "empty_tables.c", "dead |= TABLE_UNCLEARED;", ""),
)  # fmt: skip


def build(folder: Path, target: str) -> Path:
    """The model, from the sources under a folder."""
    out = folder / "out"
    args = ["make", "-C", str(folder / "tests/iommu_model"), f"OUT={out}", str(out / target)]
    done = subprocess.run(args, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return out / target


def copy(folder: Path) -> Path:
    """The sources that the model is made of."""
    shutil.copytree(MODEL, folder / "tests/iommu_model")
    shutil.copytree(paths.ROOT / DRIVER, folder / DRIVER)
    return folder


def run(program: Path, seconds: str) -> subprocess.CompletedProcess[str]:
    """A run; a hang counts as an error."""
    args = ["timeout", "-k", "1", "90", str(program), seconds]
    env = {**os.environ, "TSAN_OPTIONS": "exitcode=66 halt_on_error=1"}
    return subprocess.run(args, capture_output=True, text=True, env=env)


@pytest.mark.parametrize("target", ["model", "model-tsan"])
def test_every_translation_is_right(tmp_path: Path, target: str) -> None:
    """Mapped pages are found, unmapped ones are not, all tables are freed, and the race was met."""
    done = run(build(copy(tmp_path), target), SECONDS)
    assert done.returncode == 0, done.stderr[-3000:]
    figures = dict(word.split("=") for word in done.stdout.split())
    assert int(figures["translations"]) > 0
    assert int(figures["freed"]) > 0
    assert int(figures["retries"]) > 0


@pytest.mark.parametrize("breakage", BREAKAGES, ids=[each.name for each in BREAKAGES])
def test_model_notices(tmp_path: Path, breakage: Breakage) -> None:
    """Without the rule, the model fails: by an error, an assertion or a crash."""
    source = copy(tmp_path) / DRIVER / breakage.file
    text = source.read_text()
    assert text.count(breakage.old) == 1
    source.write_text(text.replace(breakage.old, breakage.new))
    assert run(build(tmp_path, "model"), BROKEN_SECONDS).returncode != 0
