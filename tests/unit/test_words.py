# SPDX-License-Identifier: GPL-2.0
"""README's first screen is short, and no page has sentences that must be read twice."""

import re
from pathlib import Path

import pytest

from ferry import paths

PAGES = [paths.ROOT / "README.md", *sorted((paths.ROOT / "docs").glob("*.md"))]
MOST_WORDS = 40
FIRST_SCREEN = (paths.ROOT / "README.md").read_text().partition("\n## Where things are\n")[0]
# Names, which are no figures: of Linux and Debian, of companies' and others' things.
NAMES = r"Linux \d+\.\d+|Debian \d+|python3|RFC v\d+|GPL-[\d.]+"


def _paragraphs(text: str) -> list[str]:
    """Prose, a paragraph or an item of a list each: no code, table, head, comment or picture."""
    paragraphs: list[str] = [""]
    for line in re.sub(r"<!--.*?-->|^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE).splitlines():
        if not line.strip() or line.startswith(("    ", "|", "#")):
            paragraphs.append("")
        elif item := re.match(r"\s*(?:[-*]|\d+\.)\s+(.*)", line):
            paragraphs.append(item[1])
        else:
            paragraphs[-1] += f" {line.strip()}"
    return [each for each in paragraphs if each.strip()]


def sentences(text: str) -> list[str]:
    """Each ends with a stop, or with what a colon or semicolon announces as a sentence of its own."""
    return [one for each in _paragraphs(text) for one in re.split(r"(?<=[.!?:;])\s+(?=[A-Z`\[*(])", each)]


def words(sentence: str) -> int:
    """How many; an address is none."""
    return len(re.sub(r"\]\([^)]*\)", "]", sentence).split())


def test_a_sentence_is_counted_once() -> None:
    text = "# Head\n\nOne two. Three\nfour [five](six seven).\n\n- Eight.\n\n    code code\n| a | b |\n"
    assert [words(each) for each in sentences(text)] == [2, 3, 1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_are_short(page: Path) -> None:
    long = [each for each in sentences(page.read_text()) if words(each) > MOST_WORDS]
    assert not long, "\n".join(long)


def test_the_first_screen_is_one() -> None:
    """Without names and addresses, so what is counted is what a reader has to hold in mind: of the table
    three figures for each way to copy."""
    assert len(FIRST_SCREEN.splitlines()) <= 60
    text = re.sub(r"\]\([^)]*\)|<!--.*?-->|" + NAMES, "", FIRST_SCREEN)
    numbers = re.findall(r"(?<![\w.])\d[\d.,]*\b", text)
    assert len(numbers) <= 28, numbers
    assert "bound" not in FIRST_SCREEN
