// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/soak"
)

// asLoad is the environment variable that makes the test binary a load of the machine.
const asLoad = "ALIOTH_TEST_AS_LOAD"

const (
	// busyThreads is how many threads want a processor at any time.
	busyThreads = 40
	// stallFor is how long the API server stalls, once in two to four seconds.
	stallFor = time.Second
	// busyFor is how long a leader has to last, and busyKills how many leaders are killed then.
	busyFor, busyKills = 10 * time.Minute, 20
)

// spin keeps busyThreads threads busy until the process is killed.
func spin() {
	runtime.GOMAXPROCS(busyThreads + 1)
	for range busyThreads {
		go func() {
			for { //nolint:staticcheck // it is to take a processor
			}
		}()
	}
	select {}
}

// stall stops a process for stallFor again and again until the test ends.
func stall(t *testing.T, pid int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			send(t, pid, syscall.SIGSTOP)
			time.Sleep(stallFor) //nolint:forbidigo // the stall itself
			send(t, pid, syscall.SIGCONT)
			select {
			case <-ctx.Done():
			case <-time.After(stallFor + rand.N(2*stallFor)):
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

func send(t *testing.T, pid int, s syscall.Signal) {
	if err := syscall.Kill(pid, s); err != nil {
		t.Error(err)
	}
}

// TestLeader_BusyMachine_KeepsLease has more load than the machine has processors, an API server
// that stalls, and a pod to be served each second. Then it logs how long the other replica takes to
// lead after a leader is killed.
func TestLeader_BusyMachine_KeepsLease(t *testing.T) {
	soak.Part(t, "soak-busy")
	w := newWorld(t, "busy")
	start := func() *replica { return startDirect(t, w.config, w.name) }
	replicas := []*replica{start(), start()}
	for _, r := range replicas {
		w.eventually(r.ready)
	}
	leader, _ := w.leader(replicas[0], replicas[1])
	spawn(t, asLoad)
	stall(t, server.Server(t).Processes()["kube-apiserver"])

	w.serve(busyFor)
	for _, r := range replicas {
		if terms, err := r.metric(termsMetric); err != nil || terms != 1 {
			t.Errorf("a replica stood up %g times, error %v", terms, err)
		}
	}
	if err := leader.leads(); err != nil {
		t.Errorf("the first leader does not lead any more: %v", err)
	}
	var took []time.Duration
	for range busyKills {
		took = append(took, w.takeover(replicas))
		replicas = []*replica{replicas[1], start()}
	}
	slices.Sort(took)
	t.Logf("from the kill of a leader until the other replica leads: median %s, longest %s; all: %s",
		took[len(took)/2], took[len(took)-1], took)
}

// serve schedules a pod each second for a time, and waits until the last one has its addresses.
func (w *world) serve(duration time.Duration) {
	w.t.Helper()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	pod := w.schedule("first", "")
	for i := 0; i < int(duration/time.Second); i++ {
		<-tick.C
		pod = w.schedule(fmt.Sprint("pod-", i), "")
	}
	w.eventually(w.reported(pod, v1alpha1.AttachedReason))
}

// takeover kills the leader of two replicas at a random moment, and returns the time until the
// other replica leads. The other replica is the second of them then.
func (w *world) takeover(replicas []*replica) time.Duration {
	w.t.Helper()
	for _, r := range replicas {
		w.eventually(r.ready)
	}
	leader, other := w.leader(replicas[0], replicas[1])
	time.Sleep(rand.N(stallFor)) //nolint:forbidigo // to any moment between renewals, and of a stall
	began := time.Now()
	leader.kill()
	w.eventually(other.leads)
	replicas[0], replicas[1] = leader, other
	return time.Since(began).Round(time.Millisecond)
}
