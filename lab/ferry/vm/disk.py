# SPDX-License-Identifier: GPL-2.0
"""A disk with Debian 12 as its installer would leave it: its own kernel, GRUB, systemd, a few programs.

build/debian/disk.img    what guests start from, and write to a copy of
build/debian/disk.key    what it was made of

mmdebstrap makes the files from the mirrors of this machine, mke2fs a file system of them, and a first boot
writes GRUB into it, so that no loop device is needed. Beside Debian's there are a service that runs what
comes over the second serial port (guest/operator.sh), and the Python packages of ./ferry at
/srv/ferry/build/venv, because a guest has no network.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from ferry import files, packages, paths, proc
from ferry.errors import FerryError
from ferry.progress import Step
from ferry.vm import qemu, serial
from ferry.vm.machine import Machine

PLACE = paths.BUILD / "debian"
SUITE = "bookworm"
TOOLS = ("mmdebstrap", "debian-archive-keyring", "e2fsprogs", "fdisk", "qemu-system-x86")
# Debian's system and kernel; what an operator uses; and what ./ferry table --here asks for.
INSTALLED = (
    *("systemd-sysv", "udev", "kmod", "linux-image-cloud-amd64", "initramfs-tools", "zstd", "grub-pc"),
    *("e2fsprogs", "procps", "numactl", "redis-server"),
    *("python3", "python3-venv", "git", "make", "gcc", "libc6-dev", "libnuma-dev"),
)
# What Debian's kernel has loaded there: a list for ./ferry kernel deb --modules.
MODULES = (
    *("autofs4", "button", "configfs", "crc32c_generic", "crc32c_intel", "dm_mod", "efi_pstore", "evdev"),
    *("ext4", "fuse", "loop", "pcspkr", "serio_raw"),
    *("virtio_blk", "virtio_console", "virtio_pci", "virtio_rng"),
)
CHECKOUT = "srv/ferry"
SIZE = 6 << 30
FIRST_SECTOR = 2048
SECTOR = 512
INSTALL_S = 900.0
ROOT_LABEL, STICK_LABEL = "ferry-root", "ferry-stick"
_FETCHED = ("Acquire::http", "Acquire::https", "Acquire::Check-")

CONFIGURED = {
    "etc/hostname": "debian\n",
    "etc/fstab": f"LABEL={ROOT_LABEL} / ext4 errors=remount-ro 0 1\n",
    # An emulated machine on a busy host is slower than systemd's patience of 90 s.
    "etc/systemd/system.conf.d/patience.conf": "[Manager]\nDefaultTimeoutStartSec=15min\n"
    "DefaultTimeoutStopSec=15min\nDefaultDeviceTimeoutSec=15min\n",
    # All that the kernel says goes to the serial console, to be judged.
    "etc/default/grub": "GRUB_DEFAULT=0\nGRUB_TIMEOUT=1\nGRUB_TERMINAL=serial\nGRUB_DISTRIBUTOR=Debian\n"
    'GRUB_CMDLINE_LINUX="console=ttyS0 panic=10"\n',
}
SCRIPTS = {
    "usr/local/sbin/operator": qemu.GUEST / "operator.sh",
    "etc/systemd/system/operator.service": qemu.GUEST / "operator.service",
}
# Run natively in the new system, with Debian's Python; the second line is matplotlib's list of fonts, which
# takes minutes in an emulated guest.
VENV = """
cd /srv/ferry && export HOME=/root PIP_NO_INDEX=1 PIP_FIND_LINKS=/srv/ferry/wheels
/usr/bin/python3 -c 'import runpy; it = runpy.run_path("ferry"); it["make_venv"]([it["REQUIREMENTS"]])'
build/venv/bin/python -c 'import matplotlib.font_manager'
rm -rf wheels
"""
GRUB = "grub-install /dev/vda && update-grub && sync"


def image() -> Path:
    """The disk, made if there is none of what it is to be made of."""
    disk, key = PLACE / "disk.img", PLACE / "disk.key"
    with files.locked(PLACE / "lock"):
        # Newer packages of Debian's are not looked for.
        made_of = [Path(__file__), paths.ROOT / "ferry", paths.ROOT / "lab/requirements.txt"]
        wanted = files.digest(*(part for path in [*made_of, *SCRIPTS.values()] for part in (path.name, path)))
        if files.read(key) != wanted or not disk.is_file():
            key.unlink(missing_ok=True)
            _make(disk)
            files.write(key, wanted)
    return disk


def stick(folder: Path, target: Path) -> None:
    """A file system with what a folder has, for a second drive."""
    used = sum(path.lstat().st_size for path in folder.rglob("*"))
    _filesystem(target, folder, STICK_LABEL, 0, used * 3 // 2 + (64 << 20))


def _make(disk: Path) -> None:
    if os.geteuid():
        raise FerryError("making a Debian system needs root: run ./ferry day as root, or with sudo")
    packages.ensure(TOOLS)
    with tempfile.TemporaryDirectory(prefix="debian-", dir=paths.BUILD) as name:
        folder = Path(name)
        root, scratch = folder / "root", folder / "disk.img"
        _debootstrap(root, folder / "sources")
        _configure(root)
        _partition(scratch)
        _filesystem(scratch, root, ROOT_LABEL, FIRST_SECTOR * SECTOR, SIZE - FIRST_SECTOR * SECTOR)
        _install_grub(scratch, root)
        scratch.replace(disk)


def _debootstrap(root: Path, sources: Path) -> None:
    sources.write_text("".join(f"deb [signed-by={packages.KEYRING}] {at}\n" for at in packages.mirrors()))
    fetched = proc.output(["apt-config", "dump", "Acquire"]).splitlines()
    options = [f"--aptopt={line.rstrip(';')}" for line in fetched if line.startswith(_FETCHED)]
    command = ["mmdebstrap", "--mode=root", "--variant=minbase", f"--include={','.join(INSTALLED)}"]
    proc.run([*command, *options, SUITE, root, sources], title="install Debian into a folder", grace_s=60.0)
    # How this machine reaches its mirrors is not that one's concern.
    (root / "etc/apt/apt.conf.d/99mmdebstrap").unlink(missing_ok=True)


def _configure(root: Path) -> None:
    for name, text in CONFIGURED.items():
        files.write(root / name, text)
    for name, path in SCRIPTS.items():
        shutil.copy(path, root / name)
    inside: list[str | Path] = ["chroot", root]
    proc.output([*inside, "systemd-machine-id-setup"])
    proc.output([*inside, "systemctl", "enable", "operator.service"])
    checkout = root / CHECKOUT
    (checkout / "lab").mkdir(parents=True)
    shutil.copy(paths.ROOT / "ferry", checkout)
    shutil.copy(paths.ROOT / "lab/requirements.txt", checkout / "lab")
    shutil.copytree(paths.ROOT / "lab/ferry", checkout / "lab/ferry")
    fetch = ["-m", "pip", "download", "-q", "--python-version", "3.11", "--only-binary=:all:"]
    listed: list[str | Path] = ["-r", paths.ROOT / "lab/requirements.txt", "-d", checkout / "wheels"]
    python = paths.BUILD / "venv/bin/python"
    proc.run([python, *fetch, *listed], title="fetch the Python packages")
    proc.run([*inside, "sh", "-ec", VENV], title="install the Python packages")


def _partition(disk: Path) -> None:
    """One partition; what is before it is GRUB's."""
    with disk.open("wb") as file:
        file.truncate(SIZE)
    layout = f"label: dos\nstart={FIRST_SECTOR}, type=83, bootable\n"
    proc.output(["sfdisk", "--quiet", disk], input_text=layout)


def _filesystem(disk: Path, folder: Path, label: str, at: int, size: int) -> None:
    options = ("-q", "-F", "-t", "ext4", "-L", label, "-E", f"offset={at}", "-d", folder)
    proc.run(["mke2fs", *options, disk, f"{size >> 10}k"], title=f"make the file system {label}")


def _install_grub(disk: Path, root: Path) -> None:
    """Boot the kernel from outside, once."""
    kernel, initrd = (next((root / "boot").glob(f"{name}-*")) for name in ("vmlinuz", "initrd.img"))
    words = f"root=LABEL={ROOT_LABEL} console=ttyS0"
    boot = ("-kernel", str(kernel), "-initrd", str(initrd), "-append", words)
    # For one CPU Debian's emulator does.
    program = ("qemu-system-x86_64",)
    where = Machine("debian", cpus=1, cpu_nodes=1, nodes=1, node_mib=1024, program=program)
    with (
        Step("boot Debian to install GRUB"),
        serial.Guest(where, [*serial.drive(disk, keep=True), *boot], name="grub") as guest,
    ):
        guest.ready(INSTALL_S)
        said = guest.run(GRUB, INSTALL_S)
        if said.status:
            raise FerryError(f"GRUB cannot be installed into a new disk:\n{said.text}")
        guest.power_off(INSTALL_S)
