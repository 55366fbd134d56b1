# SPDX-License-Identifier: GPL-2.0
"""A first day with Ferry, as an operator has it: Debian 12, the packages, a reboot, a service that is moved,
another reboot, an update of Debian's kernel, measurements, and all of it removed again.

Each step types what docs/operator.md says into a guest with Debian (vm/disk.py), and looks at what comes.
A step that finds something wrong does not end the day: an operator would go on, too.
"""

import json
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from ferry import files, packages, paths, proc, tools
from ferry.errors import FerryError, UsageError
from ferry.git import git
from ferry.kernel import deb, tree
from ferry.progress import Step
from ferry.vm import disk, machine, qemu, records, serial
from ferry.vm.machine import Machine

# Emulated, a boot takes one to three minutes, and packages of a kernel as long.
BOOT_S = 900.0
LONG_S = 1800.0
# How ferryctl ends.
DEGRADED, NO_FERRY = 1, 3
SETTINGS = {"target_us": "300", "inaccessible_enabled": "1"}
# 32 MiB of values that differ, and a digest of all.
KEYS = 8192
FILL = (
    f"redis-cli eval \"for i = 1, {KEYS} do redis.call('set', i, string.rep(i .. ' ', 700)) end"
    " return redis.call('dbsize')\" 0"
)
DIGEST = (
    f"redis-cli eval \"local sum = '' for i = 1, {KEYS} do"
    " sum = redis.sha1hex(sum .. redis.call('get', i)) end return sum\" 0"
)
PID = "systemctl show --property MainPID --value redis-server"
# There and back, because it may have begun on either node; status 4: pages that others have, too, stayed.
MOVE = f"""ferryctl watch --interval 2 --count 60 >/run/watched 2>&1 &
until [ -s /run/watched ]; do sleep 0.5; done
for nodes in '0 1' '1 0'; do migratepages $({PID}) $nodes || exit; done
ferryctl move --cgroup system.slice/redis-server.service --to 1 --max-ms 20 || [ $? = 4 ] || exit
sleep 6
kill $!
cat /run/watched"""
ON_NODES = f"numastat -p $({PID})"

# Debian 12's newest Linux: GRUB takes its kernel for newer than Ferry's of the same Linux, not of a newer.
NEWEST = "6.12"
UPDATE = f"linux-image-{NEWEST}-cloud-amd64"
OF_ANOTHER_VERSION = "setting_of_another_version"
MENU = "Advanced options for Debian GNU/Linux>Debian GNU/Linux, with Linux"

# What may differ in the end, and why that is nothing of Ferry's.
ALLOWED = {
    "file /var/lib/dpkg/*": "dpkg's own list and its backups; packages are compared one by one",
    "file /var/lib/apt/*": "apt's own notes",
    "file /var/lib/redis/*": "what the service keeps of its data",
    "file /var/lib/systemd/*": "when timers ran, and a seed of random numbers",
    "file /etc/ld.so.cache": "made anew by each package",
    "file /boot/grub/grubenv": "written by each boot",
}


class Wrong(FerryError):
    """A step did not find what there should be."""


def outcome(step: str, wrong: str | None, seconds: float) -> records.Record:
    """A step, what was wrong with it if anything was, and how long it took."""
    verdict = f"failed: {wrong}" if wrong else "passed"
    return {"step": step, "wrong": wrong, "seconds": seconds, "verdict": verdict}


class Operator:
    """Types commands, and writes down what came."""

    def __init__(self, guest: serial.Guest, write: Callable[[str], None]) -> None:
        self.guest, self.write = guest, write
        self.kernels: list[str] = []

    def do(self, command: str, timeout_s: float = serial.SHORT_S, *, status: int = 0) -> str:
        """What a command says. Raises Wrong unless it ends with that status."""
        self.write(
            "".join(f"{'$' if i == 0 else '>'} {line}\n" for i, line in enumerate(command.split("\n")))
        )
        said = self.guest.run(command, timeout_s)
        text = on_screen(said.text)
        text = text if text.endswith("\n") or not text else f"{text}\n"
        self.write(text + (f"[exit status {said.status}]\n" if said.status else ""))
        if said.status != status:
            raise Wrong(f"'{command.splitlines()[0]}' ended with status {said.status}: {_last(text)}")
        return text

    def booted(self, release: str, ferry: bool, failed: str = "") -> None:
        """Look at a machine that has just booted, all of whose units but one may have to be well."""
        self.kernels.append(release)
        self.write(f"[booted {release}]\n")
        if release.endswith("-ferry") != ferry:
            raise Wrong(f"it booted {release}")
        state = self.guest.run("systemctl is-system-running --wait", BOOT_S).text.strip()
        self.write(f"$ systemctl is-system-running --wait\n{state}\n")
        said = self.guest.run("systemctl --failed --no-legend --plain").text if state != "running" else ""
        if said:
            self.write(f"$ systemctl --failed --no-legend --plain\n{said}")
        if [line.split()[0] for line in said.splitlines()] != failed.split():
            raise Wrong(f"the system is {state}, where '{failed}' was to fail: {_last(said)}")

    def reboot(self, *, ferry: bool, failed: str = "") -> None:
        """Into the kernel that the boot loader chooses."""
        self.write("$ systemctl reboot\n")
        self.booted(self.guest.reboot(BOOT_S), ferry, failed)

    def status(self) -> dict[str, Any]:
        """Ferry's, as programs read it."""
        status: dict[str, Any] = json.loads(self.do("ferryctl status --json"))
        return status


DayStep = Callable[[Operator], None]


# --- the steps ---


def debian(operator: Operator) -> None:
    """Debian's kernel, as installed"""
    operator.booted(operator.guest.ready(BOOT_S), ferry=False)
    operator.do(f"mount LABEL={disk.STICK_LABEL} /mnt && cp -a /mnt/. /srv/ferry && umount /mnt", LONG_S)
    operator.do("mkdir -p out && lab/ferry/vm/guest/inventory.sh >out/before", LONG_S)
    operator.do("lsmod")


def install(operator: Operator) -> None:
    """The packages are installed"""
    operator.do("apt install -y ./out/deb/ferry-tools_*.deb ./out/deb/linux-image-*.deb", LONG_S)
    _must_say(operator.do("ferryctl status", status=NO_FERRY), "is without Ferry")


def move(operator: Operator) -> None:
    """A running service is moved on Ferry's kernel"""
    operator.reboot(ferry=True)
    operator.do("ferryctl status")
    operator.do("ferryctl use mtcopy --save")
    operator.do(f"ferryctl set {' '.join(f'{name}={value}' for name, value in SETTINGS.items())} --save")
    operator.do(FILL, LONG_S)
    pid, digest = operator.do(PID), operator.do(DIGEST, LONG_S)
    operator.do(ON_NODES)
    before = operator.status()
    watched = operator.do(MOVE, LONG_S)
    after = operator.status()
    operator.do(ON_NODES)
    operator.do("ferryctl status")
    if (operator.do(PID), operator.do(DIGEST, LONG_S)) != (pid, digest):
        raise Wrong("redis-server is another, or its data is")
    grown = after["engines"]["mtcopy"]["folios"] - before["engines"].get("mtcopy", {}).get("folios", 0)
    if grown <= 0 or after["stats"]["folios"] <= before["stats"]["folios"]:
        raise Wrong(f"mtcopy moved {grown} folios")
    if not seen(watched):
        raise Wrong("ferryctl watch saw no folio that mtcopy moved")
    if not sum(after["inaccessible_us"].values()):
        raise Wrong("no inaccessible time was measured")


def remember(operator: Operator) -> None:
    """After a reboot the settings are there"""
    operator.reboot(ferry=True)
    operator.do("systemctl is-active ferry")
    operator.do("ferryctl check")
    _must_have_settings(operator)


def update(operator: Operator) -> None:
    """Debian updates its kernel, and Ferry's is chosen again"""
    ferrys = operator.kernels[-1]
    told = operator.do("apt install -y ./out/update/linux-image-*.deb", LONG_S)
    if paths.BASE == NEWEST:
        _must_say(told, "next, which is without Ferry")
        _return_to(operator, ferrys)
    else:
        _must_say(told, f"next boot: {ferrys}, with Ferry")
        operator.do("ferryctl check")
    operator.do(f"echo '{OF_ANOTHER_VERSION} = 1' >>/etc/ferry.conf")
    operator.reboot(ferry=True)
    _must_say(operator.do("ferryctl check", status=DEGRADED), OF_ANOTHER_VERSION)
    operator.do(f"sed -i /{OF_ANOTHER_VERSION}/d /etc/ferry.conf")
    operator.do("ferryctl check")
    _must_have_settings(operator)


def _return_to(operator: Operator, ferrys: str) -> None:
    """Boot Debian's kernel, as GRUB does now, and have GRUB start Ferry's next."""
    _must_say(operator.do("ferryctl check", status=DEGRADED), "next, which is without Ferry")
    operator.reboot(ferry=False, failed="ferry.service")
    _must_say(operator.do("ferryctl check", status=NO_FERRY), f"boot {ferrys}, which is installed")
    operator.do("journalctl --no-pager --output cat --unit ferry --boot")
    operator.do("cat /etc/ferry.conf")
    operator.do("sed -i s/^GRUB_DEFAULT=.*/GRUB_DEFAULT=saved/ /etc/default/grub && update-grub", LONG_S)
    operator.do(f"grub-set-default '{MENU} {ferrys}'")
    operator.do("ferryctl check --next-boot")


def measure(operator: Operator) -> None:
    """The machine is measured"""
    before = operator.status()
    operator.do("migbench --folio 2M --bytes 64M --runs 3 --latency", LONG_S)
    operator.do("./ferry table v5-throughput --here --quick", LONG_S)
    after = operator.status()
    if (after["active"], after["settings"]) != (before["active"], before["settings"]):
        raise Wrong(f"measuring left {after['active']}, {after['settings']}")


def remove(operator: Operator) -> None:
    """All is removed, and nothing is left"""
    operator.do("ferryctl use none")
    operator.do("apt purge -y ferry-tools", LONG_S)
    operator.do("sed -i s/^GRUB_DEFAULT=.*/GRUB_DEFAULT=0/ /etc/default/grub")
    operator.do("grub-editenv - unset saved_entry")
    kernels = " ".join(f"'linux-image-{linux}*'" for linux in dict.fromkeys((NEWEST, paths.BASE)))
    operator.do(f"apt purge -y {kernels}", LONG_S)
    operator.reboot(ferry=False)
    operator.do("lab/ferry/vm/guest/inventory.sh >out/after", LONG_S)
    differing = left(operator.do("diff out/before out/after | grep '^[<>]'; true"))
    if differing:
        raise Wrong(f"{len(differing)} things differ: {'; '.join(differing)}")


STEPS: tuple[DayStep, ...] = (debian, install, move, remember, update, measure, remove)
# What is left to do for a guest that is lost.
NOT_TRIED = "not tried"


def on_screen(text: str) -> str:
    """What is left on a terminal of lines that were written over, as apt's progress is."""
    return re.sub(r"[^\n]*\r", "", text.replace("\r\n", "\n"))


def seen(watched: str) -> int:
    """How many folios ferryctl watch has shown with mtcopy active."""
    counts = re.findall(r"^\S+ engine mtcopy: .* calls, ([\d,]+) folios", watched, re.MULTILINE)
    return sum(int(count.replace(",", "")) for count in counts)


def left(differences: str) -> list[str]:
    """What two inventories have not in common and should, each with what became of it; diff has compared."""
    sides: dict[str, set[str]] = {}
    for line in differences.splitlines():
        for entry in records.every(line, "have"):
            sides.setdefault(entry["what"], set()).add(line[0])
    words = {frozenset("<"): "gone", frozenset(">"): "new", frozenset("<>"): "changed"}
    return [
        f"{what} {words[frozenset(signs)]}"
        for what, signs in sorted(sides.items())
        if not any(fnmatch(what, pattern) for pattern in ALLOWED)
    ]


def _must_say(said: str, words: str) -> None:
    if words not in said:
        raise Wrong(f"it does not say '{words}': {_last(said)}")


def _must_have_settings(operator: Operator) -> None:
    status = operator.status()
    have = {"engine": status["active"]} | {name: status["settings"][name] for name in SETTINGS}
    if have != {"engine": "mtcopy"} | SETTINGS:
        raise Wrong(f"after a reboot there is {have}")


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["nothing"])[-1]


# --- what it takes ---


def guest_machine(cpus: int) -> Machine:
    """Two nodes. One CPU needs no emulator but Debian's."""
    program = ("qemu-system-x86_64",) if cpus == 1 else ()
    row = Machine("day", node_mib=1024, program=program).with_cpus(cpus)
    return row.fitted(machine.available_mib())


def kernel() -> list[Path]:
    """The packages of a kernel with the modules that the guest has a use for; kept while nothing changes."""
    folder = tree.HERE.build / "debian"
    listed = folder / "modules"
    files.write(listed, "".join(f"{name}\n" for name in disk.MODULES))
    source = tree.assemble_current()
    configs = sorted(paths.KERNEL.glob("**/*.config"))
    key = files.digest(tree.fingerprint(source, tree.HERE), Path(deb.__file__), listed, *configs)
    choice = deb.Choice(deb.CLOUD, modules=str(listed))
    place = files.made_folder(folder / "kernel", key, lambda place: deb.build(choice, place))
    return sorted(place.glob("linux-image-*.deb"))


def update_of_debian() -> list[Path]:
    """The package of Debian's kernel that UPDATE stands for; kept while it is the newest."""
    query = ["apt-cache", "show", "--no-all-versions", UPDATE]
    shown = proc.output(query, env=packages.APT_ENV) if packages.candidate(UPDATE) else ""
    package = re.search(r"^Depends: (linux-image-\S+)", shown, re.MULTILINE)
    if not package:
        raise FerryError(f"apt has no package {UPDATE}: run apt-get update; the guest is Debian 12")
    key = f"{package[1]} {packages.candidate(package[1])}"
    command = ["apt-get", "download", "-q", package[1]]

    def fetch(place: Path) -> None:
        proc.run(command, title="fetch Debian's newest kernel", cwd=place, env=packages.APT_ENV)

    place = files.made_folder(paths.BUILD / "debian/update", key, fetch)
    return sorted(place.glob("linux-image-*.deb"))


def packages_in(folder: Path) -> list[Path]:
    """The packages that somebody has made, in a folder such as out/deb. Raises UsageError."""
    given_debs: list[Path] = []
    for kind in ("ferry-tools", "linux-image-*-ferry"):
        debs = sorted(folder.glob(f"{kind}_*.deb"))
        if len(debs) != 1:
            raise UsageError(f"{folder} has {len(debs)} packages {kind}, and it takes one: see make deb")
        given_debs += debs
    return given_debs


def checkout(folder: Path, debs: Iterable[Path], update: Iterable[Path]) -> None:
    """A clone of this one as its files are now, and packages: where make deb puts them, and an update."""
    git(paths.ROOT, "clone", "-q", "--no-hardlinks", str(paths.ROOT), str(folder))
    for name in git(paths.ROOT, "ls-files", "-z", "-co", "--exclude-standard").split("\0"):
        if name and (paths.ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(paths.ROOT / name, folder / name)
    for name, all_of_it in (("out/deb", debs), ("out/update", update)):
        (folder / name).mkdir(parents=True)
        for path in all_of_it:
            shutil.copy(path, folder / name)


def run(
    computer: Machine, kvm: bool, write: Callable[[str], None], given_debs: Sequence[Path] = ()
) -> tuple[list[records.Record], list[str]]:
    """The whole day, with packages that were made or are made now; write gets its transcript.

    Returns how each step went, and the kernels that booted.
    """
    image, debs = disk.image(), given_debs or [tools.build(), *kernel()]
    with tempfile.TemporaryDirectory(prefix="day-", dir=paths.BUILD) as name:
        folder = Path(name)
        checkout(folder / "checkout", debs, update_of_debian())
        stick = folder / "stick.img"
        disk.stick(folder / "checkout", stick)
        shutil.rmtree(folder / "checkout")
        drives = [*serial.drive(image, keep=False), *serial.drive(stick, keep=False)]
        with serial.Guest(computer, drives, name="day", kvm=kvm) as guest:
            operator = Operator(guest, write)
            outcomes = follow(operator)
            return outcomes, operator.kernels


def follow(operator: Operator) -> list[records.Record]:
    """Go through the steps; those after the loss of the guest are not tried."""
    outcomes: list[records.Record] = []
    lost = False
    for number, step in enumerate(STEPS, start=1):
        title = (step.__doc__ or "").strip()
        begin, wrong = time.monotonic(), NOT_TRIED if lost else None
        if not lost:
            operator.write(f"\n=== {number}. {title}\n")
            with Step(f"{number}. {title}") as shown:
                operator.guest.on_output = shown.update
                wrong = _tried(step, operator)
            lost = operator.guest.lost
        outcomes.append(outcome(title, wrong, time.monotonic() - begin))
    complaints = operator.guest.complaints("-ferry")
    outcomes.append(outcome("Ferry's kernel never complained", "; ".join(complaints) or None, 0.0))
    return outcomes


def _tried(step: DayStep, operator: Operator) -> str | None:
    try:
        step(operator)
    except (Wrong, qemu.LostVM) as err:
        operator.write(f"WRONG: {err}\n")
        return str(err)
    except (ValueError, KeyError) as err:
        operator.write(f"WRONG: what ferryctl says is not as documented: {err!r}\n")
        return f"what ferryctl says is not as documented: {err!r}"
    return None
