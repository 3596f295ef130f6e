// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package containers tells which containers a node has, by their cgroups. Container runtimes
// name the cgroup of a container after its ID, with a prefix and a suffix of their own.
package containers

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// depth is how far below the cgroup of all pods the cgroup of a container is: class of quality,
// pod, container. Below that are the container's own.
const depth = 3

// In returns a function that reports whether a container has a cgroup below podCgroup, which is
// that of all pods. An ID that is a part of another one counts as that, so the function may
// report a container that has ended, and never the other way.
func In(podCgroup string) (func(containerID string) bool, error) {
	podCgroup = filepath.Clean(podCgroup)
	var names []string
	err := filepath.WalkDir(podCgroup, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && path != podCgroup:
			return nil // it has ended meanwhile
		case err != nil:
			return err
		case !entry.IsDir() || path == podCgroup:
			return nil
		}
		names = append(names, entry.Name())
		if below := strings.TrimPrefix(path, podCgroup); strings.Count(below, string(filepath.Separator)) >= depth {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the cgroups of containers: %w", err)
	}
	return func(containerID string) bool {
		for _, name := range names {
			if strings.Contains(name, containerID) {
				return true
			}
		}
		return false
	}, nil
}
