# SPDX-License-Identifier: GPL-2.0
"""run a shell or one command in a VM, on a copy of this machine's files, or on the emulated server"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from ferry.bench import migbench
from ferry.commands import options
from ferry.errors import UsageError, choose
from ferry.kernel import kbuild
from ferry.progress import note
from ferry.server import profile
from ferry.vm import machine, qemu

DAY_S = 86400.0
PORT = "/dev/ttyS1"  # that of a guest's output
# Instead of lib.sh's, where somebody reads it at a terminal.
FAIL = 'fail() { echo "error $*" >&2; exit 1; }'
DEPTH = 32  # descriptors in flight on each channel: what dcbm has by default


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_kernel(parser, "ferry")
    options.add_machine(parser)
    parser.set_defaults(machine=None)
    options.add_profile(
        parser,
        None,
        "a shell, or a command of busybox or migbench, on an emulated server with its DMA channels, "
        "in virtual time, or with --cpus in wall time: ",
    )
    parser.add_argument("--engine", metavar="NAME", help=f"{', '.join(migbench.ENGINES[1:])} (default: none)")
    options.add_number(parser, "channels", 4, "for dcbm: of softdma, or of the profile's")
    options.add_repeated(parser, "arg", "arg", "a kernel argument; repeatable", "WORD")
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="without one: an interactive shell")
    options.examples(
        parser,
        "vm --kernel ferry --engine mtcopy     # a shell, on a copy of this machine's files",
        "vm --machine icount -- uname -a",
        "vm --profile zen3                     # a shell on the emulated server, with all its channels",
        "vm --profile zen3 --engine dcbm --channels 16 -- migbench --folio 2M",
    )


def run(args: argparse.Namespace) -> int:
    """The command's exit code is ours."""
    if not args.command and not sys.stdin.isatty():
        raise UsageError("a shell needs a terminal; for one command, write it after --")
    if args.profile:
        return _on_server(args)
    computer = machine.get(args.machine or options.MACHINE, args.cpus)
    setup = _engine(args)
    qemu.ensure_emulator(computer, args.kvm)
    kernel = kbuild.build(args.kernel)
    if args.kvm:
        qemu.probe_kvm(kernel)
    if not args.command:
        return _shell(kernel, computer, setup, args)
    script = f"{setup}cd {shlex.quote(str(Path.cwd()))}\n{shlex.join(args.command)}"
    job = qemu.Job(script, DAY_S, host_root=True, kernel_args=tuple(args.arg))
    return qemu.run(kernel, computer, job, kvm=args.kvm, on_output=_print).status


def _on_server(args: argparse.Namespace) -> int:
    """A shell, or one command, on the emulated server. Its QEMU shares no files: there are busybox,
    migbench and the kernel's modules."""
    server, setup = profile.load(args.profile), _engine(args)
    if args.machine:
        raise UsageError(f"--machine {args.machine}: leave it out, profile {server.name} is a machine")
    if args.kvm:
        raise UsageError(f"profile {server.name} is emulated: leave out --kvm")
    computer = server.as_machine() if args.cpus is None else server.as_threads().with_cpus(args.cpus)
    kernel = kbuild.build(args.kernel)
    job = qemu.Job(
        f"{setup}{shlex.join(args.command)}" if args.command else server_shell_script(server.name, setup),
        DAY_S,
        programs=migbench.programs(),
        kernel_args=tuple(args.arg),
        controlled=True,  # by ./ferry server fault
    )
    if args.command:
        return qemu.run(kernel, computer, job, on_output=_print).status
    note("a shell on the emulated server: 'exit' ends it, and so does ctrl-a x at once")
    return qemu.shell(kernel, computer, job)


def _engine(args: argparse.Namespace) -> str:
    if args.engine is None:
        return ""
    choose("engine", [args.engine], migbench.ENGINES[1:])
    if args.kernel == "vanilla":
        raise UsageError("a vanilla kernel has no engines: choose --kernel ferry, or leave out --engine")
    most = profile.load(args.profile).dma.channels if args.profile else migbench.MOST_CHANNELS
    if args.engine == "dcbm" and not 1 <= args.channels <= most:
        raise UsageError(f"--channels {args.channels}: {args.profile or 'softdma'} has 1 to {most}")
    if args.profile and args.engine == "dcbm":
        return f"use_dma {args.channels} {DEPTH}\n"
    return f"use_engine {args.engine} {args.channels}\n"


def _shell(kernel: kbuild.Kernel, computer: machine.Machine, setup: str, args: argparse.Namespace) -> int:
    """An interactive shell; its set-up is what virtme-ng takes for root's shell."""
    with qemu.own_folder() as folder:
        shell = folder / "shell"
        shell.write_text(shell_script(kernel, setup))
        shell.chmod(0o755)
        command = qemu.vng_command(kernel, computer, tuple(args.arg), args.kvm)
        return subprocess.run([*command, "--shell", str(shell)]).returncode


def shell_script(kernel: kbuild.Kernel, setup: str) -> str:
    """What begins an interactive shell. If the set-up fails it says so, and the shell comes all the same."""
    library = (qemu.GUEST / "lib.sh").read_text()
    begin = f"{qemu.link_modules(kernel)}\n({FAIL}\n{setup})\nexec bash -i\n"
    return f"#!/bin/sh\n{library}{begin}"


def server_shell_script(name: str, setup: str) -> str:
    """The job that is a shell, on the port that is the user's terminal. As above, the set-up may fail."""
    columns, rows = shutil.get_terminal_size()
    return f"""\
stty -F {PORT} sane rows {rows} cols {columns}
({FAIL}
{setup})
export TERM={shlex.quote(os.environ.get("TERM", "dumb"))} PS1={shlex.quote(f"{name}# ")}
exec setsid -c sh -i <{PORT} >{PORT} 2>&1 3>&-"""


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
