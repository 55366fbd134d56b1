# SPDX-License-Identifier: GPL-2.0
"""./ferry server fault, on an emulated server whose channels copy meanwhile."""

import pytest

from ferry import cli
from ferry.bench import migbench
from ferry.kernel import kbuild
from ferry.server import faults, profile
from ferry.vm import qemu, records

pytestmark = pytest.mark.vm

# It begins, and moves until a channel has erred; what errs is copied by the CPU, and verified.
SCRIPT = """
use_dma 2 32
echo 1 >$OFFLOAD/engine_always
errors=$OFFLOAD/migrators/dcbm/errors
move() {
	/bin/migbench --folio 64K --bytes 4M --runs 1 --warmup 0 >/tmp/said 2>&1 || fail "$(cat /tmp/said)"
}
move
record before errors: "$(cat $errors)"
echo FAULT
rounds=0
while [ "$(cat $errors)" -eq 0 ] && [ $rounds -lt 300 ]; do
	move
	rounds=$((rounds + 1))
done
record after errors: "$(cat $errors)" in_service: "$(cat $OFFLOAD/in_service)"
"""


@pytest.mark.parametrize(("name", "devices"), [("zen3", 16), ("xeon-dsa", 4)])
def test_a_fault_strikes_a_server_that_runs(
    name: str, devices: int, capsys: pytest.CaptureFixture[str]
) -> None:
    codes: list[int] = []
    now: dict[int, dict[str, faults.Value]] = {}

    def strike(text: str) -> None:
        if "FAULT" in text and not codes:
            (vm,) = faults.running()
            with faults.connected(vm) as monitor:
                now.update(faults.listed(monitor, None))
            codes.append(cli.main(["server", "fault", "--vm", vm.name]))
            # The guest ends soon after this one.
            codes.append(cli.main(["server", "fault", "error-at=3", "error-code=19", "--channel", "0"]))

    programs = {"bin/migbench": migbench.build_migbench()}
    job = qemu.Job(SCRIPT, 300.0, programs=programs, controlled=True)
    where = profile.load(name).as_machine()
    said = qemu.run(kbuild.build("ferry"), where, job, on_output=strike).said
    after = records.of(said, "after")
    assert codes == [0, 0]
    assert sorted(now) == list(range(devices))
    assert now[0]["bandwidth"] == profile.load(name).dma.channel_mb_s * 10**6
    assert (now[0]["error-at"], now[0]["stalled"]) == (0, False)
    assert records.of(said, "before")["errors"] == 0
    assert (after["errors"] > 0, after["in_service"]) == (True, 1)
    assert "error-code" in capsys.readouterr().out
    assert faults.running() == []
