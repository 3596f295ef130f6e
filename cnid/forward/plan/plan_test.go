// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/cni/drivers/netkit"
	"github.com/alioth-net/alioth/cnid/cni/drivers/veth"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
)

func TestPlan_WholeNode_Complete(t *testing.T) {
	got := tenants(t).build()
	want := state.State{
		Interfaces: []state.Interface{
			{Ifindex: 7, VNI: 1, Addrs: ips("10.244.0.7"), MAC: state.MAC{2, 0, 0, 0, 1, 1}, Node: true},
			{Ifindex: 101, VNI: 20, Addrs: ips("10.10.1.10"), MAC: state.MAC{2, 0, 0, 0, 0, 1}, Shadow4: ip("169.254.64.2")},
			{Ifindex: 102, VNI: 30, Addrs: ips("10.10.1.10"), MAC: state.MAC{2, 0, 0, 0, 0, 2}, Shadow4: ip("169.254.64.3")},
		},
		Addresses: []state.Address{
			{VNI: 1, IP: ip("10.244.0.1"), Kind: state.Gateway},
			{VNI: 1, IP: ip("10.244.0.7"), Kind: state.Local, Ifindex: 7, MAC: state.MAC{2, 0, 0, 0, 1, 1}},
			{VNI: 1, IP: ip("10.244.0.8"), Kind: state.Remote, Node: ip("192.0.2.2"), MAC: state.MAC{2, 0, 0, 0, 1, 1}},
			{VNI: 20, IP: ip("10.10.1.1"), Kind: state.Gateway},
			{VNI: 20, IP: ip("10.10.1.10"), Kind: state.Local, Ifindex: 101, MAC: state.MAC{2, 0, 0, 0, 0, 1}},
			{VNI: 20, IP: ip("10.10.1.11"), Kind: state.Remote, Node: ip("192.0.2.2"), MAC: state.MAC{2, 0, 0, 0, 1, 1}},
			{VNI: 30, IP: ip("10.10.1.1"), Kind: state.Gateway},
			{VNI: 30, IP: ip("10.10.1.10"), Kind: state.Local, Ifindex: 102, MAC: state.MAC{2, 0, 0, 0, 0, 2}},
		},
		Subnets: []state.Subnet{{VNI: 1, Prefix: prefix("10.244.0.0/16")}, {VNI: 20, Prefix: prefix("10.10.1.0/24")}, {VNI: 30, Prefix: prefix("10.10.1.0/24")}},
		VPCs: []state.VPC{
			{VNI: 1, Prefixes: prefixes("10.244.0.0/16"), EgressMasquerade: true, Default: true},
			{VNI: 20, Prefixes: prefixes("10.10.0.0/16")},
			{VNI: 30, Prefixes: prefixes("10.10.0.0/16")},
		},
		Nodes: ips("192.0.2.2", "2001:db8::2"),
		Own:   ips("192.0.2.1", "2001:db8::1"),
		Namespaces: []state.Namespace{
			{Cookie: 4001, Memberships: []state.Membership{{VNI: 20, Addrs: ips("10.10.1.10"), Ifindex: 101}}},
			{Cookie: 4002, Memberships: []state.Membership{{VNI: 30, Addrs: ips("10.10.1.10"), Ifindex: 102}}},
		},
		Closed: []state.ClosedPrefix{
			{Prefix: prefix("0.0.0.0/8"), Class: state.ClosedLinkLocal},
			{Prefix: prefix("10.96.0.0/16"), Class: state.ClosedService},
			{Prefix: prefix("10.244.0.0/16"), Class: state.ClosedDefaultVPC},
			{Prefix: prefix("127.0.0.0/8"), Class: state.ClosedLinkLocal},
			{Prefix: prefix("169.254.0.0/16"), Class: state.ClosedLinkLocal},
			{Prefix: prefix("169.254.64.0/18"), Class: state.ClosedShadow},
			{Prefix: prefix("192.0.2.1/32"), Class: state.ClosedNode},
			{Prefix: prefix("192.0.2.2/32"), Class: state.ClosedNode},
			{Prefix: prefix("224.0.0.0/3"), Class: state.ClosedMulticast},
			{Prefix: prefix("::/128"), Class: state.ClosedLinkLocal},
			{Prefix: prefix("::1/128"), Class: state.ClosedLinkLocal},
			{Prefix: prefix("2001:db8::1/128"), Class: state.ClosedNode},
			{Prefix: prefix("2001:db8::2/128"), Class: state.ClosedNode},
			{Prefix: prefix("fd41:6c69:6f74:6801::/64"), Class: state.ClosedShadow},
			{Prefix: prefix("fe80::/10"), Class: state.ClosedLinkLocal},
			{Prefix: prefix("ff00::/8"), Class: state.ClosedMulticast},
		},
	}
	if diff := cmp.Diff(want, got.Datapath, byValue); diff != "" {
		t.Errorf("datapath (-want +got):\n%s", diff)
	}
	devices := hostdev.State{
		Shadows: ips("169.254.64.1", "fd41:6c69:6f74:6801::1"),
		Node:    hostdev.NodeInterface{Addrs: ips("10.244.0.7"), MAC: [6]byte{2, 0, 0, 0, 1, 1}, Prefixes: prefixes("10.244.0.0/16")},
		Pods: []hostdev.Pod{
			{Device: "alv-b1", Ifindex: 101, MAC: state.VirtualMAC, Shadows: ips("169.254.64.2")},
			{Device: "alv-r1", Ifindex: 102, MAC: state.VirtualMAC, Shadows: ips("169.254.64.3")},
		},
	}
	if diff := cmp.Diff(devices, got.Devices, byValue); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(prefixes("10.244.0.0/16"), got.Filter.DefaultVPC, byValue); diff != "" {
		t.Errorf("filter's default VPC (-want +got):\n%s", diff)
	}
}

func TestPlan_OtherCNIPluginAddresses_LeadNowhere(t *testing.T) {
	w := tenants(t)
	for ip, on := range map[string]string{"10.10.1.20": "node1", "10.10.1.21": "node2"} {
		w.put(t, func(tx store.Tx) error {
			if err := address("blue", ip, on, store.HolderPod, "x"+ip)(tx); err != nil {
				return err
			}
			row := *store.GetAddress(tx, "blue."+ip)
			row.External = true
			return store.PutAddress(tx, &row)
		})
	}
	rows := w.build().Datapath.Addresses
	for _, held := range ips("10.10.1.20", "10.10.1.21") {
		want := state.Address{VNI: 20, IP: held, Kind: state.HeldOutside}
		if !slices.Contains(rows, want) {
			t.Errorf("%v lacks %v", rows, want)
		}
	}
}

func TestPlan_AnyRecordOrder_SameResult(t *testing.T) {
	w := tenants(t)
	before := w.build()
	slices.Reverse(w.records)
	if diff := cmp.Diff(before, w.build(), byValue); diff != "" {
		t.Errorf("(-in order +reversed):\n%s", diff)
	}
}

func TestPlan_VPCWithoutLocalAttachment_TakesNothing(t *testing.T) {
	w := tenants(t)
	w.records = w.records[:1]
	for _, row := range w.build().Datapath.Addresses {
		if row.VNI == 30 {
			t.Errorf("address of the absent VPC: %+v", row)
		}
	}
}

func TestPlan_UnprogrammableRecords_LeftOut(t *testing.T) {
	cases := map[string]func(*world){
		"only intended":                 func(w *world) { w.records[0].Phase = journal.PhaseIntended },
		"leaving":                       func(w *world) { w.records[0].Phase = journal.PhaseLeaving },
		"the device has gone":           func(w *world) { delete(w.devices, "alv-b1") },
		"the device is from a new boot": func(w *world) { w.devices["alv-b1"] = 55 },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			w := tenants(t)
			change(w)
			got := w.build()
			for _, row := range got.Datapath.Addresses {
				if row.VNI == 20 {
					t.Errorf("address of its VPC: %+v", row)
				}
			}
			if len(got.Datapath.Interfaces) != 2 || len(got.Devices.Pods) != 1 {
				t.Errorf("%d interfaces and %d pods, want 2 and 1", len(got.Datapath.Interfaces), len(got.Devices.Pods))
			}
		})
	}
}

func TestPlan_EachAttachmentKind_ProgramPlaceFollows(t *testing.T) {
	for kind, want := range map[ifdriver.Kind]bool{veth.Kind: false, netkit.Kind: true} {
		rec := journal.Record{Interface: journal.Interface{Kind: kind}}
		if got := Programmed(rec, testConfig().Kinds[kind].Hook).Interfaces[0].Netkit; got != want {
			t.Errorf("%s: netkit is %v", kind, got)
		}
	}
}

func TestPlan_ConflictingSubnets_OlderProgrammedOnce(t *testing.T) {
	w := tenants(t)
	w.put(t, subnet("blue2", "blue", 2, true, "10.10.1.0/24", "10.10.1.1"), subnet("blue3", "blue", 3, false, "10.10.9.0/24", "10.10.9.1"))
	seen := map[netip.Prefix]int{}
	for _, row := range w.build().Datapath.Subnets {
		if row.VNI == 20 {
			seen[row.Prefix]++
		}
	}
	if diff := cmp.Diff(map[netip.Prefix]int{prefix("10.10.1.0/24"): 1}, seen, byValue); diff != "" {
		t.Errorf("subnets of blue (-want +got):\n%s", diff)
	}
}

func TestPlan_TunnelAddress_FamilyOfBothNodes(t *testing.T) {
	row := func(addrs ...string) *store.Node { return &store.Node{Addresses: ips(addrs...)} }
	cases := []struct {
		name       string
		self, peer *store.Node
		want       string
	}{
		{"IPv4 before IPv6", row("192.0.2.1", "2001:db8::1"), row("2001:db8::2", "192.0.2.2"), "192.0.2.2"},
		{"we have IPv6 only", row("2001:db8::1"), row("192.0.2.2", "2001:db8::2"), "2001:db8::2"},
		{"the peer has IPv6 only", row("192.0.2.1", "2001:db8::1"), row("2001:db8::2"), "2001:db8::2"},
		{"nothing in common", row("192.0.2.1"), row("2001:db8::2"), ""},
		{"our own node is not known yet", nil, row("192.0.2.2"), "192.0.2.2"},
		{"the peer is unknown", row("192.0.2.1"), nil, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, ok := TunnelAddress(c.self, c.peer)
			if ok != (c.want != "") || ok && got != ip(c.want) {
				t.Errorf("got %v, %v; want %q", got, ok, c.want)
			}
		})
	}
}

func TestSharedServices_Backends_ReadyWithFamilyAndPort(t *testing.T) {
	dns, dnsTCP := store.ServicePort{Name: "dns", Protocol: "UDP", Port: 53}, store.ServicePort{Name: "dns-tcp", Protocol: "TCP", Port: 53}
	ends := []store.ServicePort{{Name: "dns", Protocol: "UDP", Port: 1053}, {Name: "dns-tcp", Protocol: "TCP", Port: 1054}}
	w := newWorld(t,
		service("kube-system", "kube-dns", []string{"10.96.0.10", "fd96::a"}, dns, dnsTCP, store.ServicePort{Name: "x", Protocol: "SCTP", Port: 9}),
		service("kube-system", "other", []string{"10.96.0.11"}, dns),
		slice("kube-system", "kube-dns", "a", ends, ready("10.244.0.21"), ready("10.244.0.20"),
			store.Endpoint{Addresses: ips("10.244.0.22")}, store.Endpoint{Addresses: ips("10.244.0.23"), Terminating: true}),
		slice("kube-system", "kube-dns", "b", ends, ready("10.244.0.20")),
		slice("kube-system", "kube-dns", "c", ends, ready("fd10:244::20")),
		slice("kube-system", "kube-dns", "d", []store.ServicePort{{Name: "dns", Protocol: "UDP"}}, ready("10.244.0.29")),
		slice("kube-system", "other", "e", ends, ready("10.244.0.30")),
	)
	four := func(port uint16) []state.Backend {
		return []state.Backend{{IP: ip("10.244.0.20"), Port: port}, {IP: ip("10.244.0.21"), Port: port}}
	}
	six := func(port uint16) []state.Backend { return []state.Backend{{IP: ip("fd10:244::20"), Port: port}} }
	want := []state.Service{
		{VIP: ip("10.96.0.10"), Port: 53, Proto: 6, Backends: four(1054)},
		{VIP: ip("10.96.0.10"), Port: 53, Proto: 17, Backends: four(1053)},
		{VIP: ip("fd96::a"), Port: 53, Proto: 6, Backends: six(1054)},
		{VIP: ip("fd96::a"), Port: 53, Proto: 17, Backends: six(1053)},
	}
	if diff := cmp.Diff(want, w.build().Datapath.Services, byValue); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSharedServices_NamedByObjects_Shared(t *testing.T) {
	push := store.ServicePort{Name: "push", Protocol: "TCP", Port: 9091}
	ends := []store.ServicePort{{Name: "push", Protocol: "TCP", Port: 1091}}
	shared := func(namespace, name string) func(store.Tx) error {
		return func(tx store.Tx) error {
			return store.PutSharedService(tx, &store.SharedService{
				Meta: store.Meta{UID: name}, Name: name, ServiceNamespace: namespace, ServiceName: name,
			})
		}
	}
	tenants := func(tx store.Tx) error {
		return store.PutService(tx, &store.Service{
			Meta: store.Meta{UID: "tenants"}, Namespace: "blue", Name: "tenants", Network: "net", ClusterIPs: ips("10.96.0.21"), Ports: []store.ServicePort{push},
		})
	}
	w := newWorld(t,
		service("monitoring", "push", []string{"10.96.0.20"}, push), slice("monitoring", "push", "a", ends, ready("10.244.0.20")),
		service("monitoring", "unshared", []string{"10.96.0.22"}, push), slice("monitoring", "unshared", "b", ends, ready("10.244.0.20")),
		tenants, slice("blue", "tenants", "c", ends, ready("10.244.0.20")),
		shared("monitoring", "push"), shared("blue", "tenants"), shared("nowhere", "missing"),
	)
	want := []state.Service{{VIP: ip("10.96.0.20"), Port: 9091, Proto: 6, Backends: []state.Backend{{IP: ip("10.244.0.20"), Port: 1091}}}}
	if diff := cmp.Diff(want, w.build().Datapath.Services, byValue); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPlan_NodeAddresses_OldestPerFamily(t *testing.T) {
	own := func(addr string, age int) func(store.Tx) error {
		return func(tx store.Tx) error {
			return store.PutAddress(tx, &store.Address{
				Meta: store.Meta{UID: addr, Created: time.Unix(int64(age), 0)}, Name: "default." + addr, VPC: "default", IP: ip(addr),
				MAC: "02:00:00:00:01:01", Node: "node1", Holder: store.Holder{Kind: store.HolderNode, Name: "node1", UID: "node1"},
			})
		}
	}
	w := newWorld(t, vpc("default", 1, "10.244.0.0/16", "fd10:244::/48"), own("fd10:244::7", 1), own("10.244.0.9", 2), own("10.244.0.7", 3))
	got := w.build()
	if diff := cmp.Diff(ips("10.244.0.9", "fd10:244::7"), got.Devices.Node.Addrs, byValue); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
