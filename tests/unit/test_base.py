# SPDX-License-Identifier: GPL-2.0
"""The base: its version and its checksum."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from ferry.errors import FerryError
from ferry.kernel import base

TOML = """\
package = "linux-source-6.12"
tarball = "/t"
version = "6.12"
archive = "a"
[sha256]
"6.12.1-1" = "abc"
"""


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "base.toml"
    path.write_text(TOML)
    return path


@pytest.mark.parametrize(("version", "checksum"), [("6.12.1-1", "abc"), ("6.12.99-1", None)])
def test_any_version_of_the_series_is_taken(
    fake_program: Callable[[str, str], Path], toml: Path, version: str, checksum: str | None
) -> None:
    fake_program("dpkg-query", f'case "$3" in *Version*) printf {version};; *) echo "ii ";; esac')
    assert base.find(toml) == base.Base("linux-source-6.12", version, Path("/t"), checksum, "6.12.1-1", "a")


@pytest.mark.parametrize("version", ["6.13.1-1", "6.1.12-1", "6.121-1"])
def test_another_series_is_refused(
    fake_program: Callable[[str, str], Path], toml: Path, version: str
) -> None:
    fake_program("dpkg-query", f'case "$3" in *Version*) printf {version};; *) echo "ii ";; esac')
    with pytest.raises(FerryError, match=r"patches are for 6\.12\.y, which is at a"):
        base.find(toml)


def test_a_damaged_tarball_is_refused(linux: base.Base) -> None:
    base.verify(linux)
    with linux.tarball.open("ab") as file:
        file.write(b"x")
    with pytest.raises(FerryError, match="is damaged"):
        base.verify(linux)


def test_an_unknown_version_is_noted(linux: base.Base, capsys: pytest.CaptureFixture[str]) -> None:
    base.verify(dataclasses.replace(linux, sha256=None))
    assert "6.12.1-1 is new to Ferry" in capsys.readouterr().err
