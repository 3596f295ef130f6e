// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/cni/drivers"
	"github.com/alioth-net/alioth/cnid/cni/drivers/veth"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
	"github.com/alioth-net/alioth/cnid/forward/plan/serviceplan"
	"github.com/alioth-net/alioth/cnid/forward/tablesync"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
)

var (
	ip     = netip.MustParseAddr
	prefix = netip.MustParsePrefix
)

func ips(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, text := range list {
		out = append(out, ip(text))
	}
	return out
}

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range list {
		out = append(out, prefix(text))
	}
	return out
}

func testConfig() Config {
	return Config{
		Node: "node1", DefaultVPC: "default",
		Shadows:        prefixes("169.254.64.0/18", "fd41:6c69:6f74:6801::/64"),
		ServiceRanges:  prefixes("10.96.0.0/16"),
		SharedServices: []serviceplan.Ref{{Namespace: "default", Name: "kubernetes"}, {Namespace: "kube-system", Name: "kube-dns"}},
		APIServer:      serviceplan.Ref{Namespace: "default", Name: "kubernetes"},
		TunnelPort:     4789,
		Kinds:          drivers.All().Catalog(),
	}
}

// world is a store with rows, and the journal and devices that go with it.
type world struct {
	store   *store.Store
	records []journal.Record
	devices map[string]int
	// removed is Input.Removed.
	removed []journal.Record
	// tables is Input.Tables.
	tables *tablesync.Tables
}

func newWorld(t testing.TB, rows ...func(store.Tx) error) *world {
	t.Helper()
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{store: s, devices: map[string]int{}}
	w.put(t, rows...)
	return w
}

func (w *world) put(t testing.TB, rows ...func(store.Tx) error) {
	t.Helper()
	for _, row := range rows {
		if err := w.store.Update(row); err != nil {
			t.Fatal(err)
		}
	}
}

// attach adds a pod that is attached here; its device has index 100 + seq.
func (w *world) attach(vpc string, vni uint32, pod string, addrs ...string) {
	seq := uint64(len(w.records) + 1)
	rec := journal.Record{
		Identity: journal.Identity{Key: journal.Key{ContainerID: "sandbox-" + pod, IfName: "eth0"}, Pod: journal.Pod{Namespace: "ns", Name: pod, UID: pod}},
		Binding:  journal.Binding{VPC: vpc, VNI: vni},
		Interface: journal.Interface{
			Kind:       veth.Kind,
			HostIfName: "alv-" + pod,
			Addrs:      prefixes(addrs...),
			MAC:        journal.MAC{2, 0, 0, 0, 0, byte(seq)},
			Device:     journal.Device{HostIfindex: 100 + int(seq), NetnsCookie: 4000 + seq},
		},
		Seq: seq, Phase: journal.PhaseDone,
	}
	for _, a := range rec.Addrs {
		if a.Addr().Is4() {
			rec.Shadow4 = netip.AddrFrom4([4]byte{169, 254, 64, byte(seq + 1)})
		} else {
			rec.Shadow6 = ip("fd41:6c69:6f74:6801::" + string(rune('1'+seq)))
		}
	}
	w.records = append(w.records, rec)
	w.devices[rec.HostIfName] = rec.Device.HostIfindex
	w.hold(rec)
}

// hold puts the Addresses of an attachment in a VPC that are not there.
func (w *world) hold(rec journal.Record) {
	if !rec.InVPC() {
		return
	}
	err := w.store.Update(func(tx store.Tx) error {
		for _, prefix := range rec.Addrs {
			if store.AddressByIP(tx, rec.VPC, prefix.Addr()) != nil {
				continue
			}
			if err := address(rec.VPC, prefix.Addr().String(), "node1", store.HolderPod, rec.Pod.UID)(tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		panic(err) // no test puts two addresses of one IP
	}
}

// tell puts a pod of node1 with an address of a VPC in its allocation status.
func tell(name, vpc, addr string) func(store.Tx) error {
	return func(tx store.Tx) error {
		text, err := annotations.FormatAttachments([]netif.Interface{{Name: "eth0", VPC: vpc, Addresses: prefixes(addr)}})
		if err != nil {
			return err
		}
		return store.PutPod(tx, &store.Pod{
			Meta: store.Meta{UID: name}, Namespace: "ns", Name: name, Node: "node1",
			Attachments: text, NetworkReady: true, Reason: v1alpha1.AttachedReason,
		})
	}
}

// whole is a Wanted whose parts are together.
type whole struct {
	Datapath state.State
	Devices  hostdev.State
	Filter   ruleset.State
	Closed   []ClosedPort
	Lost     []Lost
	Roles    Roles
	Health   []serviceplan.HealthCheck
}

func together(w Wanted) whole {
	return whole{w.Datapath.State(), w.Devices, w.Filter, w.ClosedPorts, w.Lost, w.Roles, w.Health}
}

func (w *world) input(change ...func(*Config)) Input {
	cfg := testConfig()
	for _, c := range change {
		c(&cfg)
	}
	return Input{Config: cfg, Records: w.records, Removed: w.removed, Devices: w.devices, NodePeer: 7, Tables: w.tables}
}

func (w *world) build(change ...func(*Config)) (wanted whole) {
	w.store.View(func(tx store.ReadTx) { wanted = together(Build(tx, w.input(change...))) })
	return wanted
}

func vpc(name string, vni uint32, cidrs ...string) func(store.Tx) error {
	return func(tx store.Tx) error {
		return store.PutVPC(tx, &store.VPC{
			Meta: store.Meta{UID: name}, Name: name, VNI: vni, Ready: true, Prefixes: prefixes(cidrs...),
			EgressMasquerade: name == "default",
		})
	}
}

func subnet(name, vpc string, age int, ready bool, cidr, gateway string) func(store.Tx) error {
	return func(tx store.Tx) error {
		return store.PutSubnet(tx, &store.Subnet{
			Meta: store.Meta{UID: name, Created: time.Unix(int64(age), 0)}, Name: name, VPC: vpc, ShortName: name,
			Prefixes: prefixes(cidr), Gateways: ips(gateway), Ready: ready,
		})
	}
}

// address is held by a pod of the namespace of the VPC's name, or by a node.
func address(vpc, addr, node string, kind store.HolderKind, holder string) func(store.Tx) error {
	return func(tx store.Tx) error {
		return store.PutAddress(tx, &store.Address{
			Meta: store.Meta{UID: vpc + addr}, Name: vpc + "." + addr, VPC: vpc, IP: ip(addr), MAC: "02:00:00:00:01:01",
			Node: node, Holder: store.Holder{Kind: kind, Namespace: vpc, Name: holder, UID: holder}, Set: ips(addr),
		})
	}
}

func node(name string, addrs ...string) func(store.Tx) error {
	return func(tx store.Tx) error {
		return store.PutNode(tx, &store.Node{
			Meta: store.Meta{UID: name}, Name: name, Addresses: ips(addrs...), AllAddresses: ips(addrs...),
		})
	}
}

func pod(name string, networkProbes bool) func(store.Tx) error {
	return func(tx store.Tx) error {
		return store.PutPod(tx, &store.Pod{
			Meta: store.Meta{UID: name}, Namespace: "ns", Name: name, Node: "node1", NetworkProbes: networkProbes,
		})
	}
}

// podWithHooks has probes, too.
func podWithHooks(name string) func(store.Tx) error {
	return func(tx store.Tx) error {
		return store.PutPod(tx, &store.Pod{
			Meta: store.Meta{UID: name}, Namespace: "ns", Name: name, Node: "node1", NetworkProbes: true, NetworkHooks: true,
		})
	}
}

func service(namespace, name string, vips []string, ports ...store.ServicePort) func(store.Tx) error {
	return func(tx store.Tx) error {
		return store.PutService(tx, &store.Service{
			Meta: store.Meta{UID: name}, Namespace: namespace, Name: name, ClusterIPs: ips(vips...), Ports: ports,
		})
	}
}

// targeted are endpoints with the UIDs of the pods of a namespace that have their
// addresses by now, as Kubernetes sets them; other endpoints have the UID "somebody".
func targeted(tx store.ReadTx, namespace string, endpoints []store.Endpoint) []store.Endpoint {
	uids := map[netip.Addr]string{}
	for row := range store.AllAddresses(tx) {
		if row.Holder.Namespace == namespace {
			uids[row.IP] = row.Holder.UID
		}
	}
	all := slices.Clone(endpoints)
	for i := range all {
		if len(all[i].Addresses) > 0 && all[i].PodUID == "" {
			all[i].PodUID = "somebody"
			if uid, held := uids[all[i].Addresses[0]]; held {
				all[i].PodUID = uid
			}
		}
	}
	return all
}

func slice(namespace, service, name string, ports []store.ServicePort, endpoints ...store.Endpoint) func(store.Tx) error {
	return func(tx store.Tx) error {
		return store.PutEndpointSlice(tx, &store.EndpointSlice{
			Meta: store.Meta{UID: name}, Namespace: namespace, Name: name, Service: service, Ports: ports, Endpoints: targeted(tx, namespace, endpoints),
		})
	}
}

func ready(addr string) store.Endpoint { return store.Endpoint{Addresses: ips(addr), Ready: true} }

// comparable lets cmp look at netip values.
var byValue = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
	cmpopts.EquateEmpty(),
}

// tenants are two VPCs of one range; each has a pod here, and blue one on
// another node. The node has an address in the default VPC.
func tenants(t testing.TB) *world {
	t.Helper()
	w := newWorld(t,
		node("node1", "192.0.2.1", "2001:db8::1"), node("node2", "2001:db8::2", "192.0.2.2"),
		vpc("default", 1, "10.244.0.0/16"), subnet("default", "default", 1, true, "10.244.0.0/16", "10.244.0.1"),
		vpc("blue", 20, "10.10.0.0/16"), subnet("blue1", "blue", 1, true, "10.10.1.0/24", "10.10.1.1"),
		vpc("red", 30, "10.10.0.0/16"), subnet("red1", "red", 1, true, "10.10.1.0/24", "10.10.1.1"),
		address("default", "10.244.0.7", "node1", store.HolderNode, "node1"),
		address("default", "10.244.0.8", "node2", store.HolderNode, "node2"),
		address("blue", "10.10.1.10", "node1", store.HolderPod, "b1"),
		address("blue", "10.10.1.11", "node2", store.HolderPod, "b2"),
		address("red", "10.10.1.10", "node1", store.HolderPod, "r1"),
	)
	w.attach("blue", 20, "b1", "10.10.1.10/24")
	w.attach("red", 30, "r1", "10.10.1.10/24")
	return w
}
