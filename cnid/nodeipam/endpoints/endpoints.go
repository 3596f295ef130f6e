// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package endpoints keeps on disk the values that other CNI plugins add to the interfaces of
// their pods: names of devices that a plugin made. The plugin asks for them again when it removes
// the devices. The attachments themselves, with their addresses, are in the journal.
//
// There is one file for each container. A container without a file may be attached all the same.
package endpoints

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"

	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

// Limits of the store. A node has far fewer pods.
const (
	maxContainers = 8192
	maxInterfaces = 32
	// maxText limits each field, in bytes.
	maxText = 256
	// maxFile limits the size of a file, in bytes. A file within the other limits is smaller.
	maxFile = 64 << 10
	// maxDamaged limits the number of damaged files that are kept.
	maxDamaged = 16
)

// Errors that callers match.
var (
	// ErrNotFound: nothing was added to that container.
	ErrNotFound = errors.New("nothing was added to that endpoint")
	// ErrLimit: a client adds more than can be kept.
	ErrLimit = errors.New("too much for one node")
)

// Interface has the values that a client has added to one interface. Empty fields are not known.
type Interface struct {
	HnsEndpointID      string       `json:"hnsEndpointID,omitempty"`
	HnsNetworkID       string       `json:"hnsNetworkID,omitempty"`
	HostVethName       string       `json:"hostVethName,omitempty"`
	MACAddress         string       `json:"macAddress,omitempty"`
	NetworkContainerID string       `json:"networkContainerID,omitempty"`
	NICType            wire.NICType `json:"nicType,omitempty"`
}

// fields returns the fields of an interface.
func (i *Interface) fields() []*string {
	return []*string{
		&i.HnsEndpointID,
		&i.HnsNetworkID,
		&i.HostVethName,
		&i.MACAddress,
		&i.NetworkContainerID,
		(*string)(&i.NICType),
	}
}

// with returns the interface with the fields of later that are not empty.
func (i Interface) with(later Interface) Interface {
	to := i.fields()
	for n, from := range later.fields() {
		if *from != "" {
			*to[n] = *from
		}
	}
	return i
}

// Store has the additions of all containers. Its methods may be called concurrently.
type Store struct {
	dir string
	log *slog.Logger

	// mu also serialises the writes, so that file and memory agree.
	mu sync.Mutex
	// byContainer has by container ID the interfaces by name. The inner maps are replaced
	// and never changed.
	byContainer map[string]map[string]Interface
}

// Open reads the files in dir, and makes a missing dir. It moves files that can't be read aside,
// and serves the rest.
func Open(dir string, log *slog.Logger) (*Store, error) {
	s := &Store{dir: dir, log: log}
	var err error
	if s.byContainer, err = s.readAll(); err != nil {
		return nil, fmt.Errorf("open the state of endpoints: %w", err)
	}
	return s, nil
}

// Get returns the interfaces of a container by name, nil if nothing was added. The caller
// must not change the result.
func (s *Store) Get(containerID string) map[string]Interface {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byContainer[containerID]
}

// Patch adds to a container, interface by interface. It is on disk when Patch returns.
func (s *Store) Patch(containerID string, added map[string]Interface) error {
	if err := checkPatch(containerID, added); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.byContainer[containerID]
	if !ok && len(s.byContainer) >= maxContainers {
		return fmt.Errorf("%w: there are %d endpoints", ErrLimit, maxContainers)
	}
	next := maps.Clone(known)
	if next == nil {
		next = map[string]Interface{}
	}
	for name, one := range added {
		next[name] = next[name].with(one)
	}
	if len(next) > maxInterfaces {
		return fmt.Errorf("%w: an endpoint has at most %d interfaces", ErrLimit, maxInterfaces)
	}
	if err := s.write(containerID, next); err != nil {
		return err
	}
	s.byContainer[containerID] = next
	return nil
}

// checkPatch refuses a text that is not a name, or too long.
func checkPatch(containerID string, added map[string]Interface) error {
	if err := wire.CheckContainerID(containerID); err != nil {
		return err
	}
	for name, one := range added {
		if err := wire.CheckIfname(name); err != nil || name == "" {
			return fmt.Errorf("interface %q: %w", name, errors.Join(ErrLimit, err))
		}
		for _, field := range one.fields() {
			if len(*field) > maxText {
				return fmt.Errorf("%w: a field of interface %s has more than %d bytes", ErrLimit, name, maxText)
			}
		}
	}
	return nil
}

// Delete forgets the interfaces that were added to a container, or returns ErrNotFound. After
// another error they are forgotten in memory, and a later Keep removes the file.
func (s *Store) Delete(containerID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.byContainer[containerID]; !ok {
		return ErrNotFound
	}
	delete(s.byContainer, containerID)
	return s.remove(containerID)
}

// Keep forgets every container that is not attached: a client need not delete its additions. It
// is called at start and at intervals, so that nothing piles up.
func (s *Store) Keep(attached func(containerID string) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for containerID := range s.byContainer {
		if !attached(containerID) {
			delete(s.byContainer, containerID)
		}
	}
	files, err := s.containers()
	errs = append(errs, err)
	for _, containerID := range files {
		if _, ok := s.byContainer[containerID]; !ok {
			errs = append(errs, s.remove(containerID))
		}
	}
	return errors.Join(errs...)
}
