// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/cni/drivers/macvlan"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// one and two are the numbers of the networks lan1 and lan2.
const (
	one = 1<<24 + 1
	two = 1<<24 + 2
)

// rows puts rows of networks outside of every VPC.
func rows(list ...any) func(store.Tx) error {
	return func(tx store.Tx) (err error) {
		for _, row := range list {
			switch row := row.(type) {
			case *multinet.Claim:
				err = multinet.PutClaim(tx, row)
			case *multinet.DomainClaim:
				err = multinet.PutDomainClaim(tx, row)
			case *store.Address:
				err = store.PutAddress(tx, row)
			case *store.EndpointSlice:
				err = store.PutEndpointSlice(tx, row)
			case *store.Service:
				err = store.PutService(tx, row)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// attachOutside adds the interface net1 of a pod here, in a network outside of every VPC.
func (w *world) attachOutside(t *testing.T, network store.NetworkRef, pod string, addrs ...string) {
	t.Helper()
	seq := uint64(len(w.records) + 1)
	w.records = append(w.records, journal.Record{
		Identity: journal.Identity{
			Key: journal.Key{ContainerID: "sandbox-" + pod, IfName: "net1"}, Pod: journal.Pod{Namespace: "ns", Name: pod, UID: pod}, Attachment: "net1",
		},
		Binding:   journal.Binding{Outside: network.String()},
		Interface: journal.Interface{Kind: macvlan.Kind, Addrs: prefixes(addrs...), Device: journal.Device{NetnsCookie: 4000 + seq}},
		Seq:       seq, Phase: journal.PhaseDone,
	})
	w.put(t, rows(claimed(network, pod)))
}

func claimed(network store.NetworkRef, pod string) *multinet.Claim {
	return &multinet.Claim{
		Meta: store.Meta{
			UID: pod,
		}, Namespace: "ns", Name: pod + ".net1", PodName: pod, PodUID: pod, Node: "node1", Interface: "net1", Driver: "macvlan", Network: network,
	}
}

// web is a Service without a selector in the namespace ns.
func web() *store.Service {
	return &store.Service{
		Meta: store.Meta{UID: "web"}, Namespace: "ns", Name: "web", ClusterIPs: ips("10.96.0.9", "fd96::9"), Selectorless: true,
		Ports: []store.ServicePort{{Name: "p", Protocol: "TCP", Port: 443}}, Affinity: time.Hour,
	}
}

// backend is an endpoint of a slice with a domain.
func backend(pod string, addrs ...string) store.Endpoint {
	return store.Endpoint{Addresses: ips(addrs...), Ready: true, PodUID: pod, Named: true}
}

// outsideWorld has two networks with the same addresses. Pod a is in lan1, pod b in lan2, and
// both in VPC blue. Pods x and y on another node have 192.168.0.9 in lan1 and in lan2.
func outsideWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, vpc("default", 1, "10.244.0.0/16"), vpc("blue", 20, "10.10.0.0/16"), rows(
		numbered(one, lan("lan1")), numbered(two, lan("lan2")), web(),
		outsideAddress(lan("lan1"), "192.168.0.9", "ns", "x"), outsideAddress(lan("lan2"), "192.168.0.9", "ns", "y"),
		outsideSlice(lan("lan1"), "ns", "web", backend("x", "192.168.0.9")),
	))
	w.attachOutside(t, lan("lan1"), "a", "192.168.0.2/24")
	w.attachOutside(t, lan("lan2"), "b", "192.168.0.2/24")
	for i, pod := range []string{"a", "b"} {
		w.attach("blue", 20, pod, []string{"10.10.1.10/24", "10.10.1.11/24"}[i])
		w.records[2+i].Device.NetnsCookie = w.records[i].Device.NetnsCookie
	}
	return w
}

// servicesOf are the services of a number.
func servicesOf(s state.State, number uint32) (list []state.Service) {
	for _, service := range s.Services {
		if service.VNI == number {
			list = append(list, service)
		}
	}
	return list
}

func TestDomains_NetworksAndVPCInNamespace_NetworksFirst(t *testing.T) {
	want := []state.Namespace{
		{Cookie: 4001, Memberships: []state.Membership{{VNI: one, Addrs: ips("192.168.0.2")}, {VNI: 20, Addrs: ips("10.10.1.10"), Ifindex: 103}}},
		{Cookie: 4002, Memberships: []state.Membership{{VNI: two, Addrs: ips("192.168.0.2")}, {VNI: 20, Addrs: ips("10.10.1.11"), Ifindex: 104}}},
	}
	w := outsideWorld(t)
	second := outsideSlice(lan("lan2"), "ns", "web", backend("y", "192.168.0.9"))
	second.Name, second.UID = "second", "second"
	w.put(t, rows(second))
	if diff := cmp.Diff(want, w.build().Datapath.Namespaces, byValue); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
}

// TestDomains_NetworkWithoutServices_InNoTable: so an attachment to it needs no pass.
func TestDomains_NetworkWithoutServices_InNoTable(t *testing.T) {
	w := outsideWorld(t)
	w.store.View(func(tx store.ReadTx) {
		if !IsServed(tx, "node1", w.records[0]) || IsServed(tx, "node1", w.records[1]) || IsServed(tx, "node1", w.records[2]) {
			t.Error("the record in lan1 alone is served")
		}
	})
	w.put(t, func(tx store.Tx) error { store.DeleteEndpointSlice(tx, "ns", "outside-web", "outside-web"); return nil })
	for _, n := range w.build().Datapath.Namespaces {
		if len(n.Memberships) != 1 || n.Memberships[0].VNI != 20 {
			t.Errorf("namespace %d has %+v", n.Cookie, n.Memberships)
		}
	}
}

func TestDomains_NetworkClusterIP_LeadsToNetworkPods(t *testing.T) {
	leads := []state.Backend{{IP: ip("192.168.0.9"), Port: 8443}}
	for name, c := range map[string]struct {
		change func(t *testing.T, w *world)
		// one and two are the IPv4 backends in the networks; nil: the address does not exist
		// there.
		one, two []state.Backend
	}{
		"in the network of the slice": {one: leads},
		"in both, by a slice for each": {
			change: func(t *testing.T, w *world) {
				t.Helper()
				second := outsideSlice(lan("lan2"), "ns", "web", backend("y", "192.168.0.9"))
				second.Name, second.UID = "second", "second"
				w.put(t, rows(second))
			},
			one: leads, two: leads,
		},
		"not without a number": {
			change: func(t *testing.T, w *world) {
				t.Helper()
				w.put(t, func(tx store.Tx) error { multinet.DeleteDomainClaim(tx, one, "lan1"); return nil })
			},
		},
		"not where no pod is attached": {change: func(_ *testing.T, w *world) { w.records = w.records[1:] }},
		"not without an address":       {change: func(_ *testing.T, w *world) { w.records[0].Addrs = nil }},
		"not for an attachment that is being made": {
			change: func(_ *testing.T, w *world) { w.records[0].Phase = journal.PhaseIntended },
		},
		"not for an attachment without a claim": {
			change: func(t *testing.T, w *world) {
				t.Helper()
				w.put(t, func(tx store.Tx) error { multinet.DeleteClaim(tx, "ns", "a.net1", "a"); return nil })
			},
		},
		"not for a headless Service": {
			change: func(t *testing.T, w *world) {
				t.Helper()
				headless := web()
				headless.ClusterIPs = nil
				w.put(t, rows(headless))
			},
		},
		"by no slice without a domain": {
			change: func(t *testing.T, w *world) {
				t.Helper()
				bare := outsideSlice(lan("lan1"), "ns", "web", backend("x", "192.168.0.9"))
				bare.Domain = ""
				w.put(t, rows(bare))
			},
		},
		"to no pod of another UID": {
			change: func(t *testing.T, w *world) {
				t.Helper()
				w.put(t, rows(outsideSlice(lan("lan1"), "ns", "web", backend("y", "192.168.0.9"))))
			},
			one: []state.Backend{},
		},
		"to no pod of another namespace": {
			change: func(t *testing.T, w *world) {
				t.Helper()
				w.put(t, rows(outsideAddress(lan("lan1"), "192.168.0.9", "other", "x")))
			},
			one: []state.Backend{},
		},
		"to no address that is not held": {
			change: func(t *testing.T, w *world) {
				t.Helper()
				w.put(t, rows(outsideSlice(lan("lan1"), "ns", "web", backend("x", "192.168.0.10", "203.0.113.7"))))
			},
			one: []state.Backend{},
		},
		"to pods on the node only, if traffic is local": {
			change: func(t *testing.T, w *world) {
				t.Helper()
				local := web()
				local.NodeLocal = true
				w.put(t, rows(local))
			},
			one: []state.Backend{},
		},
		"to none that is neither ready nor serving": {
			change: func(t *testing.T, w *world) {
				t.Helper()
				end := backend("x", "192.168.0.9")
				end.Ready = false
				w.put(t, rows(outsideSlice(lan("lan1"), "ns", "web", end)))
			},
			one: []state.Backend{},
		},
		"the claim of the lower number counts": {
			change: func(t *testing.T, w *world) {
				t.Helper()
				w.put(t, rows(&multinet.DomainClaim{Meta: store.Meta{UID: "again"}, Number: two + 7, Network: lan("lan1")}))
			},
			one: leads,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := outsideWorld(t)
			if c.change != nil {
				c.change(t, w)
			}
			built := w.build().Datapath
			for number, want := range map[uint32][]state.Backend{one: c.one, two: c.two} {
				got := servicesOf(built, number)
				if want == nil {
					if len(got) > 0 {
						t.Errorf("number %d has %+v", number, got)
					}
					continue
				}
				services := []state.Service{
					{VNI: number, VIP: ip("10.96.0.9"), Port: 443, Proto: state.ProtoTCP, Backends: want, Affinity: time.Hour},
					{VNI: number, VIP: ip("fd96::9"), Port: 443, Proto: state.ProtoTCP, Affinity: time.Hour},
				}
				if diff := cmp.Diff(services, got, byValue); diff != "" {
					t.Errorf("number %d (-want +got):\n%s", number, diff)
				}
			}
		})
	}
}
