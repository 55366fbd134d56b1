# SPDX-License-Identifier: GPL-2.0
"""make deb says what it leaves out, before it builds."""

import lzma
from pathlib import Path

import pytest

from ferry.errors import FerryError
from ferry.kernel import config, deb
from ferry.kernel.deb import Choice

DEBIANS = "CONFIG_DEBUG_INFO_BTF=y\nCONFIG_INTEL_IOMMU=y\n"


@pytest.mark.parametrize(
    ("choice", "start", "said"),
    [
        (Choice(), DEBIANS, ("BTF", "--all-modules", "--with-tests", "Secure Boot")),
        (Choice(all_modules=True, tests=True), DEBIANS, ("BTF", "Secure Boot")),
        (Choice(modules="/list"), DEBIANS, ("BTF", "/list does not list", "--with-tests", "Secure Boot")),
        (Choice(), None, ("--with-tests", "Secure Boot")),
        (Choice(tests=True, sign="key.pem"), None, ()),
    ],
)
def test_what_is_left_out_is_said(choice: Choice, start: str | None, said: tuple[str, ...]) -> None:
    lines = deb.left_out(choice, start)
    assert len(lines) == len(said)
    for line, word in zip(lines, said, strict=True):
        assert word in line


def test_packages_of_an_older_linux_give_way(tmp_path: Path) -> None:
    """ "apt install linux-image-*.deb" would take all of them."""
    source, target = tmp_path / "source", tmp_path / "target"
    for folder in (source, target):
        folder.mkdir()
    old = [f"linux-{kind}-6.12.9-ferry_6.12.9-1_amd64.deb" for kind in ("image", "headers")]
    new = [name.replace(".9", ".117") for name in old]
    for path in (
        *(target / name for name in (*old, "ferry-tools_1_amd64.deb")),
        *(source / name for name in new),
    ):
        path.write_text("")
    assert deb._collect(source, target) == sorted(target / name for name in new)
    assert sorted(path.name for path in target.iterdir()) == sorted([*new, "ferry-tools_1_amd64.deb"])


@pytest.mark.parametrize(("last", "on"), [(b"\1", True), (b"\0", False)])
def test_secure_boot_is_read_from_the_firmware(tmp_path: Path, last: bytes, on: bool) -> None:
    (tmp_path / "SecureBoot-8be4df61").write_bytes(b"\6\0\0\0" + last)
    assert deb._secure_boot(tmp_path) == on
    assert not deb._secure_boot(tmp_path / "nosuch")


def test_test_modules_are_not_wanted_unless_asked_for() -> None:
    plain, tests = (deb.ferry_options(DEBIANS, tests=with_tests) for with_tests in (False, True))
    assert "CONFIG_MIGRATE_OFFLOAD_MTCOPY" in plain
    assert not [name for name in plain if "SOFTDMA" in name or "KUNIT" in name]
    assert {"CONFIG_SOFTDMA", "CONFIG_AMD_PTDMA_KUNIT_TEST", "CONFIG_KUNIT"} <= tests.keys()


def test_a_compressed_config_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.xz").write_bytes(lzma.compress(DEBIANS.encode()))
    assert config.parse(deb.read(tmp_path / "config.xz"))["CONFIG_INTEL_IOMMU"] == "y"


def test_a_config_that_is_not_there_is_named() -> None:
    with pytest.raises(FerryError, match=r"no config /nosuch; .*'debian'"):
        deb._start("/nosuch")


def test_a_list_of_modules_that_is_not_there_is_named() -> None:
    with pytest.raises(FerryError, match="no list of modules /nosuch; lsmod"):
        deb.build(Choice(modules="/nosuch"))


@pytest.mark.parametrize(
    "text",
    ["ext4 1 0 - Live 0x0\nnvme 1 0\n", "Module  Size  Used by\next4 1 0\nnvme 2 1 ext4\n", "ext4\n\nnvme\n"],
)
def test_modules_are_read_as_proc_and_lsmod_have_them(tmp_path: Path, text: str) -> None:
    (tmp_path / "modules").write_text(text)
    listed = deb._lsmod(tmp_path, tmp_path / "modules").read_text().splitlines()
    assert listed == ["Module Size Used by", "ext4 0 0", "nvme 0 0"]
