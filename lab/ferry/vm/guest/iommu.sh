# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0
# For jobs on a machine with an IOMMU; follows lib.sh.

RUN=/sys/kernel/debug/iommu_bench/run

# load_bench: let the bench's module take the edu device.
load_bench() {
	insmod /bench/iommu_bench.ko || fail "cannot load iommu_bench: see the console"
}

# run WORKLOAD THREADS PAIRS: results as words, "pairs=... ns=... errors=..."
run() {
	echo "$*" >$RUN || fail "iommu_bench cannot run $*"
	cat $RUN
}

# measure WORKLOAD THREADS PAIRS: a record, after a short run that is not counted
measure() {
	step "$*"
	run "$1" "$2" 500 >/dev/null
	echo "bench $1 $2 $(run "$@")" >&3
}

# bind_vfio: give the edu devices to vfio-pci; after that their groups are in $IOMMU_GROUPS as
# iova_stress wants them, and the name of one for iommufd in $CDEV.
bind_vfio() {
	# The emulated IOMMU does not remap interrupts; edu is no threat.
	echo 1 >/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts
	echo 1 >/sys/module/iommufd/parameters/allow_unsafe_interrupts
	IOMMU_GROUPS=
	for dev in /sys/bus/pci/devices/*; do
		[ "$(cat "$dev/device")" = 0x11e8 ] || continue
		echo vfio-pci >"$dev/driver_override"
		echo "${dev##*/}" >/sys/bus/pci/drivers_probe
		group=$(basename "$(readlink "$dev/iommu_group")")
		[ -e "/dev/vfio/$group" ] || fail "vfio-pci does not take an edu device: see the console"
		IOMMU_GROUPS="$IOMMU_GROUPS -g $group"
		CDEV=$(ls "$dev/vfio-dev")
	done
	[ -e "/dev/vfio/devices/$CDEV" ] || fail "vfio-pci has no device for iommufd: see the console"
}

# stress vfio|iommufd NAME ARGS...: a record of iova_stress
stress() {
	api=$1 name=$2
	shift 2
	step "iova_stress $api $*"
	# shellcheck disable=SC2086 # words
	case $api in
	vfio) set -- $IOMMU_GROUPS "$@" ;;
	iommufd) set -- -c "$CDEV" "$@" ;;
	esac
	found=$(/bin/iova_stress -j "$@") || fail "iova_stress $* failed: see its output"
	echo "stress $name $found" >&3
}
