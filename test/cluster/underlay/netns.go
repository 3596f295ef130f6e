// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package underlay

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/cluster/process"
)

// nsDir is where ip-netns(8) looks for named network namespaces.
const nsDir = "/run/netns"

// NetNSPath returns the file that holds the named network namespace.
func NetNSPath(name string) string { return filepath.Join(nsDir, name) }

// createNS makes a named network namespace with its loopback interface up; an
// existing one is kept.
func createNS(name string) error {
	path := NetNSPath(name)
	if isNS(path) {
		return nil
	}
	if err := makeNSDir(); err != nil {
		return fmt.Errorf("make the folder of network namespaces: %w", err)
	}
	if err := os.WriteFile(path, nil, 0o444); err != nil {
		return fmt.Errorf("make a mount point for the network namespace %s: %w", name, err)
	}
	return process.OnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make the network namespace %s: %w", name, err)
		}
		if err := unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("name the network namespace %s: %w", name, err)
		}
		return nil
	})
}

// makeNSDir makes the folder a mount of its own, shared with other mount namespaces, as ip-netns(8)
// does before it names its first namespace: if ip-netns(8) did so later, the mount would cover the
// existing names, and they could not be removed. The mount stays, as it does after ip-netns(8).
func makeNSDir() error {
	if err := os.MkdirAll(nsDir, 0o755); err != nil {
		return err
	}
	const shared = unix.MS_SHARED | unix.MS_REC
	err := unix.Mount("", nsDir, "", shared, "")
	if !errors.Is(err, unix.EINVAL) { // EINVAL: not a mount point yet
		return err
	}
	if err := unix.Mount(nsDir, nsDir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return unix.Mount("", nsDir, "", shared, "")
}

// deleteNS removes the name of a network namespace; the namespace itself ends with its last
// process. It returns nil for an absent name.
func deleteNS(name string) error {
	path := NetNSPath(name)
	for isNS(path) { // an interrupted creation may have mounted it twice
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount the network namespace %s: %w", name, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the network namespace %s: %w", name, err)
	}
	return nil
}

func isNS(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Type == unix.NSFS_MAGIC
}

// Namespaces returns the names of this lab's network namespaces that exist.
func (t Topology) Namespaces() ([]string, error) {
	entries, err := os.ReadDir(nsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list network namespaces: %w", err)
	}
	var names []string
	for _, entry := range entries {
		name := entry.Name()
		if name == t.Switch() || strings.HasPrefix(name, t.Lab+"-node") || strings.HasPrefix(name, t.HostPrefix()) {
			names = append(names, name)
		}
	}
	return names, nil
}

// InUse reports whether the underlay of the lab of that name exists.
func InUse(lab string) bool { return isNS(NetNSPath(Topology{Lab: lab}.Switch())) }

// setSysctl writes a network setting in the calling thread's namespace. name
// is the path below /proc/sys/net.
func setSysctl(name, value string) error {
	err := os.WriteFile(filepath.Join("/proc/sys/net", name), []byte(value), 0o644)
	if err != nil {
		return fmt.Errorf("set net/%s to %s: %w", name, value, err)
	}
	return nil
}
