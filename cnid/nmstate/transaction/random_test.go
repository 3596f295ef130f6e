// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/snapshot/randomhost"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
	"github.com/alioth-net/alioth/test/waits"
)

// mortal is a Host with one step that fails, or that ends all.
type mortal struct {
	transaction.Host
	left int
	ends bool
	met  *met
}

// met is in how many hosts a document needed a step of each type, and how often such a step has
// failed, and has ended all.
type met struct {
	mu                   sync.Mutex
	planned, failed, end map[string]int
	// filters: the bridges of this kernel filter VLANs.
	filters bool
}

func (m *met) note(step plan.Step, ends bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ends {
		m.end[typeOf(step)]++
	} else {
		m.failed[typeOf(step)]++
	}
}

func typeOf(step plan.Step) string { return fmt.Sprintf("%T", step) }

func (m *met) plan(types []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, kind := range types {
		m.planned[kind]++
	}
}

// all fails the test if a step of a type has never failed and never ended all: then nothing is
// known of an undo there. Documents of the test have no virtual functions and no DHCP.
func (m *met) all(t *testing.T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t.Logf("steps were needed: %v; have failed: %v; have ended the process: %v", m.planned, m.failed, m.end)
	for _, step := range plan.Kinds() {
		switch step.(type) {
		case plan.SetVFs, plan.SetAutomatic:
			continue
		case plan.Unfilter:
			if !m.filters {
				continue
			}
		}
		// Chance leaves none of so many out.
		const enough = 25
		if kind := typeOf(step); m.failed[kind]+m.end[kind] == 0 && (m.planned[kind] >= enough || m.planned[typeOf(plan.Create{})] >= 10*randomHosts) {
			t.Errorf("%d hosts needed a step %s, and none has failed or ended the process", m.planned[kind], kind)
		}
	}
}

const randomHosts = 200

// errEnd stands for the end of the process.
var errEnd = errors.New("the process ends")

func (m *mortal) Do(ctx context.Context, step plan.Step) error {
	if m.left--; m.left == 0 {
		m.met.note(step, m.ends)
		if m.ends {
			panic(errEnd)
		}
		return errors.New("out of order")
	}
	return m.Host.Do(ctx, step)
}

// TestTransaction_RandomDocuments_HostRestored applies a document to a host that was furnished
// without documents. A step fails, the process ends before a step, or nobody commits.
func TestTransaction_RandomDocuments_HostRestored(t *testing.T) {
	_, refused := randomhost.New(t).Try("ip link add br0 type bridge vlan_filtering 1")
	met := &met{planned: map[string]int{}, failed: map[string]int{}, end: map[string]int{}, filters: refused == nil}
	t.Cleanup(func() { met.all(t) })
	randomhost.Worlds(t, randomHosts, func(t *testing.T, r *rand.Rand) {
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
				if tryDocument(t, dir, &mortal{Host: host, ends: r.IntN(2) == 0, met: met}, text, r) {
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

// tryDocument applies a document and undoes it, and returns false for a refused document. Any
// step may be the last one, or none.
func tryDocument(t *testing.T, dir string, host *mortal, text string, r *rand.Rand) bool {
	t.Helper()
	desired, err := document.Parse([]byte(text))
	if err != nil {
		return false
	}
	cfg := config(dir, host)
	cfg.Log, cfg.Tries, cfg.Interval = t.Output(), 2, 10*time.Millisecond
	cfg.Safeguards = guardedBy(&cfg, func(string) (int, error) { return os.Getpid(), nil })
	manager, err := transaction.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := manager.Plan(t.Context(), desired)
	if err != nil || len(steps) == 0 {
		return false
	}
	host.left = host.met.aStep(steps, r)
	err = applyUntilTheEnd(t, manager, desired)
	host.left = 0
	switch {
	case errors.Is(err, transaction.ErrFinal):
		return false // It is refused before the first step.
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

// aStep returns one of some steps, from 1 on, or one more than there are. Each type of steps has
// the same chance, and rare ones more.
func (m *met) aStep(steps []plan.Step, r *rand.Rand) int {
	byType := map[string][]int{}
	var types, rare []string
	for n, step := range steps {
		kind := typeOf(step)
		if byType[kind] == nil {
			types = append(types, kind)
			switch step.(type) {
			case plan.PortChange, plan.Unfilter, plan.SetDown, plan.SetFamily, plan.Enslave, plan.RemoveAddress, plan.RemoveRoute, plan.RemoveRule:
				rare = append(rare, kind)
			}
		}
		byType[kind] = append(byType[kind], n+1)
	}
	m.plan(types)
	const nobodyCommits = 8
	if r.IntN(nobodyCommits) == 0 {
		return len(steps) + 1
	}
	if rare != nil && r.IntN(4) > 0 {
		types = rare
	}
	list := byType[types[r.IntN(len(types))]]
	return list[r.IntN(len(list))]
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
