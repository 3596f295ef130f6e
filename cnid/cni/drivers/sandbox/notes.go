// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Noted is a driver's note about an interface.
type Noted interface {
	// Identity is the interface.
	Identity() Interface
}

// Identity implements Noted for the types that embed an Interface.
func (i Interface) Identity() Interface { return i }

// Notes are files in a folder, one for each interface.
type Notes[T Noted] struct{ dir string }

// suffix ends the name of a complete note, unfinished is added to it until the note is complete.
const suffix, unfinished = ".json", ".new"

// NewNotes makes a missing folder, and removes the unfinished notes of an ended process: nothing
// was done for an interface before its note was complete. One process at a time has the folder.
func NewNotes[T Noted](dir string) (Notes[T], error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Notes[T]{}, fmt.Errorf("make the folder of notes about interfaces: %w", err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"+suffix+unfinished))
	if err != nil {
		return Notes[T]{}, fmt.Errorf("list unfinished notes about interfaces in %s: %w", dir, err)
	}
	for _, path := range left {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return Notes[T]{}, fmt.Errorf("remove an unfinished note about an interface: %w", err)
		}
	}
	return Notes[T]{dir}, nil
}

func (n Notes[T]) path(containerID, ifName string) string {
	sum := sha256.Sum256([]byte(containerID + "\x00" + ifName))
	return filepath.Join(n.dir, hex.EncodeToString(sum[:])+suffix)
}

// Put writes a note, and replaces one of the same interface.
func (n Notes[T]) Put(one T) error {
	text, err := json.Marshal(one)
	if err != nil {
		return fmt.Errorf("write a note about an interface: %w", err)
	}
	id := one.Identity()
	path := n.path(id.ContainerID, id.IfName)
	err = os.WriteFile(path+unfinished, text, 0o600)
	if err == nil {
		err = os.Rename(path+unfinished, path)
	}
	if err != nil {
		return fmt.Errorf("write a note about an interface (is the file system of %s full or read-only?): %w", n.dir, err)
	}
	return nil
}

// Get reports false without a note. A note that can't be understood identifies nothing.
func (n Notes[T]) Get(containerID, ifName string) (T, bool, error) {
	return read[T](n.path(containerID, ifName))
}

func read[T any](path string) (one T, ok bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return one, false, nil
	}
	if err != nil {
		return one, false, fmt.Errorf("read a note about an interface: %w", err)
	}
	return one, json.Unmarshal(text, &one) == nil, nil
}

// Remove removes the note about an interface. A missing note is not an error.
func (n Notes[T]) Remove(one T) error {
	id := one.Identity()
	err := os.Remove(n.path(id.ContainerID, id.IfName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove a note about an interface: %w", err)
	}
	return nil
}

// All returns the notes, the oldest first.
func (n Notes[T]) All() ([]T, error) {
	files, err := os.ReadDir(n.dir)
	if err != nil {
		return nil, fmt.Errorf("list notes about interfaces: %w", err)
	}
	var list []T
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), suffix) {
			continue
		}
		one, ok, err := read[T](filepath.Join(n.dir, file.Name()))
		if err != nil {
			return nil, err
		}
		if ok {
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(x, y T) int { return x.Identity().compare(y.Identity()) })
	return list, nil
}
