# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0
# For jobs whose two nodes DAMON tiers, instead of NUMA balancing and reclaim; follows tier.sh.

KDAMONDS=/sys/kernel/mm/damon/admin/kdamonds
ZONEINFO=/proc/zoneinfo
# DAMON's defaults
SAMPLE_US=5000
AGGREGATION_US=100000
# Fewer than the 1000 that are its default: each costs two walks of page tables a sample.
REGIONS=200
# How often a scheme is applied, and how much it may move each time: 64 MiB a second.
APPLY_MS=200
QUOTA_BYTES=$((64 * 1024 * 1024 * APPLY_MS / 1000))
# Of node 0, in hundredths of a percent: both schemes work while its free memory is between the two goals.
OVERLAP_BP=200
EVER=4294967295

# tell FILE VALUE: to a file of DAMON's, below kdamonds
tell() {
	echo "$2" 2>"$WORK/said" >"$KDAMONDS/$1" || fail "DAMON of kernel $(uname -r) does not take '$2' as ${1##*contexts/0/}"
}

# of_node N: where its memory begins and ends
of_node() {
	awk -v node="$1," '
		$1 == "Node" { mine = $2 == node }
		mine && $1 == "spanned" { spanned = $2 }
		mine && $1 == "start_pfn:" {
			first = begin == "" || $2 < begin ? $2 : begin
			begin = first
			if ($2 + spanned > end)
				end = $2 + spanned
		}
		END { printf "%.0f %.0f", begin * 4096, end * 4096 }
	' "$ZONEINFO"
}

# high_mark_bp: the high watermark of node 0, in hundredths of a percent of its memory. Above it kswapd sleeps.
high_mark_bp() {
	awk '
		$1 == "Node" { mine = $2 == "0," }
		mine && $1 == "high" { high += $2 }
		mine && $1 == "managed" { managed += $2 }
		END { printf "%.0f", high / managed * 10000 + 1 }
	' "$ZONEINFO"
}

# damon_scheme THREAD ACTION FROM TO METRIC GOAL: a thread that looks at a node and moves to the other, until
# node 0 has so much used or free. Hot is what was accessed since the last look at its folio, cold what was not.
damon_scheme() {
	context=$1/contexts/0
	scheme=$context/schemes/0
	tell "$1/contexts/nr_contexts" 1
	tell "$context/operations" paddr
	tell "$context/monitoring_attrs/intervals/sample_us" $SAMPLE_US
	tell "$context/monitoring_attrs/intervals/aggr_us" $AGGREGATION_US
	tell "$context/monitoring_attrs/nr_regions/max" $REGIONS
	tell "$context/targets/nr_targets" 1
	tell "$context/targets/0/regions/nr_regions" 1
	range=$(of_node "$3")
	tell "$context/targets/0/regions/0/start" "${range% *}"
	tell "$context/targets/0/regions/0/end" "${range#* }"
	tell "$context/schemes/nr_schemes" 1
	tell "$scheme/action" "$2"
	tell "$scheme/target_nid" "$4"
	tell "$scheme/apply_interval_us" $((APPLY_MS * 1000))
	tell "$scheme/access_pattern/sz/max" $EVER
	tell "$scheme/access_pattern/age/max" $EVER
	[ "$2" = migrate_cold ] || tell "$scheme/access_pattern/nr_accesses/min" 1
	[ "$2" = migrate_cold ] || tell "$scheme/access_pattern/nr_accesses/max" $EVER
	tell "$scheme/quotas/bytes" "$QUOTA_BYTES"
	tell "$scheme/quotas/reset_interval_ms" $APPLY_MS
	# What it passes over counts little, or huge pages that nobody may move would use up what it may move.
	tell "$scheme/quotas/fail_charge_num" 1
	tell "$scheme/quotas/fail_charge_denom" 1000
	# It moves at once as much as it may. The other tuner begins with a byte, and doubles that at most.
	tell "$scheme/quotas/goal_tuner" temporal
	tell "$scheme/quotas/weights/nr_accesses_permil" 100
	tell "$scheme/quotas/weights/age_permil" 100
	tell "$scheme/quotas/goals/nr_goals" 1
	tell "$scheme/quotas/goals/0/target_metric" "$5"
	tell "$scheme/quotas/goals/0/target_value" "$6"
	tell "$scheme/quotas/goals/0/nid" 0
	tell "$scheme/ops_filters/nr_filters" 1
	tell "$scheme/ops_filters/0/type" young
	tell "$scheme/ops_filters/0/matching" Y
	[ "$2" = migrate_cold ] && allow=N || allow=Y
	tell "$scheme/ops_filters/0/allow" "$allow"
	tell "$1/state" on
}

# damon_tiering: DAMON promotes what is hot on node 1, and demotes what is cold on node 0
damon_tiering() {
	[ -e "$KDAMONDS/nr_kdamonds" ] ||
		fail "kernel $(uname -r) has no $KDAMONDS: it needs CONFIG_DAMON_SYSFS and CONFIG_DAMON_PADDR"
	tell nr_kdamonds 2
	free_bp=$(high_mark_bp)
	damon_scheme 0 migrate_cold 0 1 node_mem_free_bp $((free_bp + OVERLAP_BP))
	damon_scheme 1 migrate_hot 1 0 node_mem_used_bp $((10000 - free_bp))
}

# damon_redis BYTES KEYS NEAR_MIB REQUESTS WARMUP TRACED: as tiered_redis, but for who moves its memory
damon_redis() {
	leave_near "$3"
	damon_tiering
	serve_redis no
	tierbench fill --socket "$REDIS" --page "$1" --items "$2" || fail "$STEP: cannot fill redis-server"
	SERVER_PID=$PID
	export SERVER_PID
	found_by load --socket "$REDIS" --page "$1" --items "$2" --requests "$4" --warmup "$5"
	migration_time tierbench load --socket "$REDIS" --page "$1" --items "$2" --requests "$6" --seed 2
}

# damon_pool BYTES NEAR_MIB TRACED ARGS: a pool that leaves it to DAMON where its buffers are
damon_pool() {
	bytes=$1
	traced=$3
	leave_near "$2"
	shift 3
	# Or what the near node has no room for would be small folios of the other one.
	echo always >"$THP/defrag"
	damon_tiering
	of_folios "$bytes" pool --batch 0 "$@"
	migration_time tierbench pool --batch 0 --page "$bytes" "$@" --requests "$traced"
}
