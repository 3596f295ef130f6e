// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package managers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// clients are programs that ask DHCP servers, by the names of their processes.
func clients() []string { return []string{"dhclient", "dhcpcd", "udhcpc", "dhcp6c", "connmand"} }

// Client returns the program that asks DHCP servers for addresses of an interface, with the
// number of its process; "" if none does. space is an open network namespace: programs in
// others do not count. NetworkManager and systemd-networkd have a client inside: see Of.
func (r Root) Client(name string, space uintptr) (string, error) {
	var own unix.Stat_t
	if err := unix.Fstat(int(space), &own); err != nil {
		return "", fmt.Errorf("look at the network namespace: %w", err)
	}
	processes, err := os.ReadDir(r.path("proc"))
	if err != nil {
		return "", fmt.Errorf("look for DHCP clients: %w", err)
	}
	for _, p := range processes {
		if _, err := strconv.Atoi(p.Name()); err != nil {
			continue
		}
		program, asks, err := r.asks(p.Name(), name)
		if err != nil {
			return "", err
		}
		if asks && r.in(p.Name(), own) {
			return fmt.Sprintf("%s (process %s)", program, p.Name()), nil
		}
	}
	return "", nil
}

// asks reports whether a process is a DHCP client that asks for an interface.
func (r Root) asks(process, name string) (program string, asks bool, err error) {
	text, err := os.ReadFile(r.path("proc", process, "comm"))
	if err == nil {
		program = strings.TrimSpace(string(text))
		if !slices.Contains(clients(), program) {
			return program, false, nil
		}
		text, err = os.ReadFile(r.path("proc", process, "cmdline"))
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return program, false, nil // It has ended.
	}
	if err != nil {
		return program, false, fmt.Errorf("look at process %s: %w", process, err)
	}
	return program, isFor(name, strings.FieldsFunc(string(text), func(c rune) bool { return c == 0 || c == ' ' })), nil
}

// isFor reports whether a command of a client is about an interface: it names the interface,
// or none at all.
func isFor(name string, words []string) bool {
	named := false
	for n, word := range words {
		if n == 0 || strings.Contains(word, "/") || strings.HasPrefix(word, "[") {
			continue
		}
		if option, rest, ok := strings.Cut(word, "-i"); ok && option == "" && rest != "" {
			word = rest // udhcpc -ieth0
		} else if strings.HasPrefix(word, "-") {
			continue
		}
		if word == name {
			return true
		}
		named = true
	}
	return !named
}

// in reports whether a process is in a network namespace.
func (r Root) in(process string, space unix.Stat_t) bool {
	var theirs unix.Stat_t
	err := unix.Stat(filepath.Join(r.path("proc", process), "ns/net"), &theirs)
	return err == nil && theirs.Ino == space.Ino && theirs.Dev == space.Dev
}
