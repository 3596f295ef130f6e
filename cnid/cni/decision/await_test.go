// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/cnid/cluster/release"
	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/drivers/netkit"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/internal/testrows"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/store"
)

// awaiting starts an Await on a store, and returns it together with Await's
// result once Await has taken its first look.
func awaiting(ctx context.Context, t *testing.T, d *decided) (*store.Store, chan error) {
	t.Helper()
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	d.fill(t, s)
	j, err := journal.Open(t.Context(), journal.Config{Path: filepath.Join(t.TempDir(), "journal.log"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	var once sync.Once
	looking := make(chan struct{})
	decisions := New(Config{
		Plan: plan.Config{Node: "node1", Kinds: kinds}, Pair: netkit.Kind, APIServers: unnamed{}, Store: s, Log: slog.New(slog.DiscardHandler),
		Sources: sources{}, NodeMarked: broadcast.Open, Held: release.NewHeld(j), Journal: j,
		Listens:  func(uint8, netip.Addr, uint16) (bool, error) { return false, nil },
		Events:   &reported{},
		Progress: programmed{asked: func() { once.Do(func() { close(looking) }) }},
	})
	ended := make(chan error, 1)
	go func() {
		_, err := decisions.Await(ctx, thePod)
		ended <- err
	}()
	<-looking
	return s, ended
}

func TestAwait_LastPartArrives_Ends(t *testing.T) {
	d := newDecided()
	testrows.Configure(d.addresses, "p1", []netif.Interface{d.described})
	missing := d.addresses[1]
	d.addresses = d.addresses[:1]
	s, ended := awaiting(t.Context(), t, d)
	if err := s.Update(func(tx store.Tx) error { return store.PutAddress(tx, &missing) }); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Await: %v", err)
	}
}

func TestAwait_PodGone_Ends(t *testing.T) {
	for name, change := range map[string]func(tx store.Tx) error{
		"it is gone after it was seen": func(tx store.Tx) error { store.DeletePod(tx, "p1"); return nil },
		"it is being deleted": func(tx store.Tx) error {
			pod := *store.GetPod(tx, "p1")
			pod.Deleting, pod.ResourceVersion = true, "2"
			return store.PutPod(tx, &pod)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDecided()
			d.pod.NetworkReady = false
			s, ended := awaiting(t.Context(), t, d)
			if err := s.Update(change); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; !errors.Is(err, attachment.ErrPodGone) {
				t.Errorf("Await: %v, want %v", err, attachment.ErrPodGone)
			}
		})
	}
}

func TestAwait_Timeout_NamesMissingPart(t *testing.T) {
	d := newDecided()
	d.pod.NetworkReady, d.pod.Reason, d.pod.Message = false, "SubnetExhausted", "no address is free"
	ctx, cancel := context.WithCancel(t.Context())
	_, ended := awaiting(ctx, t, d)
	cancel()
	var notReady *attachment.NotReady
	if err := <-ended; !errors.As(err, &notReady) || notReady.Reason != "SubnetExhausted: no address is free" {
		t.Errorf("Await: %v", err)
	}
}
