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

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/journal"
)

func recordOf(pod string, seq uint64, mtu int) journal.Record {
	rec := journal.Record{Seq: seq, Phase: journal.PhaseDone}
	rec.Pod.Name, rec.ContainerID, rec.VPC, rec.VNI, rec.MTU = pod, "sandbox-"+pod, "blue", 20, mtu
	rec.Addrs = []netip.Prefix{netip.MustParsePrefix("10.10.1.2/24")}
	return rec
}

func TestPeopleAreToldOnceOfAnInterfaceThatCantBeRestored(t *testing.T) {
	busy := errors.New("busy")
	// The result of each pass for the interface: whether it is deleted, and an error.
	type found struct {
		deleted bool
		err     error
	}
	var next found
	var told []string
	repairs := 0
	r := NewRestorer(RestorerConfig{
		Restore:  func(context.Context, journal.Key) (bool, error) { return next.deleted, next.err },
		Notify:   func(pod journal.Pod, cause error) { told = append(told, fmt.Sprint(pod.Name, " ", cause)) },
		Repaired: func(string) { repairs++ },
		Log:      slog.New(slog.DiscardHandler),
	})
	for _, next = range []found{{}, {true, busy}, {true, busy}, {true, nil}, {true, busy}} {
		r.restore(t.Context(), recordOf("p1", 1, 1400))
	}
	if diff := cmp.Diff([]string{"p1 busy", "p1 <nil>", "p1 busy"}, told); diff != "" || repairs != 1 {
		t.Errorf("%d repairs; told (-want +got):\n%s", repairs, diff)
	}
}

func TestAttachmentsInVPCsFollowTheMTU(t *testing.T) {
	outside := recordOf("outside", 3, 9000)
	outside.Binding, outside.Outside = journal.Binding{}, "physical"
	leaving := recordOf("leaving", 4, 1400)
	leaving.Phase = journal.PhaseLeaving
	resized := map[string]int{}
	r := NewResizer(ResizerConfig{
		Records: func() []journal.Record {
			return []journal.Record{recordOf("larger", 1, 1400), recordOf("same", 2, 1300), outside, leaving}
		},
		Resize: func(_ context.Context, key journal.Key, mtu int) (bool, error) {
			resized[key.ContainerID] = mtu
			return true, nil
		},
		Log: slog.New(slog.DiscardHandler),
	})
	if !r.resize(t.Context(), 1300) {
		t.Error("nothing was resized")
	}
	if diff := cmp.Diff(map[string]int{"sandbox-larger": 1300}, resized); diff != "" {
		t.Errorf("resized (-want +got):\n%s", diff)
	}
}
