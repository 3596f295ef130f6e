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
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/netif"
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

func TestAddress_WrongValue_Refused(t *testing.T) {
	const (
		tie       = "metadata.name must be <spec.vpc>.<spec.ip>"
		canonical = "must be an IP address in canonical form"
		host      = "must be the address of one host"
		station   = "must be the address of one station"
		listed    = "only an address of the first interface, with spec.config, has spec.interfaces"
		holder    = "a Pod or Service has a namespace, a Node has none"
		driver    = "only an address of a Pod in a VPC has spec.driver"
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
		{"no address", spelled("v.0.0.0.0", "0.0.0.0"), host},
		{"no address of IPv6", spelled("v.--0", "::"), host},
		{"all hosts", spelled("v.255.255.255.255", "255.255.255.255"), host},
		{"many hosts", spelled("v.224.0.0.1", "224.0.0.1"), host},
		{"many hosts of IPv6", spelled("v.ff02--1", "ff02::1"), host},
		{"the host itself", spelled("v.127.0.0.1", "127.0.0.1"), host},
		{"a set with no address", func(a *v1alpha1.Address) { a.Spec.Set = []string{"10.10.1.5", "::"} }, "each entry must be the address of one host"},
		{"a set of one family", func(a *v1alpha1.Address) { a.Spec.Set = []string{"10.10.1.5", "10.10.1.6"} }, "at most one address per family"},
		{"a MAC of many stations", func(a *v1alpha1.Address) { a.Spec.MAC = "01:00:5e:00:00:01" }, station},
		{"no MAC", func(a *v1alpha1.Address) { a.Spec.MAC = "00:00:00:00:00:00" }, station},
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
		{"of another CNI plugin", func(a *v1alpha1.Address) { a.Spec.Driver = "external" }, ""},
		{"of another driver", func(a *v1alpha1.Address) { a.Spec.Driver = "veth" }, "spec.driver"},
		{"a node's of another CNI plugin", func(a *v1alpha1.Address) { node(a); a.Spec.Driver = "external" }, driver},
		{"a pod's without a namespace", func(a *v1alpha1.Address) { a.Spec.Holder.Namespace = "" }, holder},
		{"with a configuration", func(a *v1alpha1.Address) { a.Spec.Config = &netif.VPCConfig{AltName: "web", NoDefaultRoute: true} }, ""},
		{
			"a node's with a configuration",
			func(a *v1alpha1.Address) { node(a); a.Spec.Config = &netif.VPCConfig{} },
			"only an address of a Pod in a VPC has spec.config",
		},
		{"with all interfaces", func(a *v1alpha1.Address) {
			a.Spec.Config, a.Spec.Interfaces = &netif.VPCConfig{}, []string{"eth0", "net1"}
		}, ""},
		{"all interfaces without a configuration", func(a *v1alpha1.Address) { a.Spec.Interfaces = []string{"eth0"} }, listed},
		{"of the second interface with all of them", func(a *v1alpha1.Address) {
			a.Spec.Attachment, a.Spec.Config, a.Spec.Interfaces = "net1", &netif.VPCConfig{}, []string{"eth0", "net1"}
		}, listed},
	})
}

// inNetwork returns an Address of a network outside of every VPC.
func inNetwork(ip string) *v1alpha1.Address {
	a := addressOf("0b9e-1.net", ip)
	a.Spec.VPC, a.Spec.Subnet, a.Spec.Network = "", "", reference("DanmNet", "internal")
	return a
}

func reference(kind, name string) *v1alpha1.NetworkReference {
	return &v1alpha1.NetworkReference{Group: "danm.k8s.io", Kind: kind, Namespace: "customer-a", Name: name, UID: "0b9e-1"}
}

func TestNetworkAddress_WrongValue_Refused(t *testing.T) {
	const tie, one, uid = "metadata.name must be <spec.network.uid>.net.<spec.ip>", "exactly one of spec.vpc and spec.network", "spec.network.uid"
	checkCreations(t, func() *v1alpha1.Address { return inNetwork("10.10.1.5") }, []creation[*v1alpha1.Address]{
		{"as it is", nil, ""},
		{"IPv6", func(a *v1alpha1.Address) { *a = *inNetwork("fd10::") }, ""},
		{"of the cluster", func(a *v1alpha1.Address) { a.Spec.Network.Kind, a.Spec.Network.Namespace = "ClusterNetwork", "" }, ""},
		{"of an unknown group", func(a *v1alpha1.Address) { a.Spec.Network.Group = "" }, ""},
		{"in a VPC too", func(a *v1alpha1.Address) { a.Spec.VPC = "v" }, one},
		{"in a VPC and a subnet too", func(a *v1alpha1.Address) { a.Spec.VPC, a.Spec.Subnet = "v", "net1" }, one},
		{"neither in a VPC nor in a network", func(a *v1alpha1.Address) { a.Spec.Network = nil }, one},
		{"with a subnet", func(a *v1alpha1.Address) { a.Spec.Subnet = "net1" }, "an address of a VPC has spec.subnet"},
		{"the name of another network", func(a *v1alpha1.Address) { a.Spec.Network.UID = "0b9e-2" }, tie},
		{"the name without .net", func(a *v1alpha1.Address) { a.Name = "0b9e-1.10.10.1.5" }, tie},
		{"a VPC's name", func(a *v1alpha1.Address) { a.Name = "v.10.10.1.5" }, tie},
		{"another IP's name", func(a *v1alpha1.Address) { a.Spec.IP, a.Spec.Set = "10.10.1.6", []string{"10.10.1.6"} }, tie},
		{"a UID with a dot", func(a *v1alpha1.Address) { a.Name, a.Spec.Network.UID = "a.b.net.10.10.1.5", "a.b" }, uid},
		{"no UID", func(a *v1alpha1.Address) { a.Name, a.Spec.Network.UID = "net.10.10.1.5", "" }, uid},
		{"no kind", func(a *v1alpha1.Address) { a.Spec.Network.Kind = "" }, "spec.network.kind"},
		{"of another CNI plugin", func(a *v1alpha1.Address) { a.Spec.Driver = "external" }, "only an address of a Pod in a VPC has spec.driver"},
		{"a Service's", func(a *v1alpha1.Address) {
			a.Spec.MAC, a.Spec.Node, a.Spec.Attachment, a.Spec.Holder.Kind = "", "", "", v1alpha1.HolderService
		}, "only a Pod has addresses of a network"},
	})
	checkUpdates(t, func() *v1alpha1.Address { return inNetwork("10.10.1.9") }, []update[*v1alpha1.Address]{
		{name: "another network", mutate: func(a *v1alpha1.Address) { a.Spec.Network.Name = "external" }, want: "an Address can't change"},
		{name: "a VPC", mutate: func(a *v1alpha1.Address) { a.Spec.VPC, a.Spec.Subnet, a.Spec.Network = "v", "net1", nil }, want: "an Address can't change"},
	})
}

func TestAddressSelector_Network_MatchesItsAddresses(t *testing.T) {
	c := newClient(t)
	for i, name := range []string{"sel-x", "sel-y"} {
		a := inNetwork(fmt.Sprintf("10.9.7.%d", i+1))
		a.Spec.Network.Name = name
		if err := c.Create(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	list := new(v1alpha1.AddressList)
	if err := c.List(t.Context(), list, client.MatchingFields{
		"spec.network.kind": "DanmNet", "spec.network.namespace": "customer-a", "spec.network.name": "sel-y",
	}); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].Name != "0b9e-1.net.10.9.7.2" {
		t.Errorf("%d selected: %v", len(list.Items), list.Items)
	}
}

func attachmentClaim() *v1alpha1.AttachmentClaim { return attachmentClaimOf("net1") }

func attachmentClaimOf(iface string) *v1alpha1.AttachmentClaim {
	c := &v1alpha1.AttachmentClaim{
		ObjectMeta: named(v1alpha1.AttachmentClaimName("3f0c", iface)),
		Spec: v1alpha1.AttachmentClaimSpec{
			Pod: v1alpha1.AttachmentPod{Name: "web-0", UID: "3f0c"}, Node: "node-a", Interface: iface, Driver: "macvlan",
			Network: *reference("DanmNet", "internal"), Config: &runtime.RawExtension{Raw: []byte(`{"name": "net1", "kind": "macvlan", "outsideUID": "77", "link": {"parent": "ens4", "new": 1}}`)},
			ConfigHash: strings.Repeat("0f", 32), Addresses: []string{"10.10.1.5/24"},
		},
	}
	c.Namespace = "default"
	return c
}

func TestAttachmentClaim_WrongValue_Refused(t *testing.T) {
	const tie = "metadata.name must be <spec.pod.uid>.<spec.interface>"
	checkCreations(t, attachmentClaim, []creation[*v1alpha1.AttachmentClaim]{
		{"as it is", nil, ""},
		{"an interface that is no label", func(c *v1alpha1.AttachmentClaim) { *c = *attachmentClaimOf("Ext_1.300") }, ""},
		{"an interface that ends in a hyphen", func(c *v1alpha1.AttachmentClaim) { *c = *attachmentClaimOf("ext-") }, ""},
		{"the longest interface", func(c *v1alpha1.AttachmentClaim) { *c = *attachmentClaimOf("E23456789.12345") }, ""},
		{"an interface that is a number", func(c *v1alpha1.AttachmentClaim) { *c = *attachmentClaimOf("0") }, ""},
		{"no addresses", func(c *v1alpha1.AttachmentClaim) { c.Spec.Addresses = nil }, ""},
		{"another pod's name", func(c *v1alpha1.AttachmentClaim) { c.Spec.Pod.UID = "3f0d" }, tie},
		{"another interface's name", func(c *v1alpha1.AttachmentClaim) { c.Spec.Interface = "net2" }, tie},
		{"another interface's digits", func(c *v1alpha1.AttachmentClaim) { *c = *attachmentClaimOf("Ext_1"); c.Spec.Interface = "Ext_2" }, tie},
		{"digits of a label", func(c *v1alpha1.AttachmentClaim) { c.Name = "3f0c.0.6e657431" }, tie},
		{"a UID with a dot", func(c *v1alpha1.AttachmentClaim) {
			c.Spec.Pod.UID, c.Spec.Interface, c.Name = "3f0c.0", "net1", "3f0c.0.net1"
		}, "spec.pod.uid"},
		{"an interface with a path", func(c *v1alpha1.AttachmentClaim) { *c = *attachmentClaimOf("../net") }, "spec.interface"},
		{"an interface name that is too long", func(c *v1alpha1.AttachmentClaim) { *c = *attachmentClaimOf(strings.Repeat("e", 16)) }, "spec.interface"},
		{"a hash that is too short", func(c *v1alpha1.AttachmentClaim) { c.Spec.ConfigHash = "0f" }, "spec.configHash"},
		{"a hash in capitals", func(c *v1alpha1.AttachmentClaim) { c.Spec.ConfigHash = strings.Repeat("0F", 32) }, "spec.configHash"},
		{"no driver", func(c *v1alpha1.AttachmentClaim) { c.Spec.Driver = "" }, "spec.driver"},
		{"no node", func(c *v1alpha1.AttachmentClaim) { c.Spec.Node = "" }, "spec.node"},
		{"no network", func(c *v1alpha1.AttachmentClaim) { c.Spec.Network = v1alpha1.NetworkReference{} }, "spec.network"},
	})
}

// TestAttachmentClaim_OfRelease01_GetsItsConfigurationAlone: the operator adds the configuration to
// claims without one.
func TestAttachmentClaim_OfRelease01_GetsItsConfigurationAlone(t *testing.T) {
	old := func() *v1alpha1.AttachmentClaim { c := attachmentClaim(); c.Spec.Config = nil; return c }
	configured := func(c *v1alpha1.AttachmentClaim) { c.Spec.Config = attachmentClaim().Spec.Config }
	checkUpdates(t, old, []update[*v1alpha1.AttachmentClaim]{
		{name: "the configuration", mutate: configured, want: ""},
		{
			name:   "another hash too",
			mutate: func(c *v1alpha1.AttachmentClaim) { configured(c); c.Spec.ConfigHash = strings.Repeat("0e", 32) },
			want:   "an AttachmentClaim can't change",
		},
		{name: "another node too", mutate: func(c *v1alpha1.AttachmentClaim) { configured(c); c.Spec.Node = "node-9" }, want: "an AttachmentClaim can't change"},
		{
			name:   "other addresses too",
			mutate: func(c *v1alpha1.AttachmentClaim) { configured(c); c.Spec.Addresses = []string{"10.20.1.9/24"} },
			want:   "an AttachmentClaim can't change",
		},
		{name: "no addresses", mutate: func(c *v1alpha1.AttachmentClaim) { c.Spec.Addresses = nil }, want: "an AttachmentClaim can't change"},
	})
}

func TestAttachmentClaim_SpecChanged_Refused(t *testing.T) {
	checkUpdates(t, attachmentClaim, []update[*v1alpha1.AttachmentClaim]{
		{name: "another hash", mutate: func(c *v1alpha1.AttachmentClaim) { c.Spec.ConfigHash = strings.Repeat("0e", 32) }, want: "an AttachmentClaim can't change"},
		{name: "another network", mutate: func(c *v1alpha1.AttachmentClaim) { c.Spec.Network.UID = "0b9e-2" }, want: "an AttachmentClaim can't change"},
		{name: "another configuration", mutate: func(c *v1alpha1.AttachmentClaim) {
			c.Spec.Config.Raw = []byte(`{"name": "net1", "mac": "02:00:00:00:00:01"}`)
		}, want: "an AttachmentClaim can't change"},
		{name: "no configuration", mutate: func(c *v1alpha1.AttachmentClaim) { c.Spec.Config = nil }, want: "an AttachmentClaim can't change"},
		{name: "a label", mutate: func(c *v1alpha1.AttachmentClaim) { c.Labels = map[string]string{"a": "b"} }, want: ""},
		{name: "another list of interfaces", mutate: func(c *v1alpha1.AttachmentClaim) { c.Spec.Interfaces = []string{c.Spec.Interface, "net2"} }, want: ""},
		{
			name:   "the list of another interface",
			mutate: func(c *v1alpha1.AttachmentClaim) { c.Spec.Interfaces = []string{"eth0"} },
			want:   "only the claim of the first interface has spec.interfaces",
		},
	})
}

func TestAddressName_MadeByGo_Accepted(t *testing.T) {
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

func TestAddress_SpecChanged_Refused(t *testing.T) {
	const fixed = "an Address can't change"
	checkUpdates(t, address, []update[*v1alpha1.Address]{
		{name: "another node", mutate: func(a *v1alpha1.Address) { a.Spec.Node = "node-b" }, want: fixed},
		{name: "another holder", mutate: func(a *v1alpha1.Address) { a.Spec.Holder.UID = "successor" }, want: fixed},
		{name: "another set", mutate: func(a *v1alpha1.Address) { a.Spec.Set = append(a.Spec.Set, "fd10::5") }, want: fixed},
		{name: "a label", mutate: func(a *v1alpha1.Address) { a.Labels = map[string]string{"a": "b"} }, want: ""},
	})
}

// TestAddress_Configuration_ChangesAlone: the operator writes it when the interfaces of a pod
// change.
func TestAddress_Configuration_ChangesAlone(t *testing.T) {
	configured := func() *v1alpha1.Address {
		a := address()
		a.Spec.Config, a.Spec.Interfaces = &netif.VPCConfig{AltName: "web"}, []string{"eth0"}
		return a
	}
	checkUpdates(t, address, []update[*v1alpha1.Address]{
		{name: "a configuration", mutate: func(a *v1alpha1.Address) { a.Spec = configured().Spec }, want: ""},
		{
			name:   "another MAC too",
			mutate: func(a *v1alpha1.Address) { a.Spec = configured().Spec; a.Spec.MAC = "02:0a:0a:0a:01:06" },
			want:   "an Address can't change",
		},
	})
	checkUpdates(t, configured, []update[*v1alpha1.Address]{
		{name: "another configuration", mutate: func(a *v1alpha1.Address) { a.Spec.Config = &netif.VPCConfig{NoDefaultRoute: true} }, want: ""},
		{name: "one interface more", mutate: func(a *v1alpha1.Address) { a.Spec.Interfaces = []string{"eth0", "net1"} }, want: ""},
		{name: "no configuration", mutate: func(a *v1alpha1.Address) { a.Spec.Config, a.Spec.Interfaces = nil, nil }, want: "spec.config can't be removed"},
		{name: "another node", mutate: func(a *v1alpha1.Address) { a.Spec.Node = "node-b" }, want: "an Address can't change"},
	})
}

func TestAddress_SecondClaim_AlreadyExists(t *testing.T) {
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

func TestAddressSelector_NodeVPCSubnet_MatchesItsAddresses(t *testing.T) {
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

func TestVNIClaim_WrongValue_Refused(t *testing.T) {
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

func domainOf(number int32) *v1alpha1.DomainClaim {
	return &v1alpha1.DomainClaim{
		ObjectMeta: named(v1alpha1.DomainClaimName(uint32(number))),
		Spec:       v1alpha1.DomainClaimSpec{Number: number, Network: *reference("DanmNet", "internal")},
	}
}

// TestDomainClaim_WrongValue_Refused: no number is a VNI, so no VPC shares a row of a node's table.
func TestDomainClaim_WrongValue_Refused(t *testing.T) {
	const tie = "metadata.name must be domain-<spec.number>"
	domain := func() *v1alpha1.DomainClaim { return domainOf(v1alpha1.MinDomainNumber + 7) }
	checkCreations(t, domain, []creation[*v1alpha1.DomainClaim]{
		{"as it is", nil, ""},
		{"the least", func(c *v1alpha1.DomainClaim) { *c = *domainOf(v1alpha1.MinDomainNumber) }, ""},
		{"the greatest", func(c *v1alpha1.DomainClaim) { *c = *domainOf(v1alpha1.MaxDomainNumber) }, ""},
		{"the greatest VNI", func(c *v1alpha1.DomainClaim) { *c = *domainOf(v1alpha1.MinDomainNumber - 1) }, "greater than or equal to 16777216"},
		{"another number's name", func(c *v1alpha1.DomainClaim) { c.Name = "domain-16777216" }, tie},
		{"a name of its own", func(c *v1alpha1.DomainClaim) { c.Name = "mine" }, tie},
		{"no UID", func(c *v1alpha1.DomainClaim) { c.Spec.Network.UID = "" }, "spec.network.uid"},
	})
}

func TestDomainClaim_SpecChanged_Refused(t *testing.T) {
	c, object := newClient(t), domainOf(v1alpha1.MinDomainNumber+8)
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	object.Spec.Network.UID = "0b9e-2"
	check(t, c.Update(t.Context(), object, client.DryRunAll), "a DomainClaim can't change")
}

func TestVNIClaim_SpecChanged_Refused(t *testing.T) {
	c := newClient(t)
	object := claimOf(99)
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	object.Spec.VPCUID = "successor"
	check(t, c.Update(t.Context(), object, client.DryRunAll), "a VNIClaim can't change")
}

func roleMember() *v1alpha1.RoleMember {
	return &v1alpha1.RoleMember{
		ObjectMeta: named(v1alpha1.RoleMemberName("s-uid", "node-a")),
		Spec: v1alpha1.RoleMemberSpec{
			Role: v1alpha1.RoleBouncer, VPC: "v", VPCUID: "v-uid", Subnet: "s", SubnetUID: "s-uid",
			Node: "node-a", NodeUID: "n-uid", Stage: v1alpha1.StageJoining, Revision: 1,
		},
	}
}

func TestRoleMember_WrongValue_Refused(t *testing.T) {
	const name = "metadata.name must be"
	checkCreations(t, roleMember, []creation[*v1alpha1.RoleMember]{
		{"a bouncer", func(*v1alpha1.RoleMember) {}, ""},
		{"a divider", func(m *v1alpha1.RoleMember) {
			m.Name, m.Spec.Role, m.Spec.Subnet, m.Spec.SubnetUID = v1alpha1.RoleMemberName("v-uid", "node-a"), v1alpha1.RoleDivider, "", ""
		}, ""},
		{"a divider of a subnet", func(m *v1alpha1.RoleMember) { m.Spec.Role = v1alpha1.RoleDivider }, "a Divider has neither"},
		{"a bouncer of nothing", func(m *v1alpha1.RoleMember) { m.Spec.Subnet = "" }, "a Bouncer has spec.subnet"},
		{"the name of another role", func(m *v1alpha1.RoleMember) { m.Name = v1alpha1.RoleMemberName("v-uid", "node-a") }, name},
		{"a name of its own", func(m *v1alpha1.RoleMember) { m.Name = "mine" }, name},
		{"no revision", func(m *v1alpha1.RoleMember) { m.Spec.Revision = 0 }, "greater than or equal to 1"},
		{"an unknown stage", func(m *v1alpha1.RoleMember) { m.Spec.Stage = "Waiting" }, "supported values"},
	})
}

func rollCall() *v1alpha1.RollCall {
	return &v1alpha1.RollCall{ObjectMeta: named("node.node-a"), Spec: v1alpha1.RollCallSpec{Call: "c", VNIs: []int32{1, 1<<24 - 1}}}
}

func TestRollCall_WrongValue_Refused(t *testing.T) {
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
