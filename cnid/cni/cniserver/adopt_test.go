// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver_test

import (
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// rebuild has the given pods, by UID.
func rebuild(pods ...pod) attachment.Rebuild {
	return func(_ ifdriver.Kind, found ifdriver.Found) (journal.Record, error) {
		for _, p := range pods {
			if p.uid == found.PodUID {
				d := p.decision
				return journal.Record{
					Identity:  journal.Identity{Pod: journal.Pod{Namespace: "customer-a", Name: "web", UID: p.uid}, Attachment: d.Attachment},
					Binding:   journal.Binding{VPC: d.VPC, VNI: d.VNI},
					Interface: journal.Interface{Addrs: d.Addrs, Gateways: d.Gateways, MAC: d.MAC},
				}, nil
			}
		}
		return journal.Record{}, errors.New("the pod's Address objects are gone")
	}
}

// loseJournal ends a daemon, removes its journal, and starts a new daemon.
func (r *rig) loseJournal(t *testing.T) {
	t.Helper()
	if err := r.journal.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(r.path); err != nil {
		t.Fatal(err)
	}
	r.programmed = map[journal.Key]bool{}
	r.start(t, newRegistry())
}

func TestAdopt_JournalLost_AttachmentsAdopted(t *testing.T) {
	r := newRig(t)
	p, unknown := r.newPod(t, 1), r.newPod(t, 2)
	r.add(t, p)
	r.add(t, unknown)
	want, err := r.journal.Get(p.key())
	if err != nil {
		t.Fatal(err)
	}
	r.loseJournal(t)
	for range 2 { // the second time there is nothing to do
		left, err := r.manager.Adopt(t.Context(), rebuild(p))
		if err != nil {
			t.Fatal(err)
		}
		if len(left) != 1 || left[0].PodUID != unknown.uid || left[0].Cause == nil {
			t.Errorf("unknown are %+v, want the other pod's", left)
		}
	}
	ignore := cmp.Options{cmpopts.IgnoreFields(journal.Record{}, "Begun", "AltName", "Shadow4", "Shadow6"), compareByValue}
	if diff := cmp.Diff([]journal.Record{want}, r.journal.Records(), ignore); diff != "" {
		t.Errorf("records (-before +adopted):\n%s", diff)
	}
	if rec := r.journal.Records()[0]; !rec.Shadow4.IsValid() || !rec.Shadow6.IsValid() {
		t.Errorf("its shadows are %s and %s", rec.Shadow4, rec.Shadow6)
	}
	if got := r.node.Links(t); len(got) != 2 {
		t.Errorf("the node has %v; what can't be recalled is to be left alone", got)
	}
	r.add(t, p) // the runtime may ask again, and gets the existing attachment
	if rec, _ := r.journal.Get(p.key()); rec.Seq != want.Seq {
		t.Errorf("the pod was attached anew as %d", rec.Seq)
	}
	r.del(t, p)
	r.del(t, unknown)
	r.expectEmpty(t)
}

func TestAdopt_CommandInProgress_LeftAlone(t *testing.T) {
	r := newRig(t)
	p := r.newPod(t, 1)
	begun, goOn := make(chan struct{}), make(chan struct{})
	r.at = func(step string) error {
		if step == afterAttach {
			close(begun)
			<-goOn
		}
		return nil
	}
	added := make(chan error, 1)
	go func() {
		resp := r.server.Do(t.Context(), p.request("ADD"))
		if resp.Error != nil {
			added <- resp.Error
		}
		close(added)
	}()
	<-begun
	if left, err := r.manager.Adopt(t.Context(), rebuild(p)); err != nil || len(left) > 0 {
		t.Errorf("unknown are %+v, error %v", left, err)
	}
	close(goOn)
	if err := <-added; err != nil {
		t.Errorf("ADD: %v", err)
	}
	r.expectAttached(t, p)
	if got := len(r.journal.Records()); got != 1 {
		t.Errorf("%d records", got)
	}
}
