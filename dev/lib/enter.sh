#!/usr/bin/env bash
# enter.sh ROOT DIR PIDFILE COMMAND...: runs a command inside an installed root, in which DIR is /mnt.
# Called as the first process of new mount and pid namespaces: the mounts go with the namespace, and when its first process
# ends, the kernel ends every other one in it (epmd, the VM's helpers). Nothing has to be undone.
set -euo pipefail
root=$1 dir=$2 pidfile=$3
shift 3

# shellcheck source=dev/lib/pidfile.sh
. "${BASH_SOURCE[0]%/*}/pidfile.sh"
[ -z "$pidfile" ] || write_pid "$pidfile"

mount --bind "$root" "$root"
mount -o remount,bind,ro "$root" # all nodes share it
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev" # the root may lie on a file system without device nodes
mount -t tmpfs tmpfs "$root/tmp"
mount --bind "$dir" "$root/mnt"
exec chroot "$root" "$@"
