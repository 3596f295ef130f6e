// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
	"github.com/alioth-net/alioth/store"
)

// fixed has the same records always.
type fixed []journal.Record

func (f fixed) Records() []journal.Record { return f }

func TestFlowLog_ListenerPresent_ProgramsAsked(t *testing.T) {
	asked := make(chan time.Duration, 100)
	log := NewPacketLog(Words{}, func(d time.Duration) error {
		asked <- d
		return errors.New("no datapath yet")
	}, slog.New(slog.DiscardHandler))
	get := func(ctx context.Context, query string) *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		log.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/?"+query, http.NoBody))
		return answer
	}
	log.add(nodestatus.Packet{Reason: "forwarded_local"})
	if answer := get(t.Context(), "for=0s"); !strings.Contains(answer.Body.String(), "forwarded_local") {
		t.Errorf("got %q", answer.Body)
	}
	if len(asked) > 0 {
		t.Error("the programs were asked for somebody who does not listen")
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		get(ctx, "follow=true")
	}()
	for range 2 {
		if d := <-asked; d <= askEvery {
			t.Errorf("asked for %s, which ends before it is asked again", d)
		}
	}
	stop()
	<-done
	get(t.Context(), "for=1ms") // which ends by itself
	if len(asked) == 0 {
		t.Error("the programs were not asked for somebody who listens for a moment")
	}
}

func TestPacketLog_Address_NamedByVPCOrNode(t *testing.T) {
	rows, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	rec := journal.Record{
		Identity: journal.Identity{Key: journal.Key{ContainerID: "p1", IfName: "eth0"}, Pod: journal.Pod{Namespace: "ns", Name: "p1", UID: "p1"}},
		Binding:  journal.Binding{VPC: "blue", VNI: 20},
		Interface: journal.Interface{
			Addrs: []netip.Prefix{netip.MustParsePrefix("10.10.1.10/24")}, Device: journal.Device{HostIfindex: 7},
		},
		Phase: journal.PhaseDone, Shadow4: netip.MustParseAddr("169.254.64.2"),
	}
	err = rows.Update(func(tx store.Tx) error {
		held := store.Address{
			Meta: store.Meta{UID: "address"}, Name: "blue.10.10.1.10", VPC: "blue", Subnet: "blue1", IP: rec.Addrs[0].Addr(), Node: "node1",
			Holder: store.Holder{Kind: store.HolderPod, Namespace: "ns", Name: "p1", UID: "p1"},
		}
		return errors.Join(store.PutVPC(tx, &store.VPC{Meta: store.Meta{UID: "blue"}, Name: "blue", VNI: 20}), store.PutAddress(tx, &held))
	})
	if err != nil {
		t.Fatal(err)
	}
	words := NewWords(NewNames(rows, fixed{rec}), "node1", "default", nil)
	pod, vip := netip.MustParseAddr("10.10.1.10"), netip.MustParseAddr("10.96.0.10")
	for name, c := range map[string]struct {
		event      telemetry.Event
		came, went string
	}{
		"to a service of the VPC": {
			telemetry.Event{Reason: telemetry.ForwardedLocal, Came: telemetry.Tuple{Src: pod, Dst: vip}, Went: telemetry.Tuple{Src: pod, Dst: pod}},
			"10.10.1.10 (ns/p1) > 10.96.0.10", "10.10.1.10 (ns/p1) > 10.10.1.10 (ns/p1)",
		},
		"to a service outside, behind which is an equal address": {
			telemetry.Event{Reason: telemetry.ToStack, Came: telemetry.Tuple{Src: pod, Dst: vip}, Went: telemetry.Tuple{Src: rec.Shadow4, Dst: pod}},
			"10.10.1.10 (ns/p1) > 10.96.0.10", rec.Shadow4.String() + " (ns/p1) > 10.10.1.10",
		},
		"its answer": {
			telemetry.Event{
				Reason: telemetry.FromStack, Direction: telemetry.ToPod,
				Came: telemetry.Tuple{Src: pod, Dst: rec.Shadow4}, Went: telemetry.Tuple{Src: vip, Dst: pod},
			},
			"10.10.1.10 > " + rec.Shadow4.String() + " (ns/p1)", "10.96.0.10 > 10.10.1.10 (ns/p1)",
		},
	} {
		c.event.Ifindex, c.event.VNI = 7, 20
		if got := words.tell(c.event); got.Came.String() != c.came || got.Went.String() != c.went {
			t.Errorf("%s: %s, then %s; want %s, then %s", name, got.Came, got.Went, c.came, c.went)
		}
	}
}

func TestPacketLog_SourceMissing_ShownAsUnspecified(t *testing.T) {
	nobody := func(netip.Addr) string { return "" }
	got := ends(telemetry.Tuple{Dst: netip.MustParseAddr("ff02::16")}, nobody).String()
	if want := ":: > ff02::16"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDropLog_SlowReader_ToldOfMissedEntries(t *testing.T) {
	log := NewPacketLog(Words{}, nil, nil)
	for i := range keptPackets + 10 {
		log.add(nodestatus.Packet{VNI: uint32(i)})
		if i == 4 {
			if drops, next, _ := log.since(0); len(drops) != 5 || next != 5 || drops[0].Missed != 0 {
				t.Errorf("%d drops, next %d, missed %d", len(drops), next, drops[0].Missed)
			}
		}
	}
	drops, next, changed := log.since(5)
	if len(drops) != keptPackets || next != keptPackets+10 || drops[0].Missed != 5 || drops[0].VNI != 10 {
		t.Errorf("%d drops from %d, next %d, missed %d", len(drops), drops[0].VNI, next, drops[0].Missed)
	}
	if drops, _, _ := log.since(next); len(drops) != 0 {
		t.Errorf("%d drops after the last", len(drops))
	}
	log.add(nodestatus.Packet{})
	select {
	case <-changed:
	default:
		t.Error("nobody is told of a drop")
	}
}
