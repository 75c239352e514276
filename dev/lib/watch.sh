#!/usr/bin/env bash
# watch.sh DIR PID BROKER: waits until process PID has ended, then stops the node in DIR.
set -euo pipefail
dir=$1 pid=$2 broker=$3
# shellcheck source=dev/lib/pidfile.sh
. "${BASH_SOURCE[0]%/*}/pidfile.sh"
write_pid "$dir/watch.pid"
tail --pid="$pid" -f /dev/null
exec "$broker" stop "$dir"
