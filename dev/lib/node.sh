# shellcheck shell=bash
# The variables of node.env are set by reading that file.
# shellcheck disable=SC1091,SC2154
# Nodes. A node is a folder: node.env (what it is), vm.pid, its configuration, data/ and log/. Inside its root that is /mnt.

node_dirs() {
	local dir
	for dir in "$TEMP"/rabbitctl-broker.??????; do
		[ -d "$dir" ] || continue
		echo "$dir"
		[ ! -e "$dir/epmd.pid" ] || (cd "$dir" && for node in [1-9]*; do echo "$dir/$node"; done)
	done
}

# A folder that dev/broker made, or nothing: these paths are removed with rm -rf.
known() {
	local dir
	dir=$(readlink -f -- "$1") || die "no such folder: $1"
	[ -e "$dir/node.env" ] || [ -e "$dir/epmd.pid" ] || die "not a node of dev/broker: $1"
	echo "$dir"
}

vm_pid() {
	local pid start stat field
	[ -e "$1/${2:-vm}.pid" ] || return 1
	read -r pid start <"$1/${2:-vm}.pid"
	{ read -r stat <"/proc/$pid/stat"; } 2>/dev/null || return 1
	read -r -a field <<<"${stat##*) }"
	[ "${field[19]}" = "$start" ] || return 1
	# A zombie with one thread left has ended, and with it its namespace; with more it is still at it.
	[ "${field[0]}" != Z ] || [ "${field[17]}" -gt 1 ] || return 1
	echo "$pid"
}

alive() { vm_pid "$@" >/dev/null; }

await() { # TENTHS COMMAND...
	local left=$1
	shift
	until "$@"; do
		[ $((left--)) -gt 0 ] || return 1
		sleep 0.1
	done
}

gone() { ! alive "$@"; }

# Loopback ports outside the range for outgoing connections, which could take one while its node is down.
# Chosen and recorded under one lock, so that two starts side by side do not meet.
choose_ports() {
	local want=$1 port used hex tries=0
	used=$(awk 'FNR > 1 { n = split($2, a, ":"); print a[n] }' /proc/net/tcp /proc/net/tcp6 2>/dev/null | sort -u)
	used+=$'\n'$(cat "$TEMP"/rabbitctl-broker.??????/{,[1-9]*/}ports 2>/dev/null || true)
	PORTS=()
	while [ ${#PORTS[@]} -lt "$want" ]; do
		[ $((tries++)) -lt 10000 ] || die "no free ports"
		port=$((20000 + (RANDOM * 32768 + RANDOM) % 10000))
		printf -v hex '%04X' "$port"
		[[ $'\n'$used$'\n' != *$'\n'$hex$'\n'* ]] || continue
		used+=$'\n'$hex
		PORTS+=("$port")
	done
}

record_ports() {
	printf '%04X\n' "${PORTS[@]}" >"$1/ports"
}

# prepare DIR SUITE NAME [EPMD_PORT]: everything a node needs before its first boot.
prepare() {
	local dir=$1 suite=$2 name=$3 epmd=${4:-} lock root line
	install_root "$suite"
	root=$ROOTS/$suite
	chmod 755 "$dir"
	mkdir -p "$dir/data" "$dir/log"
	exec {lock}>"$ROOTS/ports.lock"
	flock "$lock"
	choose_ports 4
	record_ports "$dir"
	exec {lock}>&-
	{
		printf '%s=%q\n' version "$(version_in "$root")" suite "$suite" root "$root" name "$name@localhost" owner "$RABBITCTL_BROKER_OWNER"
		printf '%s=%q\n' amqp "${PORTS[0]}" management "${PORTS[1]}" distribution "${PORTS[2]}" epmd "${epmd:-${PORTS[3]}}"
	} >"$dir/node.env"

	{
		echo "cluster_name = ${CLUSTER_NAME:-${dir##*/}}" # by default it is the machine's name, alike on all of them
		echo "management.tcp.ip = 127.0.0.1"
		echo "management.tcp.port = ${PORTS[1]}"
		# The machine's memory and disk are not what is being tested.
		echo "vm_memory_high_watermark.relative = 0.9"
		echo "disk_free_limit.absolute = 1MB"
		[ -n "$DEFAULTS" ] || echo "collect_statistics_interval = 1000"
		for line in ${CONFIG_LINES[@]+"${CONFIG_LINES[@]}"}; do
			echo "$line"
		done
		[ -z "$DEFINITIONS" ] || echo "load_definitions = /mnt/definitions.json"
	} >"$dir/rabbitmq.conf"
	[ -z "$DEFINITIONS" ] || cp "$DEFINITIONS" "$dir/definitions.json"
	{
		if [ -n "$DEFAULTS" ]; then
			echo '[].'
		else
			# A new queue's figures are right after a second or two instead of ten.
			echo '[{rabbit, [{quorum_tick_interval, 1000}, {stream_tick_interval, 1000}, {dead_letter_worker_publisher_confirm_timeout, 2000}]},'
			echo ' {rabbitmq_management_agent, [{sample_retention_policies, [{global, [{605, 1}]}, {basic, [{605, 1}]}, {detailed, [{10, 1}]}]}]}].'
		fi
	} >"$dir/advanced.config"
	echo "[$PLUGINS]." >"$dir/plugins"
	[ -e "$dir/.erlang.cookie" ] || {
		head -c 20 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$dir/.erlang.cookie"
		chmod 400 "$dir/.erlang.cookie"
	}
}

# enter DIR PIDFILE COMMAND...: becomes the command, in the node's root and with the node's environment. What has a pid file is
# to stay: it gets a session of its own, so that a Ctrl-C in the terminal is not for it.
enter() {
	local dir=$1 pidfile=$2 lock
	shift 2
	. "$dir/node.env"
	exec {lock}>"$ROOTS/$suite.lock"
	flock -s "$lock" # inherited: it is held as long as the node runs, and keeps wipe away
	[ -d "$root" ] || die "$root is gone"
	exec ${pidfile:+setsid} unshare --mount --pid --fork --kill-child --propagation private \
		bash "$LIB/enter.sh" "$root" "$dir" "$pidfile" \
		env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/mnt LANG=C.UTF-8 TERM="${TERM:-dumb}" \
		RABBITMQ_NODENAME="$name" RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT="$amqp" RABBITMQ_DIST_PORT="$distribution" \
		ERL_EPMD_PORT="$epmd" ERL_EPMD_ADDRESS=127.0.0.1 \
		RABBITMQ_MNESIA_BASE=/mnt/data RABBITMQ_LOG_BASE=/mnt/log RABBITMQ_LOGS=/mnt/log/node.log \
		RABBITMQ_ENABLED_PLUGINS_FILE=/mnt/plugins RABBITMQ_CONFIG_FILE=/mnt/rabbitmq.conf RABBITMQ_ADVANCED_CONFIG_FILE=/mnt/advanced.config \
		RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1}' \
		RUNNING_UNDER_SYSTEMD=true "$@" # so that rabbitmq-server becomes the VM instead of waiting for it
}

spawn() {
	local dir=$1
	rm -f "$dir/vm.pid"
	enter "$dir" "$dir/vm.pid" /usr/lib/rabbitmq/bin/rabbitmq-server </dev/null >"$dir/log/console.log" 2>&1 &
	await 100 test -e "$dir/vm.pid" || {
		tail -n 5 "$dir/log/console.log" >&2
		die "could not enter the root (mount and pid namespaces are needed)"
	}
}

# request DIR PATH: what the management API answers to a GET, headers included. Without curl, which may not be there.
request() {
	(
		. "$1/node.env"
		exec 3<>"/dev/tcp/127.0.0.1/$management" || exit 1
		printf 'GET %s HTTP/1.0\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n' "$2" >&3
		cat <&3
	) 2>/dev/null
}

booted() {
	grep -q 'completed with' "$1/log/console.log" || return 1
	[[ $(request "$1" /api/overview | head -n 1) == *' 200 '* ]]
}

await_boot() {
	local dir=$1 left=1800
	until booted "$dir"; do
		if ! alive "$dir" || [ $((left--)) = 0 ]; then
			tail -n 20 "$dir/log/console.log" >&2
			note "the node in $dir did not start"
			return 1
		fi
		sleep 0.1
	done
}

boot() {
	spawn "$1"
	await_boot "$1"
}

describe() {
	(
		. "$1/node.env"
		echo "RABBITCTL_BROKER_DIR=$1"
		echo "RABBITCTL_BROKER_URL=http://guest:guest@127.0.0.1:$management"
		echo "RABBITCTL_BROKER_AMQP_URL=amqp://guest:guest@127.0.0.1:$amqp/"
		echo "RABBITCTL_BROKER_VERSION=$version"
		echo "RABBITCTL_BROKER_PID=$(vm_pid "$1")"
	)
}

# finish DIR SIGNAL TENTHS: ends the VM, by force when it takes too long.
finish() {
	local pid
	pid=$(vm_pid "$1") || return 0
	kill "-$2" "$pid"
	kill -CONT "$pid" 2>/dev/null || true # it may be paused
	await "$3" gone "$1" || {
		kill -KILL "$pid" 2>/dev/null || true
		await 100 gone "$1" || die "process $pid does not end"
	}
}

remove() {
	local node
	unwatch "$1"
	for node in "$1"/[1-9]*; do
		[ ! -d "$node" ] || finish "$node" KILL 100
	done
	finish "$1" KILL 100
	if alive "$1" epmd; then
		kill -KILL "$(vm_pid "$1" epmd)"
		await 100 gone "$1" epmd || true
	fi
	rm -rf "$1"
}

# Ends the node when process PID ends, however that happens: a test that times out or is killed cleans up nothing itself.
watch() { # DIR PID
	setsid bash "$LIB/watch.sh" "$1" "$2" "$SELF" </dev/null >/dev/null 2>&1 &
	await 100 test -e "$1/watch.pid" || die "could not watch process $2"
}

unwatch() {
	local pid
	pid=$(vm_pid "$1" watch) || return 0
	[ "$pid" = $$ ] || kill -KILL -- "-$pid" 2>/dev/null || true # not itself: it stops the node by this very script
}

cmd_stop() {
	local dir what
	[ $# -gt 0 ] || die "stop needs a folder, mine or all"
	for what in "$@"; do
		case $what in
		mine | all-mine | all)
			for dir in "$TEMP"/rabbitctl-broker.??????; do
				[ -e "$dir/node.env" ] || [ -e "$dir/epmd.pid" ] || continue
				[ "$what" = all ] || grep -qxF "owner=$(printf %q "$RABBITCTL_BROKER_OWNER")" "$dir"/{,1/}node.env 2>/dev/null || continue
				remove "$dir"
			done
			;;
		*)
			[ -e "$what" ] || continue # stopped before
			dir=$(known "$what")
			remove "$dir"
			;;
		esac
	done
}

cmd_halt() {
	local dir
	dir=$(known "${1:?halt needs a folder}")
	finish "$dir" TERM 600
}

cmd_pause() {
	local dir
	dir=$(known "${1:?pause needs a folder}")
	kill -STOP "$(vm_pid "$dir")"
}

cmd_resume() {
	local dir
	dir=$(known "${1:?resume needs a folder}")
	kill -CONT "$(vm_pid "$dir")"
}

cmd_kill() {
	local dir
	dir=$(known "${1:?kill needs a folder}")
	finish "$dir" KILL 100
}

cmd_restart() {
	local dir
	dir=$(known "${1:?restart needs a folder}")
	finish "$dir" TERM 600
	boot "$dir"
	describe "$dir"
}

cmd_ctl() {
	local dir
	dir=$(known "${1:?ctl needs a folder}")
	shift
	enter "$dir" '' /usr/lib/rabbitmq/bin/rabbitmqctl "$@"
}
