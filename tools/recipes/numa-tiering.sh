#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# NUMA balancing moves hot pages from slower memory to faster, instead of balancing sockets. Use it with
# demotion.sh, which makes room. RATE is MB/s that may be promoted on each node (default: Linux's 65536).
#   numa-tiering.sh [RATE]
# Watch: ferryctl watch, and grep -E 'pgpromote|numa_' /proc/vmstat
# Undo: numa-tiering.sh undo, which goes back to Linux's default, 1
set -eu
if [ "${1:-}" = undo ]; then
	exec sysctl -q kernel.numa_balancing=1 kernel.numa_balancing_promote_rate_limit_MBps=65536
fi
sysctl -q kernel.numa_balancing_promote_rate_limit_MBps="${1:-65536}"
sysctl -q kernel.numa_balancing=2
