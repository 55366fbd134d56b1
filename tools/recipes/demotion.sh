#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Reclaim moves cold pages to slower memory. It needs a node of a slower tier, such as CXL memory:
#   grep . /sys/devices/virtual/memory_tiering/*/nodelist
# Watch: ferryctl watch, and grep -E 'pgdemote' /proc/vmstat
# Undo: demotion.sh undo
set -eu
file=/sys/kernel/mm/numa/demotion_enabled
if [ "${1:-}" = undo ]; then
	echo 0 >$file
	exit
fi
tiers=$(find /sys/devices/virtual/memory_tiering -name 'memory_tier[0-9]*' 2>/dev/null | wc -l)
if [ "$tiers" -lt 2 ]; then
	echo "demotion.sh: all memory is of one tier, and nothing would be demoted" >&2
	exit 1
fi
echo 1 >$file
