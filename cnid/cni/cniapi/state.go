// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/quote"
)

const (
	// HeartbeatInterval is the interval between two writes of a living daemon's State.
	HeartbeatInterval = 5 * time.Second
	// RestartGrace is the time that a daemon may be unreachable before STATUS fails. A failing
	// STATUS makes the node NotReady and removes its pods from every Service. This must not
	// happen in a restart or a roll-out.
	RestartGrace = 60 * time.Second
)

// State is the daemon's state on disk while the daemon does not answer: the result of STATUS then
// comes from it.
type State struct {
	// Alive is the time of the daemon's write.
	Alive Instant `json:"alive"`
	// Unavailable says why STATUS failed then, "" if it did not.
	Unavailable string `json:"unavailable,omitempty"`
}

// Instant is a point in time within one boot of the machine. Unlike the time of
// day, or a file's modification time, it can't be set, and steps of the clock do not
// change it.
type Instant struct {
	// Boot is the kernel's random ID of the boot (proc_sys_kernel(5), boot_id).
	Boot string `json:"boot"`
	// Uptime is the time of CLOCK_MONOTONIC, which stops while the machine is
	// suspended, as the daemon does.
	Uptime time.Duration `json:"uptime"`
}

// bootIDFile holds an ID that changes at every boot.
const bootIDFile = "/proc/sys/kernel/random/boot_id"

// Now returns the present.
func Now() (Instant, error) {
	boot, err := os.ReadFile(bootIDFile)
	if err != nil {
		return Instant{}, fmt.Errorf("read the boot's ID: %w", err)
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return Instant{}, fmt.Errorf("read the clock: %w", err)
	}
	return Instant{Boot: strings.TrimSpace(string(boot)), Uptime: time.Duration(now.Nano())}, nil
}

// since returns how much later i is than earlier, and false if they are of different
// boots and can't be compared.
func (i Instant) since(earlier Instant) (time.Duration, bool) {
	return i.Uptime - earlier.Uptime, i.Boot == earlier.Boot && i.Uptime >= earlier.Uptime
}

// stateFile returns the path of the State of the daemon that listens on socket.
func stateFile(socket string) string { return socket + ".state" }

// WriteState replaces the State of the daemon that listens on socket, in one
// step.
func WriteState(socket string, s State) error {
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode the daemon's state: %w", err)
	}
	path := stateFile(socket)
	fresh := path + ".new"
	if err := os.WriteFile(fresh, text, 0o600); err != nil {
		return fmt.Errorf("write the daemon's state: %w", err)
	}
	if err := os.Rename(fresh, path); err != nil {
		return fmt.Errorf("put the daemon's state in place: %w", err)
	}
	return nil
}

// LastState returns the result of STATUS while no daemon answers at a socket: the daemon's
// last reply within RestartGrace, cause after that.
func LastState(socket string, cause error) error {
	text, err := os.ReadFile(stateFile(socket))
	if err != nil {
		return cause // no daemon has served since boot
	}
	var last State
	if err := json.Unmarshal(text, &last); err != nil {
		return cause
	}
	now, err := Now()
	if err != nil {
		return err
	}
	age, ok := now.since(last.Alive)
	switch {
	case !ok || age >= RestartGrace+HeartbeatInterval:
		return cause
	case last.Unavailable != "":
		return errors.New(quote.Message(last.Unavailable))
	}
	return nil
}
