# SPDX-License-Identifier: GPL-2.0
"""The base: its version and its checksum."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from ferry import packages
from ferry.errors import FerryError
from ferry.kernel import base
from tests.unit.conftest import FakeProgram

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
    assert base.find(toml, toml.parent) == base.Base(
        "linux-source-6.12", version, Path("/t"), checksum, "6.12.1-1", "a"
    )


@pytest.mark.parametrize("version", ["6.13.1-1", "6.1.12-1", "6.121-1"])
def test_another_series_is_refused(
    fake_program: Callable[[str, str], Path], toml: Path, version: str
) -> None:
    fake_program("dpkg-query", f'case "$3" in *Version*) printf {version};; *) echo "ii ";; esac')
    with pytest.raises(FerryError, match=r"patches are for 6\.12\.y, which is at a"):
        base.find(toml, toml.parent)


def test_a_damaged_tarball_is_refused(linux: base.Base) -> None:
    base.verify(linux)
    with linux.tarball.open("ab") as file:
        file.write(b"x")
    with pytest.raises(FerryError, match="is damaged"):
        base.verify(linux)


def test_an_unknown_version_is_noted(linux: base.Base, capsys: pytest.CaptureFixture[str]) -> None:
    base.verify(dataclasses.replace(linux, sha256=None))
    assert "6.12.1-1 is new to Ferry" in capsys.readouterr().err


@pytest.fixture
def fetched(fake_program: FakeProgram, toml: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A base of another suite; returns the names of what is fetched."""
    toml.write_text('suite = "later"\n' + TOML.replace("/t", "/usr/src/l.tar.xz"))
    names: list[str] = []

    def fetch(name: str, suite: str, folder: Path, architecture: str) -> Path:
        names.append(f"{name} of {suite}")
        folder.mkdir(exist_ok=True)
        (folder / f"{name}_6.12.1-1_all.deb").touch()
        return folder / f"{name}_6.12.1-1_all.deb"

    monkeypatch.setattr(packages, "fetch", fetch)
    unpack = 'mkdir -p "$3/usr/src" && echo tar > "$3/usr/src/l.tar.xz"'
    fake_program("dpkg-deb", f'case "$1" in -f) echo 6.12.1-1;; *) {unpack};; esac')
    return names


def test_a_package_of_another_suite_is_fetched_once_and_not_installed(
    fetched: list[str], toml: Path, tmp_path: Path
) -> None:
    first, second = (base.find(toml, tmp_path / "build") for _ in range(2))
    assert fetched == ["linux-source-6.12 of later"]
    assert first == second
    package = "linux-source-6.12_6.12.1-1_all"
    assert first.tarball == tmp_path / f"build/package/{package}/usr/src/l.tar.xz"
    assert first.tarball.read_text() == "tar\n"


def test_debians_configs_are_those_of_the_same_suite(fetched: list[str], toml: Path, tmp_path: Path) -> None:
    """Beside the source, of which another version may have been fetched earlier."""
    base.find(toml, tmp_path / "build")
    folder = base.config_folder(toml, tmp_path / "build")
    assert fetched == ["linux-source-6.12 of later", "linux-config-6.12 of later"]
    package = tmp_path / "build/package/linux-config-6.12_6.12.1-1_all"
    assert folder == package / "usr/src/linux-config-6.12"
    assert (package / "usr/src").is_dir()


def test_debians_configs_of_the_systems_suite_are_installed(
    toml: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(packages, "ensure", asked.extend)
    assert base.config_folder(toml, toml.parent) == Path("/usr/src/linux-config-6.12")
    assert asked == ["linux-config-6.12"]


def test_a_damaged_one_of_another_suite_is_fetched_again(
    fetched: list[str], toml: Path, tmp_path: Path
) -> None:
    linux = base.find(toml, tmp_path / "build")
    with pytest.raises(FerryError, match=f"run: rm -r {tmp_path}/build/package$"):
        base.verify(linux)
