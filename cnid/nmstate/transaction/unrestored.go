// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/alioth-net/alioth/cnid/system/durable"
)

// Unrestored tells of a transaction that ended without the whole state before. Whoever ended it
// may be a guard that nobody waits for, so the folder has it until a later one is committed.
type Unrestored struct {
	At time.Time `json:"at"`
	// GivenUp: the state before could not be restored in many tries. Otherwise it is restored
	// but for what can't exist any more.
	GivenUp bool   `json:"givenUp"`
	Message string `json:"message"`
}

const unrestoredFile = "unrestored.json"

// Unrestored returns the last transaction that ended without restoring the whole former state. It
// returns nil if every transaction restored it, or if a later one was committed.
func (m *Manager) Unrestored() (*Unrestored, error) {
	var u Unrestored
	found, err := m.dir.read(unrestoredFile, &u)
	if err != nil || !found {
		return nil, err
	}
	return &u, nil
}

// end ends a transaction whose state before is restored, but for what can't exist any more.
func (m *Manager) end(gone []string) error {
	if len(gone) == 0 {
		return m.dir.removeRecord()
	}
	err := fmt.Errorf("%w: %s", ErrIncomplete, strings.Join(gone, "; "))
	return errors.Join(
		err,
		m.dir.write(unrestoredFile, Unrestored{At: time.Now().UTC(), Message: err.Error()}),
		m.dir.removeRecord(),
	)
}

// giveUp ends a transaction that can't be restored. A record that stays would keep the host from
// every other change.
func (m *Manager) giveUp(cause error) error {
	err := fmt.Errorf("%w: %w", ErrGivenUp, cause)
	return errors.Join(
		err,
		m.dir.write(unrestoredFile, Unrestored{At: time.Now().UTC(), GivenUp: true, Message: err.Error()}),
		m.dir.removeRecord(),
	)
}

// forgetUnrestored removes the record of an undo after a committed transaction.
func (m *Manager) forgetUnrestored() error {
	path := m.dir.path(unrestoredFile)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return durable.Remove(path)
}
