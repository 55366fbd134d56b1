# SPDX-License-Identifier: GPL-2.0
"""What make deb makes: the tools' package is whole and clean, and Debian's config becomes Ferry's kernel."""

import re
import subprocess
from pathlib import Path

import pytest

from ferry import packages, paths, proc, tools
from ferry.kernel import config, deb, tree
from ferry.vm import disk

pytestmark = pytest.mark.vm


def test_package_of_the_tools_is_whole_and_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages.ensure(["lintian"])
    monkeypatch.setattr(paths, "OUT", tmp_path)
    package = tools.build()
    listed = proc.output(["dpkg-deb", "--contents", package])
    for name in (
        *("usr/bin/migbench", "usr/sbin/ferryctl", "usr/sbin/iova_stress", "etc/ferry.conf"),
        *("man1/migbench.1.gz", "man8/ferryctl.8.gz", "man8/iova_stress.8.gz"),
        *("lib/systemd/system/ferry.service", "bash-completion/completions/ferryctl"),
        *(
            "share/ferry-tools/ferryctl_tune.py",
            "examples/migrator/my_migrator.c",
            "examples/migrator/Kbuild",
        ),
    ):
        assert name in listed
    command = ["lintian", "--fail-on", "error,warning", "--allow-root", str(package)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    proc.run(["dpkg-deb", "-x", package, tmp_path / "root"], title="unpack")
    assert "--json" in proc.output([tmp_path / "root/usr/bin/migbench", "--help"])
    assert "apply" in proc.output([tmp_path / "root/usr/sbin/ferryctl", "--help"])
    assert list((tmp_path / "root/usr/share/ferry-tools").glob("**/*.pyc")) == []


@pytest.fixture
def out() -> Path:
    """A build directory of the patched source."""
    folder = tree.assemble_current() / "out-deb-test"
    folder.mkdir(exist_ok=True)
    return folder


def test_what_the_kernel_asks_for_is_installed(out: Path) -> None:
    """dpkg-buildpackage packs nothing without it, after all is compiled."""
    written = (out.parent / "scripts/package/mkdebian").read_text()
    asked = re.findall(r"^Build-Depends[^:]*:(.*?)^(?=\S)", written, re.MULTILINE | re.DOTALL)
    names = {each for line in asked for each in re.findall(r"(?:^|,)\s*([a-z0-9-]+)", line)}
    assert {"debhelper-compat", "bison", "libssl-dev"} <= names
    # debhelper is debhelper-compat, and the compiler's name ends with the architecture.
    assert names - {"debhelper-compat", "gcc-"} <= {*deb.PACKAGES}


def _modules(options: config.Options) -> int:
    return sum(value == "m" for value in options.values())


def test_debians_config_becomes_an_operators_kernel(out: Path, tmp_path: Path) -> None:
    """With the modules of a server, and with all: Ferry and its engines, no tests, what was said left out."""
    start = deb._start(deb.DEBIAN)
    assert start
    loaded = tmp_path / "modules"
    loaded.write_text("ext4 1 0 - Live 0x0\nnvme 1 0 - Live 0x0\nixgbe 1 0 - Live 0x0\n")
    counts = []
    for modules in (None, loaded):
        deb.configure(out, start, modules)
        options = config.parse((out / ".config").read_text())
        counts.append(_modules(options))
        ferry = ("MIGRATE_OFFLOAD_MTCOPY", "MIGRATE_OFFLOAD_DCBM")
        for name in (*ferry, "AMD_PTDMA", "INTEL_IOATDMA", "INTEL_IDXD", "PLX_DMA", "EXT4_FS", "IXGBE"):
            assert options[f"CONFIG_{name}"] == "m", name
        assert options["CONFIG_MIGRATE_PTE_RUNS"] == options["CONFIG_MIGRATE_BULK"] == "y"
        tests = [name for name in options if "KUNIT" in name or name == "CONFIG_SOFTDMA"]
        assert {options[name] for name in tests} <= {"n"}
        assert options.get("CONFIG_DEBUG_INFO_BTF", "n") == "n"
    assert counts[0] > 3000
    assert counts[1] < 300


def test_the_kernel_of_the_first_day_finds_its_disk(out: Path, tmp_path: Path) -> None:
    """From Debian's config for virtual machines, with the modules of that guest."""
    listed = tmp_path / "modules"
    listed.write_text("".join(f"{name}\n" for name in disk.MODULES))
    deb.configure(out, deb._start(deb.CLOUD), listed)
    found = config.parse((out / ".config").read_text())
    for name in ("VIRTIO_PCI", "VIRTIO_BLK", "EXT4_FS", "AUTOFS_FS", "FHANDLE", "NAMESPACES", "SERIAL_8250"):
        assert found[f"CONFIG_{name}"] in ("m", "y"), name
    assert found["CONFIG_MIGRATE_OFFLOAD_MTCOPY"] == "m"
    assert _modules(found) < 150


def test_tests_come_if_they_are_asked_for(out: Path) -> None:
    deb.configure(out, deb._start(deb.DEBIAN), None, tests=True)
    found = config.parse((out / ".config").read_text())
    assert (found["CONFIG_SOFTDMA"], found["CONFIG_AMD_PTDMA_KUNIT_TEST"]) == ("m", "m")


def test_the_labs_config_is_an_operators_kernel_too(out: Path) -> None:
    """Where there is no other: make deb in a container."""
    deb.configure(out, None, None)
    found = config.parse((out / ".config").read_text())
    assert found["CONFIG_MIGRATE_OFFLOAD_DCBM"] == "m"
    assert found.get("CONFIG_SOFTDMA", "n") == "n"
