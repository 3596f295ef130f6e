// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package otherplugin_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/alioth-net/alioth/cnid/cni/attachment"
	driver "github.com/alioth-net/alioth/cnid/cni/drivers/otherplugin"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// released implements the manager's needs beside the driver.
type released struct {
	attachment.Datapath
	attachment.Decisions
	keys    []journal.Key
	decided []attachment.Decision
}

func (r *released) Check(journal.Record) error { return nil }

func (r *released) ProgramSockets(context.Context, journal.Record) error { return nil }

func (r *released) UnprogramSockets() {}

func (r *released) Release(rec journal.Record) { r.keys = append(r.keys, rec.Key) }

// manager returns a manager as a starting daemon has it, with the record of the attachment.
func (r *rig) manager(t *testing.T, begin bool) (*attachment.Manager, *journal.Journal, *released) {
	t.Helper()
	return r.managerOf(t, ifdriver.Drivers{driver.Kind: r.Driver}, begin)
}

func (r *rig) managerOf(t *testing.T, drivers ifdriver.Drivers, begin bool) (*attachment.Manager, *journal.Journal, *released) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	j, err := journal.Open(t.Context(), journal.Config{Path: filepath.Join(r.dir, "journal.log"), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	if begin {
		key := journal.Key{ContainerID: "sandbox", IfName: "net1"}
		if _, err := j.Begin(journal.Record{
			Identity: journal.Identity{Key: key, Pod: journal.Pod{Namespace: "ns", Name: "p", UID: "uid"}, NetnsPath: r.pod.Path},
			Binding:  journal.Binding{Outside: "NetworkAttachmentDefinition ns/storage"}, Interface: journal.Interface{Kind: driver.Kind},
		}); err != nil {
			t.Fatal(err)
		}
	}
	c := &released{}
	return attachment.New(attachment.Config{
		Journal: j, Log: log, Metrics: attachment.NewMetrics(prometheus.NewRegistry()),
		Drivers: drivers, Decisions: c, Datapath: c, Releaser: c,
	}), j, c
}

// TestReconciler_DeadPod_PluginDELRun is about a reboot, a pod that was deleted by force,
// and a daemon that was killed during an ADD: no DEL of the runtime comes.
func TestReconciler_DeadPod_PluginDELRun(t *testing.T) {
	for name, dead := range map[string]bool{"the namespace has ended": true, "the ADD was interrupted": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if _, err := r.attach(t, r.spec(build(t, r.bridge(), nil))); err != nil {
				t.Fatal(err)
			}
			m, j, c := r.manager(t, true)
			if dead {
				link, err := r.check(t, r.spec(nil))
				if err != nil {
					t.Fatal(err)
				}
				key := journal.Key{ContainerID: "sandbox", IfName: "net1"}
				if _, err := j.Complete(key, journal.Device{NetnsInode: link.NetnsInode, NetnsCookie: link.NetnsCookie}); err != nil {
					t.Fatal(err)
				}
				r.reconcile(t, m)
				if len(r.leases(t)) != 1 {
					t.Fatalf("of a pod that lives the leases are %v", r.leases(t))
				}
				r.pod.Close(t)
			}
			r.open(t)
			r.reconcile(t, m)
			if len(r.leases(t)) != 0 || len(j.Records()) != 0 || len(c.keys) != 1 {
				t.Errorf("left are leases %v, records %+v; released %v", r.leases(t), j.Records(), c.keys)
			}
		})
	}
}

func (r *rig) reconcile(t *testing.T, m *attachment.Manager) {
	t.Helper()
	r.node.Do(t, func() error { return m.Reconcile(t.Context()) })
}

func TestDEL_NoJournalRecord_PluginsReached(t *testing.T) {
	r := newRig(t)
	if _, err := r.attach(t, r.spec(build(t, r.bridge(), nil))); err != nil {
		t.Fatal(err)
	}
	m, _, _ := r.manager(t, false)
	r.node.Do(t, func() error {
		return m.Remove(context.WithoutCancel(t.Context()), journal.Key{ContainerID: "sandbox", IfName: "net1"})
	})
	if _, exists := r.inside(t); exists || len(r.leases(t)) != 0 {
		t.Errorf("left are the interface (%v) and leases %v", exists, r.leases(t))
	}
}

// The journal was lost, and the record of a further interface could not be rebuilt: the DEL
// of the pod's first one reaches its plugins nevertheless.
func TestDEL_FirstInterface_OtherPluginsReached(t *testing.T) {
	r := newRig(t)
	if _, err := r.attach(t, r.spec(build(t, r.bridge(), nil))); err != nil {
		t.Fatal(err)
	}
	m, _, _ := r.manager(t, false)
	remove := func(key journal.Key) {
		r.node.Do(t, func() error { return m.Remove(t.Context(), key) })
	}
	remove(journal.Key{ContainerID: "another", IfName: "eth0"})
	if len(r.leases(t)) != 1 {
		t.Fatalf("the DEL of another pod leaves the leases %v", r.leases(t))
	}
	remove(journal.Key{ContainerID: "sandbox", IfName: "eth0"})
	if _, exists := r.inside(t); exists || len(r.leases(t)) != 0 {
		t.Errorf("left are the interface (%v) and leases %v", exists, r.leases(t))
	}
}
