// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node makes one machine of a lab: its mount and host name namespaces
// on top of the network namespace that package underlay made, its containerd
// and its kubelet.
package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/cluster/host"
	"github.com/alioth-net/alioth/test/cluster/process"
	"github.com/alioth-net/alioth/test/cluster/underlay"
)

// Machine is where a node's files are.
type Machine struct {
	// Name is the node's name, host name, network namespace and cgroup.
	Name string
	// Dir holds everything that the node writes.
	Dir string
	// Daemons are the folders of the cgroup of its daemons, cgroup2's first.
	Daemons []string
	// Logs is the folder for the logs of its daemons.
	Logs string
}

// binds maps folders below Machine.Dir to the places where the node sees them.
func binds() map[string]string {
	return map[string]string{
		"cni-conf": "/etc/cni/net.d",
		"cni-bin":  "/opt/cni/bin",
		"cni-data": "/var/lib/cni",
		"kubelet":  "/var/lib/kubelet",
		"alioth":   "/var/lib/alioth",
		"log":      "/var/log",
	}
}

// MountPoints returns the folders of the host that a node mounts its own over, sorted.
func MountPoints() []string {
	points := make([]string, 0, len(binds()))
	for _, point := range binds() {
		points = append(points, point)
	}
	slices.Sort(points)
	return points
}

// Path returns a path below the node's folder.
func (m Machine) Path(elem ...string) string {
	return filepath.Join(append([]string{m.Dir}, elem...)...)
}

// LogFile returns the log file of one of the node's daemons.
func (m Machine) LogFile(daemon string) string {
	return filepath.Join(m.Logs, m.Name+"-"+daemon+".log")
}

// Boot makes the node's namespaces and starts the process that keeps them. Every process in these
// namespaces is on the node.
func (m Machine) Boot() (*process.Child, error) {
	for dir := range binds() {
		if err := os.MkdirAll(m.Path(dir), 0o755); err != nil {
			return nil, fmt.Errorf("make the folders of %s: %w", m.Name, err)
		}
	}
	if err := os.MkdirAll(m.Path("kubelet", filepath.Base(StaticPods)), 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of the static pods of %s: %w", m.Name, err)
	}
	if err := m.writeMachineID(); err != nil {
		return nil, err
	}
	var holder *process.Child
	err := process.OnThread(func() error {
		if err := m.enterNew(); err != nil {
			return fmt.Errorf("make the namespaces of %s: %w", m.Name, err)
		}
		var err error
		holder, err = process.Start(process.Spec{
			Name: m.Name + "/holder", Args: []string{"/bin/sleep", "infinity"},
			Log: m.LogFile("holder"), Cgroups: m.Daemons,
		})
		return err
	})
	return holder, err
}

// enterNew moves the calling thread into namespaces that look like a machine.
func (m Machine) enterNew() error {
	space := process.Space{Net: underlay.NetNSPath(m.Name)}
	if err := space.Enter(); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWUTS); err != nil {
		return fmt.Errorf("unshare mounts and host name: %w", err)
	}
	if err := unix.Sethostname([]byte(m.Name)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	// Cut off from the host first, so that nothing below reaches it.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("detach the mounts from the host: %w", err)
	}
	if err := dropForeignNamespaces(); err != nil {
		return err
	}
	if err := m.mount(); err != nil {
		return err
	}
	// Shared among everything on this node, as on a real machine: pods with
	// mount propagation see the network namespaces and pins made after them.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share the mounts within the node: %w", err)
	}
	return nil
}

// dropForeignNamespaces unmounts the copies of the host's named namespaces: a
// namespace deleted on the host would otherwise live on through its copy here.
func dropForeignNamespaces() error {
	mounts, err := host.Mounts()
	if err != nil {
		return err
	}
	for i := len(mounts) - 1; i >= 0; i-- {
		if mounts[i].Type != "nsfs" {
			continue
		}
		err := unix.Unmount(mounts[i].Point, unix.MNT_DETACH)
		// Hidden below another mount it is out of reach, and harmless to us.
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("unmount the copy of %s: %w", mounts[i].Point, err)
		}
	}
	return nil
}

func (m Machine) mount() error {
	for dir, point := range binds() {
		if err := unix.Mount(m.Path(dir), point, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s: %w", point, err)
		}
	}
	if _, err := os.Stat("/etc/machine-id"); err == nil {
		if err := unix.Mount(m.Path("machine-id"), "/etc/machine-id", "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount the machine ID: %w", err)
		}
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	for _, dir := range []string{"/run/netns", "/run/lock", "/run/containerd"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", dir, err)
		}
	}
	// Each mount of this type is a file system of its own, so pins of one node
	// are invisible to the others and vanish with the node.
	if err := unix.Mount("bpf", "/sys/fs/bpf", "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=700"); err != nil {
		return fmt.Errorf("mount /sys/fs/bpf: %w", err)
	}
	return nil
}

// MachineID returns the content of a node's /etc/machine-id: an identity of its own, derived
// from its name.
func MachineID(name string) []byte {
	id := fmt.Sprintf("%x", name)
	return []byte((id + strings.Repeat("0", 32))[:32] + "\n")
}

func (m Machine) writeMachineID() error {
	if err := os.WriteFile(m.Path("machine-id"), MachineID(m.Name), 0o444); err != nil && !os.IsExist(err) {
		return fmt.Errorf("write the machine ID of %s: %w", m.Name, err)
	}
	return nil
}
