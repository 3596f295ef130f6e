// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/cluster/release"
	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/drivers/netkit"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/internal/testrows"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/store"
)

func newRows(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newJournal(t *testing.T) *journal.Journal {
	t.Helper()
	j, err := journal.Open(t.Context(), journal.Config{
		Path: filepath.Join(t.TempDir(), "journal.log"), Shadow4: netip.MustParsePrefix("169.254.64.0/18"), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

func TestDecision_ConcurrentProbedPods_LaterRefused(t *testing.T) {
	s, j := newRows(t), newJournal(t)
	var records []journal.Record
	for _, name := range []string{"first", "second"} {
		pod := store.Pod{Meta: testrows.Meta(name), Namespace: "ns", Name: name, Node: "node1", NetworkProbes: true}
		if err := s.Update(func(tx store.Tx) error { return store.PutPod(tx, &pod) }); err != nil {
			t.Fatal(err)
		}
		rec, err := j.Begin(journal.Record{
			Identity:  journal.Identity{Key: journal.Key{ContainerID: name, IfName: "eth0"}, Pod: journal.Pod{Namespace: "ns", Name: name, UID: name}},
			Binding:   journal.Binding{VPC: name},
			Interface: journal.Interface{Addrs: []netip.Prefix{netip.MustParsePrefix("10.10.1.10/24")}},
		})
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, rec)
	}
	var notReady *attachment.NotReady
	racing := racing(s, j)
	if err := racing.Confirm(records[1:]); !errors.As(err, &notReady) || !strings.Contains(notReady.Reason, "ns/first") {
		t.Errorf("the later: %v", err)
	}
	if err := racing.Confirm(records[:1]); err != nil {
		t.Errorf("the earlier: %v", err)
	}
}

// racing decides for requests at the same time.
func racing(s *store.Store, j *journal.Journal) *Decisions {
	return New(Config{
		Plan: plan.Config{Node: "node1"}, Store: s, Held: release.NewHeld(j), Journal: j, Log: slog.New(slog.DiscardHandler),
		Sources: sources{},
	})
}

// sources have read everything, but for one domain.
type sources struct{ unread string }

func (s sources) DomainSynced(domain string) broadcast.Gate {
	return func() (bool, <-chan struct{}) { return s.unread == "" || domain != s.unread, nil }
}

func (s sources) NamespaceSynced(string) broadcast.Gate { return broadcast.Open }

// programmed is a node that passes have programmed. It calls asked, unless that is nil.
type programmed struct{ asked func() }

func (p programmed) PodMTU() (int, <-chan struct{}) {
	if p.asked != nil {
		p.asked()
	}
	return 1450, nil
}

func (p programmed) Problem() string { return "" }

func TestDecision_ConcurrentPortRequests_LaterRefused(t *testing.T) {
	s, j := newRows(t), newJournal(t)
	plain := store.Namespace{Meta: testrows.Meta("ns"), Name: "ns", Tenant: "ns:ns"}
	if err := s.Update(func(tx store.Tx) error { return store.PutNamespace(tx, &plain) }); err != nil {
		t.Fatal(err)
	}
	var records []journal.Record
	for _, name := range []string{"first", "second", "third"} {
		pod := store.Pod{Meta: testrows.Meta(name), Namespace: "ns", Name: name, Node: "node1"}
		if err := s.Update(func(tx store.Tx) error { return store.PutPod(tx, &pod) }); err != nil {
			t.Fatal(err)
		}
		port := journal.HostPort{Protocol: "TCP", HostPort: 8080, Port: 80}
		if name == "third" {
			port.Protocol = "UDP"
		}
		rec, err := j.Begin(journal.Record{
			Identity:  journal.Identity{Key: journal.Key{ContainerID: name, IfName: "eth0"}, Pod: journal.Pod{Namespace: "ns", Name: name, UID: name}},
			HostPorts: []journal.HostPort{port},
		})
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, rec)
	}
	for i, refused := range []bool{false, true, false} {
		var notReady *attachment.NotReady
		err := racing(s, j).Confirm(records[i : i+1])
		if errors.As(err, &notReady) != refused {
			t.Errorf("pod %d: %v, want it refused: %v", i+1, err, refused)
		}
		if refused && !strings.Contains(notReady.Reason, "ns/first") {
			t.Errorf("pod %d is not told whose the port is: %v", i+1, err)
		}
	}
}

// The pod that lost it at the last moment has no Warning yet: the runtime's next attempt
// gives it.
func TestDecision_PortRaceLost_ToldAtNextAttempt(t *testing.T) {
	s, j := newRows(t), newJournal(t)
	d := newDecided()
	d.pod.HostPorts = []store.HostPort{{Protocol: "TCP", HostPort: 8080, Port: 80}}
	d.fill(t, s)
	events := &reported{}
	asked := New(Config{
		Plan: plan.Config{Node: "node1", Kinds: kinds}, Pair: netkit.Kind, APIServers: unnamed{}, Store: s, Held: release.NewHeld(j), Journal: j,
		Sources: sources{}, NodeMarked: broadcast.Open, Progress: programmed{}, Listens: func(uint8, netip.Addr, uint16) (bool, error) { return false, nil },
		Events: events,
		Log:    slog.New(slog.DiscardHandler),
	})
	decided, err := asked.Await(t.Context(), thePod)
	if err != nil || len(events.events) > 0 {
		t.Fatalf("while the port is free: %v, told %q", err, events.events)
	}
	var later journal.Record
	for _, pod := range []journal.Pod{{Namespace: "ns", Name: "first", UID: "first"}, thePod} {
		later, err = j.Begin(journal.Record{
			Identity:  journal.Identity{Key: journal.Key{ContainerID: pod.Name, IfName: "eth0"}, Pod: pod},
			HostPorts: decided[0].HostPorts,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var notReady *attachment.NotReady
	if err := asked.Confirm([]journal.Record{later}); !errors.As(err, &notReady) {
		t.Fatalf("the later is not refused: %v", err)
	}
	if err := j.Retire(later.Key); err != nil {
		t.Fatal(err)
	}
	if _, err := asked.Await(t.Context(), thePod); !errors.As(err, &notReady) {
		t.Errorf("its next attempt: %v", err)
	}
	if len(events.events) != 1 || !strings.HasPrefix(events.events[0], "ns/p1 "+v1alpha1.HostPortConflictReason+" ") ||
		!strings.Contains(events.events[0], "ns/first") {
		t.Errorf("told %q", events.events)
	}
}

// TestDecision_DaemonUnknownToAPI_NotAttached: the operator releases addresses of ended pods
// on nodes without a daemon.
func TestDecision_DaemonUnknownToAPI_NotAttached(t *testing.T) {
	s, j := newRows(t), newJournal(t)
	newDecided().fill(t, s)
	var reported broadcast.Signal
	var announced atomic.Bool
	asked := New(Config{
		Plan: plan.Config{Node: "node1", Kinds: kinds}, Pair: netkit.Kind, APIServers: unnamed{}, Store: s, Held: release.NewHeld(j), Journal: j,
		Sources: sources{}, Progress: programmed{}, Listens: func(uint8, netip.Addr, uint16) (bool, error) { return false, nil },
		NodeMarked: func() (bool, <-chan struct{}) { changed := reported.Next(); return announced.Load(), changed },
		Log:        slog.New(slog.DiscardHandler),
	})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var notReady *attachment.NotReady
	if _, err := asked.Await(ended, thePod); !errors.As(err, &notReady) || notReady.Reason != unmarked {
		t.Errorf("before the API knows of the daemon: %v", err)
	}
	decided := make(chan error)
	go func() {
		_, err := asked.Await(t.Context(), thePod)
		decided <- err
	}()
	announced.Store(true)
	reported.Send()
	if err := <-decided; err != nil {
		t.Errorf("once the API knows of the daemon: %v", err)
	}
}

// TestDecision_VPCNoLongerFollowed_NotAttached: its Address went between decision and record.
func TestDecision_VPCNoLongerFollowed_NotAttached(t *testing.T) {
	s := newRows(t)
	pod := store.Pod{Meta: testrows.Meta("pod"), Namespace: "ns", Name: "pod", Node: "node1"}
	if err := s.Update(func(tx store.Tx) error { return store.PutPod(tx, &pod) }); err != nil {
		t.Fatal(err)
	}
	asked := New(Config{Store: s, Sources: sources{unread: "blue"}})
	rec := journal.Record{
		Identity: journal.Identity{Pod: journal.Pod{Namespace: "ns", Name: "pod", UID: "pod"}}, Binding: journal.Binding{VPC: "blue"},
	}
	var notReady *attachment.NotReady
	if err := asked.Confirm([]journal.Record{rec}); !errors.As(err, &notReady) || !strings.Contains(notReady.Reason, "VPC blue") {
		t.Errorf("the pod is confirmed: %v", err)
	}
	rec.External = true
	if err := asked.Confirm([]journal.Record{rec}); err != nil {
		t.Errorf("an interface of another CNI plugin waits for the VPC: %v", err)
	}
}
