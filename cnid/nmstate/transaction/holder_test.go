// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
	"github.com/alioth-net/alioth/test/waits"
)

// TestTransactionLock_HolderDeadOrLate_NobodyBlocked: its guard is gone too, so that nobody else
// would end it.
func TestTransactionLock_HolderDeadOrLate_NobodyBlocked(t *testing.T) {
	for _, end := range []string{"dead", "late"} {
		t.Run(end, func(t *testing.T) {
			w := newWorld(t)
			before := w.show(t)
			limit := time.Hour
			if end == "late" {
				limit = 2 * time.Second
			}
			cmd := w.start(t, job{Dir: w.dir, Desired: renumbered, DieBefore: never, HangBefore: 3, OrphanBefore: never, Timeout: limit})
			t.Cleanup(func() { _ = errors.Join(cmd.Process.Kill(), cmd.Wait()) }) // whatever becomes of the test
			record := w.begun(t)
			if err := unix.Kill(record.Guard, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			w.ended(t, record.Guard)
			if end == "dead" {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			w.freed(t)
			w.same(t, before)
		})
	}
}

// begun waits until a transaction has a guard.
func (w world) begun(t *testing.T) (r transaction.Record) {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(waits.Limit(30 * time.Second)); time.Now().Before(end); <-again.C {
		if _, err := os.Stat(filepath.Join(w.dir, "transaction.json")); err != nil {
			continue
		}
		if r = w.record(t); r.Guard > 0 {
			return r
		}
	}
	t.Fatal("no transaction begins")
	return r
}

// freed waits until the host can be changed: the state that is shown is applied.
func (w world) freed(t *testing.T) {
	t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(waits.Limit(30 * time.Second)); ; <-again.C {
		err := w.manager(t, nil, func(m *transaction.Manager) error {
			_, err := m.Apply(t.Context(), &document.State{}, transaction.Options{Timeout: time.Hour})
			return err
		})
		if err == nil {
			return
		}
		if !errors.Is(err, transaction.ErrBusy) || time.Now().After(end) {
			t.Fatalf("it is not freed: %v", err)
		}
	}
}
