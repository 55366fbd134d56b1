# SPDX-License-Identifier: GPL-2.0
"""The one way to measure: boots, each with a job, of which each gives what a parser makes of its records.

Each boot begins from nothing, so none depends on another. Where time is virtual as many run at once as the
host has CPUs, and their figures depend on nothing but what is booted. Where it is wall time, or the guest
has the host's files, they run one after the other, in the order that is given.
"""

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import TypeVar

from ferry.errors import FerryError
from ferry.kernel import kbuild
from ferry.progress import Step, note
from ferry.vm import qemu
from ferry.vm.machine import Machine
from ferry.vm.store import Store

Result = TypeVar("Result")
TAIL_LETTERS = 300  # of what a job that failed wrote last


@dataclass(frozen=True)
class Boot:
    """A kernel on a machine, and its job."""

    title: str
    flavour: str
    machine: Machine
    job: qemu.Job
    turn: int = 0  # which of several that are alike


@dataclass(frozen=True)
class Said:
    """What a guest has recorded, and the name of that in the store."""

    text: str
    record: str = ""


# Of a boot by its number.
Parse = Callable[[int, Said], Result]
Failed = Callable[[int, FerryError], Result]


def run(
    title: str,
    boots: Sequence[Boot],
    parse: Parse[Result],
    store: Store | None = None,
    *,
    kvm: bool = False,
    failed: Failed[Result] | None = None,
) -> tuple[list[Result], dict[str, str]]:
    """Boot all that the store does not have. Returns the results in order, and the kernels' releases.

    A boot is kept as soon as its records are understood; one on the host's root is never found again.
    Raises FerryError at the first that fails, and no other is left running; with failed, all others go on.
    """
    boots = [*map(_begun, boots)]
    for machine in dict.fromkeys(boot.machine for boot in boots):
        qemu.ensure_emulator(machine, kvm)
    kernels = {name: kbuild.build(name) for name in dict.fromkeys(boot.flavour for boot in boots)}
    names = [_name(boot, kernels[boot.flavour], store, kvm) for boot in boots]
    results = _kept(boots, names, parse, store)
    missing = [index for index in range(len(boots)) if index not in results]
    virtual = all(boot.machine.icount and not boot.job.host_root for boot in boots)
    at_once = len(os.sched_getaffinity(0)) if virtual else 1
    if kvm and missing:
        qemu.probe_kvm(kernels[boots[missing[0]].flavour])
    if virtual:  # the longest first, so that all end at about one time
        missing.sort(key=lambda index: -boots[index].job.timeout_s)

    def measure(index: int, cancelled: threading.Event) -> tuple[int, Result]:
        boot, kernel = boots[index], kernels[boots[index].flavour]
        job = replace(boot.job, name=re.sub(r"\W+", "-", boot.title))  # what its log is called
        on_output = None if virtual else step.update
        try:
            done = qemu.run(kernel, boot.machine, job, kvm=kvm, on_output=on_output, cancelled=cancelled)
            _must_succeed(boot, done)
            name = names[index] or (store.name_of(boot.title, done.said) if store else "")
            result = parse(index, Said(done.said, name))
        except FerryError as err:
            if not failed or cancelled.is_set():
                raise
            return index, failed(index, err)
        if store:
            store.keep(name, _about(boot, kernel), done.said)
        return index, result

    with Step(title) as step:
        for index, result in _beside_each_other(measure, missing, at_once):
            results[index] = result
            step.update(f"{len(results)}/{len(boots)}")
    return [results[n] for n in range(len(boots))], {name: each.release for name, each in kernels.items()}


def _about(boot: Boot, kernel: kbuild.Kernel) -> dict[str, str]:
    """What a record says of its boot."""
    return {"title": boot.title, "kernel": kernel.release, "machine": boot.machine.name}


def _begun(boot: Boot) -> Boot:
    """With a job that begins as the machine's state says."""
    if not (state := boot.machine.state):
        return boot
    job = replace(boot.job, script=f"perturb {state}\n{boot.job.script}")
    return replace(boot, title=f"{boot.title}, state {state}", job=job)


def _must_succeed(boot: Boot, done: qemu.Result) -> None:
    """Raise BadGuest, with the last of what the job wrote, unless it did."""
    if done.status:
        why = done.output.strip()[-TAIL_LETTERS:]
        raise qemu.BadGuest(f"{boot.title} ended early: {why}", done.said)


def _beside_each_other(
    measure: Callable[[int, threading.Event], Result], indices: Sequence[int], at_once: int
) -> Iterator[Result]:
    """What each boot gives, as they end. If one fails, or the user has enough, the event is set for all."""
    cancelled = threading.Event()
    with ThreadPoolExecutor(at_once) as pool:
        waiting = {pool.submit(measure, index, cancelled) for index in indices}
        try:
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for measured in done:
                    yield measured.result()
        except BaseException:
            cancelled.set()
            pool.shutdown(cancel_futures=True)
            raise


def _name(boot: Boot, kernel: kbuild.Kernel, store: Store | None, kvm: bool) -> str:
    if not store or boot.job.host_root:
        return ""
    identity = qemu.identity(kernel, boot.machine, boot.job, kvm)
    return store.name(identity, boot.turn, not boot.machine.icount)


def _kept(
    boots: Sequence[Boot], names: Sequence[str], parse: Parse[Result], store: Store | None
) -> dict[int, Result]:
    """What the store has. Wall time that is there to the last boot was not interrupted: it begins anew."""
    kept = {
        index: Said(text, name)
        for index, name in enumerate(names)
        if store and name and (text := store.find(name)) is not None
    }
    if store and len(kept) == len(boots) and not all(boot.machine.icount for boot in boots):
        store.forget(names)
        return {}
    if kept:
        note(f"{len(kept)} of {len(boots)} were measured before, and have not changed (--anew: again)")
    return {index: parse(index, said) for index, said in kept.items()}
