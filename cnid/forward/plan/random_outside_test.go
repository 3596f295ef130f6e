// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/cnid/cni/drivers/macvlan"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// changeOutsideRecords adds a record outside of every VPC, changes its phase, or removes it.
func (r *randomWorld) changeOutsideRecords() {
	at := slices.IndexFunc(r.records, func(rec journal.Record) bool { return !rec.InVPC() })
	switch {
	case at < 0 || r.IntN(4) == 0:
		r.attachOutside()
	case r.IntN(2) == 0:
		r.records[at].Phase = []journal.Phase{journal.PhaseIntended, journal.PhaseDone, journal.PhaseLeaving}[r.IntN(3)]
	default:
		r.records = slices.Delete(r.records, at, at+1)
	}
}

// attachOutside attaches one pod of few to a network outside of every VPC, which an
// AttachmentClaim tells.
func (r *randomWorld) attachOutside() {
	r.seq++
	r.records = append(r.records, journal.Record{
		Identity: journal.Identity{
			Key: journal.Key{ContainerID: r.of("c1", "c2"), IfName: "net1"},
			Pod: journal.Pod{Namespace: "ns", Name: "p", UID: r.of("p0", "p1", "p2", "p3")}, Attachment: r.of("net1", "net2"),
		},
		Binding: journal.Binding{Outside: "DanmNet ns/lan"},
		Interface: journal.Interface{
			Kind: macvlan.Kind, Addrs: prefixes(r.ip() + "/24")[r.IntN(8)/7:], Device: journal.Device{NetnsCookie: uint64(r.IntN(4))},
		},
		Seq: 100 + r.seq, Phase: journal.PhaseDone,
	})
}

func (r *randomWorld) lan() store.NetworkRef { return lan(r.of("lan1", "lan2")) }

// lan is a network outside of every VPC, by its UID.
func lan(uid string) store.NetworkRef {
	return store.NetworkRef{Group: "danm.k8s.io", Kind: multinet.KindDanmNet, Namespace: "ns", Name: uid, UID: uid}
}

// changeOutside changes a row about networks outside of every VPC.
func (r *randomWorld) changeOutside(tx store.Tx, remove bool) error {
	switch r.IntN(6) {
	case 0:
		return r.changeClaim(tx, r.of("p0", "p1", "p2", "p3"), r.of("net1", "net2"), remove)
	case 1:
		return r.changeNumber(tx, r.lan(), remove)
	case 2:
		return r.changeOutsideAddress(tx, r.lan(), r.ip(), remove)
	case 3:
		return r.changeOutsideSlice(tx, remove)
	}
	return r.prepareOutside(tx)
}

func (r *randomWorld) changeClaim(tx store.Tx, pod, iface string, remove bool) error {
	name := pod + "." + iface
	if remove {
		multinet.DeleteClaim(tx, "ns", name, name)
		return nil
	}
	return multinet.PutClaim(tx, &multinet.Claim{
		Meta: store.Meta{UID: name}, Namespace: r.of("ns", "ns", "ns", "other"), Name: name, PodName: "p", PodUID: pod, Node: r.of("node1", "node1", "node2"),
		Interface: iface, Driver: "macvlan", Network: r.lan(), Released: r.IntN(6) == 0,
	})
}

func (r *randomWorld) changeNumber(tx store.Tx, network store.NetworkRef, remove bool) error {
	number := 1<<24 + uint32(r.IntN(3))
	if held := multinet.GetDomainClaim(tx, number); held != nil {
		multinet.DeleteDomainClaim(tx, number, held.UID)
	}
	if remove {
		return nil
	}
	return multinet.PutDomainClaim(tx, numbered(number, network))
}

func numbered(number uint32, network store.NetworkRef) *multinet.DomainClaim {
	return &multinet.DomainClaim{Meta: store.Meta{UID: network.UID}, Number: number, Network: network}
}

func (r *randomWorld) changeOutsideAddress(tx store.Tx, network store.NetworkRef, ip string, remove bool) error {
	row := outsideAddress(network, ip, r.of("default", "kube-system", "shop", "ns"), r.of("p0", "p1", "p2"))
	row.Node = r.of("node1", "node2")
	if remove {
		store.DeleteAddress(tx, row.Name, row.UID)
		return nil
	}
	return store.PutAddress(tx, row)
}

// outsideAddress is held by a pod in a network outside of every VPC.
func outsideAddress(network store.NetworkRef, ip, namespace, pod string) *store.Address {
	name := network.Domain() + "." + ip
	return &store.Address{
		Meta: store.Meta{UID: name}, Name: name, Network: network, IP: netip.MustParseAddr(ip), MAC: "02:00:00:00:01:01", Node: "node2",
		Holder: store.Holder{Kind: store.HolderPod, Namespace: namespace, Name: pod, UID: pod}, Attachment: "net1", Set: ips(ip),
	}
}

func (r *randomWorld) changeOutsideSlice(tx store.Tx, remove bool) error {
	namespace, name := r.serviceName()
	if r.IntN(2) == 0 {
		namespace, name = "ns", "lan"
	}
	if remove {
		store.DeleteEndpointSlice(tx, namespace, "outside-"+name, "outside-"+name)
		return nil
	}
	var ends []store.Endpoint
	for _, addr := range []string{r.ip(), r.ip()} {
		ends = append(ends, store.Endpoint{
			Addresses: ips(addr), Ready: r.IntN(3) > 0, Terminating: r.IntN(2) == 0, PodUID: r.of("p0", "p1", "p2"), Node: r.of("node1", "node2"), Named: true,
		})
	}
	return store.PutEndpointSlice(tx, outsideSlice(r.lan(), namespace, name, ends...))
}

// outsideSlice is the slice of a Service in a network outside of every VPC, for the port p.
func outsideSlice(network store.NetworkRef, namespace, service string, ends ...store.Endpoint) *store.EndpointSlice {
	return &store.EndpointSlice{
		Meta: store.Meta{UID: "outside-" + service}, Namespace: namespace, Name: "outside-" + service, Service: service, Domain: network.Domain(),
		Ports: []store.ServicePort{{Name: "p", Protocol: "TCP", Port: 8443}}, Endpoints: ends,
	}
}

// prepareOutside has a Service lead to a pod in a network that a pod here is attached to, and
// then changes one of the rows that this depends on.
func (r *randomWorld) prepareOutside(tx store.Tx) error {
	at := slices.IndexFunc(r.records, func(rec journal.Record) bool {
		return !rec.InVPC() && rec.Phase == journal.PhaseDone && rec.Device.NetnsCookie != 0 && len(rec.Addrs) > 0
	})
	if at < 0 {
		return nil
	}
	rec, network, addr := r.records[at], r.lan(), r.ip()
	service := &store.Service{
		Meta: store.Meta{UID: "lan"}, Namespace: "ns", Name: "lan", ClusterIPs: ips("10.96.0.50"), Selectorless: true,
		Ports: []store.ServicePort{{Name: "p", Protocol: "TCP", Port: 443}},
	}
	r.then = func(tx store.Tx) error {
		switch r.IntN(4) {
		case 0:
			return r.changeClaim(tx, rec.Pod.UID, rec.Attachment, r.IntN(2) == 0)
		case 1:
			return r.changeNumber(tx, network, r.IntN(2) == 0)
		case 2:
			return r.changeOutsideAddress(tx, network, addr, r.IntN(2) == 0)
		}
		return r.changeOutsideSlice(tx, r.IntN(2) == 0)
	}
	name := rec.Pod.UID + "." + rec.Attachment
	return errors.Join(
		multinet.PutClaim(tx, &multinet.Claim{
			Meta: store.Meta{UID: name}, Namespace: rec.Pod.Namespace, Name: name, PodUID: rec.Pod.UID, Node: "node1", Interface: rec.Attachment, Network: network,
		}),
		multinet.PutDomainClaim(tx, numbered(1<<24+uint32(r.IntN(3)), network)),
		store.PutAddress(tx, outsideAddress(network, addr, "ns", "p2")),
		store.PutService(tx, service),
		store.PutEndpointSlice(tx, outsideSlice(network, "ns", "lan", store.Endpoint{Addresses: ips(addr), Ready: true, PodUID: "p2", Named: true})),
	)
}
