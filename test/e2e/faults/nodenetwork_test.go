// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	nmstatev1beta1 "github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// keepMTU keeps the MTU of a device from what is declared, so that a change that sets it is
// verified in vain for some seconds.
const keepMTU = `while ip link show nns-undone >/dev/null 2>&1 || [ ! -e /run/nns-seen ]; do
  ip link set nns-undone mtu 1300 2>/dev/null && touch /run/nns-seen
done; rm -f /run/nns-seen`

// A daemon that is killed in the middle of a change, and that nobody starts again, leaves
// the node as it was: a process outside of its pod undoes the change.
func TestAChangeIsUndoneAlthoughThePodThatMadeItIsGone(t *testing.T) {
	e := start(t)
	_, node := e.Nodes()
	e.OnNode(t, node, "sh", "-c", "rm -f /run/nns-seen; ("+keepMTU+") >/dev/null 2>&1 &")
	t.Cleanup(func() { e.OnNode(t, node, "touch", "/run/nns-seen") }) // ends keepMTU also without a device
	// Without its kubelet nobody starts the daemon again.
	if err := e.Lab.StopProcess(stage.Within(t, patience), node+"/kubelet"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Lab.StartProcess(stage.Within(t, patience), node+"/kubelet"); err != nil {
			t.Error(err)
		}
	})
	e.desire(t, node, `{"interfaces":[{"name":"nns-undone","type":"linux-bridge","state":"up","mtu":1400,"bridge":{"port":[]}}]}`)
	e.waits(t, "the change to begin", func(context.Context) (bool, string, error) {
		links := e.OnNode(t, node, "ip", "-o", "link", "show")
		return strings.Contains(links, "nns-undone"), links, nil
	})
	if err := e.Lab.KillDaemon(stage.Within(t, patience), node); err != nil {
		t.Fatal(err)
	}
	e.waits(t, "the change to be undone", func(context.Context) (bool, string, error) {
		links := e.OnNode(t, node, "ip", "-o", "link", "show")
		return !strings.Contains(links, "nns-undone"), links, nil
	})
	e.desire(t, node, "")
}

// desire sets the desired state of a node by hand, a document in JSON, or none.
func (e *env) desire(t *testing.T, node, document string) {
	t.Helper()
	patch := `{"spec":{"desiredState":null}}`
	if document != "" {
		patch = `{"spec":{"desiredState":` + document + `}}`
	}
	e.does(t, "set the desired state of "+node, func(ctx context.Context) error {
		state := &nmstatev1beta1.NodeNetworkState{}
		state.Name = node
		return e.Client.Patch(ctx, state, client.RawPatch("application/merge-patch+json", []byte(patch)))
	})
}
