// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyhandler

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/alioth-net/alioth/store/nmstate"
)

// beginner returns a world in which the policy blue has a slot on node n1 and may begin. Its
// handler reads the network of the node by a function.
func beginner(t *testing.T, network func() (map[string]any, error)) (*world, *Handler) {
	t.Helper()
	w := newWorld(t)
	w.cfg.Network = func(context.Context) (map[string]any, error) { return network() }
	w.must(w.api.Create(t.Context(), newBlueNode("n1")))
	w.must(w.api.Create(t.Context(), newBlue()))
	life{T: t, api: w.api}.report("n1", small)
	h, rollouts := NewHandler(w.cfg), NewRollouts(w.cfg)
	w.begin(h, 0, nmstate.Pending)
	w.sync()
	if _, err := rollouts.Pass(t.Context(), blue); err != nil {
		t.Fatal(err)
	}
	return w, h
}

// begin makes a pass with the present rows. It returns when the next one is due, and the policy is
// in a phase afterwards.
func (w *world) begin(h *Handler, due time.Duration, phase nmstate.Phase) {
	w.t.Helper()
	w.sync()
	again, err := h.Pass(w.t.Context(), "n1")
	if err != nil || again != due {
		w.t.Errorf("the next pass is due after %v (%v), want %v", again, err, due)
	}
	if _, row := w.enactment(); row.Phase != phase {
		w.t.Errorf("the policy is %s: %s; want %s", row.Phase, row.Message, phase)
	}
}

// mtuBefore is the MTU of eth1 that the policy restores in the end.
func (w *world) mtuBefore() any {
	w.t.Helper()
	_, row := w.enactment()
	list, _ := row.Before["interfaces"].([]any)
	if len(list) != 1 {
		w.t.Fatalf("before was %v", row.Before)
	}
	return list[0].(map[string]any)["mtu"]
}

const middle = `{"interfaces":[{"name":"eth1","type":"ethernet","state":"up","mtu":1400}]}`

// TestAPolicyBeginsOnceTheReportHasWhatIsThere: somebody has changed the node a moment before. What
// the policy can't change does not count.
func TestAPolicyBeginsOnceTheReportHasWhatIsThere(t *testing.T) {
	network := mtu("eth1", 1400)
	other := mtu("eth9", 1400)
	network["interfaces"] = append(network["interfaces"].([]any), other["interfaces"].([]any)...)
	for _, i := range network["interfaces"].([]any) {
		i.(map[string]any)["type"], i.(map[string]any)["state"] = "ethernet", "up"
	}
	w, h := beginner(t, func() (map[string]any, error) { return network, nil })
	w.begin(h, retryAfter, nmstate.Pending)
	life{T: t, api: w.api}.report("n1", middle)
	w.begin(h, 0, nmstate.Progressing)
	if got := w.mtuBefore(); got != 1400.0 {
		t.Errorf("the end of the policy restores the MTU %v, want 1400", got)
	}
}

// TestANetworkThatChangesAllTheTimeKeepsNoPolicyFromItsNode, and one that can't be read lets none
// begin.
func TestANetworkThatChangesAllTheTimeKeepsNoPolicyFromItsNode(t *testing.T) {
	n, unread := 1000, errors.New("no answer of the kernel")
	network := func() (map[string]any, error) {
		n++
		return mtu("eth1", n), unread
	}
	w, h := beginner(t, network)
	w.sync()
	if _, err := h.Pass(t.Context(), "n1"); !errors.Is(err, unread) {
		t.Errorf("got %v, want that the network can't be read", err)
	}
	unread = nil
	w.begin(h, retryAfter, nmstate.Pending)
	w.now = w.now.Add(freshWithin)
	w.begin(h, retryAfter, nmstate.Pending)
	w.now = w.now.Add(time.Second)
	w.begin(h, 0, nmstate.Progressing)
	if got := w.mtuBefore(); got != 1500.0 {
		t.Errorf("the end of the policy restores the MTU %v, want that of the report", got)
	}
}
