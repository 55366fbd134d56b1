# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0
# What every job begins with. Descriptor 3 is the result channel: what is for the host's programs goes there
# as records, and vm/records.py reads them.

OFFLOAD=/sys/kernel/mm/migrate_offload
# The last function of I/OAT on an emulated server that has it.
IOAT=/sys/bus/pci/devices/0000:00:08.7
# Where queues of DSA are configured, once idxd is loaded.
DSA=/sys/bus/dsa
# So many copies at once are in a ring of the emulated engine, which has passed ptdma_test with them.
PTDMA_DEPTH=31
# Where a job may write; the guest has its /tmp to itself.
WORK=${WORK:-/tmp}

# For sed: text as it is in JSON. A control character says nothing to anybody, but its place is kept.
ESCAPE='s/[\\"]/\\&/g; s/\n/\\n/g; s/\r/\\r/g; s/\t/\\t/g; s/[[:cntrl:]]/\\ufffd/g'

# quoted TEXT: as a string of JSON, be it of several lines.
quoted() {
	printf '%s\n' "$1" |
		LC_ALL=C sed -e ':all' -e '$!{' -e N -e 'b all' -e '}' -e "$ESCAPE" -e 's/^/"/; s/$/"/'
}

# record KIND [KEY VALUE]...: a line of JSON. A value is text, or after "KEY:" a number or other JSON.
record() {
	local json="{\"record\": \"$1\""
	shift
	while [ $# -gt 1 ]; do
		case $1 in
		*:) json="$json, \"${1%:}\": $2" ;;
		*) json="$json, \"$1\": $(quoted "$2")" ;;
		esac
		shift 2
	done
	printf '%s}\n' "$json" >&3
}

# output NAME: a record of each line of the input as it comes, as what NAME says.
output() {
	# Quoted for JSON, and for sed.
	LC_ALL=C sed -e "$ESCAPE" -e 's/$/"}/' \
		-e "s/^/{\"record\": \"output\", \"of\": $(quoted "$1" | sed 's/[\\/&]/\\&/g'), \"line\": \"/" >&3
}

# End the job with one line for the user.
fail() {
	record error text "$*"
	exit 1
}

# Say what the job does now: to the user, to the reader of the kernel's log, and in what goes wrong.
step() {
	STEP=$*
	echo "ferry: $*" >/dev/kmsg
	echo "$*"
}

# complaint: why migbench failed. It says which check did not hold before its report, anything else last.
complaint() {
	grep -m 1 FAILED: "$WORK/said" || tail -n 1 "$WORK/said"
}

# bench NAME ARGS...: a record of what migbench finds, under a name
bench() {
	name=$1
	shift
	migbench "$@" --json "$WORK/row" >"$WORK/said" 2>&1 || fail "$STEP: $(complaint)"
	record migbench of "$name" found: "$(tr -d '\n' <"$WORK/row")"
}

# loop_device DEVICE SIZE: one in memory.
loop_device() {
	truncate -s "$2" "$WORK/device"
	losetup "$1" "$WORK/device" || fail "no loop device $1"
}

# perturb STATE: begin otherwise than another state does, with some memory in use.
perturb() {
	dd if=/dev/zero of=/dev/shm/perturb bs=4k count=$(($1 * 1237)) 2>/dev/null
}

# activate NAME: said before each measurement, so that none is of what another has left. A kernel
# without Ferry has nothing but "none".
activate() {
	[ -d $OFFLOAD ] || [ "$1" != none ] || return 0
	echo "$1" >$OFFLOAD/active || fail "engine $1 is not available; there are: $(cat $OFFLOAD/available)"
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
		# The number of channels is fixed when softdma is loaded.
		modprobe -r dcbm softdma 2>/dev/null
		modprobe softdma channels="$2" || fail "cannot load softdma with $2 channels: see the console"
		modprobe dcbm || fail "cannot load dcbm: see the console"
		;;
	esac
	activate "$1"
}

# use_queues NUMBER: configure so many queues of DSA for dmaengine, on one device after the other, each with an
# engine of its own. A server has up to eight devices of four engines, and 128 descriptors for the queues of each.
use_queues() {
	modprobe idxd || fail "cannot load idxd: see the console"
	devices=0
	while [ -e $DSA/devices/dsa$devices ]; do devices=$((devices + 1)); done
	[ ! -e $DSA/devices/wq0.0/driver ] || return 0
	i=0
	while [ $i -lt "$1" ]; do
		of=$((i % devices)) n=$((i / devices))
		if ! { cd $DSA/devices/wq$of.$n && echo $n >group_id && echo dedicated >mode && echo 32 >size &&
			echo 10 >priority && echo kernel >"type" && echo dmaengine >driver_name &&
			echo "channel$n" >name && echo $n >../engine$of.$n/group_id; }; then
			fail "queue $n of DSA device $of cannot be configured"
		fi
		i=$((i + 1))
	done
	cd / || fail "no root"
	i=0
	while [ $i -lt "$1" ]; do
		of=$((i % devices)) n=$((i / devices))
		[ $n -gt 0 ] || echo dsa$of >$DSA/drivers/idxd/bind || fail "dsa$of cannot be enabled"
		echo wq$of.$n >$DSA/drivers/dmaengine/bind || fail "wq$of.$n cannot be enabled"
		i=$((i + 1))
	done
}

# use_dma CHANNELS DEPTH: let dcbm copy, with so many DMA channels and descriptors in flight on each.
use_dma() {
	[ -d $OFFLOAD ] || fail "kernel $(uname -r) is without Ferry: build it with ./ferry kernel build ferry"
	echo none >$OFFLOAD/active
	modprobe -r dcbm 2>/dev/null
	# A real server may have another engine, whose driver is loaded.
	modprobe ptdma ${PTDMA_DEPTH:+depth=$PTDMA_DEPTH} 2>/dev/null
	[ ! -e $IOAT ] || modprobe ioatdma
	! grep -qs 0x0b25 /sys/bus/pci/devices/0000:00:08.0/device || use_queues "$1"
	modprobe dcbm channels="$1" queue_depth="$2" ${DCBM_SHARE_BYTES:+share_bytes=$DCBM_SHARE_BYTES} ||
		fail "cannot load dcbm: see the console"
	echo dcbm >$OFFLOAD/active ||
		fail "is there a DMA engine with a channel that nobody uses? See /sys/class/dma and the console"
	found=$(($(wc -l </sys/kernel/debug/dcbm/channels) - 1))
	[ "$found" -eq "$1" ] || fail "$1 DMA channels were asked for, and $found are there"
}

# use_policy BATCH STRIPE: as earlier work did, BATCH pages at once, in parts of STRIPE bytes or more;
# 0 0: the engine's own.
use_policy() {
	echo 0 >$OFFLOAD/target_us
	echo 0 >$OFFLOAD/chunk_pages
	echo 0 >$OFFLOAD/window_pages
	echo "$2" >$OFFLOAD/stripe_bytes
	echo "$1" >$OFFLOAD/window_pages
	echo "$1" >$OFFLOAD/chunk_pages
	echo $(($1 ? 4096 : 0)) >$OFFLOAD/min_bytes
	# As many copies as that may take longer than an engine is waited for by default
	echo $(($1 ? 60000 : 0)) >$OFFLOAD/deadline_ms
	# It unmapped all that it copied
	[ ! -e /proc/sys/vm/migrate_copy_mapped ] || echo $(($1 ? 0 : 1)) >/proc/sys/vm/migrate_copy_mapped
}

TRACE=/sys/kernel/tracing/instances/ferry

# cycles NAME COMMAND...: a record of the cycles of its calls of migrate_pages(), how many base pages these
# have moved, and, from a second run with more tracepoints, the cycles of the copies, which is 0 on a kernel
# without Ferry.
cycles() {
	name=$1
	shift
	copies=0
	if [ -d $OFFLOAD ]; then
		traced "migrate/set_migration_pte migrate/set_migration_run migrate_offload/migrate_offload_remap" "$@"
		copies=${found##* }
	fi
	traced "migrate/mm_migrate_pages_start migrate/mm_migrate_pages" "$@"
	moved=${found#* }
	record cycles of "$name" total: "${found%% *}" moved: "${moved% *}" copies: "$copies"
}

# traced EVENTS COMMAND...: found is then the cycles of all migrate_pages(), the base pages moved, and the
# cycles from the last page's unmapping to the remapping, of all chunks.
traced() {
	mkdir $TRACE || fail "cannot trace: is this root, with CONFIG_EVENT_TRACING?"
	echo x86-tsc >$TRACE/trace_clock
	echo 32768 >$TRACE/buffer_size_kb
	for event in $1; do
		echo 1 >$TRACE/events/"$event"/enable
	done
	shift
	"$@" >"$WORK/said" 2>&1 || fail "$(complaint)"
	found=$(awk '
		/ mm_migrate_pages_start: / { start = $4 }
		/ mm_migrate_pages: / {
			total += $4 - start
			match($0, /nr_succeeded=[0-9]+/)
			moved += substr($0, RSTART + 13, RLENGTH - 13)
		}
		/ set_migration_(pte|run): / { unmapped = $4 }
		/ migrate_offload_remap: / { copies += $4 - unmapped }
		END { printf "%.0f %.0f %.0f", total, moved, copies }
	' $TRACE/trace)
	rmdir $TRACE
}
