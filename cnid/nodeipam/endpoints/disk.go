// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
	"github.com/alioth-net/alioth/cnid/system/durable"
)

const (
	// suffix ends the names of files; the rest is the container ID.
	suffix = ".json"
	// aside is between the name of a damaged file and the time at which it was moved.
	aside = ".damaged-"
)

// file is the content of a file. Fields may be added.
type file struct {
	Interfaces map[string]Interface `json:"interfaces"`
}

func (s *Store) path(containerID string) string { return filepath.Join(s.dir, containerID+suffix) }

func (s *Store) write(containerID string, interfaces map[string]Interface) error {
	text, err := json.Marshal(file{Interfaces: interfaces})
	if err != nil {
		return fmt.Errorf("encode the state of endpoint %s: %w", containerID, err)
	}
	made, err := durable.Create(s.path(containerID), text)
	if err != nil {
		return fmt.Errorf("keep the state of endpoint %s: %w", containerID, err)
	}
	return made.Close()
}

func (s *Store) remove(containerID string) error {
	if err := durable.Remove(s.path(containerID)); err != nil {
		return fmt.Errorf("remove the state of endpoint %s: %w", containerID, err)
	}
	return nil
}

// containers returns the container IDs that have a file.
func (s *Store) containers() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, entry := range entries {
		if id, ok := strings.CutSuffix(entry.Name(), suffix); ok && wire.CheckContainerID(id) == nil {
			list = append(list, id)
		}
	}
	return list, nil
}

// readAll reads all files. It removes the remains of an interrupted write.
func (s *Store) readAll() (map[string]map[string]Interface, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	leftovers, err := filepath.Glob(filepath.Join(s.dir, "*"+suffix+durable.Suffix))
	if err != nil {
		return nil, err
	}
	for _, path := range leftovers {
		if err := os.Remove(path); err != nil {
			s.log.Warn("can't remove an unfinished file", "path", path, "error", err)
		}
	}
	list, err := s.containers()
	if err != nil {
		return nil, err
	}
	all := make(map[string]map[string]Interface, len(list))
	for _, id := range list {
		interfaces, err := read(s.path(id))
		if err != nil {
			s.moveAside(id, err)
			continue
		}
		all[id] = interfaces
	}
	return all, nil
}

// read reads one file. An entry that is not a regular file is damage: nobody else may write here.
func read(path string) (map[string]Interface, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, errors.New("it is no regular file"))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	var content file
	switch err := json.Unmarshal(text, &content); {
	case len(text) > maxFile:
		return nil, fmt.Errorf("it has more than %d bytes", maxFile)
	case err != nil:
		return nil, err
	case len(content.Interfaces) == 0 || len(content.Interfaces) > maxInterfaces:
		return nil, fmt.Errorf("it has %d interfaces", len(content.Interfaces))
	}
	return content.Interfaces, checkPatch("any", content.Interfaces)
}

// moveAside keeps a damaged file for a person, and tells so. Of many the oldest go.
func (s *Store) moveAside(containerID string, cause error) {
	to := s.path(containerID) + aside + time.Now().UTC().Format("20060102T150405.000000000")
	err := os.Rename(s.path(containerID), to)
	s.log.Error("the state of an endpoint is damaged; moved it aside. Its CNI plugin may leave a device behind",
		"containerID", containerID, "movedTo", to, "error", errors.Join(cause, err))
	damaged, err := filepath.Glob(filepath.Join(s.dir, "*"+suffix+aside+"*"))
	if err != nil || len(damaged) <= maxDamaged {
		return
	}
	slices.SortFunc(damaged, func(a, b string) int { return strings.Compare(when(a), when(b)) })
	for _, path := range damaged[:len(damaged)-maxDamaged] {
		s.log.Warn("removing an old damaged file", "path", path, "error", os.RemoveAll(path))
	}
}

// when returns the time in the name of a damaged file.
func when(path string) string { return path[strings.LastIndex(path, aside)+len(aside):] }
