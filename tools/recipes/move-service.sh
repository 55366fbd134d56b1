#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Move a running service to a node at a pace that its clients can live with, and keep it there.
#   move-service.sh SERVICE NODE [OPTION OF 'ferryctl move']...
#   move-service.sh redis-server.service 1 --max-ms 5 --rate 500M
# Undo: the same with the other node, or cpuset.sh SERVICE undo to let it go anywhere
set -eu
service=${1:?which service} node=${2:?which node}
shift 2
cgroup=$(systemctl show --property ControlGroup --value "$service")
if [ -z "$cgroup" ]; then
	echo "move-service.sh: $service does not run" >&2
	exit 1
fi
# The kernel moves nothing to a node that the cpuset does not allow
systemctl set-property --runtime "$service" AllowedMemoryNodes=
# 4: some pages stayed, such as those that others have, too; ferryctl has said why
ferryctl move --cgroup "${cgroup#/}" --to "$node" "$@" || [ $? -eq 4 ]
# What was allocated meanwhile follows at once, and what comes later is allocated there
exec systemctl set-property --runtime "$service" AllowedMemoryNodes="$node"
