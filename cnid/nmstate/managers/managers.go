// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package managers tells which other program of the host manages an interface.
// NetworkManager and systemd-networkd would undo what the engine does to theirs.
package managers

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Root is a host's file system, "/" for the host's own.
type Root string

// Of returns the program that manages an interface, and why that is known, "" if none
// does. A missing interface has no manager.
func (r Root) Of(name string) (string, error) {
	index, err := os.ReadFile(r.path("sys/class/net", name, "ifindex"))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("find the manager of %s: %w", name, err)
	}
	number := strings.TrimSpace(string(index))
	// NetworkManager's nm_config_device_state_write and systemd's link_save define the formats.
	for _, m := range []struct {
		program, file, key string
		managed            func(value string) bool
	}{
		{"NetworkManager", r.path("run/NetworkManager/devices", number), "managed", func(v string) bool { return v == "true" || v == "1" || v == "full" }},
		{"systemd-networkd", r.path("run/systemd/netif/links", number), "ADMIN_STATE", func(v string) bool { return v != "unmanaged" && v != "pending" && v != "initialized" }},
	} {
		value, err := setting(m.file, m.key)
		if err != nil {
			return "", fmt.Errorf("find the manager of %s: %w", name, err)
		}
		if value != "" && m.managed(value) {
			return m.program, nil
		}
	}
	return "", nil
}

func (r Root) path(parts ...string) string {
	return filepath.Join(append([]string{string(r)}, parts...)...)
}

// setting returns the value of a line KEY=VALUE, "" without file or line.
func setting(path, key string) (string, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), "="); ok && name == key {
			return value, nil
		}
	}
	return "", lines.Err()
}
