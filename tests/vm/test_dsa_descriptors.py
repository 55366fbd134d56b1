# SPDX-License-Identifier: GPL-2.0
"""The DSA device without a guest: descriptors and their records, batches, drains, and several engines."""

from pathlib import Path

import pytest

from tests import dsa as d

pytestmark = pytest.mark.vm


@pytest.mark.parametrize("length", [1, 4095, 1 << 20])
def test_copies_in_time(dsa: d.Device, length: int) -> None:
    dsa.check_copy(length)


@pytest.mark.parametrize("shift", [1, -1, 4097, -4097])
def test_overlap_is_no_obstacle(dsa: d.Device, shift: int) -> None:
    """Also where a copy is made in pieces."""
    length = 9 << 20
    dsa.command(d.DISABLE)
    dsa.queue(0, limits=0x15F)
    assert dsa.command(d.ENABLE) == dsa.command(d.ENABLE_WQ) == 0
    data = d.pattern(length)
    dsa.q.write(d.SOURCE, data)
    dsa.submit(length=length, dst=d.SOURCE + shift)
    dsa.q.step(d.DESCRIPTOR_NS + length)
    assert dsa.record() == (d.OK, length, 0)
    assert dsa.q.read(d.SOURCE + shift, length) == data


def test_fills(dsa: d.Device) -> None:
    dsa.q.write(d.TARGET, b"\xee" * 101)
    dsa.submit(d.FILL, 100, 0xFEDCBA9876543210)
    dsa.q.step(d.DESCRIPTOR_NS + 100)
    assert dsa.q.read(d.TARGET, 101) == (0xFEDCBA9876543210.to_bytes(8, "little") * 13)[:100] + b"\xee"
    assert dsa.record() == (d.OK, 100, 0)


def test_nothing_to_do_is_done(dsa: d.Device) -> None:
    dsa.set("error-at", 1)  # of those that copy
    dsa.submit(d.NOOP, src=d.NOWHERE, dst=d.NOWHERE)
    dsa.q.step(d.DESCRIPTOR_NS)
    assert dsa.record() == (d.OK, 0, 0)
    assert dsa.messages() == [1]


def test_record_and_message_only_for_who_asks(dsa: d.Device) -> None:
    dsa.submit(length=1, flags=d.CRAV)
    dsa.q.step(d.DESCRIPTOR_NS + 1)
    assert dsa.record()[0] == 0
    dsa.submit(length=1, flags=d.CRAV | d.RCR, handle=0xFFFF)
    dsa.q.step(d.DESCRIPTOR_NS + 1)
    assert dsa.record()[0] == d.OK
    assert not dsa.messages()
    dsa.submit(length=1, handle=8)
    dsa.q.step(d.DESCRIPTOR_NS + 1)
    assert dsa.messages() == [8]


@pytest.mark.parametrize(
    ("status", "bad"),
    [
        (0x10, {"opcode": 5}),
        (0x11, {"flags": d.SAY | d.BLOCK}),
        (0x13, {"length": 0}),
        (0x13, {"length": (1 << 21) + 1}),
        (0x14, {"opcode": d.BATCH, "length": 1}),
        (0x14, {"opcode": d.BATCH, "length": 1025}),
        (0x18, {"opcode": d.BATCH, "length": 2, "src": d.LIST + 32}),
        (0x19, {"handle": 9}),
        (0x19, {"handle": 0}),
    ],
)
def test_bad_descriptor_is_reported(dsa: d.Device, status: int, bad: dict[str, int]) -> None:
    """Whoever wants no record of success gets one of a failure."""
    for flags in (d.SAY, d.CRAV | d.RCI):
        dsa.q.write(d.TARGET, b"old")
        fields = {"length": 3, "flags": flags, **bad}
        fields["flags"] |= bad.get("flags", 0)
        dsa.submit(**fields)
        dsa.q.step(d.DESCRIPTOR_NS)
        assert dsa.record() == (status, 0, 0)
        assert dsa.messages() == ([] if status == 0x19 else [1])
        assert dsa.q.read(d.TARGET, 3) == b"old"
    dsa.check_copy(64)


def test_page_that_is_not_there(dsa: d.Device) -> None:
    """The record says how far it came and which page it was: what lies behind memory's end at 64 MiB."""
    end = 64 << 20
    dsa.submit(length=8192, src=end - 4096)
    dsa.q.step(d.DESCRIPTOR_NS + 8192)
    assert dsa.record() == (d.PAGE_FAULT, 4096, end)
    dsa.submit(length=8192, dst=end - 100)
    dsa.q.step(d.DESCRIPTOR_NS + 8192)
    assert dsa.record() == (d.PAGE_FAULT | d.WAS_WRITE, 100, end)
    dsa.set("untranslated", "translation")
    dsa.submit(length=64, src=d.NOWHERE)
    dsa.q.step(d.DESCRIPTOR_NS + 64)
    assert dsa.record() == (0x22, 0, d.NOWHERE)
    with pytest.raises(AssertionError, match="untranslated must be page-fault or translation"):
        dsa.set("untranslated", "hardware")


def test_errors_that_no_record_can_tell(dsa: d.Device) -> None:
    """A second one while the first is not cleared is counted as an overflow."""
    dsa.submit(length=1, record=d.NOWHERE)
    dsa.q.step(d.DESCRIPTOR_NS + 1)
    assert dsa.reg(d.INTCAUSE) == d.ERROR
    assert dsa.messages() == [0]
    dsa.submit(length=1, record=d.RECORDS + 1)
    dsa.q.step(d.DESCRIPTOR_NS + 1)
    assert dsa.error() == (0xF, 0x1A, d.NOWHERE)
    assert dsa.error()[0] & 3 == 0
    dsa.set_reg(d.INTCAUSE, d.ERROR)
    dsa.submit(length=1, record=d.RECORDS + 1)
    dsa.q.step(d.DESCRIPTOR_NS)
    assert dsa.error()[:2] == (0xD, 0x1B)
    assert dsa.messages() == [0]
    dsa.set_reg(d.INTCAUSE, d.ERROR)
    dsa.submit(length=1, flags=d.RCR)
    dsa.q.step(d.DESCRIPTOR_NS)
    assert dsa.error()[:2] == (0xD, 0x11)


def test_queue_that_is_full_or_off(dsa: d.Device) -> None:
    for _ in range(17):
        dsa.submit(length=1)
    assert dsa.queue_state() == (1, 16)  # and one is in hand
    assert dsa.error()[0] == 0
    dsa.submit(length=1)
    assert dsa.error()[:2] == (0xD, 0x51)
    dsa.q.step(10**6)
    assert dsa.queue_state() == (1, 0)
    assert [dsa.record(i)[0] for i in range(18)] == [d.OK] * 17 + [0]
    dsa.submit(length=1, queue=3)
    assert dsa.error()[:2] == (0xD, 0x50)


def test_only_whole_descriptors_are_taken(dsa: d.Device) -> None:
    """Eight stores in order, from the start of a block on; any page and block of a queue is its portal."""
    for page in range(4):
        whole = dsa.descriptor(length=1)
        at = dsa.portals + 0x1000 * page + 64 * page
        for skip in (0, 7):
            for i in set(range(8)) - {skip}:
                dsa.q.write(at + 8 * i, whole[8 * i : 8 * i + 8])
        for i in range(16):
            dsa.q.write(at + 4 * i, whole[4 * i : 4 * i + 4])
        dsa.q.step(10**6)
        assert dsa.record()[0] == 0
        dsa.send(whole, page=page)
        dsa.q.step(d.DESCRIPTOR_NS + 1)
        assert dsa.record()[0] == d.OK


def test_batch_is_done_in_order(dsa: d.Device) -> None:
    dsa.q.write(d.SOURCE, b"abcd")
    each = [
        dsa.descriptor(length=1, src=d.SOURCE + i, dst=d.TARGET + i, flags=d.CRAV | d.RCR) for i in range(4)
    ]
    dsa.batch(each)
    dsa.q.step(d.DESCRIPTOR_NS + 4 * (d.DESCRIPTOR_NS + 1) - 1)
    assert [dsa.record(i)[0] for i in range(5)] == [d.OK] * 3 + [0, 0]
    assert not dsa.messages()
    dsa.q.step(1)
    assert dsa.record() == (d.OK, 4, 0)
    assert dsa.messages() == [1]
    assert dsa.q.read(d.TARGET, 4) == b"abcd"


@pytest.mark.parametrize("fence", [False, True])
def test_batch_with_one_that_fails(dsa: d.Device, fence: bool) -> None:
    """What is behind the next fence is not attempted."""
    flags = d.CRAV | (d.FENCE if fence else 0)
    each = [dsa.descriptor(length=1, flags=d.CRAV) for _ in range(2)]
    each += [dsa.descriptor(length=1, src=d.NOWHERE, flags=d.CRAV)]
    each += [dsa.descriptor(length=1, flags=d.CRAV | d.RCR)]
    each += [dsa.descriptor(length=1, flags=flags | d.RCR) for _ in range(2)]
    dsa.batch(each)
    dsa.q.step(10**6)
    assert [dsa.record(i)[0] for i in range(6)] == [0, 0, d.PAGE_FAULT, d.OK, *[0 if fence else d.OK] * 2]
    assert dsa.record() == (d.SOME_FAILED, 4 if fence else 6, 0)
    assert dsa.messages() == [1]
    dsa.check_copy(64)


def test_fence_waits_for_records(dsa: d.Device) -> None:
    dsa.set("latency-ns", 5000)
    each = [dsa.descriptor(length=1, flags=d.CRAV | d.RCR | flag) for flag in (0, 0, d.FENCE)]
    dsa.batch(each)
    dsa.q.step(3 * d.DESCRIPTOR_NS + 2 + 5000)
    assert [dsa.record(i)[0] for i in range(4)] == [d.OK, d.OK, 0, 0]
    dsa.q.step(d.DESCRIPTOR_NS + 5000)
    assert dsa.record()[0] == 0
    dsa.q.step(1)
    assert dsa.record() == (d.OK, 3, 0)


def test_list_that_is_not_there(dsa: d.Device) -> None:
    dsa.submit(d.BATCH, 2, d.NOWHERE)
    dsa.q.step(d.DESCRIPTOR_NS)
    assert dsa.record() == (d.LIST_FAULT, 0, d.NOWHERE)


@pytest.mark.parametrize("opcode", [d.BATCH, d.DRAIN])
def test_what_no_batch_can_have(dsa: d.Device, opcode: int) -> None:
    dsa.batch([dsa.descriptor(opcode, 2, flags=d.CRAV), dsa.descriptor(d.NOOP)])
    dsa.q.step(10**5)
    assert [dsa.record(i)[0] for i in range(3)] == [0x10, d.OK, d.SOME_FAILED]


def test_engines_of_a_group_finish_in_any_order(cold: d.Device) -> None:
    """And a drain waits for all of its queue, not for those of another."""
    cold.vectors()
    cold.group(0, 3, 7)
    cold.queue(0)
    cold.queue(1)
    for code, operand in ((d.ENABLE, 0), (d.ENABLE_WQ, 0), (d.ENABLE_WQ, 1)):
        assert cold.command(code, operand) == 0
    cold.submit(length=10000)
    cold.submit(length=1, queue=1)
    cold.submit(d.DRAIN)
    cold.submit(d.DRAIN, queue=1)
    cold.q.step(2 * d.DESCRIPTOR_NS + 1)
    assert [cold.record(i)[0] for i in range(4)] == [0, d.OK, 0, d.OK]
    cold.q.step(10000 - d.DESCRIPTOR_NS - 1)
    assert [cold.record(i)[0] for i in range(4)] == [d.OK, d.OK, d.OK, d.OK]


def test_queue_of_higher_priority_is_served_first(cold: d.Device) -> None:
    """And those of one priority in turn."""
    cold.vectors()
    cold.group(0, 7, 1)
    for queue, priority in enumerate((1, 1, 2)):
        cold.queue(queue, priority=priority)
    assert cold.command(d.ENABLE) == 0
    for queue in range(3):
        assert cold.command(d.ENABLE_WQ, queue) == 0
    sent = (0, 0, 0, 1, 1, 2)
    for queue in sent:
        cold.submit(d.NOOP, queue=queue)
    order: list[int] = []
    for _ in sent:
        cold.q.step(d.DESCRIPTOR_NS)
        order += [i for i in range(len(sent)) if cold.record(i)[0] and i not in order]
    assert order == [0, 5, 1, 3, 2, 4]


def test_records_come_after_the_latency(dsa: d.Device) -> None:
    """In which the engine does others."""
    dsa.set("latency-ns", 500)
    for _ in range(2):
        dsa.submit(length=100)
    dsa.q.step(1599)
    assert dsa.record(0)[0] == 0
    dsa.q.step(1)
    assert dsa.record(0)[0] == d.OK
    dsa.q.step(1099)
    assert dsa.record(1)[0] == 0
    dsa.q.step(1)
    assert dsa.record(1)[0] == d.OK


def test_no_more_in_progress_than_the_device_says(dsa: d.Device) -> None:
    """64 an engine."""
    dsa.set("latency-ns", 10**6)
    dsa.set("descriptor-ns", 0)
    for _ in range(8):
        for _ in range(10):
            dsa.submit(d.NOOP)
        dsa.q.step(1)
    assert dsa.queue_state() == (1, 16)
    dsa.q.step(10**6)
    assert [dsa.record(i)[0] for i in (63, 64)] == [d.OK, 0]


def test_engines_share_a_fabric(tmp_path: Path) -> None:
    """Two copies beside each other have half of its rate each."""
    with d.machine(tmp_path, "copy-fabric,id=all,bandwidth=1000000000", d.device(",fabric=all")) as qtest:
        dsa = d.Device(qtest)
        dsa.start(engines=3)
        for _ in range(2):
            dsa.submit(length=4096)
        qtest.step(8191)
        assert [dsa.record(i)[0] for i in range(2)] == [0, 0]
        qtest.step(1)
        assert [dsa.record(i)[0] for i in range(2)] == [d.OK, d.OK]
