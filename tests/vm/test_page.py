# SPDX-License-Identifier: GPL-2.0
"""The page of all results in a browser: nothing goes wrong, no picture is missing, a click sorts."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright

from ferry import packages
from ferry.results import figures, page

pytestmark = [pytest.mark.vm, pytest.mark.long]

CHROMIUM = "/usr/bin/chromium"
# Chromium refuses to be root otherwise. It reads nothing but files that were made here.
OPTIONS = ["--no-sandbox"] if os.geteuid() == 0 else []
PICTURES = "[...document.images].map(image => image.naturalWidth)"
COLUMN = "at => [...document.querySelector('table').tBodies[0].rows].map(row => row.cells[at].textContent)"


class Opened:
    """A page that was opened, and what went wrong with it."""

    def __init__(self, path: Path, browser: Page) -> None:
        self.page = browser
        self.wrong: list[str] = []
        browser.on("pageerror", lambda error: self.wrong.append(str(error)))
        browser.on("console", lambda message: self.wrong.append(message.text))
        browser.on("requestfailed", lambda request: self.wrong.append(request.url))
        browser.goto(path.as_uri())

    def pictures(self) -> list[int]:
        """The width of each; 0 of one that cannot be shown."""
        widths: list[int] = self.page.evaluate(PICTURES)
        return widths

    def column(self, number: int) -> list[str]:
        """What the first table has in a column, from above."""
        texts: list[str] = self.page.evaluate(COLUMN, number)
        return texts


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The page of the kept results, with its pictures."""
    page.write(figures.FOLDER, tmp_path)
    return tmp_path


@pytest.fixture
def browser() -> Iterator[Page]:
    packages.ensure(["chromium"])
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield chromium.new_page()
        chromium.close()


def test_nothing_is_wrong_with_the_page(folder: Path, browser: Page) -> None:
    opened = Opened(folder / "tables.html", browser)
    assert not opened.wrong
    assert len(opened.pictures()) == len(list(folder.glob("*.png")))
    assert all(opened.pictures())


def test_a_missing_picture_and_an_error_are_noticed(folder: Path, browser: Page) -> None:
    (folder / "profile.png").unlink()
    text = (folder / "tables.html").read_text()
    (folder / "tables.html").write_text(text.replace("<script>", "<script>nothing.such()\n"))
    opened = Opened(folder / "tables.html", browser)
    assert opened.pictures().count(0) == 1
    assert any("nothing is not defined" in wrong for wrong in opened.wrong)
    assert any("profile.png" in wrong for wrong in opened.wrong)


def test_a_click_on_a_head_sorts(folder: Path, browser: Page) -> None:
    opened = Opened(folder / "tables.html", browser)
    heads = opened.page.locator("table").first.locator("th")
    at = heads.all_inner_texts().index("GB/s")
    before = [float(text) for text in opened.column(at)]
    heads.nth(at).click()
    assert [float(text) for text in opened.column(at)] == sorted(before)
    assert sorted(before) != before
    heads.nth(at).click()
    assert [float(text) for text in opened.column(at)] == sorted(before, reverse=True)
    heads.nth(1).click()
    assert opened.column(1) == sorted(opened.column(1))
    assert not opened.wrong
