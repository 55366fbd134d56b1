# SPDX-License-Identifier: GPL-2.0
"""A kernel's package is signed as a whole, and nothing else of it changes."""

import hashlib
import subprocess
from pathlib import Path

import pytest

from ferry import paths
from ferry.errors import UsageError
from ferry.kernel import config, deb, kbuild, sign
from tests.unit.conftest import FakeProgram

CONTROL = (
    "Package: linux-image-6.12-ferry\nVersion: 1\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n"
)
PEM = "".join(f"-----BEGIN {name}-----\n-----END {name}-----\n" for name in ("PRIVATE KEY", "CERTIFICATE"))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One with a kernel and a module."""
    monkeypatch.setattr(paths, "BUILD", tmp_path)
    root = tmp_path / "root"
    for name, text in (
        ("boot/vmlinuz-6.12-ferry", "kernel"),
        ("lib/modules/6.12-ferry/dcbm.ko", "module"),
        ("DEBIAN/control", CONTROL),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "boot/vmlinuz-6.12-ferry").chmod(0o600)
    sums = [
        f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n"
        for path in (root / "boot/vmlinuz-6.12-ferry", root / "lib/modules/6.12-ferry/dcbm.ko")
    ]
    (root / "DEBIAN/md5sums").write_text("".join(sums))
    made = tmp_path / "linux-image.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", root, made], check=True, capture_output=True)
    return made


def test_the_kernel_in_it_is_signed_and_all_else_stays(
    package: Path, tmp_path: Path, fake_program: FakeProgram
) -> None:
    key = tmp_path / "key.pem"
    key.write_text(PEM)
    fake_program("sbsign", 'printf " signed" >>"$6"')
    fake_program("sbverify", f'grep -q signed "$3" && touch {tmp_path}/verified')
    sign.package(package, sign.check_key(str(key)))
    assert (tmp_path / "verified").exists()
    new = tmp_path / "new"
    subprocess.run(["dpkg-deb", "-R", package, new], check=True)
    kernel = new / "boot/vmlinuz-6.12-ferry"
    assert kernel.read_text() == "kernel signed"
    assert kernel.stat().st_mode & 0o777 == 0o600
    done = subprocess.run(["md5sum", "-c", "DEBIAN/md5sums"], cwd=new, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    owners = subprocess.run(["dpkg-deb", "-c", package], capture_output=True, text=True, check=True).stdout
    assert all(" root/root " in line for line in owners.splitlines())


@pytest.mark.parametrize("text", ["", PEM.partition("-----BEGIN CERT")[0]])
def test_a_key_without_its_certificate_is_refused_before_anything_is_built(tmp_path: Path, text: str) -> None:
    key = tmp_path / "key.pem"
    key.write_text(text)
    with pytest.raises(UsageError, match=r"has no .*CERTIFICATE in PEM"):
        deb.build(deb.Choice(sign=str(key)))


def test_modules_are_signed_where_the_kernel_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian's key is not in its source; without a signature Secure Boot refuses modules, too."""
    monkeypatch.setattr(kbuild, "make", lambda *args, **named: None)
    monkeypatch.setattr(config, "verify", lambda *args: None)
    for signed in (False, True):
        deb.configure(tmp_path, "CONFIG_MODULE_SIG=y\n", None, signed=signed)
        options = config.parse((tmp_path / ".config").read_text())
        assert options.get("CONFIG_MODULE_SIG_ALL", "n") == ("y" if signed else "n")
