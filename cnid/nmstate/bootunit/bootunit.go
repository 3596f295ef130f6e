// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bootunit installs the systemd unit that applies a host's committed state at
// each boot, before the kubelet starts and without the API.
package bootunit

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
)

// Name is the unit's.
const Name = "alioth-network-state.service"

//go:embed alioth-network-state.service
var text string

var unit = template.Must(template.New(Name).Parse(text))

// Unit is where the unit is, and what it runs.
type Unit struct {
	// Root is the host's file system.
	Root string
	// Binary is aliothctl as the host names it, Dir the folder of transactions.
	Binary, Dir string
}

func (u Unit) path() string { return filepath.Join(u.Root, "etc/systemd/system", Name) }

// wants is the link by which a host that boots starts the unit, as systemctl enable makes.
func (u Unit) wants() string {
	return filepath.Join(u.Root, "etc/systemd/system/multi-user.target.wants", Name)
}

// Installed reports whether the next boot starts the unit.
func (u Unit) Installed() bool {
	for _, path := range []string{u.path(), u.wants()} {
		if _, err := os.Stat(path); err != nil {
			return false
		}
	}
	return true
}

// Install writes the unit and enables it. A host without systemd is an error.
func (u Unit) Install() error {
	if _, err := os.Stat(filepath.Dir(u.path())); err != nil {
		return fmt.Errorf("the host has no systemd (%w); call %q at boot before the kubelet starts", err, u.Binary+" state restore")
	}
	var b bytes.Buffer
	if err := unit.Execute(&b, u); err != nil {
		return err
	}
	if err := os.WriteFile(u.path(), b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("install the unit: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(u.wants()), 0o755); err != nil {
		return fmt.Errorf("enable the unit: %w", err)
	}
	if err := os.Symlink("../"+Name, u.wants()); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("enable the unit: %w", err)
	}
	return nil
}

// Remove disables and removes the unit. A missing one is no error.
func (u Unit) Remove() error {
	var errs []error
	for _, path := range []string{u.wants(), u.path()} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
