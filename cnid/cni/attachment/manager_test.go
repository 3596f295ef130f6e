// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment_test

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/netif"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/attachment/attachmenttest"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
)

// control is a control plane with one decision for all pods. The driver here has no datapath, so
// tests call only the methods of the embedded Datapath that concern sockets.
type control struct {
	attachment.Datapath
	decisions []attachment.Decision
	leaves    bool
	released  []journal.Key
	// programmed and unprogrammed count the calls about sockets, and refuses is the reply.
	programmed, unprogrammed int
	refuses                  error
	// attached is the pod that was attached last.
	attached journal.Pod
}

func (c *control) ProgramSockets(_ context.Context, rec journal.Record) error {
	if rec.Phase == journal.PhaseDone {
		c.programmed++
	}
	return c.refuses
}

func (c *control) UnprogramSockets() { c.unprogrammed++ }

func (c *control) Await(context.Context, journal.Pod) ([]attachment.Decision, error) {
	return c.decisions, nil
}

func (c *control) Confirm([]journal.Record) error {
	if c.leaves {
		return attachment.ErrPodGone
	}
	return nil
}

func (c *control) Attached(pod journal.Pod) { c.attached = pod }

func (c *control) Refused(journal.Pod, string, string) {}

func (c *control) Check(journal.Record) error { return nil }

func (c *control) Release(rec journal.Record) { c.released = append(c.released, rec.Key) }

// TestAttachmentManager_CallerWithoutCNI_Attaches uses a manager as an API for other CNIs would: without
// commands, configurations and results of that specification.
func TestAttachmentManager_CallerWithoutCNI_Attaches(t *testing.T) {
	pod := netnstest.New(t)
	log := slog.New(slog.DiscardHandler)
	j, err := journal.Open(t.Context(), journal.Config{Path: filepath.Join(t.TempDir(), "journal"), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	c := &control{decisions: []attachment.Decision{{
		Attachment: "eth0", Binding: journal.Binding{Outside: "physical"},
		Interface: journal.Interface{
			Kind: attachmenttest.Kind, Addrs: []netip.Prefix{netip.MustParsePrefix("198.51.100.7/24")}, MAC: journal.MAC{2, 0, 0, 0, 7, 7}, Config: netif.Config{MTU: 1500},
		},
	}}}
	m := attachment.New(attachment.Config{
		Journal: j, Log: log, Metrics: attachment.NewMetrics(prometheus.NewRegistry()),
		Drivers:   ifdriver.Drivers{attachmenttest.Kind: attachmenttest.Driver{Sandboxes: func() []string { return []string{pod.Path} }}},
		Decisions: c, Datapath: c, Releaser: c,
		Observer: c,
	})
	request := attachment.Request{
		Key: journal.Key{ContainerID: "sandbox", IfName: "net0"}, Pod: journal.Pod{Namespace: "ns", Name: "p", UID: "uid"},
		Network: "of-another-cni", NetnsPath: pod.Path,
	}
	c.leaves = true
	if _, err := m.Establish(t.Context(), request); !errors.Is(err, attachment.ErrPodGone) {
		t.Errorf("a pod that leaves: %v", err)
	}
	c.leaves, c.refuses = false, errors.New("no pass succeeds")
	var notReady *attachment.NotReady
	if _, err := m.Establish(t.Context(), request); !errors.As(err, &notReady) || len(j.Records()) != 0 {
		t.Errorf("sockets that can't be programmed: %v, left are %+v", err, j.Records())
	}
	c.refuses, c.programmed, c.unprogrammed = nil, 0, 0
	for range 2 { // the second time it is there already
		list, err := m.Establish(t.Context(), request)
		if err != nil || len(list) != 1 || list[0].IfName != "net0" || list[0].Link.NetnsCookie == 0 {
			t.Fatalf("established are %+v, %v", list, err)
		}
	}
	if records, err := m.Check(t.Context(), request.Key, request.Pod); err != nil || len(records) != 1 {
		t.Errorf("checked are %+v, %v", records, err)
	}
	if err := m.GC(t.Context(), request.Network, nil); err != nil || len(j.Records()) != 1 {
		t.Errorf("of a pod that lives GC leaves %+v, %v", j.Records(), err)
	}
	if broken := m.Inspect(t.Context()); len(broken) != 0 {
		t.Errorf("broken are %v", broken)
	}
	for range 2 { // the second time there is nothing
		if err := m.Remove(t.Context(), request.Key); err != nil {
			t.Errorf("remove: %v", err)
		}
	}
	if len(j.Records()) != 0 || len(c.released) != 3 {
		t.Errorf("left are %+v, released %v; want none, and what left, what failed and what was removed", j.Records(), c.released)
	}
	if c.programmed != 2 || c.unprogrammed != 1 {
		t.Errorf("sockets were programmed %d times and unprogrammed %d times, want 2 and 1", c.programmed, c.unprogrammed)
	}
	if _, err := m.Check(t.Context(), request.Key, request.Pod); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("check of nothing: %v", err)
	}
	c.decisions[0].PodUID = "of its mirror"
	expectStatic(t, m, c, request)
	if err := m.Remove(t.Context(), request.Key); err != nil {
		t.Error(err)
	}
}

// expectStatic requires that a request for a static pod is known again by the UID that the
// runtime has: the interface stays, and CHECK succeeds.
func expectStatic(t *testing.T, m *attachment.Manager, c *control, request attachment.Request) {
	t.Helper()
	want := journal.Pod{Namespace: "ns", Name: "p", UID: "of its mirror"}
	released := len(c.released)
	var first attachment.Attached
	for i := range 2 {
		list, err := m.Establish(t.Context(), request)
		if err != nil || list[0].Pod != want || c.attached != want {
			t.Fatalf("a static pod: %+v, %v; told is %+v, want %+v", list, err, c.attached, want)
		}
		if i == 0 {
			first = list[0]
		}
		if list[0].Seq != first.Seq || len(c.released) != released {
			t.Errorf("a repeated ADD replaces attachment %d by %d, and releases %v", first.Seq, list[0].Seq, c.released[released:])
		}
	}
	if records, err := m.Check(t.Context(), request.Key, request.Pod); err != nil || len(records) != 1 {
		t.Errorf("a CHECK of a static pod has %+v, %v", records, err)
	}
	later := request.Pod
	later.UID = "of the next manifest"
	if _, err := m.Check(t.Context(), request.Key, later); err == nil ||
		!strings.Contains(err.Error(), "(UID of its mirror or uid), not ns/p (UID of the next manifest)") {
		t.Errorf("a CHECK of another static pod: %v", err)
	}
}
