# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0
# For jobs with a redis-server under load; follows lib.sh.

REDIS=$WORK/redis.sock

cli() {
	redis-cli -s "$REDIS" "$@"
}

# serve_redis HUGE: a server without data; HUGE: yes or no. Its process is $PID.
serve_redis() {
	[ "$1" = no ] || echo always >/sys/kernel/mm/transparent_hugepage/enabled
	# It turns huge pages off for itself, unless told not to.
	[ "$1" = no ] && off=yes || off=no
	redis-server --port 0 --unixsocket "$REDIS" --save "" --appendonly no --dir "$WORK" --daemonize yes \
		--enable-debug-command yes --disable-thp "$off" >"$WORK/said" 2>&1 ||
		fail "redis-server: $(tail -n 1 "$WORK/said")"
	until cli PING >/dev/null 2>&1; do
		sleep 0.1
	done
	PID=$(pidof redis-server)
}

# start_redis KEYS BYTES HUGE: with values of so many bytes
start_redis() {
	serve_redis "$3"
	# Twice as many as there are keys, so that most are set.
	redis-benchmark -s "$REDIS" -P 16 -n $(($1 * 2)) -r "$1" -t set -d "$2" -q >/dev/null
	digest
	record huge kib: "$(awk '/^AnonHugePages/ { print $2 }' "/proc/$PID/smaps_rollup")"
}

# digest: a record of what all data is
digest() {
	record digest hex "$(cli DEBUG DIGEST)"
}

# on_node N: how many pages of it are there
on_node() {
	grep -o " N$1=[0-9]*" "/proc/$PID/numa_maps" | awk -F= '{ sum += $2 } END { print sum + 0 }'
}

# As redis counts: microseconds, and the commands that it has done.
now() {
	cli TIME | tr '\n' ' ' | awk '{ printf "%d%06d", $1, $2 }'
}

served() {
	cli INFO stats | sed -n 's/^total_commands_processed:\([0-9]*\).*/\1/p'
}

# move FROM TO: a record of its time, requests done meanwhile, pages that came
move() {
	pages=$(on_node "$2")
	served=$(served)
	begin=$(now)
	migratepages "$PID" "$1" "$2" || fail "migratepages cannot move redis-server"
	end=$(now)
	record move us: $((end - begin)) requests: $(($(served) - served)) pages: $(($(on_node "$2") - pages))
}

# there_and_back NODE NODE TRIPS: records of the moves; from a node to itself: of the same without any
there_and_back() {
	for _ in $(seq "$3"); do
		move "$1" "$2"
		move "$2" "$1"
	done
}

# under_load NAME KEYS REQUESTS COMMAND...: clients read while the command runs; a record of what
# redis-benchmark says as CSV: requests per second, then average, least, 50 %, 95 %, 99 %, most in ms
under_load() {
	name=$1
	redis-benchmark -s "$REDIS" -c 4 -n "$3" -r "$2" --csv GET key:__rand_int__ >"$WORK/load" 2>&1 &
	load=$!
	shift 3
	sleep 0.3
	"$@"
	kill -0 $load || fail "the load ended before the last move"
	wait $load || fail "redis-benchmark: $(tail -n 1 "$WORK/load")"
	# All but the name of the test are numbers, between quotation marks.
	record load of "$name" figures: "[$(tail -n 1 "$WORK/load" | sed 's/^[^,]*,//; s/"//g')]"
}
