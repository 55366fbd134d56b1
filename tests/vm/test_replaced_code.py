# SPDX-License-Identifier: GPL-2.0
"""Code that one emulated CPU replaces is not run by another: a static branch is switched under load."""

import pytest

from ferry.vm import machine, records
from tests import guest

pytestmark = pytest.mark.vm

# Without server/qemu/patches/0005 the guest nearly always dies of an int3 in that time.
SWITCH_S = 25
# The first group with a limit switches a branch of the scheduler, numa_stat one of the allocator.
SCRIPT = f"""
cd "$WORK" && mkdir cgroup && mount -t cgroup2 none cgroup || fail "no cgroup2"
echo +cpu >cgroup/cgroup.subtree_control && mkdir cgroup/one || fail "no cpu controller"
for i in 1 2 3; do
	mkfifo there$i back$i
	(while read -r ball; do echo "$ball"; done) <there$i >back$i &
	(echo ball; while read -r ball; do echo "$ball"; done) >there$i <back$i &
	(while :; do (:); done) &
done
(sleep {SWITCH_S}; touch ended) &
switched=0
while [ ! -e ended ]; do
	echo 100000 >cgroup/one/cpu.max && echo max >cgroup/one/cpu.max || fail "no cpu.max"
	switched=$((switched + 1))
	echo $((switched % 2)) >/proc/sys/vm/numa_stat
done
kill $(jobs -p)
wait
record switched times: $switched
"""


def test_a_branch_can_be_switched_while_all_cpus_take_it() -> None:
    said = guest.says(SCRIPT, machine.get("smp", 4), limit_s=180.0)
    assert records.of(said, "switched")["times"] > 10
