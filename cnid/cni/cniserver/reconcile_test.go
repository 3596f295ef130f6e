// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

func TestReconcile_DeadAndLivingPods_OnlyDeadRemoved(t *testing.T) {
	r := newRig(t)
	alive, ended, replaced := r.newPod(t, 1), r.newPod(t, 2), r.newPod(t, 3)
	link := filepath.Join(t.TempDir(), "netns")
	if err := os.Symlink(replaced.netns.Path, link); err != nil {
		t.Fatal(err)
	}
	r.add(t, alive)
	r.add(t, ended)
	req := replaced.request("ADD")
	req.Netns = link
	if resp := r.server.Do(t.Context(), req); resp.Error != nil {
		t.Fatal(resp.Error)
	}
	r.end(t, ended)
	if err := errors.Join(os.Remove(link), os.Symlink(alive.netns.Path, link)); err != nil {
		t.Fatal(err)
	}
	reconcile := func(want ...journal.Key) {
		t.Helper()
		if err := r.manager.Reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, r.released); diff != "" {
			t.Errorf("released (-want +got):\n%s", diff)
		}
	}
	reconcile(ended.key()) // the one whose path was taken still lives
	r.end(t, replaced)
	reconcile(ended.key(), replaced.key())
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	r.expectAttached(t, alive)
}

func TestReconcile_RuntimeMountsInvisible_NoPodRemoved(t *testing.T) {
	r := newRig(t)
	p := r.newPod(t, 1)
	path := filepath.Join(t.TempDir(), "netns")
	if err := os.Symlink(p.netns.Path, path); err != nil {
		t.Fatal(err)
	}
	req := p.request("ADD")
	req.Netns = path
	if resp := r.server.Do(t.Context(), req); resp.Error != nil {
		t.Fatal(resp.Error)
	}
	// A file without its mount looks like this.
	if err := errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	r.restart(t)
	r.expectAttached(t, p)
	r.del(t, p)
	r.expectEmpty(t)
}

func TestReconcile_CommandInProgress_LeftAlone(t *testing.T) {
	r := newRig(t)
	p := r.newPod(t, 1)
	begun, goOn := make(chan struct{}), make(chan struct{})
	r.at = func(step string) error {
		if step == beforeAttach {
			close(begun)
			<-goOn
		}
		return nil
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if resp := r.server.Do(t.Context(), p.request("ADD")); resp.Error != nil {
			t.Errorf("ADD: %v", resp.Error)
		}
	})
	<-begun
	if err := r.manager.Reconcile(t.Context()); err != nil {
		t.Error(err)
	}
	// Nor does a GC: its list can't have an attachment that is still being made.
	gc := cniapi.Request{Command: "GC", Config: []byte(`{"cniVersion":"1.1.0","name":"alioth","cni.dev/valid-attachments":[]}`)}
	if resp := r.server.Do(t.Context(), gc); resp.Error != nil {
		t.Error(resp.Error)
	}
	close(goOn)
	wg.Wait()
	r.expectAttached(t, p)
}

func TestGC_LivingPodUnlisted_NetworkKept(t *testing.T) {
	r := newRig(t)
	listed, unlisted, dead, elsewhere := r.newPod(t, 1), r.newPod(t, 2), r.newPod(t, 3), r.newPod(t, 4)
	for _, p := range []pod{listed, unlisted, dead} {
		r.add(t, p)
	}
	req := elsewhere.request("ADD")
	req.Config = []byte(`{"cniVersion":"1.1.0","name":"another"}`)
	if resp := r.server.Do(t.Context(), req); resp.Error != nil {
		t.Fatal(resp.Error)
	}
	for _, p := range []pod{listed, dead, elsewhere} {
		r.end(t, p)
	}
	gc := cniapi.Request{Command: "GC", Config: fmt.Appendf(nil,
		`{"cniVersion":"1.1.0","name":"alioth","cni.dev/valid-attachments":[{"containerID":%q,"ifname":"eth0"}]}`, listed.containerID)}
	if resp := r.server.Do(t.Context(), gc); resp.Error != nil {
		t.Fatal(resp.Error)
	}
	var left []string
	for _, rec := range r.journal.Records() {
		left = append(left, rec.ContainerID)
	}
	if diff := cmp.Diff([]string{listed.containerID, unlisted.containerID, elsewhere.containerID}, left); diff != "" {
		t.Errorf("attachments left (-want +got):\n%s", diff)
	}
}

func TestGC_EarlierListName_ListRead(t *testing.T) {
	for _, key := range []string{"cni.dev/valid-attachments", "cni.dev/attachments"} {
		t.Run(key, func(t *testing.T) {
			r := newRig(t)
			listed, other := r.newPod(t, 1), r.newPod(t, 2)
			for _, p := range []pod{listed, other} {
				r.add(t, p)
				r.end(t, p)
			}
			gc := cniapi.Request{Command: "GC", Config: fmt.Appendf(nil,
				`{"cniVersion":"1.1.0","name":"alioth",%q:[{"containerID":%q,"ifname":"eth0"}]}`, key, listed.containerID)}
			if resp := r.server.Do(t.Context(), gc); resp.Error != nil {
				t.Fatal(resp.Error)
			}
			if left := r.journal.Records(); len(left) != 1 || left[0].Key != listed.key() {
				t.Errorf("left: %+v", left)
			}
		})
	}
}
