# SPDX-License-Identifier: GPL-2.0
"""Linux's ptdma driver as Ferry mends it, and dcbm over it, on channels that fail on command."""

from dataclasses import replace

import pytest

from ferry import paths
from ferry.bench import migbench
from ferry.kernel import kbuild
from ferry.server import faults, profile
from ferry.suites import kselftest, ktap
from ferry.vm import emulator, machine, qemu, records
from tests import guest

pytestmark = pytest.mark.vm

SLOTS = {
    "good": "descriptor-ns=20000,bandwidth=1000000000",
    "failing": "error-at=1",
    "erring": "error-at=41",
    "stopping": "error-at=1",
    "slow": "descriptor-ns=50000000",
    "losing": "lose-irq-at=1",
    "blinking": "descriptor-ns=50000000,ones-at=2",
    "silent": "descriptor-ns=20000",
}
GROUP = 80  # copies that are issued at once
CASES = (
    "copy_arrives_whole",
    "lost_read_fails_no_copy",
    "head_stays_at_a_copy_in_hand",
    "copy_without_length_fails_alone",
    "failed_copy_is_reported",
    "each_copy_of_a_group_has_its_own_result",
    "last_is_told_behind_a_full_ring",
    "failed_copy_is_not_taken_again",
    "terminated_group_is_waited_for",
    "list_ends_once_when_all_is_copied",
    "list_with_a_bad_copy_fails",
    "terminated_list_is_waited_for",
    "pause_ends_no_copy_if_offered",
    "interrupt_descriptor_works_if_offered",
    "terminated_copy_is_waited_for",
    "terminated_copy_may_lose_its_interrupt",
    "copies_complete_once_while_polled",
    "callback_has_ended_once_terminated",
)
# Its functions are copies of those of ptdma, and no model of the engine exists. 6.12 has no driver of it.
AE4DMA = "" if paths.BASE == "6.12" else "modprobe ae4dma && modprobe -r ae4dma || fail 'no ae4dma'\n"
# Not what the debug kernel runs as it boots: on 7.3 Linux's suites of page tables, for minutes.
KUNIT = ("kunit.enable=1", "kunit.filter_glob=ptdma")


def _function(name: str) -> str:
    return f"0000:00:{profile.FIRST_SLOT + list(SLOTS).index(name):02x}.0"


def _interrupts(name: str) -> str:
    """Of a record in a script: how many interrupts the function has made."""
    file = f"/sys/kernel/debug/dmaengine/{_function(name)}*/stats"
    return f"{name}: \"$(awk '/Interrupts/ {{ print $NF }}' {file})\""


def _server(*functions: str, name: str = "smp") -> machine.Machine:
    """A machine with one PTDMA function per text, which has its properties."""
    where = replace(machine.get(name), devices=profile.ENGINES["ptdma"].devices(*functions))
    return replace(where, program=tuple(emulator.command())) if where.icount else where


@pytest.fixture(scope="module", params=("ferry-31", "debug-31", "ferry-1"))
def result(request: pytest.FixtureRequest) -> qemu.Result:
    """The driver's KUnit tests, each on the function that has its fault, with many copies in the ring or
    one; debug has KASAN and lockdep.
    """
    flavour, depth = request.param.split("-")
    names = [f"{name}={_function(name)}" for name in SLOTS]
    script = (
        f"{AE4DMA}modprobe ptdma depth={depth} && modprobe ptdma_test {' '.join(names)}"
        " || fail 'cannot load them'\n"
        "output kunit </sys/kernel/debug/kunit/ptdma/results\n"
        f"record stats depth: {depth} {_interrupts('erring')} {_interrupts('silent')}\n"
    )
    job = qemu.Job(script, 180.0, kernel_args=KUNIT)
    return qemu.run(kbuild.build(flavour), _server(*SLOTS.values()), job)


@pytest.mark.parametrize("name", CASES)
def test_client_is_told_the_truth(result: qemu.Result, name: str) -> None:
    text = kselftest.outputs(result.said).get("kunit", "")
    outcomes = {case.name: case.outcome for case in ktap.parse(text)}
    assert outcomes.get(name) == "ok", text


def test_error_is_named_by_its_code(result: qemu.Result) -> None:
    """Code 38 is beyond the table of names that Linux 6.12 has."""
    assert "PTDMA error: ERR 38: ODMA0_AXI_SLVERR (0x26)" in result.console


def test_group_shares_interrupts(result: qemu.Result) -> None:
    """After half a ring, for the error, for what is left: not one per copy (if it is not alone)."""
    stats = records.of(result.said, "stats")
    assert 0 < stats["erring"] <= (GROUP if stats["depth"] == 1 else GROUP // 8)


def test_only_who_asks_is_interrupted(result: qemu.Result) -> None:
    """One for each full ring, so that the last copy gets one for itself."""
    stats = records.of(result.said, "stats")
    assert 0 < stats["silent"] <= (GROUP if stats["depth"] == 1 else 4)


# What the model guesses of an engine, and what its registers cost.
GUESSES = [f"run={run},register-ns={cost}" for run in ("auto", "sticky") for cost in (0, 300, 3000)]
TIMES = "bandwidth=3000000000,descriptor-ns=1200"


def _sweep(depth: int, *guesses: str) -> dict[str, str]:
    """KUnit's text for each guess, of a group in which one copy after the other fails, and of HEAD."""
    functions = [f"{TIMES},error-at=81,error-every=81,{guess}" for guess in guesses]
    places = [f"0000:00:{profile.FIRST_SLOT + i:02x}.0" for i in range(len(functions))]
    lines = [f"modprobe ptdma depth={depth} || fail 'no ptdma'"]
    for place, guess in zip(places, guesses, strict=True):
        lines += [
            f"modprobe ptdma_test sweeping={place} || fail 'no tests'",
            f"output '{guess}' </sys/kernel/debug/kunit/ptdma/results",
            "modprobe -r ptdma_test",
        ]
    job = qemu.Job("\n".join(lines), 300.0, kernel_args=KUNIT)
    return kselftest.outputs(qemu.run(kbuild.build("ferry"), _server(*functions, name="icount"), job).said)


def _outcome(text: str, name: str) -> str | None:
    return {case.name: case.outcome for case in ktap.parse(text)}.get(name)


@pytest.mark.parametrize("depth", [31, 1])
def test_error_is_told_wherever_it_strikes(depth: int) -> None:
    """Nobody polls; each of 80 copies is once the one that fails."""
    found = _sweep(depth, *GUESSES)
    for guess in GUESSES:
        assert _outcome(found[guess], "error_is_told_wherever_it_strikes") == "ok", found[guess]


def test_depth_of_one_needs_no_word_about_head() -> None:
    """An engine that moves HEAD as it takes a copy: one at a time is right, and many are not."""
    guess = "head=fetch,register-ns=3000"
    case = "error_is_told_wherever_it_strikes"
    right, wrong = (_sweep(depth, guess)[guess] for depth in (1, 31))
    assert _outcome(right, case) == "ok", right
    assert _outcome(wrong, case) == "fail"
    assert "page->result != DMA_TRANS_NOERROR" in wrong


@pytest.mark.parametrize(("head", "outcome"), [("end", "ok"), ("fetch", "fail")])
def test_head_that_runs_ahead_is_noticed(head: str, outcome: str) -> None:
    """What an operator asks of a real engine before it gets a ring."""
    script = (
        f"modprobe ptdma && modprobe ptdma_test good=0000:00:{profile.FIRST_SLOT:02x}.0 || fail 'no tests'\n"
        "output kunit </sys/kernel/debug/kunit/ptdma/results\n"
    )
    job = qemu.Job(script, 120.0, kernel_args=KUNIT)
    result = qemu.run(kbuild.build("ferry"), _server(f"{TIMES},head={head}", name="icount"), job)
    text = kselftest.outputs(result.said)["kunit"]
    assert _outcome(text, "head_stays_at_a_copy_in_hand") == outcome, text
    assert _outcome(text, "copy_arrives_whole") == "ok"


@pytest.mark.parametrize("depth", [31, 1])
def test_device_that_falls_off_the_bus_ends_its_copies(depth: int) -> None:
    """What is in its ring has failed, the CPU copies it, and the driver can leave."""
    place = f"0000:00:{profile.FIRST_SLOT:02x}.0"
    script = (
        f"{AE4DMA}modprobe ptdma depth={depth} && modprobe dcbm timeout_ms=500 || fail 'no dcbm'\n"
        "echo 60000 >$OFFLOAD/deadline_ms; echo 1 >$OFFLOAD/engine_always; echo dcbm >$OFFLOAD/active\n"
        "echo FALL; while ! [ -e /tmp/fallen ]; do\n"
        "bench gone --folio 2M --bytes 64M --runs 2\n"
        '[ "$(cat $OFFLOAD/migrators/dcbm/errors)" -eq 0 ] || touch /tmp/fallen\n'
        "done\n"
        f"echo {place} >/sys/bus/pci/drivers/ptdma/unbind\n"
        "record counted kept: $(cat $OFFLOAD/stats/quarantined_bytes)\n"
    )

    def fall(text: str) -> None:
        if "FALL" in text:
            (vm,) = faults.running()
            with faults.connected(vm) as monitor:
                faults.change(monitor, 0, {"gone": True})

    programs = {"bin/migbench": migbench.build_migbench()}
    job = qemu.Job(script, 300.0, programs=programs, controlled=True)
    said = qemu.run(kbuild.build("ferry"), _server(TIMES, TIMES), job, on_output=fall).said
    assert all(each["found"]["passed"] for each in records.every(said, "migbench"))
    assert records.of(said, "counted")["kept"] == 0


def test_driver_leaves_while_it_copies() -> None:
    """Functions are unbound while folios move by them, one and all; the CPU and the rest go on."""
    script = (
        "modprobe ptdma && modprobe dcbm timeout_ms=2000 && echo dcbm >$OFFLOAD/active || fail 'no dcbm'\n"
        # Not for a host that is busy
        "echo 60000 >$OFFLOAD/deadline_ms; echo 1 >$OFFLOAD/engine_always\n"
        "bench leaving --folio 2M --bytes 64M --runs 60 & bench=$!\n"
        "cd /sys/bus/pci/drivers/ptdma\n"
        "for round in 1 2 3; do\n"
        'for name in 0000:*; do sleep 0.3; echo $name >unbind; all="$all $name"; done\n'
        "record gone channels: $(grep -c gone /sys/kernel/debug/dcbm/channels)\n"
        "for name in $all; do echo $name >bind; done; all=\n"
        "echo none >$OFFLOAD/active; echo dcbm >$OFFLOAD/active || fail 'cannot choose dcbm anew'\n"
        "done\n"
        "kill -0 $bench || fail 'the bench ended before the drivers left'\n"
        "wait $bench || exit\n"
        "record counted moved: $(cat $OFFLOAD/stats/bytes) kept: $(cat $OFFLOAD/stats/quarantined_bytes)\n"
    )
    slow = "bandwidth=500000000"
    said = guest.says(script, _server(slow, slow, slow, slow))
    assert [each["channels"] for each in records.every(said, "gone")] == [4, 4, 4]
    assert records.of(said, "migbench")["found"]["passed"]
    counted = records.of(said, "counted")
    assert counted["moved"] > 0
    assert counted["kept"] == 0


def test_device_that_bounces_is_refused() -> None:
    """The CPU would copy twice what the engine copies once."""
    script = (
        "modprobe ptdma && modprobe dcbm || fail 'no dcbm'\n"
        "echo dcbm >$OFFLOAD/active && record taken\n"
        "exit 0\n"
    )
    job = qemu.Job(script, 120.0, kernel_args=("swiotlb=force",))
    result = qemu.run(kbuild.build("ferry"), _server(""), job)
    assert not records.every(result.said, "taken")
    assert "channels of ptdma are not used: what it copies would go through bounce buffers" in result.console


@pytest.mark.parametrize(
    ("fault", "counter", "option"),
    [
        ("error-at=5", "fallback_error", ""),
        ("stall-at=5", "quarantined_bytes", "--allow-partial"),
        ("lose-irq-at=5", "folios", ""),  # the watchdog asks the driver
    ],
)
def test_faulty_channel_loses_no_byte(fault: str, counter: str, option: str) -> None:
    """migbench verifies; the folio was copied by the CPU, or stays, as its pages are kept and counted."""
    script = (
        "modprobe ptdma && modprobe dcbm timeout_ms=500 || fail 'cannot load dcbm'\n"
        # dcbm is to notice, not the core, which would give the engine up
        "echo 60000 >$OFFLOAD/deadline_ms; echo 1 >$OFFLOAD/engine_always; echo dcbm >$OFFLOAD/active\n"
        f"bench faulty --folio 2M --bytes 64M --runs 3 {option}\n"
        f"cd $OFFLOAD/stats; record counted count: $(cat {counter}) moved: $(cat bytes)\n"
    )
    said = guest.says(script, _server("", fault, "", ""), limit_s=180.0)
    found, counted = records.of(said, "migbench")["found"], records.of(said, "counted")
    assert found["passed"]
    assert found["verified_bytes"] >= 3 * 64 << 20
    assert counted["count"] > 0
    assert counted["moved"] > 2 * 64 << 20  # the other channels went on
