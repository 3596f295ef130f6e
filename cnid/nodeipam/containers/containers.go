// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package containers tells which pods and containers a node has, by their cgroups. The kubelet
// makes the cgroup of a pod and removes it after the last container. Container runtimes name
// the cgroup of a container in it after its ID, with a prefix and a suffix of their own. Some
// runtimes make none for a sandbox, or make it elsewhere. It is a package of its own, because it
// reads a tree of cgroups and depends on nothing of the daemon.
package containers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Node has the pods and containers that a node has.
type Node struct{ pods, containers []string }

// On reads which pods and containers have cgroups below podCgroup, the cgroup of all pods.
// Cgroups that a container makes for itself do not count, whatever their names are.
func On(podCgroup string) (Node, error) {
	node, err := read(podCgroup)
	if err != nil {
		return Node{}, fmt.Errorf("list the cgroups of pods: %w", err)
	}
	return node, nil
}

func read(podCgroup string) (node Node, err error) {
	top, err := below(podCgroup)
	if err != nil {
		return node, err
	}
	for _, dir := range top {
		pods := []string{dir}
		if isClass(dir) {
			if pods, err = below(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return node, err
			}
		}
		for _, pod := range pods {
			containers, err := below(pod)
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // ErrNotExist: it has ended meanwhile
				return node, err
			}
			node.pods = append(node.pods, filepath.Base(pod))
			for _, container := range containers {
				node.containers = append(node.containers, filepath.Base(container))
			}
		}
	}
	return node, nil
}

// isClass reports whether a cgroup has the pods of a class of quality. Pods of the class
// Guaranteed are beside the two. The name of a slice of systemd has those above it in front.
func isClass(dir string) bool {
	name := strings.TrimSuffix(filepath.Base(dir), ".slice")
	return strings.HasSuffix(name, "burstable") || strings.HasSuffix(name, "besteffort")
}

func below(dir string) (dirs []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if entry.IsDir() {
			dirs = append(dirs, filepath.Join(dir, entry.Name()))
		}
	}
	return dirs, err
}

// Has reports whether the node has a pod or one of its containers. A part of an ID counts as
// the ID, so the answer may be true of a container that has ended, and is never false of one
// that the node has.
func (n Node) Has(podUID, containerID string) bool {
	names := func(id string) func(string) bool {
		return func(name string) bool { return id != "" && strings.Contains(name, id) }
	}
	// In the name of a slice of systemd a dash has a meaning.
	return slices.ContainsFunc(n.containers, names(containerID)) || slices.ContainsFunc(n.pods, names(podUID)) ||
		slices.ContainsFunc(n.pods, names(strings.ReplaceAll(podUID, "-", "_")))
}
