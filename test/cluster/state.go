// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"

	"github.com/alioth-net/alioth/test/cluster/process"
	"github.com/alioth-net/alioth/test/cluster/underlay"
)

// State is the data that a lab must have to continue or remove itself. It is kept on disk, and
// written before each object in it comes into being where that object has to be cleaned up.
type State struct {
	Topology underlay.Topology `json:"topology"`
	CNI      CNI               `json:"cni"`
	// Versions are the versions that the lab came up with.
	Versions Versions `json:"versions,omitzero"`
	// Daemons maps "<node>/<program>" to the daemon that runs, or ran, under that name.
	Daemons map[string]Daemon `json:"daemons,omitempty"`
	// Loaded maps a node's name to image references to the digests loaded.
	Loaded map[string]map[string]string `json:"loaded,omitempty"`
	// Installed is the digest of the Alioth image that the chart runs.
	Installed string `json:"installed,omitempty"`
	// Hosts are the names given to AddHost.
	Hosts []string `json:"hosts,omitempty"`
}

// Versions are the minor versions of the programs that a lab runs, for example 1.35. An empty one
// is the version that the pins of test/cluster have in their go.mod.
type Versions struct {
	// Kubernetes is the version of the control plane and of kubectl.
	Kubernetes string `json:"kubernetes,omitempty"`
	// Kubelet is Kubernetes where it is empty.
	Kubelet    string `json:"kubelet,omitempty"`
	Containerd string `json:"containerd,omitempty"`
}

func (v Versions) kubelet() string { return cmp.Or(v.Kubelet, v.Kubernetes) }

// Versions returns the versions that the lab was brought up with.
func (c *Cluster) Versions() Versions { return c.state.get().Versions }

// Daemon is one long-running process of the lab.
type Daemon struct {
	// Node is the node that it runs on.
	Node string       `json:"node"`
	Spec process.Spec `json:"spec"`
	ID   process.ID   `json:"id"`
}

// stateFile guards a State and its copy on disk. It is safe for concurrent use.
type stateFile struct {
	path string

	mu    sync.Mutex
	state State
}

// loadState reads the state at path. Without a file, found is false and the state empty.
func loadState(path string) (s *stateFile, found bool, err error) {
	s = &stateFile{path: path}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read the lab's state: %w", err)
	}
	if err := json.Unmarshal(raw, &s.state); err != nil {
		return nil, false, fmt.Errorf("parse the lab's state %s (after looking for leftovers, delete it): %w", path, err)
	}
	return s, true, nil
}

// get returns a copy of the state that later updates do not change.
func (s *stateFile) get() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.clone()
}

// update changes the state and writes it to disk before it returns.
func (s *stateFile) update(change func(*State)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.state.clone()
	change(&next)
	raw, err := json.MarshalIndent(next, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the lab's state: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o755); err != nil {
		return fmt.Errorf("make the lab's folder: %w", err)
	}
	if err := os.WriteFile(s.path+".new", raw, 0o600); err != nil {
		return fmt.Errorf("write the lab's state: %w", err)
	}
	if err := os.Rename(s.path+".new", s.path); err != nil {
		return fmt.Errorf("replace the lab's state: %w", err)
	}
	s.state = next
	return nil
}

func (s State) clone() State {
	s.Hosts = append([]string(nil), s.Hosts...)
	s.Daemons = maps.Clone(s.Daemons)
	s.Loaded = maps.Clone(s.Loaded)
	for name, refs := range s.Loaded {
		s.Loaded[name] = maps.Clone(refs)
	}
	return s
}

// setDaemon records the daemon that runs under d.Spec.Name.
func (s *State) setDaemon(d Daemon) {
	if s.Daemons == nil {
		s.Daemons = map[string]Daemon{}
	}
	s.Daemons[d.Spec.Name] = d
}

// copyLoaded records that a node has the images of another one.
func (s *State) copyLoaded(from, to string) {
	for ref, digest := range s.Loaded[from] {
		s.setLoaded(to, ref, digest)
	}
}

// setLoaded records that a node has an image.
func (s *State) setLoaded(node, ref, digest string) {
	if s.Loaded == nil {
		s.Loaded = map[string]map[string]string{}
	}
	if s.Loaded[node] == nil {
		s.Loaded[node] = map[string]string{}
	}
	s.Loaded[node][ref] = digest
}
