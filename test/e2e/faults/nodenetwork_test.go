// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	nmstatev1beta1 "github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// cutOff takes the node's way to the API server. Such a change is tried for half a minute before it
// is undone.
const cutOff = `{"interfaces":[{"name":"nns-undone","type":"linux-bridge","state":"up",
 "ipv4":{"enabled":true,"address":[{"ip":"192.0.2.193","prefix-length":28}]},"bridge":{"port":[]}}],
 "routes":{"config":[{"destination":"%s/32","next-hop-address":"192.0.2.194","next-hop-interface":"nns-undone"}]}}`

// A daemon that is killed in the middle of a change, and not started again, leaves the node as it
// was: a process outside of its pod undoes the change.
func TestNodeNetworkChange_DaemonKilled_Undone(t *testing.T) {
	e := start(t)
	_, node := e.Nodes()
	// Without its kubelet nobody starts the daemon again.
	if err := e.Lab.StopProcess(stage.Within(t, patience), node+"/kubelet"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Lab.StartProcess(stage.Within(t, patience), node+"/kubelet"); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { e.desire(t, node, "") })
	e.desire(t, node, fmt.Sprintf(cutOff, e.Lab.Nodes()[0].IPv4))
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
