# shellcheck shell=bash
# The installed brokers: one small Debian per release, made by debootstrap and never changed afterwards.

suite_of() {
	case $1 in
	3.10 | bookworm) echo bookworm ;;
	4.0 | trixie) echo trixie ;;
	4.3 | sid) echo sid ;; # apt's name "unstable" is not one that debootstrap checks signatures for
	*) die "unknown version \"$1\": one of ${VERSIONS[*]}" ;;
	esac
}

version_in() {
	local path
	for path in "$1"/usr/lib/rabbitmq/lib/rabbitmq_server-*; do
		[ -d "$path" ] || return 1
		echo "${path##*-}"
		return
	done
}

# The Debian mirrors that this machine's own apt uses, one a line. A suite name tells Debian from its derivatives.
mirrors() {
	if [ -n "${RABBITCTL_DEBIAN_MIRROR:-}" ]; then
		echo "$RABBITCTL_DEBIAN_MIRROR"
		return
	fi
	local files=()
	shopt -s nullglob
	files=(/etc/apt/sources.list /etc/apt/sources.list.d/*.list)
	{
		for file in "${files[@]}"; do
			[ -r "$file" ] || continue
			# deb [options] URI SUITE COMPONENTS...
			sed -nE 's/^[[:space:]]*deb[[:space:]]+(\[[^]]*\][[:space:]]+)?([^[:space:]]+)[[:space:]]+([^[:space:]]+).*/\2 \3/p' "$file"
		done
		for file in /etc/apt/sources.list.d/*.sources; do
			[ -r "$file" ] || continue
			awk '
				function flush(  i, j, nu, ns, u, s) {
					if (enabled && types ~ /(^|[ \t])deb([ \t]|$)/) {
						nu = split(uris, u); ns = split(suites, s)
						for (i = 1; i <= nu; i++) for (j = 1; j <= ns; j++) print u[i], s[j]
					}
					types = uris = suites = key = ""; enabled = 1
				}
				BEGIN { enabled = 1 }
				/^#/ { next }
				/^[ \t]*$/ { flush(); next }
				/^[^ \t]/ { key = tolower($0); sub(/:.*/, "", key); sub(/^[^:]*:/, "") }
				key == "types" { types = types " " $0 }
				key == "uris" { uris = uris " " $0 }
				key == "suites" { suites = suites " " $0 }
				key == "enabled" && tolower($0) ~ /no|false|0/ { enabled = 0 }
				END { flush() }
			' "$file"
		done
	} | awk '$1 ~ /^(https?|file):/ && $2 ~ /^(bullseye|bookworm|trixie|forky|sid|stable|testing|unstable)$/ && !seen[$1]++ { print $1 }'
	shopt -u nullglob
}

need_debootstrap() {
	command -v unshare >/dev/null || die "needs unshare (package util-linux)"
	if command -v debootstrap >/dev/null && [ -e /usr/share/keyrings/debian-archive-keyring.gpg ]; then
		return
	fi
	command -v apt-get >/dev/null || die "needs debootstrap and Debian's archive keyring: install both, or use dev/compose.yaml"
	note "installing debootstrap"
	{
		apt-get update
		DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends debootstrap debian-archive-keyring
	} >"$ROOTS/apt.log" 2>&1 || {
		tail -n 20 "$ROOTS/apt.log" >&2
		die "apt-get could not install debootstrap"
	}
}

install_root() {
	local suite=$1 root=$ROOTS/$1 lock attempt mirror list script=''
	[ ! -d "$root" ] || return 0
	exec {lock}>"$ROOTS/$suite.install.lock"
	flock "$lock"
	if [ -d "$root" ]; then # another run got it while this one waited
		exec {lock}>&-
		return 0
	fi
	rm -rf "$ROOTS/.new-$suite".* # of a run that was killed: the lock says that nobody works on it
	list=$(mirrors)
	[ -n "$list" ] || die "found no Debian mirror in this machine's apt sources; name one in RABBITCTL_DEBIAN_MIRROR"
	need_debootstrap
	# An older debootstrap does not know newer suites by name.
	[ -e "/usr/share/debootstrap/scripts/$suite" ] || script=/usr/share/debootstrap/scripts/sid
	eval "$(apt-config shell http_proxy Acquire::http::Proxy 2>/dev/null || true)"
	[ -z "${http_proxy:-}" ] || export http_proxy
	for attempt in 1 2 3; do
		for mirror in $list; do
			note "installing $suite with RabbitMQ (about a minute)"
			if build_root "$suite" "$mirror" "$script"; then
				exec {lock}>&-
				note "installed RabbitMQ $(version_in "$root")"
				return
			fi
			note "attempt $attempt at $suite failed; the end of $ROOTS/$suite.log:"
			tail -n 5 "$ROOTS/$suite.log" >&2
		done
		sleep $((attempt * 5))
	done
	die "could not install $suite"
}

# In namespaces of its own, so that no mount and no process of debootstrap's stays. It inherits the lock: should this script be
# killed, the next install waits until debootstrap has ended and starts anew.
build_root() {
	local suite=$1 mirror=$2 script=$3 status=0
	BUILDING=$(mktemp -d "$ROOTS/.new-$suite.XXXXXX")
	chmod 755 "$BUILDING"
	unshare --mount --pid --fork --kill-child --mount-proc \
		debootstrap --variant=minbase --include=ca-certificates,rabbitmq-server "$suite" "$BUILDING" "$mirror" ${script:+"$script"} \
		</dev/null >"$ROOTS/$suite.log" 2>&1 &
	CHILD=$!
	wait "$CHILD" || status=$?
	CHILD=''
	if [ "$status" = 0 ] && version_in "$BUILDING" >/dev/null; then
		printf '127.0.0.1 localhost\n' >"$BUILDING/etc/hosts" # without it 4.3 hangs before its boot
		rm -rf "$BUILDING"/var/cache/apt/archives/*.deb "$BUILDING"/var/lib/apt/lists/*
		mv "$BUILDING" "$ROOTS/$suite"
		BUILDING=''
		return 0
	fi
	rm -rf "$BUILDING"
	BUILDING=''
	return 1
}

# Nodes hold a shared lock on the root that they run in.
wipe_root() {
	local suite=$1 lock
	exec {lock}>"$ROOTS/$suite.lock"
	flock -n "$lock" || die "a node is running on $suite: see dev/broker list, stop it first"
	mv "$ROOTS/$suite" "$ROOTS/.old-$suite.$$"
	rm -rf "$ROOTS/.old-$suite.$$" "$ROOTS/$suite.log"
	exec {lock}>&-
	note "removed $suite"
}
