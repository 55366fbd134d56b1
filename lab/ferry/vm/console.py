# SPDX-License-Identifier: GPL-2.0
"""What a guest's kernel complained about, during which step of the job, and whose data races are Ferry's."""

import re

from ferry import proc
from ferry.kernel import tree
from ferry.kernel.kbuild import Kernel

# Complaints begin a line of the log, so that "Spectre V2 : WARNING: ..." is none.
_STAMP = r"^\[ *\d+\.\d+\](?:\[ *[TC]\d+\])? *"

_COMPLAINT = re.compile(
    _STAMP
    + r"(?P<text>(?:"
    + "|".join(
        (
            r"WARNING: ",  # WARN(), and lockdep's "possible ...", "suspicious ...", "inconsistent ..."
            r"BUG: ",  # also KASAN's, KFENCE's and the lockup detectors'
            r"kernel BUG at ",
            r"Oops: ",
            r"Kernel panic",
            r"UBSAN: ",
            r"DMA-API: .*(?:device driver|cacheline(?! tracking ENOMEM)|leak|ERROR)",
            r"INFO: task .* blocked for more than",
            r"INFO: .* (?:detected stalls|self-detected stall)",
            r"rcu: INFO: .*stall",
            r"watchdog: BUG",
            r"refcount_t: ",
            r"list_(?:add|del) corruption",
            # None is what memory hot-unplug says of a page that somebody else moves at this moment, or that
            # cannot move.
            r"page dumped because(?!: (?:isolation failed|migration failure|unmovable page))",
            r"Unable to handle ",
            r"general protection fault",
            r"kmemleak: \d+ new",
            # A program dies of an access that it has no handler for: its memory may be wrong.
            r"traps: \S+\[\d+\] ",
            r"\S+\[\d+\]: segfault at ",
        )
    )
    + r").*)",
    re.MULTILINE,
)
# Of functions by their names; the second is the other CPU's, if that is known.
_RACE = re.compile(r"BUG: KCSAN: data-race in (?P<one>\w+)[\w.]*(?: \[\w+\])?(?: / (?P<other>\w+))?")
_MARK = re.compile(_STAMP + r"ferry: (?P<step>.*)")
_PATCHED = re.compile(r"^\+\+\+ b/(\S+\.c)$", re.MULTILINE)
_SYMBOL = re.compile(r" [tT] (\w+)")


def has_races(log: str) -> bool:
    return bool(_RACE.search(log))


def findings(log: str, ours: frozenset[str] | None = None) -> list[str]:
    """Each complaint in a console log, with the last mark ("ferry: STEP" in /dev/kmsg) before it.

    Data races count if one of the two functions is among ours; all do if it is None.
    """
    step = "boot"
    complaints = []
    for line in log.splitlines():
        if mark := _MARK.match(line):
            step = mark["step"].strip()
        elif complaint := _COMPLAINT.match(line):
            race = _RACE.match(complaint["text"])
            if race and ours is not None and ours.isdisjoint(race.groups()):
                continue
            complaints.append(f"[{step}] {complaint['text'].strip()}")
    return complaints


def sources() -> list[str]:
    """The C files of the kernel that are Ferry's, or that it changes."""
    new = {str(name) for name in tree.HERE.src_files() if name.suffix == ".c"}
    changed = {name for patch in tree.HERE.patch_files() for name in _PATCHED.findall(patch.read_text())}
    return sorted(new | changed)


def functions(kernel: Kernel) -> frozenset[str]:
    """The functions in them, as far as they are built in this kernel."""
    objects = [(kernel.build_dir / name).with_suffix(".o") for name in sources()]
    built = [str(path) for path in objects if path.exists()]
    # What the compiler made of f() is f.isra.0 or the like.
    return frozenset(_SYMBOL.findall(proc.output(["nm", *built])))
