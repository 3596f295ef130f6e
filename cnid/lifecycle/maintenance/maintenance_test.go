// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

func recordOf(pod string, seq uint64, mtu int) journal.Record {
	rec := journal.Record{Seq: seq, Phase: journal.PhaseDone}
	rec.Pod.Name, rec.ContainerID, rec.VPC, rec.VNI, rec.MTU = pod, "sandbox-"+pod, "blue", 20, mtu
	rec.Addrs = []netip.Prefix{netip.MustParsePrefix("10.10.1.2/24")}
	return rec
}

// reports has a line for each report about an interface.
type reports []string

func (r *reports) Restored(pod journal.Pod, cause error) {
	*r = append(*r, fmt.Sprint(pod.Name, " ", cause))
}

// repairs counts repairs.
type repairs int

func (r *repairs) Repaired(string) { *r++ }

func TestMaintenance_InterfaceUnrestorable_ReportedOnce(t *testing.T) {
	busy := errors.New("busy")
	// The result of each pass for the interface: whether it is deleted, and an error.
	type found struct {
		deleted bool
		err     error
	}
	var next found
	var reported reports
	var repairs repairs
	r := NewRestorer(RestorerConfig{
		Attachments: restores(func(journal.Key) (bool, error) { return next.deleted, next.err }),
		Reporter:    &reported,
		Metrics:     &repairs,
		Log:         slog.New(slog.DiscardHandler),
	})
	for _, next = range []found{{}, {true, busy}, {true, busy}, {true, nil}, {true, busy}} {
		r.restore(t.Context(), recordOf("p1", 1, 1400))
	}
	if diff := cmp.Diff(reports{"p1 busy", "p1 <nil>", "p1 busy"}, reported); diff != "" || repairs != 1 {
		t.Errorf("%d repairs; told (-want +got):\n%s", repairs, diff)
	}
}

// TestMaintenance_UnwatchedInterfaces_RestoredPeriodicallyAndOnRequest runs in a bubble, whose clock
// advances only while all its goroutines wait.
func TestMaintenance_UnwatchedInterfaces_RestoredPeriodicallyAndOnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		records := []journal.Record{recordOf("pair", 1, 1400), recordOf("hostless", 2, 1400), recordOf("leaving", 3, 1400)}
		records[0].HostIfName, records[2].Phase = "alv0", journal.PhaseLeaving
		var restored []string
		r := NewRestorer(RestorerConfig{
			Attachments: restores(func(key journal.Key) (bool, error) {
				restored = append(restored, key.ContainerID)
				return true, nil
			}),
			Reporter: &reports{}, Metrics: new(repairs),
			Journal: list(records), Every: time.Minute, Log: slog.New(slog.DiscardHandler),
		})
		ended := make(chan struct{})
		go func() { defer close(ended); r.Run(ctx) }()
		expect := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, restored); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		expect("at the start")
		<-time.After(time.Minute)
		expect("after an interval", "sandbox-hostless")
		r.Missing(records[:1])
		expect("after a pass", "sandbox-hostless", "sandbox-pair")
		r.Look()
		expect("after a request", "sandbox-hostless", "sandbox-pair", "sandbox-hostless")
		if len(records) != 3 || records[0].HostIfName != "alv0" {
			t.Errorf("the journal's records have become %v", records)
		}
		cancel()
		<-ended
	})
}

func TestMaintenance_MTUChanged_VPCAttachmentsFollow(t *testing.T) {
	outside := recordOf("outside", 3, 9000)
	outside.Binding, outside.Outside = journal.Binding{}, "physical"
	leaving := recordOf("leaving", 4, 1400)
	leaving.Phase = journal.PhaseLeaving
	resized := map[string]int{}
	r := NewResizer(ResizerConfig{
		Journal:     list{recordOf("larger", 1, 1400), recordOf("same", 2, 1300), outside, leaving},
		Attachments: resizes(resized),
		Log:         slog.New(slog.DiscardHandler),
	})
	if !r.resize(t.Context(), 1300) {
		t.Error("nothing was resized")
	}
	if diff := cmp.Diff(map[string]int{"sandbox-larger": 1300}, resized); diff != "" {
		t.Errorf("resized (-want +got):\n%s", diff)
	}
}

// TestDaemonStart_LeftoversPresent_WaitBounded runs in a bubble: its clock advances only
// while all its goroutines wait.
func TestDaemonStart_LeftoversPresent_WaitBounded(t *testing.T) {
	for name, c := range map[string]struct{ takes, stops, want time.Duration }{
		"a removal":                  {time.Second, 2 * time.Hour, time.Second},
		"a removal by a hung plugin": {time.Hour, 2 * time.Hour, leftOverWait},
		"a daemon that stops":        {time.Hour, time.Second, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun, removed := time.Now(), false
			ctx, cancel := context.WithTimeout(t.Context(), c.stops)
			defer cancel()
			ended := RemoveLeftOver(ctx, func(context.Context) error {
				<-time.After(c.takes)
				removed = true
				return errors.New("busy")
			}, slog.New(slog.DiscardHandler))
			if waited := time.Since(begun); waited != c.want {
				t.Errorf("%s: the start waited %s, want %s", name, waited, c.want)
			}
			<-ended // the removal goes on meanwhile
			if took := time.Since(begun); !removed || took != c.takes {
				t.Errorf("%s: ended after %s, removed: %v; want its end after %s", name, took, removed, c.takes)
			}
		})
	}
}

// list is a journal with these records.
type list []journal.Record

func (l list) Records() []journal.Record { return l }

// restores stands for the restoring of interfaces.
type restores func(journal.Key) (bool, error)

func (r restores) Restore(_ context.Context, key journal.Key) (bool, error) { return r(key) }

// resizes notes the MTU that each sandbox was given.
type resizes map[string]int

func (r resizes) Resize(_ context.Context, key journal.Key, mtu int) (bool, error) {
	r[key.ContainerID] = mtu
	return true, nil
}
