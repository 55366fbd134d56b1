# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0
# Sourced in the guest with FERRY_JOB set: runs that script. Its output goes to the second serial port,
# what it writes to descriptor 3 to the third, and after that a record of its exit status.
stty -F /dev/ttyS1 raw -echo
stty -F /dev/ttyS2 raw -echo
exec 3>/dev/ttyS2
sh "$FERRY_JOB" </dev/null >/dev/ttyS1 2>&1
printf '{"record": "exit", "status": %d}\n' $? >&3
exec 3>&-
