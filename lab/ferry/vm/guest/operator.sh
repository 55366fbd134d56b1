#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# In a Debian guest: runs each line that comes over the serial port, encoded, and says how it ended.
# A record separator begins each record of its own; commands do not write any.
[ -t 0 ] && stty raw -echo
export HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
# An emulated machine on a busy host may take longer than systemctl's 25 s.
export SYSTEMD_BUS_TIMEOUT=900
cd "${1:-/srv/ferry}" || exit
printf '\036{"record": "ready", "kernel": "%s"}\n' "$(uname -r)"
while read -r line; do
	# A pipe: to a terminal apt draws its progress.
	bash -c "$(base64 -d <<<"$line")" </dev/null 2>&1 | cat
	printf '\036{"record": "exit", "status": %d}\n' "${PIPESTATUS[0]}"
done
