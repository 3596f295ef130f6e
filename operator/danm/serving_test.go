// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package danm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/operator/verdict"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/outside"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// everything serves all types that there are.
var everything = Serving{
	Kinds: []string{multinet.TypeIPVLAN, multinet.TypeMACVLAN, multinet.TypeSRIOV}, VPCTypes: []string{"flannel"}, Delegation: true,
}

func lacks(node string, id multinet.LinkID) *multinet.LinkReport {
	return reportOf(node, multinet.LinkFailure{LinkID: id, Reason: v1alpha1.ParentMissingReason, Message: "the node has no device " + id.Device})
}

// files returns the report of a node with configurations.
func files(node string, ids ...string) *multinet.LinkReport {
	report := reportOf(node)
	report.Configured, report.Configurations = true, ids
	return report
}

func TestNetworkReady_EachKind_OnlyIfPodsServable(t *testing.T) {
	device := multinet.LinkID{Device: "ens7"}
	leaving := nodeRow("b")
	leaving.Deleting = true
	offering := nodeRow("b")
	offering.Pools = []string{pool4}
	grant := &multinet.Grant{
		Meta: operatortest.Meta("grant", 0), Name: "grant", Namespaces: []string{"a"},
		Networks: []string{"ClusterNetwork/net"}, Plugins: []string{"Bridge"},
	}
	onDevice := func(n *multinet.Network) { n.HostDevice = "ens7" }
	pooled := func(n *multinet.Network) { n.Type, n.DevicePool = multinet.TypeSRIOV, pool4 }
	static := func(n *multinet.Network) { n.Type = "bridge" }
	tagged := func(n *multinet.Network) { n.HostDevice, n.VLAN = "ens7", 9 }
	for name, c := range map[string]struct {
		serving Serving
		change  func(*multinet.Network)
		rows    []any
		reason  string
		says    string
	}{
		"a device":                       {everything, onDevice, []any{nodeRow("a")}, v1alpha1.ReadyReason, "pods may use it"},
		"a device, before any node":      {everything, onDevice, nil, v1alpha1.ReadyReason, ""},
		"a device that all nodes lack":   {everything, onDevice, []any{nodeRow("a"), nodeRow("b"), lacks("a", device), lacks("b", device)}, v1alpha1.NoServingNodeReason, "no node can serve it: 2 node(s) lack device ens7: a (ParentMissing), b (ParentMissing); the first says: the node has no device ens7"},
		"a device that one node has":     {everything, onDevice, []any{nodeRow("a"), nodeRow("b"), lacks("a", device)}, v1alpha1.ReadyReason, ""},
		"the other node leaves":          {everything, onDevice, []any{nodeRow("a"), leaving, lacks("a", device)}, v1alpha1.NoServingNodeReason, "1 node(s) lack device ens7"},
		"a link that no kernel has":      {everything, tagged, []any{nodeRow("a"), lacks("a", multinet.LinkID{Type: multinet.VLAN})}, v1alpha1.NoServingNodeReason, "VLAN 9 on ens7"},
		"no device in the network":       {everything, func(*multinet.Network) {}, nil, v1alpha1.NetworkTypeReason, "set spec.Options.host_device"},
		"virtual functions are off":      {Serving{Kinds: []string{"ipvlan", "macvlan"}}, pooled, []any{offering}, v1alpha1.NetworkTypeReason, "multiNetwork.sriov.enabled"},
		"no virtual function":            {everything, pooled, []any{nodeRow("a")}, v1alpha1.NoServingNodeReason, "no node offers devices of " + pool4},
		"virtual functions of a node":    {everything, pooled, []any{nodeRow("a"), offering}, v1alpha1.ReadyReason, ""},
		"plugins are off":                {Serving{}, static, []any{grant}, v1alpha1.NetworkTypeReason, "multiNetwork.delegation.enabled"},
		"a plugin without a grant":       {everything, func(n *multinet.Network) { n.Type = "ptp" }, []any{grant}, v1alpha1.DelegationNotGrantedReason, `no DelegationGrant names it or its namespace with the plugin "ptp"`},
		"a plugin with a grant":          {everything, static, []any{grant}, v1alpha1.ReadyReason, ""},
		"no node has the plugin's file":  {everything, static, []any{grant, nodeRow("a"), nodeRow("b"), files("a", "other"), files("b")}, v1alpha1.PluginFileMissingReason, "no node has the file net.conflist or net.conf"},
		"a node has not told its files":  {everything, static, []any{grant, nodeRow("a"), nodeRow("b"), files("a")}, v1alpha1.ReadyReason, ""},
		"one node has the plugin's file": {everything, static, []any{grant, nodeRow("a"), nodeRow("b"), files("a"), files("b", "net")}, v1alpha1.ReadyReason, ""},
		"a type that stands for the VPC": {everything, func(n *multinet.Network) { n.Type = "flannel" }, nil, v1alpha1.ReadyReason, ""},
	} {
		for _, kind := range []string{multinet.KindDanmNet, multinet.KindTenantNetwork, multinet.KindClusterNetwork} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				namespace := "a"
				if kind == multinet.KindClusterNetwork {
					namespace = ""
				}
				network := net(kind, namespace, "net", 0, c.change)
				network.Profiled = true
				operatortest.New(t, append(slices.Clone(c.rows), network)...).View(func(tx store.ReadTx) {
					right := decision{Verdict: verdict.Use("pods may use it"), link: linkOf(tx, network)}
					d := c.serving.judge(tx, network, right)
					if d.Reason != c.reason || d.IsReady() != (c.reason == v1alpha1.ReadyReason) || !strings.Contains(d.Message, c.says) {
						t.Errorf("%s: %s, want %s with %q", d.Reason, d.Message, c.reason, c.says)
					}
					wrong := decision{Verdict: verdict.Refuse(v1alpha1.InvalidReason, "it is wrong")}
					if d := c.serving.judge(tx, network, wrong); d.Reason != wrong.Reason || d.IsReady() {
						t.Errorf("a network that is wrong has %s: %s", d.Reason, d.Message)
					}
				})
			})
		}
	}
}

func TestNetworkRequests_ServingObjectChanges_OnlyItsNetworks(t *testing.T) {
	onDevice := net(multinet.KindDanmNet, "a", "device", 0, func(n *multinet.Network) { n.HostDevice = "ens7" })
	pooled := net(multinet.KindDanmNet, "a", "pooled", 0, func(n *multinet.Network) { n.Type, n.DevicePool = multinet.TypeSRIOV, pool4 })
	static := net(multinet.KindDanmNet, "a", "static", 0, func(n *multinet.Network) { n.Type = "bridge" })
	plain, offering, leaving := nodeRow("b"), nodeRow("b"), nodeRow("b")
	offering.Pools, leaving.Deleting = []string{pool4}, true
	grant := &multinet.Grant{Meta: operatortest.Meta("grant", 0), Name: "grant", Namespaces: []string{"a"}, Plugins: []string{"bridge"}}
	other := &multinet.Grant{Meta: operatortest.Meta("other", 0), Name: "other", Namespaces: []string{"b"}, Plugins: []string{"bridge"}}
	s := operatortest.New(t, onDevice, pooled, static, net(multinet.KindDanmNet, "a", "other", 0, func(n *multinet.Network) { n.HostDevice = "ens8" }),
		nodeRow("a"), lacks("a", multinet.LinkID{Device: "ens7"}))
	w := watch{kind: outside.Networks[0]}
	s.View(func(tx store.ReadTx) {
		for name, c := range map[string]struct {
			got  []feed.Request
			want string
		}{
			"a node comes":                 {w.ofNode(tx, nil, plain), "device"},
			"a node goes":                  {w.ofNode(tx, plain, nil), "device"},
			"a node begins to go":          {w.ofNode(tx, plain, leaving), "device"},
			"a node changes":               {w.ofNode(tx, plain, plain), ""},
			"a node offers devices":        {w.ofNode(tx, plain, offering), "pooled"},
			"a node with devices goes":     {w.ofNode(tx, offering, nil), "device pooled"},
			"a grant comes":                {w.ofGrant(tx, nil, grant), "static"},
			"a grant goes":                 {w.ofGrant(tx, grant, nil), "static"},
			"a grant is for others now":    {w.ofGrant(tx, grant, other), "static"},
			"a grant for others":           {w.ofGrant(tx, nil, other), ""},
			"a file comes":                 {w.ofReport(tx, files("b", "x"), files("b", "net", "x")), "static"},
			"a file goes":                  {w.ofReport(tx, files("b", "net"), files("b")), "static"},
			"the file of another network":  {w.ofReport(tx, files("b"), files("b", "x")), ""},
			"a node tells its files first": {w.ofReport(tx, nil, files("b")), "static"},
			"a report about the device":    {w.ofReport(tx, nil, lacks("b", multinet.LinkID{Device: "ens7"})), "device"},
			"a report about other devices": {w.ofReport(tx, lacks("b", multinet.LinkID{Device: "ens9"}), nil), ""},
		} {
			var names []string
			for _, request := range c.got {
				names = append(names, request.Name)
			}
			slices.Sort(names)
			if got := strings.Join(slices.Compact(names), " "); got != c.want {
				t.Errorf("%s: requests %q, want %q", name, got, c.want)
			}
		}
	})
}

// BenchmarkTheDevicesOfManyNodes: reports about another device cost a network nothing.
func BenchmarkTheDevicesOfManyNodes(b *testing.B) {
	rows := []any{net(multinet.KindDanmNet, "a", "net", 0, func(n *multinet.Network) { n.HostDevice = "ens7" })}
	for i := range 2000 {
		name := fmt.Sprint("node-", i)
		rows = append(rows, nodeRow(name), lacks(name, multinet.LinkID{Device: "ens9"}))
	}
	network := rows[0].(*multinet.Network)
	operatortest.New(b, rows...).View(func(tx store.ReadTx) {
		for b.Loop() {
			if link := linkOf(tx, network); !link.complete {
				b.Fatal(link.message)
			}
		}
	})
}
