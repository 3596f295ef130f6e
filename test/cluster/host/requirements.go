// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package host describes the machine under the lab: what it must offer, which Debian
// packages it lacks, how its cgroups are laid out, and which of its folders and kernel
// settings the lab has to put back.
package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Check returns an error with one line per requirement that this machine does not meet;
// each line contains the remedy.
func Check(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("not root: the lab makes network namespaces and mounts; run it again with sudo")
	}
	mounts, err := Mounts()
	if err != nil {
		return err
	}
	return errors.Join(
		checkBTF(),
		checkCgroups(FindCgroups(mounts)),
		checkFilesystem(ctx, "overlay", "containerd unpacks images with it; load it with: modprobe overlay"),
		checkFilesystem(ctx, "bpf", "the datapath pins its objects there; use a kernel with CONFIG_BPF_SYSCALL"),
		checkNamespaces(),
	)
}

func checkBTF() error {
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		return errors.New("no kernel type information in /sys/kernel/btf/vmlinux: use a kernel built with CONFIG_DEBUG_INFO_BTF (Debian's own have it)")
	}
	return nil
}

func checkCgroups(c Cgroups) error {
	if c.Unified == "" {
		return errors.New("no cgroup2 mount: run: mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified")
	}
	if c.V2Only() {
		return nil
	}
	var missing []string
	for _, name := range []string{"cpu", "cpuacct", "cpuset", "memory", "pids", "systemd"} {
		if c.V1[name] == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("cgroup v1 without %s, which the kubelet needs: mount them below /sys/fs/cgroup, or boot with systemd.unified_cgroup_hierarchy=1",
			strings.Join(missing, ", "))
	}
	return nil
}

// checkFilesystem asks the kernel for a file system type and lets it load the
// module where there is one.
func checkFilesystem(ctx context.Context, name, remedy string) error {
	if hasFilesystem(name) {
		return nil
	}
	// The kernel may be built without modules, or modprobe be absent: what
	// counts is the answer of the second look.
	_ = exec.CommandContext(ctx, "modprobe", name).Run()
	if hasFilesystem(name) {
		return nil
	}
	return fmt.Errorf("no file system type %q in this kernel: %s", name, remedy)
}

func hasFilesystem(name string) bool {
	raw, err := os.ReadFile("/proc/filesystems")
	return err == nil && bytes.Contains(raw, []byte("\t"+name+"\n"))
}

func checkNamespaces() error {
	for _, name := range []string{"net", "mnt", "uts", "pid", "ipc"} {
		if err := unix.Access("/proc/self/ns/"+name, unix.F_OK); err != nil {
			return fmt.Errorf("no %s namespaces in this kernel: use one with CONFIG_NAMESPACES and its options", name)
		}
	}
	return nil
}

// compilers maps the Debian packages that regenerating BPF objects takes to a
// file that shows that each is installed.
func compilers() map[string]string {
	return map[string]string{"clang-19": "/usr/bin/clang-19", "git": "/usr/bin/git", "llvm-19": "/usr/bin/llvm-strip-19"}
}

// packages is the same for what the lab and the tests need.
func packages() map[string]string {
	return map[string]string{
		"busybox-static":              "/bin/busybox",
		"ca-certificates":             "/etc/ssl/certs/ca-certificates.crt",
		"containernetworking-plugins": "/usr/lib/cni/bridge",
		"dnsmasq-base":                "/usr/sbin/dnsmasq",
		"etcd-server":                 "/usr/bin/etcd",
		"iproute2":                    "/sbin/ip",
		"kmod":                        "/sbin/modprobe",
		"nftables":                    "/usr/sbin/nft",
		"procps":                      "/sbin/sysctl",
		"runc":                        "/usr/sbin/runc",
		"spin":                        "/usr/bin/spin",
		"util-linux":                  "/usr/bin/nsenter",
	}
}

// MissingPackages returns the Debian packages that the lab needs and that this
// machine lacks.
func MissingPackages() []string { return missingOf(packages()) }

// MissingCompilers returns the Debian packages that regenerating BPF objects
// takes and that this machine lacks. Building takes none of them.
func MissingCompilers() []string { return missingOf(compilers()) }

func missingOf(packages map[string]string) []string {
	var missing []string
	for name, file := range packages {
		if !exists(file) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing
}

// InstallPackages installs Debian packages through apt and hands each line of
// its output to progress.
func InstallPackages(ctx context.Context, names []string, progress func(line string)) error {
	if len(names) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("no apt-get here: install what these Debian packages hold by other means: %s", strings.Join(names, " "))
	}
	progress("installing Debian packages: " + strings.Join(names, " "))
	if err := apt(ctx, "update", "-q"); err != nil {
		return err
	}
	if err := apt(ctx, append([]string{"install", "-y", "-q", "--no-install-recommends"}, names...)...); err != nil {
		return err
	}
	return stopInstalledServices(ctx, names)
}

// stopInstalledServices stops the system's own etcd where installing it has
// started one: the lab runs etcd itself.
func stopInstalledServices(ctx context.Context, installed []string) error {
	if !exists("/run/systemd/system") || !slices.Contains(installed, "etcd-server") {
		return nil
	}
	if out, err := exec.CommandContext(ctx, "systemctl", "disable", "--now", "etcd").CombinedOutput(); err != nil {
		return fmt.Errorf("stop the etcd service that came with its package: %w\n%s", err, out)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func apt(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("run apt-get %s: %w\n%s", args[0], err, out)
	}
	return nil
}
