// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"testing"

	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/netif"
)

// TestPod_NodeUnseen_WaitsForIt: pods of DaemonSets are bound as soon as their node is there, and
// the watches of pods and nodes come in any order. Only the node's labels tell which plugin
// attaches a pod, and no pod is decided twice.
func TestPod_NodeUnseen_WaitsForIt(t *testing.T) {
	for name, c := range map[string]struct {
		labels map[string]string
		kind   string
	}{
		"a node of another plugin": {map[string]string{multitenancyv1alpha1.NodeLabel: "true"}, netif.KindExternal},
		"a node of Alioth's":       {nil, netif.KindPair},
	} {
		t.Run(name, func(t *testing.T) {
			w := reserving(t)
			w.operate()
			w.create(bound("early", "", "", "node-3"), bound("asks", "blue", "", "node-3"))
			w.settle()
			if held := w.addresses(w.pod("early")); len(held) > 0 || len(w.pod("early").Status.Conditions) > 0 {
				t.Errorf("before its node is seen, the pod has %v and is told %+v", held, w.pod("early").Status.Conditions)
			}
			if first := attachedTo(w.pod("asks")); first == nil || first.Kind != netif.KindPair {
				t.Errorf("a pod that names its network is told %+v", first)
			}
			seen := newNode("node-3")
			seen.Labels = c.labels
			w.create(seen)
			w.settle()
			if first := attachedTo(w.pod("early")); first == nil || first.Kind != c.kind {
				t.Errorf("once its node is seen, the pod is told %+v, want an interface of kind %q: %+v", first, c.kind, w.pod("early").Status.Conditions)
			}
		})
	}
}
