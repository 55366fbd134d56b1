# SPDX-License-Identifier: GPL-2.0
"""Packages: apt is asked for what is missing only, and its failures are explained."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ferry import packages, paths
from ferry.errors import FerryError

DPKG = 'for name; do :; done; grep -qx "$name" "$(dirname "$0")/installed" && echo "ii "'
CACHE = 'grep -qx "$2" "$(dirname "$0")/known" && echo "  Candidate: 1.0" || echo "  Candidate: (none)"'


@pytest.fixture
def apt(fake_program: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system of which 'here' is installed and 'there' could be; apt-get logs its arguments."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    fake_program("dpkg-query", DPKG)
    fake_program("apt-cache", CACHE)
    folder = fake_program("apt-get", 'echo "$@" >> "$(dirname "$0")/asked"')
    (folder / "installed").write_text("here\n")
    (folder / "known").write_text("here\nthere\n")
    return folder


def test_nothing_is_asked_of_apt_if_nothing_is_missing(apt: Path) -> None:
    packages.ensure(["here"])
    assert not (apt / "asked").exists()


def test_only_what_is_missing_is_installed(apt: Path) -> None:
    packages.ensure(["here", "there", "there"])
    assert (apt / "asked").read_text() == "install -y -q --no-install-recommends there\n"


def test_two_at_once_wait_for_each_other(
    apt: Path, fake_program: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """dpkg fails if another installs, and what that one has installed is not missing any more."""
    monkeypatch.setattr(paths, "BUILD", tmp_path)
    fake_program(
        "apt-get",
        f"mkdir {tmp_path}/dpkg || exit 100; sleep 0.3; rmdir {tmp_path}/dpkg; "
        'echo there >>"$(dirname "$0")/installed"; echo "$@" >>"$(dirname "$0")/asked"',
    )
    with ThreadPoolExecutor(2) as pool:
        for each in [pool.submit(packages.ensure, ["there"]) for _ in range(2)]:
            each.result()
    assert len((apt / "asked").read_text().splitlines()) == 1


def test_a_package_that_apt_lacks_is_named_after_an_update(apt: Path) -> None:
    with pytest.raises(FerryError, match="apt has no package nosuch;"):
        packages.ensure(["nosuch", "there"])
    assert (apt / "asked").read_text() == "update -q --error-on=any\n"


def test_no_network_is_said_as_such(apt: Path, fake_program: Callable[[str, str], Path]) -> None:
    fake_program("apt-get", 'echo "Could not resolve host"; exit 100')
    with pytest.raises(FerryError, match="check the network") as caught:
        packages.ensure(["nosuch"])
    assert "Could not resolve host" in str(caught.value)
    with pytest.raises(FerryError, match=r"could not install there; is there a network\?"):
        packages.ensure(["there"])


def test_without_root_and_sudo_the_command_to_run_is_shown(
    apt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("shutil.which", lambda name: None if name == "sudo" else f"/bin/{name}")
    with pytest.raises(FerryError, match="apt-get install there"):
        packages.ensure(["there"])


def test_a_package_of_another_suite_is_fetched_with_lists_of_its_own(
    apt: Path, fake_program: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every file that apt writes or reads beside its keys is in the folder."""
    monkeypatch.setattr(packages, "mirrors", lambda: ["http://s/debian-security/ x main", "http://m/ x main"])
    (apt / "installed").write_text("debian-archive-keyring\n")
    fake_program(
        "apt-get",
        'echo "$@" >>"$(dirname "$0")/asked"\n'
        'case "$*" in *download*) touch there_1_all.deb there_2_all.deb;; esac',
    )
    folder = tmp_path / "package"
    assert packages.fetch("there", "later", folder, "arm64") == folder / "there_2_all.deb"
    update, download = (apt / "asked").read_text().splitlines()
    for line in (update, download):
        for name in ("SourceList", "State::Lists", "Cache"):
            assert f"{name}={folder}/apt" in line
        for setting in ("SourceParts=/dev/null", "APT::Architecture=arm64", "APT::Architectures=arm64"):
            assert setting in line
    assert update.endswith(" update --error-on=any")
    assert download.endswith(" download there")
    assert (folder / "apt/sources.list").read_text().endswith("http://m/ later main\n")


def test_a_suite_that_cannot_be_fetched_is_named(
    apt: Path, fake_program: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(packages, "mirrors", lambda: ["http://m/ x main"])
    (apt / "installed").write_text("debian-archive-keyring\n")
    fake_program("apt-get", "echo E: no; exit 100")
    with pytest.raises(FerryError, match="cannot fetch there of later; is there a network"):
        packages.fetch("there", "later", tmp_path / "package")
