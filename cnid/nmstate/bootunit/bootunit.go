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

	"github.com/alioth-net/alioth/cnid/nmstate/inroot"
)

// Name is the name of the unit.
const Name = "alioth-network-state.service"

//go:embed alioth-network-state.service
var text string

var unit = template.Must(template.New(Name).Parse(text))

// Unit is where the unit is, and what it runs.
type Unit struct {
	// Root is the host's file system: "/" on the host itself, "/proc/1/root" in a container
	// that shares the host's PID namespace.
	Root string
	// Binary is aliothctl as the host names it, Dir the folder of transactions.
	Binary, Dir string
}

// Paths of the unit, and of the link that starts the unit at a boot, as systemctl enable makes
// it. The second path is relative to the folder of units.
const (
	units = "etc/systemd/system"
	wants = "multi-user.target.wants/" + Name
)

func (u Unit) path() string { return filepath.Join(u.Root, units, Name) }

func (u Unit) wants() string { return filepath.Join(u.Root, units, wants) }

// Installed reports whether the next boot starts the unit. A daemon in a container sees it
// if Root is the host's file system. A unit that is masked (systemctl mask) does not start.
func (u Unit) Installed() bool {
	unit, err := inroot.Stat(u.Root, filepath.Join(units, Name))
	if err != nil || !unit.Mode().IsRegular() {
		return false
	}
	started, err := inroot.Stat(u.Root, filepath.Join(units, wants))
	return err == nil && os.SameFile(unit, started)
}

// Install writes the unit and enables it. A host without systemd is an error.
func (u Unit) Install() error {
	if _, err := os.Stat(filepath.Dir(u.path())); err != nil {
		return fmt.Errorf(
			"the host has no systemd (%w); call %q at boot before the kubelet starts",
			err,
			u.Binary+" state restore",
		)
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

// Remove disables and removes the unit. It succeeds without a unit too.
func (u Unit) Remove() error {
	var errs []error
	for _, path := range []string{u.wants(), u.path()} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
