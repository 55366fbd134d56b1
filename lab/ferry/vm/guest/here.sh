# shellcheck shell=dash disable=SC2034,SC2154
# SPDX-License-Identifier: GPL-2.0
# For jobs on a machine that somebody uses; follows lib.sh. What is set there is kept in $WORK, and put
# back however the job ends.

# What is right for this machine's engine is its owner's to say.
PTDMA_DEPTH=

# parameters MODULE: those that it was loaded with, as modprobe takes them.
parameters() {
	for file in /sys/module/"$1"/parameters/*; do
		[ ! -e "$file" ] || echo "${file##*/}=$(cat "$file")"
	done
}

# writable: the files that hold settings.
writable() {
	find "$OFFLOAD" -maxdepth 1 -type f -perm -200 ! -name active
}

keep() {
	kept_engine=$(cat "$OFFLOAD/active")
	kept_mapped=$(cat /proc/sys/vm/migrate_copy_mapped)
	kept_dcbm=$(parameters dcbm)
	kept_threads=$(cat /sys/module/mtcopy/parameters/threads 2>/dev/null)
	kept_ptdma=$([ ! -d /sys/module/ptdma ] || echo loaded)
	mkdir "$WORK/settings"
	for file in $(writable); do
		cat "$file" >"$WORK/settings/${file##*/}"
	done
	trap put_back EXIT
	trap 'exit 129' HUP
	trap 'exit 143' TERM
	# As if nobody had set anything. A window of 0 allows every chunk.
	echo none >"$OFFLOAD/active"
	echo all >"$OFFLOAD/reasons"
	echo 0 >"$OFFLOAD/inaccessible_enabled"
	use_policy 0 0
}

# Once, whatever is still to come.
put_back() {
	trap '' HUP INT TERM PIPE
	trap - EXIT
	echo none >"$OFFLOAD/active"
	echo "$kept_mapped" >/proc/sys/vm/migrate_copy_mapped
	if [ "$kept_dcbm" != "$(parameters dcbm)" ]; then
		modprobe -r dcbm
		# shellcheck disable=SC2086 # one word for each parameter
		[ -z "$kept_dcbm" ] || modprobe dcbm $kept_dcbm
	fi
	[ -n "$kept_ptdma" ] || modprobe -r ptdma 2>/dev/null
	if [ -n "$kept_threads" ]; then
		echo "$kept_threads" >/sys/module/mtcopy/parameters/threads
	else
		modprobe -r mtcopy 2>/dev/null
	fi
	echo 0 >"$OFFLOAD/window_pages"
	for file in "$WORK"/settings/*; do
		cat "$file" >"$OFFLOAD/${file##*/}" || record lost what "${file##*/}, which was $(cat "$file")"
	done
	echo "$kept_engine" >"$OFFLOAD/active" || record lost what "the active engine, which was $kept_engine"
}

# count_dma: a record of how many DMA channels are free for dcbm.
count_dma() {
	echo none >"$OFFLOAD/active"
	modprobe -r dcbm 2>/dev/null
	modprobe ptdma 2>/dev/null
	found=0
	# dcbm takes channels when it becomes active, and fails if there is none.
	if modprobe dcbm channels=64 && echo dcbm >"$OFFLOAD/active"; then
		found=$(($(wc -l </sys/kernel/debug/dcbm/channels) - 1))
	fi
	record channels free: "$found"
}
