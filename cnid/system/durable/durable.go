// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package durable creates and removes files so that the change survives a power failure.
package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Suffix is the end of the names of unfinished files. A process that is killed leaves one
// behind; the next Create at its path replaces it.
const Suffix = ".new"

// Create creates the file with the given content, or replaces it, in one step,
// and leaves it open for appending. Only root can read it.
func Create(path string, text []byte) (*os.File, error) {
	fresh := path + Suffix
	file, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		// An incomplete file would use up a full disk.
		return nil, errors.Join(fmt.Errorf("write %s: %w", fresh, err), file.Close(), removed(fresh))
	}
	return file, nil
}

// Remove removes the file. A missing file is not an error.
func Remove(path string) error {
	if err := removed(path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// removed makes sure that a file does not exist.
func removed(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
