#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Bind a service's memory to a node: the kernel then moves what it has, all at once, and what it allocates
# afterwards comes from there. At a pace: move-service.sh.
#   cpuset.sh SERVICE NODE
# Watch: ferryctl watch; numastat -p PID
# Undo: cpuset.sh SERVICE undo
set -eu
service=${1:?which service} node=${2:?which node}
[ "$node" = undo ] && node=
exec systemctl set-property --runtime "$service" AllowedMemoryNodes="$node"
