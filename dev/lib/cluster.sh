# shellcheck shell=bash
# A cluster is a folder with an epmd, which its nodes 1, 2, 3 share, and a folder for each of these. The epmd is a process of its
# own, so that it does not go with the node that is killed.

cmd_cluster() {
	local dir node first urls=''
	parse "$@"
	[ ${#VERSION_ARGS[@]} = 1 ] || die "cluster needs one version"
	[[ $NODES =~ ^[2-9]$ ]] || die "--nodes: 2 to 9"
	STARTING=$(mktemp -d "$TEMP/rabbitctl-broker.XXXXXX")
	dir=$STARTING
	# shellcheck disable=SC2034 # read by prepare
	CLUSTER_NAME=${dir##*/}
	for ((node = 1; node <= NODES; node++)); do
		mkdir "$dir/$node"
		[ "$node" = 1 ] || cp -p "$dir/1/.erlang.cookie" "$dir/$node/"
		prepare "$dir/$node" "$(suite_of "${VERSION_ARGS[0]}")" "rabbit$node" "${EPMD:-}"
		EPMD=$(sed -n 's/^epmd=//p' "$dir/1/node.env")
	done
	chmod 755 "$dir"

	enter "$dir/1" "$dir/epmd.pid" epmd -port "$EPMD" -address 127.0.0.1 </dev/null >"$dir/epmd.log" 2>&1 &
	await 100 test -e "$dir/epmd.pid" || die "epmd did not start"
	for ((node = 1; node <= NODES; node++)); do
		spawn "$dir/$node"
	done
	for ((node = 1; node <= NODES; node++)); do
		await_boot "$dir/$node"
	done
	for ((node = 2; node <= NODES; node++)); do
		for command in stop_app 'join_cluster rabbit1@localhost' start_app; do
			# shellcheck disable=SC2086 # a command and its argument
			(enter "$dir/$node" '' /usr/lib/rabbitmq/bin/rabbitmqctl --silent $command) >>"$dir/join.log" 2>&1 || {
				tail -n 5 "$dir/join.log" >&2
				die "node $node did not join"
			}
		done
		await 600 booted "$dir/$node" || die "node $node did not come back"
	done
	await 600 complete "$dir/1" || die "the cluster is not complete"

	[ -z "$WITH" ] || watch "$dir" "$WITH"
	first=$(describe "$dir/1")
	echo "RABBITCTL_BROKER_DIR=$dir"
	tail -n +2 <<<"$first"
	for ((node = 1; node <= NODES; node++)); do
		urls+=${urls:+ }$(describe "$dir/$node" | sed -n 's/^RABBITCTL_BROKER_URL=//p')
	done
	echo "RABBITCTL_BROKER_URLS='$urls'"
	STARTING=''
}

# Whether the first node's management plugin sees all nodes running.
complete() {
	local running
	running=$(request "$1" /api/nodes | grep -o '"running":true' | wc -l)
	[ "$running" = "$NODES" ]
}
