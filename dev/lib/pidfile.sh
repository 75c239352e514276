# shellcheck shell=bash
# A pid file has the pid and the start time, which tells the process from a later one with the same number.

# The pid is read from /proc, because in a new pid namespace $$ is another one: until /proc is mounted again, it has the pid that
# the starter sees. No subshell may read it. exec keeps both.
write_pid() {
	local stat field
	read -r stat </proc/self/stat
	read -r -a field <<<"${stat##*) }"
	echo "${stat%% *} ${field[19]}" >"$1.new"
	mv "$1.new" "$1"
}
