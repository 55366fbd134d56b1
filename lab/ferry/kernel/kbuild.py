# SPDX-License-Identifier: GPL-2.0
"""Kernels: one frozen row per flavour, built incrementally, trusted only when a build ended well."""

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ferry import files, packages, proc
from ferry.errors import choose
from ferry.kernel import config, tree
from ferry.kernel.tree import Places

PACKAGES = (
    "gcc", "libc6-dev", "make", "git", "bc", "bison", "flex", "libelf-dev", "libssl-dev",
    "xz-utils", "kmod", "ccache",
)  # fmt: skip

COMPILER = Path(__file__).with_name("cached-gcc")
# Equal inputs give an equal kernel, and flavours share objects.
ENV = {
    "LC_ALL": "C",
    "CCACHE_NOHASHDIR": "1",
    "KBUILD_BUILD_USER": "ferry",
    "KBUILD_BUILD_HOST": "ferry",
    "KBUILD_BUILD_VERSION": "1",
    "KBUILD_BUILD_TIMESTAMP": "2026-01-01",
}

_STEP = re.compile(r"  (?:CC|LD|AR|AS|HOSTCC|HOSTLD) (?:\[M\])?\s+(\S+)")


@dataclass(frozen=True)
class Arch:
    """An architecture to build for, on x86-64."""

    name: str  # make's ARCH
    image: str  # in the build directory
    cross: str = ""  # what the names of its compiler and linker begin with
    packages: tuple[str, ...] = ()  # beside PACKAGES: the compiler, and the C library for kselftests

    @property
    def words(self) -> tuple[str, ...]:
        """For make."""
        compiler = COMPILER.with_name(self.cross + COMPILER.name)
        return (f"ARCH={self.name}", f"CROSS_COMPILE={self.cross}", f"CC={compiler}") if self.cross else ()


X86 = Arch("x86", "arch/x86/boot/bzImage")
ARM64 = Arch(
    *("arm64", "arch/arm64/boot/Image", "aarch64-linux-gnu-"),
    packages=("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"),
)


@dataclass(frozen=True)
class Flavour:
    """A kernel that Ferry builds."""

    name: str
    fragments: tuple[str, ...]  # in kernel/config, and in that of a base
    patched: bool  # with Ferry's patches and files
    steps: int  # lines that a build from scratch prints, for the progress
    arch: Arch = X86


FLAVOURS = {
    f.name: f
    for f in (
        Flavour("vanilla", ("common",), patched=False, steps=2160),
        Flavour("ferry", ("common", "ferry", "test"), patched=True, steps=2200),
        Flavour("debug", ("common", "ferry", "test", "kunit", "debug"), patched=True, steps=2500),
        # As ferry, with the tests that are compiled in: debug without what makes it slow.
        Flavour("kunit", ("common", "ferry", "test", "kunit"), patched=True, steps=2200),
        Flavour("kcsan", ("common", "ferry", "test", "kcsan"), patched=True, steps=2300),
        Flavour("unbatched", ("common", "ferry", "test", "unbatched"), patched=True, steps=2200),
        Flavour("iommu-kcsan", ("iommu", "kcsan"), patched=True, steps=1000),
        Flavour("arm64", ("arm64",), patched=True, steps=1000, arch=ARM64),
    )
}


@dataclass(frozen=True)
class Kernel:
    """A kernel that is built."""

    flavour: str
    release: str  # uname -r
    image: Path  # bzImage; of arm64 Image
    modules_dir: Path  # has lib/modules/RELEASE
    build_dir: Path  # make's O=
    source_dir: Path


def flavour(name: str) -> Flavour:
    choose("kernel flavour", [name], FLAVOURS)
    return FLAVOURS[name]


def build(name: str, places: Places | None = None) -> Kernel:
    """Build a flavour (vanilla, ferry, debug) unless it is up to date; raises FerryError."""
    row, places = flavour(name), places or tree.HERE
    packages.ensure((*PACKAGES, *row.arch.packages))
    with files.locked(places.build / "kernel.lock"):
        out = prepare(row, places)
        parts = (repr(row), tree.fingerprint(out.parent, places), out / ".config", _compiler(row.arch))
        print_ = files.digest(*parts)
        stamp = out / "ferry-built.json"
        done = json.loads(files.read(stamp) or "{}")
        if done.get("fingerprint") != print_:
            stamp.unlink(missing_ok=True)
            steps = None if (out / "vmlinux").exists() else row.steps
            targets = (Path(row.arch.image).name, "modules")
            make(out, *row.arch.words, *targets, title=f"build {row.name}", on_line=counter(steps))
            install_modules(row, out)
            files.write(stamp, json.dumps({"fingerprint": print_}))
        return _kernel(row, out)


def make(out: Path, *targets: str, title: str, on_line: Callable[[str], str | None] | None = None) -> None:
    """Run the kernel's make in a build directory; its source is the directory above."""
    jobs = len(os.sched_getaffinity(0))
    name = out.name.removeprefix("out-")
    compilers = (f"CC={COMPILER}", f"HOSTCC={COMPILER}")
    where = ("-C", str(out.parent), f"O={out}", f"LOCALVERSION=-{name}")
    proc.run(("make", f"-j{jobs}", *where, *compilers, *targets), title=title, env=ENV, on_line=on_line)


def prepare(row: Flavour, places: Places) -> Path:
    """Assemble the source of a flavour and configure it; returns the build directory.

    The build directory lies in the source tree: then Kbuild uses relative paths only, and ccache
    finds the objects of one tree again in the other. kernel-NAME beside the tree is a link to it.
    """
    source = tree.assemble_current(places)
    if not row.patched:
        source = tree.vanilla(places)
    out = source / f"out-{row.name}"
    out.mkdir(exist_ok=True)
    files.link(places.build / f"kernel-{row.name}", out)
    _configure(row, out, places)
    if row.name == "ferry":
        plain = config.parse((prepare(FLAVOURS["vanilla"], places) / ".config").read_text())
        config.verify_same(plain, config.parse((out / ".config").read_text()), own_options(places))
    return out


def own_options(places: Places) -> set[str]:
    """The names of the options that Ferry adds to Linux."""
    kconfigs = (places.source(n) for n in places.src_files() if n.name.startswith("Kconfig"))
    texts = [p.read_text() for p in kconfigs]
    return config.defined([*texts, *(config.added(p.read_text()) for p in places.patch_files())])


def _configure(row: Flavour, out: Path, places: Places) -> None:
    """Make .config from the fragments, unless it was made from the same before."""
    options = config.merge(places.fragments(row.fragments))
    stamp = out / "ferry-configured"
    settings = sorted(ENV.items())
    # Kconfig asks the compiler, and what ENV says can change its answers.
    state = files.digest(
        config.render(options), tree.fingerprint(out.parent, places), _compiler(row.arch), repr(settings)
    )
    if files.read(stamp) == state:
        return
    stamp.unlink(missing_ok=True)
    scratch = out / ".config.new"
    words = (*row.arch.words, f"KCONFIG_CONFIG={scratch}")
    set_options(out, options, *words, title=f"configure {row.name}")
    config.verify(options, config.parse(scratch.read_text()))
    files.write(out / ".config", scratch.read_text())
    files.write(stamp, state)


def set_options(out: Path, options: config.Options, *words: str, title: str = "configure") -> None:
    """Have Kconfig make a .config of options alone, and what they need."""
    files.write(out / "ferry.config", config.render(options))
    make(out, f"KCONFIG_ALLCONFIG={out / 'ferry.config'}", *words, "allnoconfig", title=title)


def _compiler(arch: Arch) -> str:
    return "".join(proc.output([f"{cross}gcc", "--version"]) for cross in dict.fromkeys(("", arch.cross)))


def step(line: str) -> str | None:
    """The file that a line of make's output is about."""
    file = _STEP.match(line)
    return file[1] if file else None


def counter(total: int | None = None) -> Callable[[str], str | None]:
    """For on_line: what make does now, and how many of how many steps that is."""
    count = 0

    def progress(line: str) -> str | None:
        nonlocal count
        name = step(line)
        count += name is not None
        of = f"/{max(total, count)}" if total else ""
        return f"{count}{of} {name}" if name else None

    return progress


def install_modules(row: Flavour, out: Path) -> None:
    """Install the modules into the build directory, all or nothing."""
    scratch = out / "modules.new"
    shutil.rmtree(scratch, ignore_errors=True)
    options = (f"INSTALL_MOD_PATH={scratch}", "INSTALL_MOD_STRIP=1", "modules_install")
    make(out, *row.arch.words, *options, title=f"install modules of {row.name}")
    shutil.rmtree(out / "modules", ignore_errors=True)
    scratch.rename(out / "modules")


def _kernel(row: Flavour, out: Path) -> Kernel:
    return Kernel(
        flavour=row.name,
        release=(out / "include/config/kernel.release").read_text().strip(),
        image=out / row.arch.image,
        modules_dir=out / "modules",
        build_dir=out,
        source_dir=out.parent,
    )
