# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0
# What every job begins with. Descriptor 3 is the result channel: each line is a record.

OFFLOAD=/sys/kernel/mm/migrate_offload

# End the job with one line for the user.
fail() {
	echo "error $*" >&3
	exit 1
}

# Say what the job does now: to the user, and to the reader of the kernel's log.
step() {
	echo "ferry: $*" >/dev/kmsg
	echo "$*"
}

# use_engine NAME CHANNELS: let NAME copy. dcbm gets CHANNELS channels of softdma.
use_engine() {
	[ -d $OFFLOAD ] || fail "kernel $(uname -r) is without Ferry: build it with ./ferry kernel build ferry"
	echo none >$OFFLOAD/active
	case $1 in
	mtcopy)
		modprobe mtcopy || fail "cannot load mtcopy: see the console"
		;;
	dcbm)
		# The number of channels is fixed when the modules are loaded.
		modprobe -r dcbm softdma 2>/dev/null
		modprobe softdma channels="$2" || fail "cannot load softdma with $2 channels: see the console"
		modprobe dcbm || fail "cannot load dcbm: see the console"
		;;
	esac
	echo "$1" >$OFFLOAD/active || fail "engine $1 is not available; there are: $(cat $OFFLOAD/available)"
}
