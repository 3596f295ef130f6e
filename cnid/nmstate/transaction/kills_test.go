// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/snapshot/randomhost"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
	"github.com/alioth-net/alioth/test/waits"
)

// TestTransaction_KillsOnRandomHosts_Restored kills the process that applies a document before any of its
// steps, its guard, or both. The guard restores the host, or else the next process does.
func TestTransaction_KillsOnRandomHosts_Restored(t *testing.T) {
	randomhost.Worlds(t, 6, func(t *testing.T, r *rand.Rand) {
		m := randomhost.Maker{Rand: r}
		h := randomhost.Furnished(t, m)
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "resolv.conf"), []byte("# by hand\nnameserver 192.0.2.53\n"), 0o640); err != nil {
			t.Fatal(err)
		}
		before, file := h.Settled(), resolver(t, dir)
		h.Space.Do(t, func() error {
			text, steps := sensible(t, dir, m)
			j := job{Dir: dir, Desired: text, DieBefore: never, HangBefore: never, OrphanBefore: never, Timeout: time.Hour, NoCommit: true}
			at := r.IntN(steps)
			victims := r.IntN(3)
			if victims != 0 {
				j.OrphanBefore = at
			}
			if victims != 1 {
				j.DieBefore = at
			}
			t.Logf("killed before step %d of %d (%d): %s", at, steps, victims, text)
			return killed(t, j, victims == 0)
		})
		h.Is(before)
		if now := resolver(t, dir); now != file {
			t.Errorf("the file of the resolver was %q and is %q", file, now)
		}
	})
}

// sensible returns a document that changes the host, and in how many steps.
func sensible(t *testing.T, dir string, m randomhost.Maker) (text string, steps int) {
	t.Helper()
	inProcess(t, dir, func(manager *transaction.Manager) error {
		for steps == 0 {
			text = m.Document()
			desired, err := document.Parse([]byte(text))
			if err != nil {
				continue
			}
			if list, err := manager.Plan(t.Context(), desired); err == nil {
				steps = len(list)
			}
		}
		return nil
	})
	return text, steps
}

// killed plays a job to its end, whatever that is, and waits until the host is restored.
func killed(t *testing.T, j job, guarded bool) error {
	t.Helper()
	cmd, err := start(j)
	if err != nil {
		return err
	}
	_ = cmd.Wait() // It is killed, or the document can't be reached.
	if guarded {
		world{dir: j.Dir}.closed(t)
		return nil
	}
	waits.Until(t, 30*time.Second, "the next process has restored the host", func() (err error) {
		inProcess(t, j.Dir, func(manager *transaction.Manager) error {
			err = manager.Recover(t.Context())
			return nil
		})
		if errors.Is(err, transaction.ErrIncomplete) {
			return nil
		}
		if left := (world{dir: j.Dir}).openFiles(t); err == nil && len(left) > 0 { // A guard that is killed may end late.
			return fmt.Errorf("%v are left", left)
		}
		return err
	})
	return nil
}

// inProcess calls a function with a Manager of the calling thread's namespace.
func inProcess(t *testing.T, dir string, do func(*transaction.Manager) error) {
	t.Helper()
	host, err := open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	cfg := config(dir, host)
	cfg.Log, cfg.Tries = t.Output(), 100 // Nobody tries again.
	manager, err := transaction.New(cfg)
	if err == nil {
		err = do(manager)
	}
	if err != nil {
		t.Fatal(err)
	}
}
