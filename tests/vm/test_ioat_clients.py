# SPDX-License-Identifier: GPL-2.0
"""A client of I/OAT that is not Linux's: DPDK drives the model through vfio-pci, behind an IOMMU."""

import pytest

from ferry.vm import emulator
from tests import dpdk

pytestmark = [pytest.mark.vm, pytest.mark.long]

# As long as the profile xeon-ioat has it.
DEVICE = f"{emulator.IOAT},descriptor-ns=2000"


def test_dpdk_copies_fills_and_sees_each_error() -> None:
    """An address of 0 is refused by the IOMMU: the channel halts, and goes on after a reset."""
    said = dpdk.autotest(f"{DEVICE},device-id=0x0b00")
    assert said.passed, said.text
    assert said.parts[dpdk.FUNCTION] == [dpdk.COPY, dpdk.BURST, dpdk.ERRORS, dpdk.FILL]
    assert "fault addr 0x0 " in said.log


def test_dpdk_does_not_try_errors_of_the_older_device() -> None:
    said = dpdk.autotest(DEVICE)
    assert said.passed, said.text
    assert said.parts[dpdk.FUNCTION] == [dpdk.COPY, dpdk.BURST, dpdk.NO_ERRORS, dpdk.FILL]


def test_dpdk_fails_where_one_copy_does() -> None:
    said = dpdk.autotest(f"{DEVICE},device-id=0x0b00,error-at=1000")
    assert not said.passed
    assert said.parts == {dpdk.FUNCTION: [dpdk.COPY]}
    assert "dma_err = 1" in said.text
