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
	return "", errors.New("the root of the cgroup2 hierarchy is not mounted here: mount it (mount -t cgroup2 none /sys/fs/cgroup/unified)," +
		" give a container the host's /sys/fs/cgroup, or name it with --cgroup-root")
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
