// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// CgroupRoot returns the mount point of the root of the cgroup2 hierarchy: the
// configured directory, or else the one in the mount table. All processes of the
// machine are below it, the kubelet included.
func CgroupRoot(configured string) (string, error) {
	if configured != "" {
		return configured, nil
	}
	table, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("find the root of the cgroup2 hierarchy: %w", err)
	}
	defer table.Close()
	mounts, err := cgroup2Mounts(table)
	if err != nil {
		return "", fmt.Errorf("find the root of the cgroup2 hierarchy: %w", err)
	}
	for _, dir := range mounts {
		if isCgroupRoot(dir) {
			return dir, nil
		}
	}
	return "", errors.New(
		"the root of the cgroup2 hierarchy is not mounted here: mount it (mount -t cgroup2 none /sys/fs/cgroup/unified)," +
			" give a container the host's /sys/fs/cgroup, or name it with --cgroup-root",
	)
}

// cgroup2Mounts reads a mount table in the format of proc(5).
func cgroup2Mounts(table io.Reader) ([]string, error) {
	var mounts []string
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		own, filesystem, found := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(own)
		if found && len(fields) > 4 && strings.HasPrefix(filesystem, "cgroup2 ") {
			mounts = append(mounts, unescapeMount.Replace(fields[4]))
		}
	}
	return mounts, lines.Err()
}

var unescapeMount = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// isCgroupRoot recognizes the root by a file that only other cgroups have: a container
// sees its own cgroup mounted too.
func isCgroupRoot(dir string) bool {
	_, isGroup := os.Stat(filepath.Join(dir, "cgroup.controllers"))
	_, hasEvents := os.Stat(filepath.Join(dir, "cgroup.events"))
	return isGroup == nil && errors.Is(hasEvents, os.ErrNotExist)
}

// podCgroups are the kubelet's cgroups of all pods, by its cgroup drivers.
var podCgroups = []string{"kubepods.slice", "kubepods"}

// PodCgroup returns the cgroup2 directory of all pods: the configured one, or else the kubelet's
// directory below the root.
func PodCgroup(root, configured string) (string, error) {
	const remedy = "name the cgroup2 directory that all pods are in with --node-ipam-pod-cgroup (chart value nodeIPAM.podCgroup)"
	if configured != "" {
		if _, err := os.Stat(filepath.Join(configured, "cgroup.events")); err != nil {
			return "", fmt.Errorf("%s is no cgroup below the root of cgroup2; %s: %w", configured, remedy, err)
		}
		return configured, nil
	}
	var found []string
	for _, name := range podCgroups {
		dir := filepath.Join(root, name)
		if _, err := os.Stat(filepath.Join(dir, "cgroup.events")); err == nil {
			found = append(found, dir)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("%s has none of the cgroups %v, in which the kubelet has pods; %s", root, podCgroups, remedy)
	case 1:
		return found[0], nil
	}
	// One is left from a kubelet with another driver, and pods may be in either.
	return "", fmt.Errorf("the cgroups %v both exist; %s", found, remedy)
}
