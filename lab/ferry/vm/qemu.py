# SPDX-License-Identifier: GPL-2.0
"""Run a script in a VM. Its result comes over a serial port of its own, or the VM counts as lost."""

import fcntl
import itertools
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO

from ferry import files, packages, paths, proc
from ferry.errors import FerryError, quoted
from ferry.kernel.kbuild import Kernel
from ferry.vm import console, emulator, initramfs, records
from ferry.vm.machine import Machine

OnOutput = Callable[[str], None]

GUEST = Path(__file__).with_name("guest")
VNG = Path(sys.prefix) / "bin/vng"
KVM = Path("/dev/kvm")
KVM_PROBE_S = 20.0
POLL_S = 0.05
FOLDER_PREFIX = "vm-"
CONTROL = "qmp"
ROOT = "initramfs.cpio"
SOCKET_PATH_MAX = 107
TAIL_LINES = 15
UNSHARE = ("unshare", "--fork", "--pid", "--kill-child")

PROBE = Machine("probe", cpus=1, nodes=1, cpu_nodes=1, node_mib=512)

# With -no-reboot, the reboot after a panic ends QEMU.
KERNEL_ARGS = ("oops=panic", "panic=-1")
# Of a program that dies of a signal the console has the registers. Not for other guests: figures of those
# that count instructions change with each word.
HOST_ROOT_ARGS = ("print-fatal-signals=1",)


class BadGuest(FerryError):
    """Not what was asked for, but there is what the job has said until then."""

    def __init__(self, why: str, said: str = "") -> None:
        super().__init__(why)
        self.said = said


class LostVM(BadGuest):
    """The guest ended, or was ended, without saying how its job went."""

    exit_code = 3


class DirtyConsole(BadGuest):
    """The job ended, but the guest's kernel complained."""

    exit_code = 4


@dataclass(frozen=True)
class Plugin:
    """A plugin of QEMU's, and the table that it reads. What it has written becomes a record "plugin"."""

    program: Path
    table: str

    def words(self, folder: Path) -> tuple[str, ...]:
        """For QEMU's command line, in a VM's folder."""
        return ("-plugin", f"{self.program},table={folder / 'table'},out={folder / 'plugin'}")


@dataclass(frozen=True)
class Job:
    """A shell script for a guest, after guest/lib.sh.

    With host_root it runs on what the host has, as a copy on write (virtme-ng). Otherwise it runs on
    busybox, the kernel's modules, and programs: paths in the guest, and what to put there.
    """

    script: str
    timeout_s: float
    host_root: bool = False
    programs: Mapping[str, Path] = field(default_factory=dict)
    kernel_args: tuple[str, ...] = ()
    name: str = "console"  # of the log that keeps the console
    controlled: bool = False  # with a QMP socket, CONTROL in the VM's folder; not with host_root
    plugin: Plugin | None = None  # not with host_root


@dataclass(frozen=True)
class Result:
    """How a job went: its exit status, what it wrote to descriptor 3, its output, the console."""

    status: int
    said: str
    output: str
    console: str


def run(
    kernel: Kernel,
    machine: Machine,
    job: Job,
    *,
    kvm: bool = False,
    on_output: OnOutput | None = None,
    cancelled: threading.Event | None = None,
) -> Result:
    """Boot a kernel, run a job, return its result. on_output gets the job's output as it comes.

    Raises LostVM if there is no result within the job's time limit, DirtyConsole if the kernel warned
    of something, and FerryError if the job said "fail". A thread gets no signal: to end the VM that it
    waits for, set cancelled; that is a LostVM, too.
    """
    ensure_emulator(machine, kvm)
    cancelled = cancelled or threading.Event()
    with _folder(job) as folder:
        (folder / "output").touch()
        if job.host_root:
            command = _host_root_command(kernel, machine, job, folder, kvm)
        else:
            command = _initramfs_command(kernel, machine, job, folder, kvm)
            _write_root(kernel, machine, job, folder)
        until = time.monotonic() + job.timeout_s
        with (folder / "emulator").open("w") as log, _child(command, log) as child:
            in_time = _follow(child, folder / "output", until, on_output, cancelled)
        if cancelled.is_set():
            raise LostVM("the VM was ended: what else it was started with has failed")
        return _judge(kernel, folder, job, in_time)


def shell(kernel: Kernel, machine: Machine, job: Job) -> int:
    """Run a job whose output port is this terminal, both ways; ctrl-a x ends the emulator. Raises as run().

    QEMU has the terminal in raw mode meanwhile: all other keys are the guest's.
    """
    ensure_emulator(machine)
    with _folder(job) as folder:
        terminal = ("-chardev", "stdio,id=terminal,mux=on,signal=off", "-serial", "chardev:terminal")
        command = _initramfs_command(kernel, machine, job, folder, output=terminal)
        _write_root(kernel, machine, job, folder)
        subprocess.run(command, preexec_fn=proc.die_with_parent)
        return _judge(kernel, folder, job, in_time=True).status


@contextmanager
def own_folder() -> Iterator[Path]:
    """A VM's folder. Under BUILD, because virtme-ng hides the host's /run, /var/tmp and /dev/shm from the
    guest. Those of a ./ferry that was killed are removed: nobody holds their lock any more.
    """
    paths.BUILD.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        with _held(paths.BUILD):
            for left in paths.BUILD.glob(f"{FOLDER_PREFIX}*/"):
                with suppress(OSError), _held(left, fcntl.LOCK_NB):
                    shutil.rmtree(left)
            name = stack.enter_context(tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX, dir=paths.BUILD))
            stack.enter_context(_held(Path(name)))
        yield Path(name)


@contextmanager
def _held(folder: Path, how: int = 0) -> Iterator[None]:
    """Lock a folder, against other threads too. Raises OSError with LOCK_NB if somebody else holds it."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | how)
        yield
    finally:
        os.close(opened)


@contextmanager
def _folder(job: Job) -> Iterator[Path]:
    """A VM's folder, with its job."""
    with own_folder() as folder:
        if job.controlled and len(os.fsencode(folder / CONTROL)) > SOCKET_PATH_MAX:
            raise FerryError(
                f"{folder / CONTROL} is too long for a socket: move the checkout to a shorter path"
            )
        (folder / "job.sh").write_text(_script(job))
        if job.plugin:
            (folder / "table").write_text(job.plugin.table)
        yield folder


def _script(job: Job) -> str:
    return (GUEST / "lib.sh").read_text() + job.script + "\n"


def identity(kernel: Kernel, machine: Machine, job: Job, kvm: bool = False) -> str:
    """A digest of all that determines what a job says, but for the host's speed: the emulator and its words,
    the kernel, all that is in the guest's root. Of a job on the host's root nobody can say what that is."""
    if job.host_root:
        raise ValueError("a job on the host's root has no identity")
    program, *firmware = machine.command(kvm)
    used = {"kernel": kernel.image, "emulator": Path(shutil.which(program) or program)}
    used |= {"init": GUEST / "init.sh", "busybox": initramfs.busybox(machine.arm64)} | _programs(kernel, job)
    used |= {str(path): path for path in emulator.firmware()}
    alike = replace(kernel, image=Path("kernel"))
    if job.plugin:
        used["plugin"] = job.plugin.program
        job = replace(job, plugin=replace(job.plugin, program=Path("plugin")))
    words = _initramfs_command(alike, machine, job, Path("vm"), kvm)[1 + len(firmware) :]
    table = job.plugin.table if job.plugin else ""
    contents = (part for name, path in sorted(used.items()) for part in (name, files.contents(path)))
    return files.digest(_script(job), table, *words, *contents)


def ensure_emulator(machine: Machine, kvm: bool = False) -> None:
    """Build or install what is to run the machine, unless it is there. Raises FerryError if KVM cannot."""
    if kvm:
        machine.qemu_args(kvm)
    if kvm and not os.access(KVM, os.R_OK | os.W_OK):
        raise FerryError(f"{KVM} is missing or not yours to use: leave out --kvm")
    if machine.command(kvm)[0] == str(emulator.BINARY):
        emulator.build()
    elif not machine.program:
        packages.ensure(["qemu-system-arm" if machine.arm64 else "qemu-system-x86"])


def vng_command(kernel: Kernel, machine: Machine, kernel_args: tuple[str, ...], kvm: bool) -> list[str]:
    """virtme-ng with the host's root: an interactive shell, unless more is added."""
    append = [*KERNEL_ARGS, *HOST_ROOT_ARGS, *machine.command_line, *kernel_args]
    program, *firmware = machine.command(kvm)
    return [
        # vng looks for its other half, virtme-run, in PATH.
        *("env", f"PATH={VNG.parent}:{os.environ['PATH']}"),
        *(str(VNG), "--run", str(kernel.image), "--force-9p", "--disable-microvm", "--user", "root"),
        *([] if kvm else ["--disable-kvm"]),
        *("--qemu", program, "--cpus", machine.smp, "--memory", machine.memory),
        *(arg for word in append for arg in ("--append", word)),
        *(f"--qemu-opts={word}" for word in (*firmware, *machine.qemu_args(kvm))),
    ]


def link_modules(kernel: Kernel) -> str:
    """A shell command for a guest on the host's root: make modprobe find the kernel's modules."""
    installed = kernel.modules_dir / "lib/modules" / kernel.release
    return f"ln -sfn {shlex.quote(str(installed))} /lib/modules/$(uname -r)"


def probe_kvm(kernel: Kernel) -> None:
    """Raise FerryError unless a guest boots with KVM; /dev/kvm may exist and be of no use (nested PVM)."""
    try:
        run(kernel, PROBE, Job("exit 0", KVM_PROBE_S), kvm=True)
    except BadGuest as err:
        raise FerryError(f"{KVM} exists but no guest boots with it: leave out --kvm") from err


def _host_root_command(kernel: Kernel, machine: Machine, job: Job, folder: Path, kvm: bool) -> list[str]:
    ports = [*_serial(folder / "output"), *_serial(folder / "result")]
    begin = f"FERRY_JOB={shlex.quote(str(folder / 'job.sh'))}"
    return [
        *vng_command(kernel, machine, job.kernel_args, kvm),
        # Without --verbose the console is quiet, and an oops goes unseen (virtme-ng 1.42).
        *("--verbose", *(f"--qemu-opts={word}" for word in ports)),
        *("--exec", f"{link_modules(kernel)}; {begin}; . {shlex.quote(str(GUEST / 'run.sh'))}"),
    ]


def _initramfs_command(
    kernel: Kernel,
    machine: Machine,
    job: Job,
    folder: Path,
    kvm: bool = False,
    output: Sequence[str] | None = None,
) -> list[str]:
    port = f"console={machine.console}"
    append = [port, "loglevel=7", *KERNEL_ARGS, *machine.command_line, *job.kernel_args]
    ports = [*(output or _serial(folder / "output")), *_serial(folder / "result")]
    return [
        *(*machine.bare(kvm), "-no-reboot"),
        *(job.plugin.words(folder) if job.plugin else ()),
        *(("-qmp", f"unix:{folder / CONTROL},server=on,wait=off") if job.controlled else ()),
        *("-kernel", str(kernel.image), "-initrd", str(folder / ROOT), "-append", " ".join(append)),
        *(*_serial(folder / "console"), *(_pci_ports(folder) if machine.arm64 else ports)),
    ]


def _programs(kernel: Kernel, job: Job) -> dict[str, Path]:
    """What is in a guest's root beside busybox, /init, and the job itself."""
    return {"ferry/run.sh": GUEST / "run.sh"} | initramfs.modules(kernel.modules_dir) | dict(job.programs)


def _write_root(kernel: Kernel, machine: Machine, job: Job, folder: Path) -> None:
    programs = _programs(kernel, job) | {"ferry/job.sh": folder / "job.sh"}
    (folder / ROOT).write_bytes(initramfs.root((GUEST / "init.sh").read_text(), programs, machine.arm64))


def _serial(path: Path) -> list[str]:
    return ["-serial", f"file:{path}"]


def _pci_ports(folder: Path) -> list[str]:
    """A card with ports of the names that a PC has: the board for arm64 has its console alone."""
    places = {"chardev2": folder / "output", "chardev3": folder / "result"}
    ends = (f"file,id={name},path={path}" for name, path in places.items())
    card = ",".join(["pci-serial-4x", *(f"{name}={name}" for name in places)])
    return [*(word for end in ends for word in ("-chardev", end)), "-device", card]


def _may_unshare() -> bool:
    """Whether this user may have PID namespaces: root in a container may not, unless that is privileged."""
    if os.geteuid():
        return False
    return subprocess.run([*UNSHARE, "true"], stdin=subprocess.DEVNULL, capture_output=True).returncode == 0


@contextmanager
def _child(command: list[str], log: TextIO) -> Iterator[subprocess.Popen[str]]:
    """A process that ends, with all that it started, when this block or this process ends."""
    # virtme-ng starts QEMU through a shell; a PID namespace goes down as one.
    child = proc.spawn([*UNSHARE, *command] if _may_unshare() else command)
    assert child.stdout
    # A pipe and a copy: QEMU under virtme-ng opens its stdout by path and truncates it.
    pump = threading.Thread(target=shutil.copyfileobj, args=(child.stdout, log), daemon=True)
    pump.start()
    try:
        yield child
    finally:
        proc.kill_group(child)
        pump.join()


def _follow(
    child: subprocess.Popen[str],
    output: Path,
    until: float,
    on_output: OnOutput | None,
    cancelled: threading.Event,
) -> bool:
    """Wait for the guest's end, passing on what its job writes. False if time is up."""
    with output.open(errors="replace", newline="") as file:
        running = True
        while running and time.monotonic() < until and not cancelled.is_set():
            running = child.poll() is None
            if (text := file.read()) and on_output:
                on_output(text)
            time.sleep(POLL_S if running else 0)
    return not running


def _judge(kernel: Kernel, folder: Path, job: Job, in_time: bool) -> Result:
    """What the guest said, or an exception. The console is kept for the user."""
    log = _read(folder / "console") + _read(folder / "emulator")
    said = _read(folder / "result")
    if job.plugin:
        said += json.dumps({"record": "plugin", "text": _read(folder / "plugin")}) + "\n"
    ends = records.every(said, "exit")
    findings = console.findings(log, console.functions(kernel) if console.has_races(log) else None)
    kept = _keep(log, job.name, failed=bool(findings or not ends))
    if not ends:
        why = "ended without a result" if in_time else f"was still busy after {job.timeout_s:.0f} s"
        tail = quoted(findings or log.splitlines()[-TAIL_LINES:])
        last = f"\nand what it recorded with:{quoted(said.splitlines()[-1:])}" if said else ""
        raise LostVM(f"the VM {why}; its console, in {kept}, ends with:{tail}{last}", said)
    if findings:
        raise DirtyConsole(f"the guest's kernel complained, see {kept}:{quoted(findings)}", said)
    if whys := records.every(said, "error"):
        raise FerryError(whys[0]["text"])
    return Result(ends[-1]["status"], said, _read(folder / "output"), log)


def _keep(log: str, name: str, *, failed: bool) -> Path:
    """Write a console's log to a file. No later VM of this process overwrites that of one that failed."""
    paths.LOGS.mkdir(parents=True, exist_ok=True)
    kept = paths.LOGS / f"{name}.log"
    for i in itertools.count(1) if failed else ():
        kept = paths.LOGS / f"{name}-failed-{i}.log"
        with suppress(FileExistsError):
            kept.touch(exist_ok=False)
            break
    kept.write_text(log)
    return kept


def _read(path: Path) -> str:
    return path.read_text(errors="replace").replace("\r\n", "\n") if path.exists() else ""
