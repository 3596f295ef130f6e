// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
)

func ofNode(uid string, set ...string) *store.Address {
	row := operatortest.Address("default", "s", "10.0.0.9", &store.Pod{}, set...)
	row.Holder = store.Holder{Kind: store.HolderNode, Name: "node-1", UID: uid}
	row.Attachment = "alioth_node"
	return row
}

func TestDecide_Node_OneSetOfAddresses(t *testing.T) {
	node := &store.Node{Meta: operatortest.Meta("n1", 0), Name: "node-1"}
	leaving := &store.Node{Meta: operatortest.Meta("n1", 0), Name: "node-1"}
	leaving.Deleting = true
	vpc := operatortest.VPC("default", 1, nil, "10.0.0.0/16")
	unready := *vpc
	unready.Ready = false
	subnet := operatortest.Subnet("s", "default", "s", 0, "10.0.0.0/24")
	second := ofNode("n1")
	second.Name, second.IP, second.Set = "default.10.0.0.8", operatortest.Addrs("10.0.0.8")[0], operatortest.Addrs("10.0.0.8")
	assumed := ofNode("n1")
	assumed.UID = ""
	for _, tc := range []struct {
		name    string
		rows    []any
		claim   bool
		release int
	}{
		{name: "a new node", rows: []any{node, vpc, subnet}, claim: true},
		{name: "no default VPC", rows: []any{node}},
		{name: "a default VPC that is not ready", rows: []any{node, &unready, subnet}},
		{name: "a default VPC without a subnet", rows: []any{node, vpc}},
		{name: "a node that is being deleted", rows: []any{leaving, vpc, subnet}},
		{name: "a node that has its address", rows: []any{node, vpc, subnet, ofNode("n1")}},
		{name: "a node that has half of a set", rows: []any{node, vpc, subnet, ofNode("n1", "fd00::9")}, claim: true},
		{name: "a node that has two sets", rows: []any{node, vpc, subnet, ofNode("n1"), second}, claim: true},
		{name: "a node whose address is not created yet", rows: []any{node, vpc, subnet, assumed}, claim: true},
		{name: "a node of a name that another one had", rows: []any{node, vpc, subnet, ofNode("earlier")}, claim: true, release: 1},
		{name: "a node that is gone", rows: []any{vpc, subnet, ofNode("n1")}, release: 1},
		{name: "a pod's address on a node that is gone", rows: []any{vpc, subnet, operatortest.Address("default", "s", "10.0.0.9", &store.Pod{})}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			operatortest.New(t, tc.rows...).View(func(tx store.ReadTx) {
				d := decide(tx, "node-1", "default")
				if d.claim != tc.claim || len(d.release) != tc.release {
					t.Errorf("claim %v, release %v; want %v, %d", d.claim, d.release, tc.claim, tc.release)
				}
				if d.claim && (d.request.Holder.UID != "n1" || d.request.Holder.Kind != store.HolderNode || d.request.VPC != "default" ||
					d.request.Attachment != "alioth_node" || d.request.Node != "node-1") {
					t.Errorf("request is %+v", d.request)
				}
			})
		})
	}
}

func TestDecide_NodeReportsForeignAddresses_Doubted(t *testing.T) {
	report := func(name string, age int, ips ...string) *store.Node {
		return &store.Node{Meta: operatortest.Meta(name, age), Name: name, AllAddresses: operatortest.Addrs(ips...)}
	}
	vpc, subnet := operatortest.VPC("default", 1, nil, "10.0.0.0/16"), operatortest.Subnet("s", "default", "s", 0, "10.0.0.0/24")
	for name, c := range map[string]struct {
		rows []any
		want []string
	}{
		"addresses of its own":            {[]any{report("node-1", 5, "192.0.2.1", "2001:db8::1"), report("node-2", 1, "192.0.2.2")}, nil},
		"one of an older node":            {[]any{report("node-1", 5, "192.0.2.1", "192.0.2.2"), report("node-2", 1, "192.0.2.2")}, []string{"that of node node-2"}},
		"one of a younger node":           {[]any{report("node-1", 1, "192.0.2.2"), report("node-2", 5, "192.0.2.2")}, nil},
		"one of Services":                 {[]any{report("node-1", 5, "10.96.0.1"), &store.ServiceCIDR{Name: "k", Prefixes: operatortest.Prefixes("10.96.0.0/16")}}, []string{"of Services"}},
		"one of the default VPC":          {[]any{report("node-1", 5, "10.0.7.7"), vpc, subnet}, []string{"10.0.0.0/16 of the default VPC"}},
		"one of a VPC that serves nobody": {[]any{report("node-1", 5, "10.0.7.7"), vpc}, nil},
		"one of another VPC":              {[]any{report("node-1", 5, "10.7.0.1"), operatortest.VPC("blue", 7, nil, "10.7.0.0/16")}, nil},
		"more than count":                 {[]any{&store.Node{Meta: operatortest.Meta("node-1", 5), Name: "node-1", AllAddresses: operatortest.Addrs("192.0.2.1"), IgnoredAddresses: 7}}, []string{"reports 8 addresses, of which the last 7 do not count"}},
		"many":                            {[]any{report("node-1", 5, "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"), vpc, subnet}, []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}},
	} {
		t.Run(name, func(t *testing.T) {
			operatortest.New(t, c.rows...).View(func(tx store.ReadTx) {
				d := decide(tx, "node-1", "default")
				if len(d.doubts) != len(c.want) {
					t.Fatalf("%d doubts, want %v", len(d.doubts), c.want)
				}
				for i, doubt := range d.doubts {
					if doubt.Reason != v1alpha1.NodeAddressDoubtedReason || !strings.Contains(doubt.Message, c.want[i]) {
						t.Errorf("doubt %d is %+v, want %q", i, *doubt, c.want[i])
					}
				}
			})
		})
	}
}
