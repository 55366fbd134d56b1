# SPDX-License-Identifier: GPL-2.0
"""Where the instructions of a migration go: by kernel function and by step, counted by a TCG plugin.

server/qemu/plugin/steps.c counts each instruction of one system call for the function that it belongs
to, and for the innermost step that has begun: a step begins with the call of a function of SCOPES and
ends with its return. So what a step calls belongs to it, unless that is a step of its own.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ferry import packages, paths, proc
from ferry.bench import migbench, rows
from ferry.bench.cell import Cell
from ferry.bench.sizes import parse_size
from ferry.errors import FerryError, UsageError, choose
from ferry.kernel import kbuild
from ferry.server import profile
from ferry.vm import boots, emulator, qemu, records
from ferry.vm.boots import Boot, Said
from ferry.vm.machine import Machine
from ferry.vm.records import Record
from ferry.vm.store import Store

PLUGIN = emulator.HERE / "plugin/steps.c"
CALLS = ("move_pages", "migrate_pages", "mbind", "promote")
# Where each but a system call begins, which is for one folio: NUMA balancing moves it as it is touched.
ENTRIES = {"promote": "asm_exc_page_fault"}
ENGINES = (rows.VANILLA, "none", "cpu", "dcbm")
FOLIOS = migbench.FOLIOS[:-1]  # of 1G there are those of hugetlb alone
# Without it a system call was a question and not a move.
MUST = "migrate_pages"
RUN_S = 900.0

# The first is the system call's own; modules are the second.
STEPS = (
    "front end", "engine", "allocate", "lru", "unmap", "flush", "copy", "move", "restore", "free",
    "statistics", "interrupt",
)  # fmt: skip

# Function of a base, less what the compiler appends, and the step that it begins.
SCOPES = {
    r"(__)?migrate_pages": "move",
    r"alloc_migration_target|alloc_migration_target_by_mpol|alloc_misplaced_dst_folio": "allocate",
    r"__(folio_alloc|alloc_pages|alloc_frozen_pages)_noprof|alloc_pages_bulk_noprof": "allocate",
    r"folio_isolate_lru|folio_putback_lru|putback_movable_pages|folio_add_lru": "lru",
    r"folio_batch_move_lru|lru_cache_disable|__?lru_add_drain\w*": "lru",
    r"migrate_isolate_claimed|migrate_add_lru": "lru",
    r"try_to_migrate|migrate_range_unmap": "unmap",
    r"try_to_unmap_flush|set_tlb_ubc_flush_pending(_range)?|note_tlb_ubc_flush|arch_tlbbatch_flush": "flush",
    r"flush_tlb_mm_range|flush_tlb_batched_pending|ptep_clear_flush": "flush",
    r"folio_mc_copy|folio_copy|copy_mc_\w+": "copy",
    r"remove_migration_ptes|migrate_range_restore": "restore",
    # The compiler may put remove_migration_ptes() into its caller.
    r"rmap_walk(_locked)?": "restore within move",
    r"__folio_put|free_unref_(page|folios)|folios_put_refs|__free_pages|(__)?free_frozen_pages": "free",
    r"(__)?(mod_(node_page|zone_page|lruvec|memcg_lruvec|memcg)_state|lruvec_stat_mod_folio)": "statistics",
    r"__mod_memcg_lruvec_state|mem_cgroup_\w+|(__)?count_memcg_events|count_vm_events?": "statistics",
    r"asm_(common_interrupt|(exc|sysvec)_\w+)": "interrupt",
}
_SCOPES = [
    (re.compile(pattern), "/".join(str(STEPS.index(step)) for step in steps.split(" within ")))
    for pattern, steps in SCOPES.items()
]


@dataclass(frozen=True)
class Plan:
    """What to count: one call that moves memory, for each folio size and engine."""

    folios: tuple[str, ...] = ("4K",)
    engines: tuple[str, ...] = (rows.VANILLA, "none")
    channels: int = 16
    size: str = "64M"
    call: str = "move_pages"
    order: str = "up"
    server: str = "zen3"
    one_by_one: bool = False  # folios are unmapped and restored, and not in ranges
    state: int = 0  # in which the machine begins

    @property
    def machine(self) -> Machine:
        server = profile.load(self.server).as_machine().in_state(self.state)
        return server.one_by_one() if self.one_by_one else server

    def check(self) -> None:
        """Raise UsageError for what can be known to fail without a boot."""
        choose("engine", self.engines, ENGINES)
        choose("folio size", self.folios, FOLIOS)
        choose("call", [self.call], CALLS)
        if self.call in migbench.TIERING and not self.machine.slow_nodes:
            raise UsageError(f"--call {self.call}: {self.server} has no slow node, --profile cxl does")
        if self.order != "up" and self.call not in ("move_pages", "promote"):
            raise UsageError(f"--order {self.order}: {self.call} moves in order of addresses")
        channels = profile.load(self.server).dma.channels
        if not 1 <= self.channels <= channels:
            raise UsageError(f"{self.channels} channels: profile {self.server} has 1 to {channels}")
        migbench.check_size(self.size, self.folios, self.machine)


Counts = dict[tuple[str, str], float]  # by step and function, instructions per folio


def breakdown(folio_kib: int, engine: str, channels: int, counts: Counts, record: str = "") -> Record:
    """One migration: an engine, a folio size, and where its instructions went, per folio."""
    steps = dict.fromkeys(STEPS, 0.0)
    for (step, _), instructions in counts.items():
        steps[step] += instructions
    return {
        **{"folio_kib": folio_kib, "engine": engine, "channels": channels},
        **{"instructions": round(sum(steps.values()), 1), "records": [record]},
        "steps": {step: round(instructions, 1) for step, instructions in steps.items()},
        "functions": [
            {"step": step, "function": function, "instructions": round(instructions, 2)}
            for (step, function), instructions in counts.items()
        ],
    }


def by_function(profile: Record) -> dict[str, float]:
    """Instructions per folio of each function, in all steps."""
    totals: dict[str, float] = {}
    for count in profile["functions"]:
        totals[count["function"]] = totals.get(count["function"], 0.0) + count["instructions"]
    return totals


def build_plugin() -> Path:
    """The plugin, built against the lab's own emulator, which is built as well."""
    emulator.build()
    packages.ensure(["gcc", "libc6-dev", "pkg-config", "libglib2.0-dev"])
    built = paths.BUILD / "qemu/steps.so"
    flags = proc.output(["pkg-config", "--cflags", "--libs", "glib-2.0"]).split()
    header = emulator.SOURCE / "include/qemu"
    options = ["-O2", "-Wall", "-fPIC", "-shared", f"-I{header}"]
    command: list[str | Path] = ["gcc", *options, "-o", built, PLUGIN, *flags]
    proc.run(command, title="build the plugin")
    return built


def table(system_map: str, call: str) -> str:
    """The plugin's table of functions, from the kernel's System.map."""
    names: dict[int, str] = {}
    for line in system_map.splitlines():
        address, kind, name = line.split()
        if name == "_etext":
            names[int(address, 16)] = name
            break
        # Of several names for one address the first is as good as any.
        if kind in "tTwW" and int(address, 16) >> 63:
            names.setdefault(int(address, 16), name)
    lines = [f"{address:x} {_role(name, call)} {_step(name)} {name[:55]}" for address, name in names.items()]
    if not any(" start " in line for line in lines) or not any(" must " in line for line in lines):
        raise FerryError(f"System.map has no {call}() or no {MUST}(): is this a kernel with migration?")
    return "\n".join(sorted(lines, key=lambda line: int(line.split()[0], 16))) + "\n"


def _role(name: str, call: str) -> str:
    if name == ENTRIES.get(call, f"__x64_sys_{call}"):
        return "start"
    if name.startswith(("asm_common_interrupt", "asm_exc_", "asm_sysvec_")):
        return "trap"
    return "must" if name == MUST else "-"


def _step(name: str) -> str:
    plain = name.partition(".")[0]
    return next((step for pattern, step in _SCOPES if pattern.fullmatch(plain)), "-")


def script(plan: Plan, engine: str, folio: str) -> str:
    """The job: set up, say where the modules are, move once to warm up and once to be counted."""
    cell = Cell("ferry", folio, 1, channels=plan.channels)
    lines = []
    if engine == "dcbm":
        lines += [*cell.engine_lines(), *cell.policy_lines()]
    elif engine != rows.VANILLA:
        lines += [f"use_engine {engine} 0"]
    symbol = r'{"record": "symbol", "address": "\1", "name": "\2"}'
    bench_args = f"--call {plan.call} --folio {folio} --bytes {plan.size} --warmup 1 --runs 1"
    nodes = " ".join(f"{name} {node}" for name, node in migbench.nodes(plan.call).items())
    bench_args += f" --order {plan.order} {nodes}"
    lines += [
        # One process for all of them: record() has several for each.
        rf"sed -nE 's/^(\S+) [tT] (\S+)\s+\[.*/{symbol}/p' /proc/kallsyms >&3",
        f"step {folio} {engine}",
        f"bench {engine} {bench_args}",
    ]
    return "\n".join(lines)


def parse(text: str, symbols: Iterable[tuple[int, str]], folios: int) -> Counts:
    """What the plugin wrote; addresses of modules get the names of the symbols before them."""
    ordered = sorted(symbols)
    places = [address for address, _ in ordered]
    total: dict[tuple[str, str], int] = {}
    for line in text.splitlines():
        step, name, count = line.split()
        if re.fullmatch("f[0-9a-f]{15}", name):
            i = bisect_right(places, int(name, 16))
            name = ordered[i - 1][1] if i else "unknown"
        key = (STEPS[int(step)], name)
        total[key] = total.get(key, 0) + int(count)
    return {place: count / folios for place, count in total.items()}


def measure(plan: Plan, store: Store | None = None) -> tuple[list[Record], dict[str, str]]:
    """Boot once for each engine and folio size; returns what was counted, and the kernels' releases."""
    plan.check()
    plugin = build_plugin()
    programs = migbench.programs()
    tables = {
        name: table((kbuild.build(name).build_dir / "System.map").read_text(), plan.call)
        for name in dict.fromkeys(map(rows.flavour, plan.engines))
    }
    cells = [(folio, engine) for folio in plan.folios for engine in plan.engines]
    all_boots = []
    for folio, engine in cells:
        flavour = rows.flavour(engine)
        counter = qemu.Plugin(plugin, tables[flavour])
        text = script(plan, engine, folio)
        job = qemu.Job(text, RUN_S, programs=programs, kernel_args=("nokaslr",), plugin=counter)
        all_boots.append(Boot(f"the count of {folio}, {engine}", flavour, plan.machine, job))

    def parsed(index: int, said: Said) -> Record:
        folio, engine = cells[index]
        channels = plan.channels if engine == "dcbm" else 0
        text = records.of(said.text, "plugin")["text"]
        if not text:
            raise FerryError(f"nothing was counted for {folio}, {engine}")
        rows.from_migbench(records.of(said.text, "migbench")["found"], engine, channels)
        symbols = [
            (int(symbol["address"], 16), symbol["name"]) for symbol in records.every(said.text, "symbol")
        ]
        folios = 1 if plan.call in ENTRIES else parse_size(plan.size) // parse_size(folio)
        counts = parse(text, symbols, folios)
        return breakdown(parse_size(folio) // 1024, engine, channels, counts, said.record)

    return boots.run(f"count {len(cells)} moves ({plan.server})", all_boots, parsed, store)
