// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

// TestOperator_APIServerAway_Ends: a node that is drained must not wait for one.
func TestOperator_APIServerAway_Ends(t *testing.T) {
	w := newWorld(t, "stop-gone")
	r := startReplica(t, w.config, w.name)
	w.eventually(r.leads)
	r.gateway.CloseClientConnections()
	if err := r.gateway.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	r.gateway.CloseClientConnections()
	w.ends(r)
}

// TestOperator_StopWhileReading_Ends has an API that does not answer for one resource.
func TestOperator_StopWhileReading_Ends(t *testing.T) {
	w := newWorld(t, "stop-reading")
	g := newGateway(t, w.config)
	g.holds = func(r request) bool { return strings.HasSuffix(r.path, "/addresses") }
	r := newReplica(t, g, w.name)
	w.eventually(func() error {
		for _, request := range g.since(0) {
			if g.holds(request) {
				return nil
			}
		}
		return errors.New("it does not read Addresses yet")
	})
	w.ends(r)
}

// ends tells a replica to end, and waits until it has.
func (w *world) ends(r *replica) {
	w.t.Helper()
	r.signal(syscall.SIGTERM)
	w.eventually(func() error {
		if r.alive() == nil {
			return errors.New("it still runs")
		}
		return nil
	})
	if r.status != nil {
		w.t.Errorf("it ended with %v", r.status)
	}
}
