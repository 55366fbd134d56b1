# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0
# For jobs whose memory has two tiers: node 0 with the CPU, and node 1; follows lib.sh and redis.sh.

THP=/sys/kernel/mm/transparent_hugepage

# found_by ARGS: a record of what tierbench finds
found_by() {
	tierbench "$@" >"$WORK/found" 2>"$WORK/said" || fail "$STEP: $(tail -n 1 "$WORK/said")"
	record tier found: "$(cat "$WORK/found")"
}

# of_folios BYTES ARGS: the same where memory has folios of that size; a record of how many were allocated
of_folios() {
	large=$THP/hugepages-$(($1 / 1024))kB
	[ "$1" -eq 4096 ] || echo always >"$large/enabled"
	bytes=$1
	shift
	found_by "$@" --page "$bytes"
	[ "$bytes" -eq 4096 ] || record large folios: "$(cat "$large/stats/anon_fault_alloc")"
}

# leave_near MIB: huge pages take the near node's memory, but for so many MiB of it. Nobody reclaims these.
leave_near() {
	node=/sys/devices/system/node/node0
	free=$(awk '/MemFree/ { print int($4 / 1024) }' $node/meminfo)
	echo $(((free - $1) / 2)) >$node/hugepages/hugepages-2048kB/nr_hugepages
}

# demotion: reclaim demotes, early enough that promotion finds room
demotion() {
	echo 1 >/sys/kernel/mm/numa/demotion_enabled
	echo 100 >/proc/sys/vm/watermark_scale_factor
}

# promotion: NUMA balancing looks at a process every 0.1 s instead of every second, so that a load of
# seconds will do.
promotion() {
	for delay in scan_delay scan_period_min scan_period_max; do
		echo 100 >/sys/kernel/debug/sched/numa_balancing/${delay}_ms
	done
	echo 2 >/proc/sys/kernel/numa_balancing
}

# tiered_redis BYTES KEYS NEAR_MIB REQUESTS WARMUP TRACED: a redis-server with less than it needs of the near
# node, under a skewed load; then a part of the load once more, traced
tiered_redis() {
	leave_near "$3"
	demotion
	serve_redis no
	tierbench fill --socket "$REDIS" --page "$1" --items "$2" || fail "$STEP: cannot fill redis-server"
	# Not before: it leaves alone for long what it has looked at twice in vain.
	promotion
	SERVER_PID=$PID
	KSWAPD_PID=$(pidof kswapd0)
	export SERVER_PID KSWAPD_PID
	found_by load --socket "$REDIS" --page "$1" --items "$2" --requests "$4" --warmup "$5"
	migration_time tierbench load --socket "$REDIS" --page "$1" --items "$2" --requests "$6" --seed 2
}

# migration_time COMMAND...: a record of how long the CPU was in migrate_pages() meanwhile, and of the pages
# that have moved. Who is in it may be interrupted by others, whose time does not count.
migration_time() {
	mkdir "$TRACE" || fail "cannot trace"
	echo x86-tsc >"$TRACE"/trace_clock
	echo 65536 >"$TRACE"/buffer_size_kb
	for event in migrate/mm_migrate_pages_start migrate/mm_migrate_pages sched/sched_switch; do
		echo 1 >"$TRACE/events/$event/enable"
	done
	"$@" >"$WORK/said" 2>&1 || fail "$STEP: $(tail -n 1 "$WORK/said")"
	echo 0 >"$TRACE"/tracing_on
	grep -q "^overrun: 0$" "$TRACE"/per_cpu/cpu0/stats || fail "$STEP: the trace is not whole"
	awk '
		/^#/ { next }
		{ pid = $1; sub(/.*-/, "", pid) }
		/ mm_migrate_pages_start: / { begin[pid] = $4 }
		/ mm_migrate_pages: / && pid in begin {
			ns += $4 - begin[pid]
			calls++
			delete begin[pid]
			match($0, /nr_succeeded=[0-9]+/)
			pages += substr($0, RSTART + 13, RLENGTH - 13)
		}
		/ sched_switch: / {
			if (pid in begin)
				ns += $4 - begin[pid]
			match($0, /next_pid=[0-9]+/)
			next_pid = substr($0, RSTART + 9, RLENGTH - 9)
			if (next_pid in begin)
				begin[next_pid] = $4
		}
		END { printf "{\"ns\": %.0f, \"calls\": %.0f, \"pages\": %.0f}", ns, calls, pages }
	' "$TRACE"/trace >"$WORK/found"
	record migration found: "$(cat "$WORK/found")"
	rmdir "$TRACE"
}
