// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/snapshot/randomhost"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
	"github.com/alioth-net/alioth/test/waits"
)

// mortal is a Host of which one step fails, or ends all.
type mortal struct {
	transaction.Host
	left int
	ends bool
}

// errEnd stands for the end of the process.
var errEnd = errors.New("the process ends")

func (m *mortal) Do(ctx context.Context, step plan.Step) error {
	if m.left--; m.left == 0 {
		if m.ends {
			panic(errEnd)
		}
		return errors.New("out of order")
	}
	return m.Host.Do(ctx, step)
}

// TestRandomHostsComeBackAfterRandomDocuments applies a document to a host that was furnished
// without documents. A step fails, the process ends before a step, or nobody commits.
func TestRandomHostsComeBackAfterRandomDocuments(t *testing.T) {
	randomhost.Worlds(t, 500, func(t *testing.T, r *rand.Rand) {
		m := randomhost.Maker{Rand: r}
		h := randomhost.Furnished(t, m)
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "resolv.conf"), []byte("# by hand\nnameserver 192.0.2.53\n"), 0o640); err != nil {
			t.Fatal(err)
		}
		before, file := h.Settled(), resolver(t, dir)
		text := ""
		defer func() {
			if t.Failed() {
				t.Logf("after %s", text)
			}
		}()
		h.Space.Do(t, func() error {
			host, err := open(dir)
			if err != nil {
				return err
			}
			defer host.Close()
			for range 20 { // until a document makes sense
				text = m.Document()
				if tryDocument(t, dir, &mortal{Host: host, left: 1 + r.IntN(20), ends: r.IntN(2) == 0}, text) {
					return nil
				}
			}
			return nil
		})
		h.Is(before)
		if now := resolver(t, dir); now != file {
			t.Errorf("the file of the resolver was %q and is %q", file, now)
		}
	})
}

func resolver(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "resolv.conf")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().String() + string(text)
}

// tryDocument applies a document and undoes it, and reports whether it was no refused one.
func tryDocument(t *testing.T, dir string, host *mortal, text string) bool {
	t.Helper()
	desired, err := document.Parse([]byte(text))
	if err != nil {
		return false
	}
	cfg := config(dir, host)
	cfg.Log, cfg.Tries, cfg.Interval = t.Output(), 2, 10*time.Millisecond
	cfg.StartGuard = func(string) (int, error) { return os.Getpid(), nil }
	manager, err := transaction.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if steps, err := manager.Plan(t.Context(), desired); err != nil || len(steps) == 0 {
		return false
	}
	err = applyUntilTheEnd(t, manager, desired)
	host.left = 0
	switch {
	case err == nil:
		err = manager.Rollback(t.Context())
	case errors.Is(err, errEnd):
		err = manager.Recover(t.Context())
	case errors.Is(err, transaction.ErrRolledBack):
		err = nil
	}
	// The kernel needs time for some requests; the guard goes on in the same way.
	waits.Until(t, 10*time.Second, "the host is restored", func() error {
		if errors.Is(err, transaction.ErrNotRestored) {
			err = manager.Rollback(t.Context())
		}
		if errors.Is(err, transaction.ErrNone) {
			return nil
		}
		return err
	})
	return true
}

func applyUntilTheEnd(t *testing.T, m *transaction.Manager, desired *document.State) (err error) {
	t.Helper()
	defer func() {
		if end := recover(); end != nil {
			err = errEnd
		}
	}()
	_, err = m.Apply(t.Context(), desired, transaction.Options{Timeout: time.Hour, NoCommit: true})
	return err
}
