// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package danm

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/outside"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

func reportOf(node string, failures ...multinet.LinkFailure) *multinet.LinkReport {
	return &multinet.LinkReport{Meta: operatortest.Meta("report-"+node, 0), Name: node, Failures: failures}
}

func nodeRow(name string) *store.Node {
	return &store.Node{Meta: operatortest.Meta("node-"+name, 0), Name: name}
}

func TestLinkCondition_NodesLackLink_NodesShown(t *testing.T) {
	id := multinet.LinkID{Device: "ens4", Type: multinet.VLAN, VNI: 100}
	missing := func(change func(*multinet.LinkID)) multinet.LinkFailure {
		f := multinet.LinkFailure{LinkID: id, Reason: v1alpha1.ParentMissingReason, Message: "the node has no device ens4"}
		change(&f.LinkID)
		return f
	}
	ofDevice := missing(func(id *multinet.LinkID) { id.Type, id.VNI = "", 0 })
	ofKernel := missing(func(id *multinet.LinkID) { id.Device, id.VNI = "", 0 })
	exact := missing(func(*multinet.LinkID) {})
	otherNumber := missing(func(id *multinet.LinkID) { id.VNI = 101 })
	otherType := missing(func(id *multinet.LinkID) { id.Type, id.VNI = multinet.VXLAN, 0 })
	otherDevice := missing(func(id *multinet.LinkID) { id.Device, id.VNI = "ens5", 0 })
	for name, c := range map[string]struct {
		rows     []any
		complete bool
		message  string
	}{
		"no report":         {nil, true, "no node reports that it lacks VLAN 100 on ens4"},
		"another link":      {[]any{nodeRow("a"), reportOf("a", otherNumber, otherType, otherDevice)}, true, "no node reports that it lacks VLAN 100 on ens4"},
		"the device":        {[]any{nodeRow("a"), reportOf("a", ofDevice)}, false, "1 node(s) lack VLAN 100 on ens4: a (ParentMissing); the first says: the node has no device ens4"},
		"the kernel, twice": {[]any{nodeRow("a"), reportOf("a", ofKernel, exact)}, false, "1 node(s) lack VLAN 100 on ens4: a (ParentMissing); the first says: the node has no device ens4"},
		"many nodes": {
			[]any{nodeRow("a"), nodeRow("b"), nodeRow("c"), nodeRow("d"), reportOf("a", exact), reportOf("b", exact), reportOf("c", exact), reportOf("d", exact)},
			false, "4 node(s) lack VLAN 100 on ens4: a (ParentMissing), b (ParentMissing), c (ParentMissing), and others; the first says: the node has no device ens4",
		},
		"a report of no node": {[]any{reportOf("ghost", exact)}, true, "no node reports that it lacks VLAN 100 on ens4"},
	} {
		t.Run(name, func(t *testing.T) {
			network := net(multinet.KindDanmNet, "a", "net", 0, func(n *multinet.Network) { n.HostDevice, n.VLAN = "ens4", 100 })
			var got *linkState
			operatortest.New(t, append(c.rows, network)...).View(func(tx store.ReadTx) { got = linkOf(tx, network) })
			if got == nil || got.complete != c.complete || got.message != c.message {
				t.Errorf("got %+v, want %t, %q", got, c.complete, c.message)
			}
		})
	}
}

func bonds(reason, message string, interfaces ...any) *nmstate.Policy {
	row := &nmstate.Policy{Meta: operatortest.Meta("policy", 0), Reason: reason, Message: message}
	row.Spec.Reference = nmstate.Reference{Kind: "NodeNetworkConfigurationPolicy", Name: "bonds"}
	row.Spec.Desired = map[string]any{"interfaces": interfaces}
	return row
}

func TestLinkCondition_DeviceMissing_PolicyNamed(t *testing.T) {
	device := func(name, kind, state string) any { return map[string]any{"name": name, "type": kind, "state": state} }
	complains := func(reason string) *multinet.LinkReport {
		return reportOf("a", multinet.LinkFailure{LinkID: multinet.LinkID{Device: "bond0"}, Reason: reason, Message: "the node has no device bond0"})
	}
	const lacking = "1 node(s) lack VLAN 100 on bond0: a (%s); the first says: the node has no device bond0"
	for name, c := range map[string]struct {
		reason string
		policy *nmstate.Policy
		says   string
	}{
		"that failed": {
			v1alpha1.ParentMissingReason, bonds("FailedToConfigure", "1 of 3 nodes failed", device("eth1", "ethernet", "up"), device("bond0", "bond", "up")),
			"; NodeNetworkConfigurationPolicy bonds would make it: FailedToConfigure, 1 of 3 nodes failed",
		},
		"that says nothing": {
			v1alpha1.ParentMissingReason, bonds("", "", map[string]any{"name": "bond0"}),
			"; NodeNetworkConfigurationPolicy bonds would make it: it has no status yet",
		},
		"another device":    {v1alpha1.ParentMissingReason, bonds("", "", device("bond1", "bond", "up")), ""},
		"it removes it":     {v1alpha1.ParentMissingReason, bonds("", "", device("bond0", "bond", "absent")), ""},
		"it ignores it":     {v1alpha1.ParentMissingReason, bonds("", "", device("bond0", "bond", "ignore")), ""},
		"hardware":          {v1alpha1.ParentMissingReason, bonds("", "", device("bond0", "ethernet", "up")), ""},
		"no document":       {v1alpha1.ParentMissingReason, bonds("", "", "bond0"), ""},
		"another complaint": {v1alpha1.KernelUnsupportedReason, bonds("", "", device("bond0", "bond", "up")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			network := net(multinet.KindDanmNet, "a", "net", 0, func(n *multinet.Network) { n.HostDevice, n.VLAN = "bond0", 100 })
			operatortest.New(t, nodeRow("a"), complains(c.reason), c.policy, network).View(func(tx store.ReadTx) {
				if want, got := fmt.Sprintf(lacking, c.reason)+c.says, linkOf(tx, network).message; got != want {
					t.Errorf("got  %q\nwant %q", got, want)
				}
				w := watch{kind: outside.Networks[0]}
				if requests := w.ofPolicy(tx, nil, c.policy); (len(requests) == 1) != makes(c.policy, "bond0") {
					t.Errorf("the policy requests %v", requests)
				}
			})
		})
	}
}

// TestLinkCondition_NetworkLeavesVLAN_Gone: it goes when the network leaves its VLAN.
func TestLinkCondition_NetworkLeavesVLAN_Gone(t *testing.T) {
	status := &danmv1.NetworkStatus{}
	setStatus(status, 1, decision{link: &linkState{message: "1 node(s) lack it"}})
	got := meta.FindStatusCondition(status.Conditions, v1alpha1.HostLinkCondition)
	if got == nil || got.Status != "False" || got.Reason != v1alpha1.HostLinkFailedReason || got.Message != "1 node(s) lack it" {
		t.Errorf("condition %+v", got)
	}
	setStatus(status, 1, decision{link: &linkState{complete: true}})
	if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.HostLinkCondition) {
		t.Errorf("conditions %+v", status.Conditions)
	}
	setStatus(status, 1, decision{})
	if got := meta.FindStatusCondition(status.Conditions, v1alpha1.HostLinkCondition); got != nil {
		t.Errorf("condition %+v of a network without a link", got)
	}
}
