#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# DAMON looks at the physical memory of a node, and moves what nobody has read or written for a while to another:
#   damon-tiering.sh FROM TO [MB_PER_S]
# It needs CONFIG_DAMON_PADDR and CONFIG_DAMON_SYSFS, and damo (pip install damo). 'reasons' must have damon.
# Watch: damo report damon; ferryctl watch
# Undo: damon-tiering.sh undo
set -eu
if [ "${1:-}" = undo ]; then
	exec damo stop
fi
from=${1:?which node is to be relieved} to=${2:?where to} speed=${3:-256}
exec damo start --numa_node "$from" --monitoring_intervals 100ms 2s 20s \
	--damos_action migrate_cold "$to" --damos_access_rate 0% 0% --damos_age 60s max \
	--damos_apply_interval 1s --damos_quotas 0s "${speed}MB" 1s 0% 1% 99%
