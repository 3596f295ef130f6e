// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/keylock"
)

// Defaults of Config.
const (
	DefaultWait          = 60 * time.Second
	DefaultLockWait      = 30 * time.Second
	DefaultEstablishWait = 30 * time.Second
	DefaultUndoWait      = 30 * time.Second
	DefaultLasting       = time.Minute
)

// Config has the settings and functions of a Manager. All fields without a default are required.
type Config struct {
	Journal   *journal.Journal
	Drivers   ifdriver.Drivers
	Decisions Decisions
	Datapath  Datapath
	Releaser  Releaser
	// Links has the parents of interfaces on a VLAN or VXLAN; nil for a node without.
	Links HostLinks
	// Devices has the devices of pods; nil if no driver needs any.
	Devices Devices
	Metrics *Metrics
	// Observer hears of pods; nil for none.
	Observer Observer
	Log      *slog.Logger

	// Wait limits how long Establish waits for a decision; DefaultWait when 0.
	Wait time.Duration
	// LockWait limits how long a call waits for another one for the same container;
	// DefaultLockWait when 0.
	LockWait time.Duration
	// EstablishWait limits how long Establish takes to attach and program all
	// attachments of a request together; DefaultEstablishWait when 0.
	EstablishWait time.Duration
	// Lasting is for how long the journal must not have been written for Ready to
	// fail; DefaultLasting when 0.
	Lasting time.Duration
	// UndoWait limits undoing; DefaultUndoWait when 0. Undoing continues when the
	// caller's context ends.
	UndoWait time.Duration
}

// Observer hears of pods. Its methods must not block.
type Observer interface {
	// Attached is called for a pod after Establish has made its attachments, or found them.
	Attached(pod journal.Pod)
	// Refused is called for a pod that is refused something.
	Refused(pod journal.Pod, reason, message string)
}

// Manager has the attachments of one node. Its methods may be called concurrently.
type Manager struct {
	cfg   Config
	locks *keylock.Locks
}

// New returns a Manager. Call Reconcile before anything else.
func New(cfg Config) *Manager {
	orDefault(&cfg.Wait, DefaultWait)
	orDefault(&cfg.LockWait, DefaultLockWait)
	orDefault(&cfg.EstablishWait, DefaultEstablishWait)
	orDefault(&cfg.UndoWait, DefaultUndoWait)
	orDefault(&cfg.Lasting, DefaultLasting)
	return &Manager{cfg: cfg, locks: keylock.New()}
}

func orDefault(d *time.Duration, def time.Duration) {
	if *d == 0 {
		*d = def
	}
}

// Request is a request for an interface in a pod's sandbox.
type Request struct {
	journal.Key
	Pod journal.Pod
	// Network is the name of the network configuration.
	Network string
	// NetnsPath is a file that refers to the pod's network namespace; "" if an external
	// caller has not named it.
	NetnsPath string
	// ClientID is journal.Identity.ClientID.
	ClientID string
	// External: another CNI plugin makes the interfaces, and wants their addresses. Such a
	// request is for pods with such attachments alone, and other requests are for others.
	External bool
}

// Attached is an existing attachment.
type Attached struct {
	journal.Record
	Link ifdriver.Link
}

// Ready returns nil, or a local and lasting problem that prevents every attachment.
func (m *Manager) Ready() error {
	if since, err := m.cfg.Journal.Failing(); err != nil && time.Since(since) >= m.cfg.Lasting {
		return err
	}
	return m.cfg.Datapath.Ready()
}

// lock makes calls about one container follow each other. The caller unlocks.
func (m *Manager) lock(ctx context.Context, containerID string) (func(), error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.LockWait)
	defer cancel()
	unlock, err := m.locks.Acquire(ctx, containerID)
	if err != nil {
		return nil, &NotReady{Reason: "another command for this container is still running"}
	}
	return unlock, nil
}

// ofRequest returns the records of a request, the oldest first.
func (m *Manager) ofRequest(key journal.Key) []journal.Record {
	var list []journal.Record
	for _, rec := range m.cfg.Journal.OfContainer(key.ContainerID) {
		if rec.RequestKey() == key {
			list = append(list, rec)
		}
	}
	return list
}

// finished returns the record of a finished attachment with its driver. It returns false
// for an attachment that is gone, unfinished or being removed.
func (m *Manager) finished(key journal.Key) (journal.Record, ifdriver.Driver, bool, error) {
	rec, err := m.cfg.Journal.Get(key)
	if errors.Is(err, journal.ErrNotFound) {
		return rec, nil, false, nil
	}
	if err != nil {
		return rec, nil, false, err
	}
	driver, err := m.cfg.Drivers.Of(rec.Kind)
	return rec, driver, err == nil && rec.Phase == journal.PhaseDone, err
}

// capabilities returns the capabilities of a kind. A kind that the node lacks has none.
func (m *Manager) capabilities(kind ifdriver.Kind) ifdriver.Capabilities {
	driver, err := m.cfg.Drivers.Of(kind)
	if err != nil {
		return ifdriver.Capabilities{}
	}
	return driver.Capabilities()
}

func (m *Manager) logOf(rec journal.Record) *slog.Logger {
	return m.cfg.Log.With("pod", rec.Pod.String(), "containerID", rec.ContainerID, "ifName", rec.IfName)
}
