# SPDX-License-Identifier: GPL-2.0
"""The pages of a process: which there are, on which node they are, and how they are moved."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ferryctl_machine import Problem

PAGE = os.sysconf("SC_PAGE_SIZE")
HUGE = 2 << 20
MOVE, MOVE_ALL = 2, 4  # of <linux/mempolicy.h>
UNTRIED = 1 << 20  # in a status: the call ended before it came to this page
# Of <linux/fs.h>: struct pm_scan_arg is 12 numbers of 64 bits.
PAGEMAP_SCAN = 0xC0606610
IS_PRESENT, IS_ZERO, IS_HUGE = 1 << 3, 1 << 5, 1 << 6
REGIONS = 4096  # of one scan
# A kernel before 6.7 has no PAGEMAP_SCAN: eight bytes for each page, present or not.
ENTRIES = 1 << 16
PRESENT_BIT = 1 << 63


class Gone(Exception):
    """The process has ended."""


@dataclass(frozen=True)
class Region:
    """Pages that are there; huge ones have one address for 2 MiB."""

    start: int
    end: int
    huge: bool

    def addresses(self) -> range:
        """One for each page."""
        return range(self.start, self.end, HUGE if self.huge else PAGE)


class Process:
    """One whose pages are moved. Raises Gone when it has ended, Problem when nobody may touch it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        try:
            self._numa = ctypes.CDLL("libnuma.so.1", use_errno=True)
        except OSError as err:
            raise Problem("libnuma.so.1 is missing: install the package libnuma1") from err
        self._numa.move_pages.restype = ctypes.c_long

    # --- which there are ---

    def regions(self) -> Iterator[Region]:
        """All that are in memory now, in the order of their addresses."""
        mappings = self._mappings()
        try:
            pagemap = os.open(f"/proc/{self.pid}/pagemap", os.O_RDONLY)
        # A zombie and a kernel thread have the file, and no memory
        except (FileNotFoundError, ProcessLookupError) as err:
            raise Gone from err
        except PermissionError as err:
            raise self._denied() from err
        try:
            scan = _scan if _can_scan(pagemap) else _read
            for start, end in mappings:
                try:
                    yield from scan(pagemap, start, end)
                except (ProcessLookupError, FileNotFoundError) as err:
                    raise Gone from err
        finally:
            os.close(pagemap)

    def _mappings(self) -> list[tuple[int, int]]:
        try:
            text = Path(f"/proc/{self.pid}/maps").read_text(errors="replace")
        except (FileNotFoundError, ProcessLookupError) as err:
            raise Gone from err
        except PermissionError as err:
            raise self._denied() from err
        found = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) (.*)$", text, re.MULTILINE)
        # The kernel's own pages in every process
        kernels = ("[vsyscall]", "[vvar]", "[vvar_vclock]", "[vdso]")
        return [(int(low, 16), int(high, 16)) for low, high, rest in found if not rest.endswith(kernels)]

    def _denied(self) -> Problem:
        return Problem(f"process {self.pid} is somebody else's: it needs root, use sudo")

    # --- where they are, and where they go ---

    def nodes(self, addresses: Sequence[int]) -> list[int]:
        """The node of each; a negative errno for what is not there."""
        return self._call(addresses, None, 0)

    def move(self, addresses: Sequence[int], node: int, shared: bool) -> list[int]:
        """Move them; for each its node then, a negative errno, or UNTRIED."""
        return self._call(addresses, node, MOVE_ALL if shared else MOVE)

    def _call(self, addresses: Sequence[int], node: int | None, flags: int) -> list[int]:
        count = len(addresses)
        pages = (ctypes.c_void_p * count).from_buffer(array("Q", addresses))
        status = (ctypes.c_int * count).from_buffer(array("i", [UNTRIED]) * count)
        nodes = None if node is None else (ctypes.c_int * count).from_buffer(array("i", [node]) * count)
        done = self._numa.move_pages(self.pid, ctypes.c_ulong(count), pages, nodes, status, flags)
        if done < 0:
            self._failed(ctypes.get_errno(), node)
        return list(status)

    def _failed(self, number: int, node: int | None) -> None:
        if number == errno.ESRCH:
            raise Gone
        if number == errno.EPERM:
            raise self._denied()
        if number == errno.EACCES:
            raise Problem(
                f"process {self.pid} may not have memory on node {node}: see cpuset.mems of its cgroup"
            )
        if number == errno.ENODEV:
            raise Problem(f"node {node} has no memory, or is not there")
        if number not in (errno.ENOMEM, errno.ENOENT):
            raise Problem(f"move_pages of process {self.pid}: {os.strerror(number)}")


# --- pagemap ---


def _argument(start: int, end: int, regions: array[int], most: int) -> bytearray:
    wanted = IS_PRESENT | IS_ZERO
    place, _ = regions.buffer_info()
    return bytearray(
        array("Q", [96, 0, start, end, 0, place, most, 0, IS_ZERO, wanted, 0, IS_PRESENT | IS_HUGE])
    )


def _can_scan(pagemap: int) -> bool:
    """Over nothing: a kernel that does not know it says ENOTTY."""
    try:
        fcntl.ioctl(pagemap, PAGEMAP_SCAN, _argument(0, 0, array("Q", [0, 0, 0]), 1))
    except OSError as err:
        return err.errno not in (errno.ENOTTY, errno.EINVAL)
    return True


def _scan(pagemap: int, start: int, end: int) -> Iterator[Region]:
    regions = array("Q", bytes(24 * REGIONS))
    while start < end:
        argument = _argument(start, end, regions, REGIONS)
        count = fcntl.ioctl(pagemap, PAGEMAP_SCAN, argument)
        for i in range(0, 3 * count, 3):
            yield Region(regions[i], regions[i + 1], bool(regions[i + 2] & IS_HUGE))
        walked = int.from_bytes(argument[32:40], "little")
        if walked <= start:
            return
        start = walked


def _read(pagemap: int, start: int, end: int) -> Iterator[Region]:
    while start < end:
        count = min(ENTRIES, (end - start) // PAGE)
        entries = array("Q", os.pread(pagemap, 8 * count, start // PAGE * 8))
        if not entries:
            return
        first: int | None = None
        for i, entry in enumerate(entries):
            there = bool(entry & PRESENT_BIT)
            if there and first is None:
                first = i
            elif not there and first is not None:
                yield Region(start + first * PAGE, start + i * PAGE, False)
                first = None
        if first is not None:
            yield Region(start + first * PAGE, start + len(entries) * PAGE, False)
        start += len(entries) * PAGE
