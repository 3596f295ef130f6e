// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/automatic"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/probe"
	"github.com/alioth-net/alioth/cnid/nmstate/resolvconf"
	"github.com/alioth-net/alioth/cnid/nmstate/snapshot"
)

// Host is the network that is changed; package host implements it.
type Host interface {
	Show(ctx context.Context) (*document.State, error)
	Do(ctx context.Context, step plan.Step) error
	// Image, Replay, Resolver and RestoreResolver are for an undo. An undo restores the complete
	// former state, and not only the fields that documents have.
	Image(ctx context.Context, a snapshot.Area) (*snapshot.Image, error)
	// Above returns the interfaces of other network namespaces that the kernel deletes with one of
	// the host, by the index of the latter.
	Above(ctx context.Context) (map[uint32][]string, error)
	Replay(ctx context.Context, r snapshot.Request) error
	Resolver() (resolvconf.Copy, error)
	RestoreResolver(c resolvconf.Copy) error
	// Automatic and RestoreAutomatic are about what the kernel does not have: which DHCP
	// clients run.
	Automatic() (*automatic.Wanted, error)
	RestoreAutomatic(w *automatic.Wanted) error
}

// Errors that callers tell apart.
var (
	// ErrOpen: a transaction waits for its commit.
	ErrOpen = errors.New("a transaction waits to be committed")
	// ErrBusy: another process changes the host's network.
	ErrBusy = errors.New("another process changes the host's network")
	// ErrFinal: the change deletes what no undo can bring back. Nothing is changed.
	ErrFinal = errors.New("the change deletes what can't be restored")
	// ErrNone: a call needs an open transaction, and the host has none.
	ErrNone = errors.New("no transaction is open")
	// ErrRolledBack: the desired state was not reached, and the state before is restored.
	ErrRolledBack = errors.New("the state before was restored")
	// ErrGivenUp: the state before could not be restored in many tries. The transaction is over,
	// and the host is as the last try left it.
	ErrGivenUp = errors.New("the transaction is over without the state before")
	// ErrIncomplete: the state before is restored but for what can't be restored, such as the
	// addresses of hardware that is gone, or a file of the resolver that nobody can write. The
	// transaction is over.
	ErrIncomplete = errors.New("the state before was restored but for what can't be restored any more")
	// ErrNotRestored: the state before could not be restored in full. The transaction
	// stays open, and its guard tries again.
	ErrNotRestored = errors.New("the state before could not be restored")
)

// Config configures a Manager.
type Config struct {
	// Dir has the files of transactions. It survives a boot.
	Dir  string
	Host Host
	Safeguards
	// Tries is how often the host's state is compared with the desired one, Interval the
	// time between. ProbeLimit is how long probes have to pass.
	Tries      int
	Interval   time.Duration
	ProbeLimit time.Duration
	// Log has a line for each step.
	Log io.Writer
}

// Safeguards keep a change from cutting the host off.
type Safeguards interface {
	// Permit returns why steps must not be carried out, nil if they may.
	Permit(before *document.State, steps []plan.Step) error
	// StartGuard starts the guard of a transaction in a process that outlives this one, and
	// returns its number. The process calls Manager.Guard.
	StartGuard(id string) (pid int, err error)
	// Probes asks before a change which targets are reached. The returned function returns the
	// targets that must be reached after the change, by the state of the host at that time.
	Probes(ctx context.Context, c probe.Change) (after func(now *document.State) []probe.Probe)
	// Ready waits until interfaces that a change configures automatically have addresses, and
	// returns why one has none.
	Ready(ctx context.Context, changed []document.Interface) error
}

// Manager has the transactions of a host.
type Manager struct {
	Config
	dir  folder
	boot string
}

// New returns the Manager of a folder, which it makes.
func New(cfg Config) (*Manager, error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of transactions: %w", err)
	}
	return Existing(cfg)
}

// Existing is New for a guard, which makes no folder: without one its transaction is over.
func Existing(cfg Config) (*Manager, error) {
	boot, err := BootID()
	if err != nil {
		return nil, err
	}
	return &Manager{Config: cfg, dir: folder(cfg.Dir), boot: boot}, nil
}

// lock returns how to give the lock of the folder back. It waits until ctx ends, and not
// at all for one that has ended.
func (m *Manager) lock(ctx context.Context) (unlock func(), err error) {
	file, err := os.OpenFile(m.dir.path(lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the transactions: %w", err)
	}
	again := time.NewTicker(lockInterval)
	defer again.Stop()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock the transactions: %w", err), file.Close())
		}
		if err := m.endLate(); err != nil {
			m.logf("%v", err)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ErrBusy, file.Close())
		case <-again.C:
		}
	}
}

// endLate ends the process that applies a transaction, and so has the lock. It does so if the
// transaction's deadline is over and its guard, which would end it, is gone. endLate never ends
// its own process.
func (m *Manager) endLate() error {
	r, err := m.dir.record()
	late := err == nil && r != nil && !r.Waiting && r.Boot == m.boot && time.Now().After(r.Deadline)
	if !late || r.PID == os.Getpid() || alive(r.Guard, r.GuardStarted) {
		return err
	}
	return kill(r.PID, r.Started)
}

// lockInterval is how often the lock is tried.
const lockInterval = 50 * time.Millisecond

// lockWait is how long commands of users wait for the lock: longer than it takes to look,
// shorter than a transaction takes.
const lockWait = time.Second

// locked calls f with the lock, when nothing is left of transactions that ended with their
// processes. f gets the open transaction, nil without one.
func (m *Manager) locked(ctx context.Context, f func(*Record) error) error {
	wait, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	unlock, err := m.lock(wait)
	if err != nil {
		return err
	}
	defer unlock()
	r, err := m.recovered(ctx)
	if err != nil {
		return err
	}
	return f(r)
}

// Recover rolls back what a process that ended has left open.
func (m *Manager) Recover(ctx context.Context) error {
	return m.locked(ctx, func(*Record) error { return nil })
}

// recovered returns the transaction that waits for its commit, or nil.
func (m *Manager) recovered(ctx context.Context) (*Record, error) {
	r, err := m.dir.record()
	if err != nil || r == nil {
		return nil, err
	}
	switch {
	case r.Done:
		return nil, m.commit(r)
	case r.Boot != m.boot:
		m.logf("transaction %s ended with the boot in which it began", r.ID)
		return nil, m.dir.removeRecord()
	case r.Waiting && alive(r.Guard, r.GuardStarted):
		return r, nil
	}
	m.logf("transaction %s was left open by a process that ended: rolling it back", r.ID)
	err = m.restore(ctx, r)
	switch {
	case errors.Is(err, ErrIncomplete):
		m.logf("%v", err) // It is over, and keeps no other change from its beginning.
		return nil, nil
	case errors.Is(err, ErrNotRestored) && !alive(r.Guard, r.GuardStarted):
		return nil, m.giveUp(err)
	}
	return nil, err
}

// Open returns the transaction that waits for its commit, or ErrNone.
func (m *Manager) Open(ctx context.Context) (open *Record, err error) {
	err = m.locked(ctx, func(r *Record) error {
		if open = r; r == nil {
			return ErrNone
		}
		return nil
	})
	return open, err
}

// Commit ends the transaction that waits for it.
func (m *Manager) Commit(ctx context.Context) error {
	return m.locked(ctx, func(r *Record) error {
		if r == nil {
			return ErrNone
		}
		return m.commit(r)
	})
}

// Rollback restores the state before the transaction that waits for its commit.
func (m *Manager) Rollback(ctx context.Context) error {
	return m.locked(ctx, func(r *Record) error {
		if r == nil {
			return ErrNone
		}
		return m.restore(ctx, r)
	})
}

// commit ends a transaction for good by one write. If the process is killed after it, the
// next one writes down the committed state.
func (m *Manager) commit(r *Record) error {
	r.Done = true
	if err := m.dir.putRecord(r); err != nil {
		return err
	}
	if err := errors.Join(m.dir.keep(r.Committed), m.keepDevices(r.Devices), m.forgetUnrestored()); err != nil {
		return err
	}
	return m.dir.removeRecord()
}

// IsRecord reports whether a path leads to the file of an open transaction.
func IsRecord(path string) bool { return filepath.Base(path) == recordFile }

// IsOpen reports whether a change may still be undone.
func (m *Manager) IsOpen() bool {
	_, err := os.Lstat(m.dir.path(recordFile))
	return !errors.Is(err, os.ErrNotExist)
}

func (m *Manager) logf(format string, args ...any) {
	fmt.Fprintf(m.Log, format+"\n", args...)
}
