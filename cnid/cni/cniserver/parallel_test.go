// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
)

// TestADD_SeveralContainers_RunInParallel lets no ADD go on before all have
// come to the same step, which they never would one after the other.
func TestADD_SeveralContainers_RunInParallel(t *testing.T) {
	for _, step := range []string{beforeAwait, beforeAttach, beforeProgram} {
		t.Run(step, func(t *testing.T) {
			const pods = 5
			r := newRig(t)
			wave := make([]pod, pods)
			for i := range wave {
				wave[i] = r.newPod(t, i+1)
			}
			var there, adds sync.WaitGroup
			there.Add(pods)
			r.at = func(now string) error {
				if now == step {
					there.Done()
					there.Wait()
				}
				return nil
			}
			for _, p := range wave {
				adds.Go(func() {
					if resp := r.server.Do(t.Context(), p.request("ADD")); resp.Error != nil {
						t.Errorf("ADD: %v", resp.Error)
					}
				})
			}
			adds.Wait()
			if got := len(r.journal.Records()); got != pods {
				t.Errorf("%d pods are attached", got)
			}
		})
	}
}

func TestCommands_SameContainer_SerialWithBoundedWait(t *testing.T) {
	r := newRig(t)
	r.limits = attachment.Config{LockWait: 10 * time.Millisecond}
	r.reopen(t)
	p := r.newPod(t, 1)
	atWork, goOn := make(chan struct{}), make(chan struct{})
	r.at = func(step string) error {
		if step == beforeAttach {
			close(atWork)
			<-goOn
		}
		return nil
	}
	added := make(chan cniapi.Response)
	go func() { added <- r.server.Do(t.Context(), p.request("ADD")) }()
	<-atWork
	for _, command := range []string{"ADD", "DEL", "CHECK"} {
		resp := r.server.Do(t.Context(), p.request(command))
		if resp.Error == nil || resp.Error.Code != cniapi.CodeNotReady || !strings.Contains(resp.Error.Msg, "still running") {
			t.Errorf("%s meanwhile: %+v", command, resp.Error)
		}
	}
	if err := r.server.Ready(); err != nil {
		t.Errorf("STATUS meanwhile: %v", err)
	}
	close(goOn)
	if resp := <-added; resp.Error != nil {
		t.Errorf("ADD: %v", resp.Error)
	}
	r.expectAttached(t, p)
	r.del(t, p)
	r.expectEmpty(t)
}

func TestADD_DecisionPending_WaitBounded(t *testing.T) {
	r := newRig(t)
	r.limits = attachment.Config{Wait: 10 * time.Millisecond}
	r.reopen(t)
	p := r.newPod(t, 1)
	p.uid = "uid-nobody-decides-about"
	resp := r.server.Do(t.Context(), p.request("ADD"))
	if resp.Error == nil || resp.Error.Code != cniapi.CodeNotReady || !strings.Contains(resp.Error.Msg, "subnet net1 is full") {
		t.Errorf("got %+v, want code %d with what was waited for", resp.Error, cniapi.CodeNotReady)
	}
	r.expectEmpty(t)
}
