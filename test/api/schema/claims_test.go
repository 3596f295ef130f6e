// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

func addressOf(vpc, ip string) *v1alpha1.Address {
	return &v1alpha1.Address{
		ObjectMeta: named(v1alpha1.AddressName(vpc, netip.MustParseAddr(ip))),
		Spec: v1alpha1.AddressSpec{
			VPC: vpc, Subnet: "net1", IP: ip, MAC: "02:0a:0a:0a:01:05", Node: "node-a", Attachment: "eth0", Set: []string{ip},
			Holder: v1alpha1.AddressHolder{Kind: v1alpha1.HolderPod, Namespace: "customer-a", Name: "web-0", UID: "3f0c"},
		},
	}
}

func address() *v1alpha1.Address { return addressOf("v", "10.10.1.5") }

// spelled makes the Address of an IP whose text is not canonical.
func spelled(name, ip string) func(*v1alpha1.Address) {
	return func(a *v1alpha1.Address) { a.Name, a.Spec.IP, a.Spec.Set = name, ip, []string{ip} }
}

func TestAddressIsChecked(t *testing.T) {
	const (
		tie       = "metadata.name must be <spec.vpc>.<spec.ip>"
		canonical = "must be an IP address in canonical form"
		holder    = "a Pod or Service has a namespace, a Node has none"
		placed    = "a Pod or Node has spec.node, spec.mac and spec.attachment, a Service has none of them"
	)
	node := func(a *v1alpha1.Address) {
		a.Spec.Holder = v1alpha1.AddressHolder{Kind: v1alpha1.HolderNode, Name: "node-a", UID: "77"}
	}
	service := func(a *v1alpha1.Address) {
		a.Spec.MAC, a.Spec.Node, a.Spec.Attachment = "", "", ""
		a.Spec.Holder.Kind = v1alpha1.HolderService
	}
	checkCreations(t, address, []creation[*v1alpha1.Address]{
		{"as it is", nil, ""},
		{"another VPC's name", func(a *v1alpha1.Address) { a.Spec.VPC = "w" }, tie},
		{"another IP's name", func(a *v1alpha1.Address) { a.Name = "v.10.10.1.6" }, tie},
		{"a name of its own", func(a *v1alpha1.Address) { a.Name = "mine" }, tie},
		{"IPv6 with colons written out", spelled("v.fd10-10--1-5", "fd10:10:0:0::1:5"), canonical},
		{"IPv6 in capitals", spelled("v.fd10--a", "FD10::A"), canonical},
		{"IPv4 in IPv6", spelled("v.0--ffff-10.10.1.5", "::ffff:10.10.1.5"), canonical},
		{"leading zeros", spelled("v.10.10.1.05", "10.10.1.05"), canonical},
		{"a zone", spelled("v.fe80--1", "fe80::1%eth0"), canonical},
		{"a set without itself", func(a *v1alpha1.Address) { a.Spec.Set = []string{"fd10::5"} }, "spec.set must contain spec.ip"},
		{"a set of both families", func(a *v1alpha1.Address) { a.Spec.Set = []string{"10.10.1.5", "fd10::5"} }, ""},
		{"a set of three", func(a *v1alpha1.Address) { a.Spec.Set = []string{"10.10.1.5", "fd10::5", "fd10::6"} }, "must have at most 2 items"},
		{"a MAC in capitals", func(a *v1alpha1.Address) { a.Spec.MAC = "02:0A:0A:0A:01:05" }, "spec.mac"},
		{"no MAC", func(a *v1alpha1.Address) { a.Spec.MAC = "" }, placed},
		{"no node", func(a *v1alpha1.Address) { a.Spec.Node = "" }, placed},
		{"no interface", func(a *v1alpha1.Address) { a.Spec.Attachment = "" }, placed},
		{"no subnet", func(a *v1alpha1.Address) { a.Spec.Subnet = "" }, "spec.subnet"},
		{"an interface name that is too long", func(a *v1alpha1.Address) { a.Spec.Attachment = strings.Repeat("e", 16) }, "spec.attachment"},
		{"no holder's UID", func(a *v1alpha1.Address) { a.Spec.Holder.UID = "" }, "spec.holder.uid"},
		{"a holder of another kind", func(a *v1alpha1.Address) { a.Spec.Holder.Kind = "Deployment" }, "Unsupported value"},
		{"a node's", node, ""},
		{"a node's in a namespace", func(a *v1alpha1.Address) { node(a); a.Spec.Holder.Namespace = "x" }, holder},
		{"a Service's", service, ""},
		{"a Service's without a namespace", func(a *v1alpha1.Address) { service(a); a.Spec.Holder.Namespace = "" }, holder},
		{"a Service's on a node", func(a *v1alpha1.Address) { service(a); a.Spec.Node = "node-a" }, placed},
		{"a Service's with a MAC", func(a *v1alpha1.Address) { service(a); a.Spec.MAC = "02:0a:0a:0a:01:05" }, placed},
		{"a pod's without a namespace", func(a *v1alpha1.Address) { a.Spec.Holder.Namespace = "" }, holder},
	})
}

func TestAddressNameIsTheOneThatGoMakes(t *testing.T) {
	c := newClient(t)
	for _, ip := range []string{
		"10.0.0.1", "255.255.255.254", "fd10:10:0:1::5", "fd10::", "fd10:0:0:1::", "fd00:1:2:3:4:5:6:7",
		"fd00:0:2:3:4:5:6:7", "2001:db8::1:0:0:1", "fd10::1:0", "fd10:10:a0:1:ffff:ffff:ffff:ffff",
	} {
		t.Run(ip, func(t *testing.T) {
			check(t, c.Create(t.Context(), addressOf("v", ip), client.DryRunAll), "")
			check(t, c.Create(t.Context(), addressOf(strings.Repeat("v", 63), ip), client.DryRunAll), "")
		})
	}
}

func TestAddressNeverChanges(t *testing.T) {
	const fixed = "an Address can't change"
	checkUpdates(t, address, []update[*v1alpha1.Address]{
		{name: "another node", mutate: func(a *v1alpha1.Address) { a.Spec.Node = "node-b" }, want: fixed},
		{name: "another holder", mutate: func(a *v1alpha1.Address) { a.Spec.Holder.UID = "successor" }, want: fixed},
		{name: "another set", mutate: func(a *v1alpha1.Address) { a.Spec.Set = append(a.Spec.Set, "fd10::5") }, want: fixed},
		{name: "a label", mutate: func(a *v1alpha1.Address) { a.Labels = map[string]string{"a": "b"} }, want: ""},
	})
}

func TestAddressIsClaimedOnce(t *testing.T) {
	c := newClient(t)
	first, second := addressOf("once", "fd10::"), addressOf("once", "fd10::")
	second.Spec.Holder.UID = "another"
	if err := c.Create(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), second); !apierrors.IsAlreadyExists(err) {
		t.Errorf("the second claim got %v, want AlreadyExists", err)
	}
	if err := c.Create(t.Context(), addressOf("once-more", "fd10::")); err != nil {
		t.Errorf("the same IP in another VPC: %v", err)
	}
}

func TestAddressesAreSelectedByNodeVPCAndSubnet(t *testing.T) {
	c := newClient(t)
	for i, placed := range []struct{ vpc, subnet, node string }{
		{"sel-a", "s1", "sel-n1"}, {"sel-a", "s2", "sel-n2"}, {"sel-b", "s3", "sel-n1"},
	} {
		a := addressOf(placed.vpc, fmt.Sprintf("10.9.0.%d", i+1))
		a.Spec.Subnet, a.Spec.Node = "sel-"+placed.subnet, placed.node
		if err := c.Create(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		fields client.MatchingFields
		want   []string
	}{
		{client.MatchingFields{"spec.node": "sel-n1"}, []string{"sel-a.10.9.0.1", "sel-b.10.9.0.3"}},
		{client.MatchingFields{"spec.vpc": "sel-a"}, []string{"sel-a.10.9.0.1", "sel-a.10.9.0.2"}},
		{client.MatchingFields{"spec.subnet": "sel-s3"}, []string{"sel-b.10.9.0.3"}},
		{client.MatchingFields{"spec.vpc": "sel-a", "spec.node": "sel-n1"}, []string{"sel-a.10.9.0.1"}},
		{client.MatchingFields{"spec.node": "nowhere"}, nil},
	} {
		list := new(v1alpha1.AddressList)
		if err := c.List(t.Context(), list, tt.fields); err != nil {
			t.Fatalf("%v: %v", tt.fields, err)
		}
		var names []string
		for _, item := range list.Items {
			names = append(names, item.Name)
		}
		slices.Sort(names)
		if diff := cmp.Diff(tt.want, names); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.fields, diff)
		}
	}
}

func claimOf(vni int32) *v1alpha1.VNIClaim {
	return &v1alpha1.VNIClaim{
		ObjectMeta: named(v1alpha1.VNIClaimName(uint32(vni))),
		Spec:       v1alpha1.VNIClaimSpec{VNI: vni, VPC: "v", VPCUID: "88"},
	}
}

func claim() *v1alpha1.VNIClaim { return claimOf(4711) }

func TestVNIClaimIsChecked(t *testing.T) {
	const tie = "metadata.name must be vni-<spec.vni>"
	checkCreations(t, claim, []creation[*v1alpha1.VNIClaim]{
		{"as it is", nil, ""},
		{"the least", func(c *v1alpha1.VNIClaim) { *c = *claimOf(1) }, ""},
		{"the greatest", func(c *v1alpha1.VNIClaim) { *c = *claimOf(1<<24 - 1) }, ""},
		{"none", func(c *v1alpha1.VNIClaim) { *c = *claimOf(0) }, "spec.vni"},
		{"more than 24 bits", func(c *v1alpha1.VNIClaim) { *c = *claimOf(1 << 24) }, "less than or equal to 16777215"},
		{"another VNI's name", func(c *v1alpha1.VNIClaim) { c.Name = "vni-4712" }, tie},
		{"a name with leading zeros", func(c *v1alpha1.VNIClaim) { c.Name = "vni-04711" }, tie},
		{"a name of its own", func(c *v1alpha1.VNIClaim) { c.Name = "mine" }, tie},
		{"no VPC", func(c *v1alpha1.VNIClaim) { c.Spec.VPC = "" }, "spec.vpc"},
		{"no VPC's UID", func(c *v1alpha1.VNIClaim) { c.Spec.VPCUID = "" }, "spec.vpcUID"},
	})
}

func TestVNIClaimNeverChanges(t *testing.T) {
	c := newClient(t)
	object := claimOf(99)
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	object.Spec.VPCUID = "successor"
	check(t, c.Update(t.Context(), object, client.DryRunAll), "a VNIClaim can't change")
}

func rollCall() *v1alpha1.RollCall {
	return &v1alpha1.RollCall{ObjectMeta: named("node.node-a"), Spec: v1alpha1.RollCallSpec{Call: "c", VNIs: []int32{1, 1<<24 - 1}}}
}

func TestRollCallIsChecked(t *testing.T) {
	const name = "metadata.name must be operator, which has no VNIs, or node.<name of a Node>"
	checkCreations(t, rollCall, []creation[*v1alpha1.RollCall]{
		{"a node's answer", nil, ""},
		{"the answer of a node that holds nothing", func(r *v1alpha1.RollCall) { r.Spec.VNIs = nil }, ""},
		{"the answer of the node with the longest name", func(r *v1alpha1.RollCall) {
			r.Name = v1alpha1.NodeRollCall(strings.Repeat("n", v1alpha1.MaxNodeName))
		}, ""},
		{"of one with a longer name", func(r *v1alpha1.RollCall) {
			r.Name = v1alpha1.NodeRollCall(strings.Repeat("n", v1alpha1.MaxNodeName+1))
		}, "metadata.name"},
		{"the operator's question", func(r *v1alpha1.RollCall) { r.Name, r.Spec.VNIs = v1alpha1.OperatorRollCall, nil }, ""},
		{"a question with VNIs", func(r *v1alpha1.RollCall) { r.Name = v1alpha1.OperatorRollCall }, name},
		{"another name", func(r *v1alpha1.RollCall) { r.Name = "node-a" }, name},
		{"no call", func(r *v1alpha1.RollCall) { r.Spec.Call = "" }, "spec.call"},
		{"a call that is too long", func(r *v1alpha1.RollCall) { r.Spec.Call = strings.Repeat("c", 65) }, "spec.call"},
		{"a VNI twice", func(r *v1alpha1.RollCall) { r.Spec.VNIs = []int32{5, 5} }, "Duplicate value"},
		{"no VNI", func(r *v1alpha1.RollCall) { r.Spec.VNIs = []int32{0} }, "spec.vnis"},
	})
}
