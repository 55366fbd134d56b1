# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0
# For jobs on a machine with an IOMMU; follows lib.sh.

RUN=/sys/kernel/debug/iommu_bench/run

# load_bench: let the bench's module take the edu device.
load_bench() {
	insmod /bench/iommu_bench.ko || fail "cannot load iommu_bench: see the console"
}

# run WORKLOAD THREADS PAIRS: results as words for a record, "pairs: 500 ns: 7000 errors: 0 ..."
run() {
	echo "$*" >$RUN || fail "iommu_bench cannot run $*"
	sed 's/=/: /g' $RUN
}

# measure WORKLOAD THREADS PAIRS [RUNS]: a record of each run, after a short one that is not counted. Each has a
# domain of its own, in which all addresses are fresh.
measure() {
	step "$*"
	for _ in $(seq "${4:-1}"); do
		load_bench
		run "$1" "$2" 500 >/dev/null
		# shellcheck disable=SC2046 # words
		record bench workload "$1" $(run "$1" "$2" "$3")
		rmmod iommu_bench
	done
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
	record stress of "$name" found: "$found"
}

# tables: KiB in the page tables of all IOMMUs, when what waits for a flush is done
tables() {
	sleep 1
	echo 1 >/proc/sys/vm/stat_refresh
	awk '$1 == "nr_iommu_pages" { print $2 * 4 }' /proc/vmstat
}

# api LOAD THREADS PAIRS: a record of the tables after a tenth of the maps and unmaps, and after all
api() {
	step "$*"
	early=$(run "$1" "$2" $(($3 / 10)))
	early_kib=$(tables)
	late=$(run "$1" "$2" $(($3 - $3 / 10)))
	case "$early $late" in
	*"errors: "[1-9]*) fail "$1: maps failed: see the console" ;;
	esac
	record left load "$1" threads: "$2" pairs: $(($2 * $3)) early: "$early_kib" late: "$(tables)"
}

# disk_reads COUNT: read the disk, four processes at once, COUNT times 4 KiB each and fewer larger blocks
disk_reads() {
	for kib in 4 64 1024; do
		jobs=
		for at in 0 1 2 3; do
			dd if=/dev/vda of=/dev/null bs=${kib}k skip=$((at * 4096)) \
				count=$(($1 * 8 / (kib + 4))) iflag=direct 2>/dev/null &
			jobs="$jobs $!"
		done
		for pid in $jobs; do
			wait "$pid" || fail "cannot read the disk: see the console"
		done
	done
}

# disk COUNT: a record as api's, of a disk behind the IOMMU
disk() {
	step "disk $1"
	disk_reads $(($1 / 10))
	early_kib=$(tables)
	disk_reads $(($1 - $1 / 10))
	reads=$(awk '$3 == "vda" { print $4 }' /proc/diskstats)
	record left load disk threads: 4 pairs: "$reads" early: "$early_kib" late: "$(tables)"
}
