// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// The control groups of lanes that leave the processors to others. The nodes of labs are
// groups too, and a nice value counts within a group alone.
const (
	// cgroupRoot is where the hierarchies are mounted, or the only one.
	cgroupRoot = "/sys/fs/cgroup"
	// lowShares (cgroup v1) and lowWeight (v2) are a quarter and a tenth of what groups have
	// by default: tests of such a lane are slow, but miss no limit.
	lowShares, lowWeight = "256", "25"
)

// group is the directory of a control group, "" for none.
type group string

// newGroup makes the control group of a lane, with less of the processors than others. There
// is none where this process may not make one, for example in a container.
func newGroup(root, lane string) (group, error) {
	parent, file, share := filepath.Join(root, "cpu"), "cpu.shares", lowShares
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		parent, file, share = root, "cpu.weight", lowWeight
		if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+cpu"), 0); err != nil {
			return "", fmt.Errorf("give control groups shares of the processors: %w", err)
		}
	}
	dir := filepath.Join(parent, "lane-"+lane+"-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, file), []byte(share), 0); err != nil {
		return "", errors.Join(err, os.Remove(dir))
	}
	return group(dir), nil
}

// take moves a process into the group; what it starts from then on is there too.
func (g group) take(pid int) error {
	if g == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(string(g), "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

// remove removes the group when its last process has ended, and gives up after a while.
func (g group) remove() error {
	if g == "" {
		return nil
	}
	limit := time.After(grace)
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		err := os.Remove(string(g))
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		select {
		case <-limit:
			return err
		case <-again.C:
		}
	}
}
