#!/bin/sh
# Copyright The Alioth Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Says within a second whether this machine can run the lab, before anything is compiled:
# one line for each thing that is missing, with its remedy. make runs it, and package host,
# which has it built in.
#
#   check.sh go        only: is Go here, and new enough?
#   check.sh machine   everything else
#   check.sh           both
#
# HOST_ROOT is a folder in the place of / for tests. ALIOTH_LAB is the number of the lab, and
# LAB_DIR its folder. ALIOTH_ROOM is "total" if the memory of the machine counts and not the
# free part of it, and "checked" if a caller has looked at memory and disk before.

root=${HOST_ROOT:-}
go=${GO:-go}
failed=0

part=${1:-}

missing() {
	case $part/$failed in
	go/*) echo "$1" >&2 ;;
	*/0) printf "This machine can't run the lab yet:\n- %s\n" "$1" >&2 ;;
	*) echo "- $1" >&2 ;;
	esac
	failed=1
}

# older A B: is version A lower than version B?
older() {
	awk -v a="$1" -v b="$2" 'BEGIN {
		n = split(a, x, "."); m = split(b, y, ".")
		for (i = 1; i <= n || i <= m; i++) if (x[i] + 0 != y[i] + 0) exit !(x[i] + 0 < y[i] + 0)
		exit 1
	}'
}

# --- Go

# The newest version that a module of the product or the lab wants.
wanted_go() {
	wanted=0
	for file in go.mod test/cluster/*/go.mod test/tools/go.mod; do
		[ -r "$file" ] || continue
		version=$(awk '$1 == "go" {print $2; exit}' "$file")
		if older "$wanted" "$version"; then wanted=$version; fi
	done
	echo "$wanted"
}

check_go() {
	wanted=$(wanted_go)
	install="install Go $wanted or newer: https://go.dev/doc/install"
	if ! command -v "$go" >/dev/null 2>&1; then
		missing "Go is not installed, or not in the PATH: $install"
		return
	fi
	# In a folder without a module, and told to stay local, it tells its own version.
	found=$(cd / && GOTOOLCHAIN=local "$go" version 2>/dev/null | sed -n 's/^go version go\([0-9.]*\).*/\1/p')
	if [ -z "$found" ]; then
		missing "$go does not tell its version: $install"
	elif older "$found" "$wanted"; then
		check_toolchain "$found" "$wanted"
	fi
}

# Since 1.21 Go fetches the version that a module wants, unless told not to.
check_toolchain() {
	if older "$1" 1.21; then
		missing "Go $1 is too old, and can't fetch a newer one by itself: $install"
		return
	fi
	case $(cd / && "$go" env GOTOOLCHAIN) in
	local | go*) missing "Go $1 is too old, and GOTOOLCHAIN keeps it from fetching a newer one: $install; or set GOTOOLCHAIN=auto" ;;
	esac
}

# --- The machine

check_user() {
	[ "$(id -u)" = 0 ] || missing "you are not root, and the lab makes network namespaces and mounts: run it as root, or: sudo -E env \"PATH=\$PATH\" make demo"
}

check_kernel() {
	if [ "$(uname -s)" != Linux ]; then
		missing "this is no Linux: use a Linux machine, or a virtual one"
		return
	fi
	release=$(uname -r)
	if older "${release%%[!0-9.]*}" 6.1; then
		missing "the kernel is Linux $release: use 6.1 or newer"
	fi
	[ -e "$root/sys/kernel/btf/vmlinux" ] ||
		missing "no kernel type information in /sys/kernel/btf/vmlinux: use a kernel built with CONFIG_DEBUG_INFO_BTF (Debian's own have it)"
	for name in net mnt uts pid ipc; do
		[ -e "$root/proc/self/ns/$name" ] || missing "no $name namespaces in this kernel: use one with CONFIG_NAMESPACES and its options"
	done
	check_filesystem overlay "containerd unpacks images with it; load it with: modprobe overlay"
	check_filesystem bpf "the datapath pins its objects there; use a kernel with CONFIG_BPF_SYSCALL"
}

# The kernel may load a module for a file system when it is asked. It may have none, or
# modprobe be absent: what counts is the second look.
check_filesystem() {
	has_filesystem "$1" && return
	modprobe "$1" >/dev/null 2>&1
	has_filesystem "$1" || missing "no file system type \"$1\" in this kernel: $2"
}

has_filesystem() { awk -v name="$1" '$NF == name {found = 1} END {exit !found}' "$root/proc/filesystems" 2>/dev/null; }

# A kubelet needs either cgroup2 alone, or all of these hierarchies beside it.
check_cgroups() {
	mounts=$root/proc/self/mounts
	awk '$3 == "cgroup2" {found = 1} END {exit !found}' "$mounts" ||
		missing "no cgroup2 mount: run: mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified"
	absent=$(awk '
		$3 == "cgroup" {v1 = 1; n = split($4, o, ","); for (i = 1; i <= n; i++) {sub(/^name=/, "", o[i]); has[o[i]] = 1}}
		END {
			if (!v1) exit
			n = split("cpu cpuacct cpuset memory pids systemd", wanted, " ")
			for (i = 1; i <= n; i++) if (!has[wanted[i]]) printf "%s%s", sep, wanted[i], sep = ", "
		}' "$mounts")
	[ -z "$absent" ] ||
		missing "cgroup v1 without $absent, which the kubelet needs: mount them below /sys/fs/cgroup, or boot with systemd.unified_cgroup_hierarchy=1"
}

# cold: is Kubernetes still to be built?
cold() {
	cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}
	for built in "$cache"/alioth/kubernetes-*; do
		[ -d "$built" ] && return 1
	done
	return 0
}

# In MiB: the largest link, and what runs beside it; then a lab of two nodes with its pods.
memory_to_build=3500
memory_to_run=1800

# measured: are memory and disk asked? A lab that is up has taken its part of both already.
measured() { [ "${ALIOTH_ROOM:-}" != checked ] && [ ! -e "${LAB_DIR:-.cluster}/state.json" ]; }

check_memory() {
	needed=$memory_to_run purpose="the lab needs"
	if cold; then needed=$memory_to_build purpose="to build Kubernetes takes"; fi
	memory=MemAvailable swap=SwapFree have="are free" remedy="end other programs, or add swap"
	# A lack that may be over in a moment ends no long run of tests.
	if [ "${ALIOTH_ROOM:-}" = total ]; then memory=MemTotal swap=SwapTotal have="are all" remedy="add memory or swap"; fi
	size=$(awk -v memory="$memory:" -v swap="$swap:" '$1 == memory || $1 == swap {sum += $2} END {printf "%d", sum / 1024}' "$root/proc/meminfo")
	[ "$size" -ge "$needed" ] ||
		missing "$size MiB of memory and swap $have, and $purpose $needed MiB: $remedy"
}

# In MiB, with nothing in the caches: Go's module cache, its build cache, the programs of the
# lab in the cache of the user, and the lab's folder with images and logs. The modules and the
# programs were measured, 1,700 and 330, and the lab: 940.
disk_modules=2000
disk_objects=3000
disk_programs=500
disk_lab=1000

check_disk() {
	cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}
	{
		echo "$disk_lab $(above "$PWD")"
		if cold; then
			echo "$disk_modules $(above "$("$go" env GOMODCACHE)")"
			echo "$disk_objects $(above "$("$go" env GOCACHE)")"
			echo "$disk_programs $(above "$cache/alioth")"
		fi
	} | while read -r needed folder; do
		# Device, free MiB, where it is mounted, and one percent of it.
		df -Pk "$folder" | awk -v needed="$needed" 'NR == 2 {print $1, int($4 / 1024), needed, $6, int($2 / 102400)}'
	done | awk '
		# The first line is the folder of the lab: its kubelets give up below one percent.
		NR == 1 {needed[$1] = $5}
		{free[$1] = $2; needed[$1] += $3; at[$1] = $4}
		END {for (d in free) if (free[d] < needed[d]) print free[d], needed[d], at[d]}' >"$findings"
	while read -r free needed at; do
		missing "$free MiB of disk are free at $at, and the lab needs $needed MiB there: make room, or move Go's caches and the lab's (GOCACHE, GOMODCACHE, XDG_CACHE_HOME)"
	done <"$findings"
}

# The folder, or the nearest one above it that exists.
above() {
	folder=$1
	while [ ! -d "$folder" ]; do folder=$(dirname "$folder"); done
	echo "$folder"
}

# What the lab needs comes from Debian packages; elsewhere, from whoever runs it.
check_packages() {
	command -v apt-get >/dev/null 2>&1 && return
	absent=$(echo "${PACKAGES:-$(cat "$(dirname "$0")/packages.txt")}" | while read -r package file; do
		[ -e "$root$file" ] || printf '%s (%s) ' "$package" "$file"
	done)
	[ -z "$absent" ] ||
		missing "no apt-get here, and some programs are missing: install by other means what these Debian packages have, at these paths: $absent"
}

# The lab's network is 192.168.N.0/24 on a device of its own. A container engine or another
# network may have it.
check_network() {
	case ${ALIOTH_LAB:-} in
	'') octet=77 ;;
	[1-9]) octet=8$ALIOTH_LAB ;;
	*) return ;; # the lab itself refuses the number
	esac
	# The numbers are hexadecimal, the last byte first.
	taken=$(awk -v net="$(printf '%02XA8C0' "$octet")" -v own="alioth${ALIOTH_LAB:-}-lab0" '
		NR > 1 && substr($2, 3) == net && $1 != own {print $1; exit}' "$root/proc/net/route")
	[ -z "$taken" ] ||
		missing "the network 192.168.$octet.0/24 of the lab is on the device $taken already, perhaps of a container engine: choose another lab: ALIOTH_LAB=1 (to 9) make demo"
}

check_machine() {
	findings=$(mktemp) || exit 1
	trap 'rm -f "$findings"' EXIT
	check_user
	check_kernel
	check_cgroups
	if measured; then
		check_memory
		check_disk
	fi
	check_packages
	check_network
}

[ "$part" = machine ] || check_go
[ "$part" = go ] || check_machine
exit "$failed"
