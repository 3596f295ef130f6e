// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/attachment"
	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/plan"
	"github.com/alioth-net/alioth/cnid/release"
	"github.com/alioth-net/alioth/store"
)

// newTestSyncer has no Node row, so that its passes fail before they touch the
// kernel.
func newTestSyncer(t *testing.T, synced func() (bool, <-chan struct{})) *syncer {
	t.Helper()
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	j, err := journal.Open(t.Context(), journal.Config{
		Path: filepath.Join(t.TempDir(), "journal.log"), Shadow4: netip.MustParsePrefix("169.254.64.0/18"), Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	metrics := newSyncMetrics(prometheus.NewRegistry())
	made := newSyncer(plan.Config{Node: "node1"}, s, j, &kernel{metrics: metrics, log: log}, synced, func(plan.Lost) {}, metrics, log)
	made.adopt = func(context.Context) (int, error) { return 0, nil }
	return made
}

func alwaysSynced() (bool, <-chan struct{}) { return true, nil }

func TestOfTwoProbedPodsThatAreAddedAtOnceTheLaterIsRefused(t *testing.T) {
	s := newTestSyncer(t, alwaysSynced)
	var records []journal.Record
	for _, name := range []string{"first", "second"} {
		pod := store.Pod{Meta: meta(name), Namespace: "ns", Name: name, Node: "node1", NetworkProbes: true}
		if err := s.store.Update(func(tx store.Tx) error { return store.PutPod(tx, &pod) }); err != nil {
			t.Fatal(err)
		}
		rec, err := s.journal.Begin(journal.Record{
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
	racing := racing(s)
	if err := racing.Confirm(records[1:]); !errors.As(err, &notReady) || !strings.Contains(notReady.Reason, "ns/first") {
		t.Errorf("the later: %v", err)
	}
	if err := racing.Confirm(records[:1]); err != nil {
		t.Errorf("the earlier: %v", err)
	}
}

// racing decides by what a syncer has, for requests at the same time.
func racing(s *syncer) *decisions {
	return &decisions{cfg: s.cfg, store: s.store, probed: release.NewHeld(s.journal).Probed, attached: s.journal.Records, log: s.log}
}

func TestOfTwoPodsThatAskForOnePortOfTheNodeAtOnceTheLaterIsRefused(t *testing.T) {
	s := newTestSyncer(t, alwaysSynced)
	plain := store.Namespace{Meta: meta("ns"), Name: "ns", Tenant: "ns:ns"}
	if err := s.store.Update(func(tx store.Tx) error { return store.PutNamespace(tx, &plain) }); err != nil {
		t.Fatal(err)
	}
	var records []journal.Record
	for _, name := range []string{"first", "second", "third"} {
		pod := store.Pod{Meta: meta(name), Namespace: "ns", Name: name, Node: "node1"}
		if err := s.store.Update(func(tx store.Tx) error { return store.PutPod(tx, &pod) }); err != nil {
			t.Fatal(err)
		}
		port := journal.HostPort{Protocol: "TCP", HostPort: 8080, Port: 80}
		if name == "third" {
			port.Protocol = "UDP"
		}
		rec, err := s.journal.Begin(journal.Record{
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
		err := racing(s).Confirm(records[i : i+1])
		if errors.As(err, &notReady) != refused {
			t.Errorf("pod %d: %v, want it refused: %v", i+1, err, refused)
		}
		if refused && !strings.Contains(notReady.Reason, "ns/first") {
			t.Errorf("pod %d is not told whose the port is: %v", i+1, err)
		}
	}
}

// Who lost it at the last moment has no Warning yet: the runtime's next attempt
// gives it.
func TestAPodThatLostTheRaceForAPortIsToldWithItsNextAttempt(t *testing.T) {
	s := newTestSyncer(t, alwaysSynced)
	d := newDecided()
	d.pod.HostPorts = []store.HostPort{{Protocol: "TCP", HostPort: 8080, Port: 80}}
	d.fill(t, s.store)
	var told []string
	asked := &decisions{
		cfg: s.cfg, reserved: noAddresses, store: s.store, probed: release.NewHeld(s.journal).Probed, attached: s.journal.Records, log: s.log,
		vpcSynced: func(string) (bool, <-chan struct{}) { return true, nil }, mtu: func() (int, <-chan struct{}) { return 1450, nil },
		problem: s.keptBy, listens: func(uint8, netip.Addr, uint16) (bool, error) { return false, nil },
		warn: func(pod journal.Pod, reason, message string) {
			told = append(told, pod.String()+" "+reason+" "+message)
		},
	}
	decided, err := asked.Await(t.Context(), thePod)
	if err != nil || len(told) > 0 {
		t.Fatalf("while the port is free: %v, told %q", err, told)
	}
	var later journal.Record
	for _, pod := range []journal.Pod{{Namespace: "ns", Name: "first", UID: "first"}, thePod} {
		later, err = s.journal.Begin(journal.Record{
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
	if err := s.journal.Retire(later.Key); err != nil {
		t.Fatal(err)
	}
	if _, err := asked.Await(t.Context(), thePod); !errors.As(err, &notReady) {
		t.Errorf("its next attempt: %v", err)
	}
	if len(told) != 1 || !strings.HasPrefix(told[0], "ns/p1 "+v1alpha1.HostPortConflictReason+" ") || !strings.Contains(told[0], "ns/first") {
		t.Errorf("told %q", told)
	}
}

func TestADELBeforeTheFirstPassWaitsForNothing(t *testing.T) {
	s := newTestSyncer(t, func() (bool, <-chan struct{}) { return false, nil })
	if err := s.Unprogram(t.Context(), journal.Record{}); err != nil {
		t.Errorf("Unprogram: %v", err)
	}
}

func TestWhoWaitsForAPassIsToldWhyItFails(t *testing.T) {
	s := newTestSyncer(t, alwaysSynced)
	running, stop := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.run(running)
	}()
	t.Cleanup(func() {
		stop()
		<-stopped
	})
	eventually(t, "a pass fails", func() error {
		if s.status().Problem == "" {
			return errors.New("no problem yet")
		}
		return nil
	})
	waiting, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.settle(waiting, s.ask(), 0); !errors.Is(err, errNoUnderlay) {
		t.Errorf("settle: %v, want %v in it", err, errNoUnderlay)
	}
}

func TestSTATUSFailsOnlyForWhatLasts(t *testing.T) {
	s := newTestSyncer(t, alwaysSynced)
	if err := s.Ready(); err != nil {
		t.Errorf("before the first pass: %v", err)
	}
	s.finish(outcome{err: errNoUnderlay})
	if err := s.Ready(); err != nil {
		t.Errorf("after one failure: %v", err)
	}
	s.failing = s.failing.Add(-lasting - time.Second)
	s.finish(outcome{err: errNoUnderlay})
	if err := s.Ready(); !errors.Is(err, errNoUnderlay) {
		t.Errorf("after failures for longer than %s: %v", lasting, err)
	}
	s.finish(outcome{})
	if err := s.Ready(); err != nil {
		t.Errorf("after a success: %v", err)
	}
}

func TestNothingIsProgrammedBeforeTheNodesPartOfTheAPIWasRead(t *testing.T) {
	changed := make(chan struct{})
	asked := make(chan struct{}, 1)
	s := newTestSyncer(t, func() (bool, <-chan struct{}) {
		select {
		case asked <- struct{}{}:
		default:
		}
		return false, changed
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.run(ctx)
	}()
	<-asked
	cancel()
	<-ended
	if status := s.status(); status.Problem != "" || status.Programmed {
		t.Errorf("a pass was made: %+v", status)
	}
}
