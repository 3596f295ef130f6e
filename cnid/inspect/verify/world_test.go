// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"net/netip"
	"testing"
	"time"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/cni/drivers"
	"github.com/alioth-net/alioth/cnid/cni/drivers/veth"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/forward/plan/serviceplan"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus/convert"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/ebpf/datapath/hook"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
)

// world is a cluster of two nodes with one dual-stack pod on each. Everything agrees until a test
// changes something. Rows that are removed from it are not in the API.
type world struct {
	vpcs    map[string]*store.VPC
	subnets map[string]*store.Subnet
	claims  map[string]*store.VNIClaim
	nodes   map[string]*store.Node
	pods    map[string]*store.Pod
	// addresses by name.
	addresses map[string]*store.Address
	external  map[string]*external.Address
	calls     map[string]*store.RollCall
	service   *store.Service
	// status of the pods by UID.
	status map[string]Pod
	dumps  map[string]*nodestatus.Dump
	silent map[string]string
	// refused are objects without a row.
	refused []Refused
}

const (
	mac1    = "02:00:0a:0a:01:0a"
	mac2    = "02:00:0a:0a:01:0b"
	nodeMAC = "02:00:0a:f4:00:02"
)

func ips(texts ...string) []netip.Addr {
	var list []netip.Addr
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

func prefixes(texts ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// newWorld returns a world where everything agrees.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		vpcs: map[string]*store.VPC{
			"blue":    {Meta: store.Meta{UID: "v1"}, Name: "blue", VNI: 20, Ready: true, Prefixes: prefixes("10.10.0.0/16", "fd10::/48")},
			"default": {Meta: store.Meta{UID: "v2"}, Name: "default", VNI: 30, Ready: true, Prefixes: prefixes("10.244.0.0/16"), EgressMasquerade: true},
		},
		subnets: map[string]*store.Subnet{
			"net1": {
				Meta: store.Meta{UID: "s1"}, Name: "net1", VPC: "blue", Ready: true, Prefixes: prefixes("10.10.1.0/24", "fd10:0:0:1::/64"),
				Gateways: ips("10.10.1.1", "fd10:0:0:1::1"),
			},
			"default": {Meta: store.Meta{UID: "s2"}, Name: "default", VPC: "default", Ready: true, Prefixes: prefixes("10.244.0.0/16"), Gateways: ips("10.244.0.1")},
		},
		claims: map[string]*store.VNIClaim{
			"blue":    {Meta: store.Meta{UID: "c1"}, VNI: 20, VPC: "blue", VPCUID: "v1"},
			"default": {Meta: store.Meta{UID: "c2"}, VNI: 30, VPC: "default", VPCUID: "v2"},
		},
		nodes: map[string]*store.Node{}, pods: map[string]*store.Pod{}, addresses: map[string]*store.Address{},
		service: &store.Service{
			Meta: store.Meta{UID: "svc"}, Namespace: "default", Name: "kubernetes", ClusterIPs: ips("10.96.0.1"),
			Ports: []store.ServicePort{{Name: "https", Protocol: "TCP", Port: 443}},
		},
		status: map[string]Pod{}, dumps: map[string]*nodestatus.Dump{}, silent: map[string]string{},
	}
	w.addNode("node1", "192.0.2.1", "10.244.0.2")
	w.addNode("node2", "192.0.2.2", "10.244.0.3")
	w.addPod(t, "p1", "node1", mac1, "10.10.1.10", "fd10:0:0:1::a")
	w.addPod(t, "p2", "node2", mac2, "10.10.1.11", "fd10:0:0:1::b")
	for name := range w.nodes {
		w.program(t, name)
	}
	return w
}

func (w *world) addNode(name, underlay, own string) {
	w.nodes[name] = &store.Node{Meta: store.Meta{UID: "uid-" + name}, Name: name, Addresses: ips(underlay)}
	w.claim("default", "default", own, nodeMAC, name, store.Holder{Kind: store.HolderNode, Name: name, UID: "uid-" + name}, own)
	w.dumps[name] = &nodestatus.Dump{
		Status: nodestatus.Status{Node: name, Synced: true, Programmed: true, PodMTU: 1450},
		Config: convert.Settings(plan.Config{
			Kinds: drivers.All().Catalog(),
			Node:  name, DefaultVPC: "default", Shadows: prefixes("169.254.64.0/18", "fd41::/64"), ServiceRanges: prefixes("10.96.0.0/16"),
			SharedServices: []serviceplan.Ref{{Namespace: "default", Name: "kubernetes"}}, TunnelPort: 4789,
		}),
		Links: []nodestatus.Link{
			{Name: hostdev.Node, Index: 4, Up: true},
			{Name: hostdev.NodePeer, Index: 5, Up: true},
			{Name: hostdev.Tunnel, Index: 3, Up: true},
			{Name: hostdev.Fragment, Index: 6, Up: true},
			{Name: hostdev.FragmentPeer, Index: 7, Up: true},
		},
	}
}

// look gives node1 a row of VPC blue that it has looked up.
func (w *world) look(ip, node, mac string) {
	w.dumps["node1"].Cached = []nodestatus.CachedRow{{VNI: 20, IP: netip.MustParseAddr(ip), Node: netip.MustParseAddr(node), MAC: mac}}
}

func (w *world) claim(vpc, subnet, ip, mac, node string, holder store.Holder, set ...string) {
	name := vpc + "." + ip
	w.addresses[name] = &store.Address{
		Meta: store.Meta{UID: "uid-" + name}, Name: name, VPC: vpc, Subnet: subnet, IP: netip.MustParseAddr(ip), MAC: mac, Node: node,
		Holder: holder, Attachment: "eth0", Set: ips(set...),
	}
}

// claimInNetwork claims an IP of the network with UID u1 for an interface of a pod on node1.
func (w *world) claimInNetwork(ip, attachment, pod string) {
	row := &store.Address{
		Name: "u1.net." + ip, Network: store.NetworkRef{Kind: "DanmNet", Namespace: "ns", Name: "internal", UID: "u1"}, IP: netip.MustParseAddr(ip),
		MAC: mac2, Node: "node1", Holder: store.Holder{Kind: store.HolderPod, Namespace: "ns", Name: pod, UID: "uid-" + pod}, Attachment: attachment, Set: ips(ip),
	}
	row.UID = "uid-" + row.Name
	w.addresses[row.Name] = row
}

func (w *world) addPod(t *testing.T, name, node, mac, ip4, ip6 string) {
	t.Helper()
	uid := "uid-" + name
	addrs := prefixes(ip4+"/24", ip6+"/64")
	gateways := ips("10.10.1.1", "fd10:0:0:1::1")
	reported, err := annotations.FormatAttachments([]netif.Interface{{
		Name: "eth0", Kind: "veth", VPC: "blue", Subnet: "net1", Addresses: addrs, Gateways: gateways, MAC: mac,
	}})
	if err != nil {
		t.Fatal(err)
	}
	w.pods[name] = &store.Pod{
		Meta:          store.Meta{UID: uid},
		Namespace:     "ns",
		Name:          name,
		Node:          node,
		Attachments:   reported,
		NetworkReady:  true,
		Reason:        v1alpha1.AttachedReason,
		NetworkProbes: true,
	}
	w.status[uid] = Pod{Running: true, IPs: ips(ip4, ip6)}
	holder := store.Holder{Kind: store.HolderPod, Namespace: "ns", Name: name, UID: uid}
	w.claim("blue", "net1", ip4, mac, node, holder, ip4, ip6)
	w.claim("blue", "net1", ip6, mac, node, holder, ip4, ip6)
	parsed, err := journal.ParseMAC(mac)
	if err != nil {
		t.Fatal(err)
	}
	d := w.dumps[node]
	d.Links = append(d.Links, nodestatus.Link{Name: "alv" + name, Index: 10, Up: true})
	d.Attachments = append(d.Attachments, convert.Attachments([]journal.Record{{
		Identity: journal.Identity{
			Key:        journal.Key{ContainerID: "container-of-" + name, IfName: "eth0"},
			Pod:        journal.Pod{Namespace: "ns", Name: name, UID: uid},
			Attachment: "eth0",
		},
		Binding: journal.Binding{VPC: "blue", VNI: 20},
		Interface: journal.Interface{
			Kind:       veth.Kind,
			HostIfName: "alv" + name,
			Addrs:      addrs,
			Gateways:   gateways,
			MAC:        parsed,
			Config:     netif.Config{MTU: 1450},
			Device:     journal.Device{HostIfindex: 10, NetnsCookie: 4711},
		},
		Shadow4: netip.MustParseAddr("169.254.64.2"), Shadow6: netip.MustParseAddr("fd41::2"), Seq: 1, Begun: time.Unix(1, 0), Phase: journal.PhaseDone,
	}})...)
}

// program gives a node the maps and programs that it has to have now.
func (w *world) program(t *testing.T, name string) {
	t.Helper()
	d := w.dumps[name]
	devices := map[string]nodestatus.Link{}
	for _, link := range d.Links {
		devices[link.Name] = link
	}
	var held state.State
	w.store(t).View(func(tx store.ReadTx) { held = wanted(tx, d, devices) })
	d.Rows, d.Hooks = held.Rows(), nodestatus.Programs{Links: hook.LinkNames()}
	for _, i := range held.Interfaces {
		d.Hooks.Filters = append(d.Hooks.Filters, convert.FiltersOf(i)...)
	}
}

func (w *world) store(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	err = s.Update(func(tx store.Tx) error {
		for _, err := range []error{
			putAll(tx, w.vpcs, store.PutVPC), putAll(tx, w.subnets, store.PutSubnet), putAll(tx, w.claims, store.PutVNIClaim),
			putAll(tx, w.nodes, store.PutNode), putAll(tx, w.pods, store.PutPod), putAll(tx, w.addresses, store.PutAddress),
			putAll(tx, w.calls, store.PutRollCall), putAll(tx, w.external, external.PutAddress),
			store.PutService(tx, w.service),
		} {
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func putAll[R any](tx store.Tx, rows map[string]*R, put func(store.Tx, *R) error) error {
	for _, row := range rows {
		if err := put(tx, row); err != nil {
			return err
		}
	}
	return nil
}

// compare returns the differences that Compare finds in the world.
func (w *world) compare(t *testing.T) (found []Difference) {
	t.Helper()
	in := Input{Pods: w.status, Refused: w.refused}
	for _, name := range []string{"node1", "node2"} {
		in.Nodes = append(in.Nodes, Node{Name: name, Dump: w.dumps[name], Silent: w.silent[name]})
	}
	w.store(t).View(func(tx store.ReadTx) { found = Compare(tx, in) })
	return found
}
