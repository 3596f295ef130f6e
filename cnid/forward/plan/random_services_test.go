// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
	"github.com/alioth-net/alioth/store/rules/services"
)

// changeBalancer claims an address for a Service that there is, where it is served,
// releases one, or recreates the Service.
func (r *randomWorld) changeBalancer(tx store.Tx, release bool) error {
	all := store.ListServices(tx)
	if len(all) == 0 {
		return nil
	}
	row := *all[r.IntN(len(all))]
	held := store.AddressesNaming(tx, row.UID)
	switch {
	case release && len(held) > 0:
		store.DeleteAddress(tx, held[0].Name, held[0].UID)
		return nil
	case row.LoadBalancer != store.LoadBalancerVPC:
		row.LoadBalancer = store.LoadBalancerVPC
		return store.PutService(tx, &row)
	case r.IntN(8) == 0:
		store.DeleteService(tx, row.Namespace, row.Name, row.UID)
		row.UID = r.serviceUID(row.Namespace, row.Name)
		return store.PutService(tx, &row)
	}
	vpc, ip := services.VPCOf(tx, &row, "default"), r.ip()
	if vpc == "" {
		return nil
	}
	name := vpc + "." + ip
	return store.PutAddress(tx, &store.Address{
		Meta: r.meta(name), Name: name, VPC: vpc, Subnet: "s1", IP: netip.MustParseAddr(ip),
		Holder: row.AsHolder(),
	})
}

// changeExposed changes what addresses from outside go by, and what they lead to beside
// pods of VPCs.
func (r *randomWorld) changeExposed(tx store.Tx, remove bool) error {
	switch addr := netip.MustParseAddr(r.exposed()); r.IntN(6) {
	case 0:
		name := r.of("e1", "e2")
		if remove {
			external.DeletePool(tx, name, name)
			return nil
		}
		return external.PutPool(tx, &external.Pool{
			Meta: r.meta(name), Name: name, Ranges: []store.AddrRange{{First: ip("203.0.113.1"), Last: addr}},
			AllowedTenants: []string{r.of("t1", "t2", "*")}, ForExternalIPs: r.IntN(4) > 0, Ready: r.IntN(4) > 0,
		})
	case 1:
		if remove {
			external.DeleteAddress(tx, addr, addr.String())
			return nil
		}
		namespace, name := r.serviceName()
		return external.PutAddress(tx, &external.Address{
			Meta: r.meta(addr.String()), IP: addr, Pool: "e1", Node: r.of("", "node1", "node2"),
			Holder: store.Holder{Kind: store.HolderService, Namespace: namespace, Name: name, UID: r.serviceUID(namespace, name)},
		})
	case 2:
		uid := r.of("p0", "p1", "p2")
		if remove {
			store.DeleteHostPod(tx, uid)
			return nil
		}
		return store.PutHostPod(tx, &store.HostPod{
			Meta: store.Meta{UID: uid}, Namespace: r.of("default", "kube-system", "shop"), Name: uid, Node: r.of("node1", "node2"), Terminal: r.IntN(4) == 0,
		})
	case 3:
		return r.changeServiceRange(tx, remove)
	}
	all := store.ListServices(tx)
	if len(all) == 0 {
		return nil
	}
	row := *all[r.IntN(len(all))]
	row.ExternalIPs = ips(r.exposed(), r.exposed())[r.IntN(3):]
	row.SourceRanges = [][]netip.Prefix{nil, {}, prefixes("198.51.100.0/24")}[r.IntN(3)]
	row.LoadBalancer = r.of("", store.LoadBalancerExternal, store.LoadBalancerExternal)
	return store.PutService(tx, &row)
}

// changeBackendHere has a Service with a node port lead to a pod of its VPC that is here, or
// to one on this node's network.
func (r *randomWorld) changeBackendHere(tx store.Tx) error {
	rec := r.anyRecord()
	if rec == nil {
		return nil
	}
	all := slices.DeleteFunc(store.ListServices(tx), func(row *store.Service) bool { return services.VPCOf(tx, row, "default") != rec.VPC })
	if len(all) == 0 {
		return nil
	}
	row := *all[r.IntN(len(all))]
	row.Ports = []store.ServicePort{{Name: "p", Protocol: "TCP", Port: 443, NodePort: 30443}}
	endpoint := store.Endpoint{Ready: r.IntN(3) > 0, Terminating: true, Node: "node1", PodUID: rec.Pod.UID, Addresses: ips("192.0.2.1")}
	var err error
	if addr := netip.MustParseAddr(r.exposed()); r.IntN(2) == 0 {
		row.LoadBalancer = store.LoadBalancerExternal
		err = external.PutAddress(tx, &external.Address{Meta: r.meta(addr.String()), IP: addr, Pool: "e1", Holder: row.AsHolder()})
	}
	err = errors.Join(err, store.PutService(tx, &row))
	if r.IntN(4) == 0 {
		err = errors.Join(err, hostPod(rec.Pod.UID, row.Namespace, "node1", false)(tx))
	} else {
		addr := rec.Addrs[0].Addr()
		endpoint.Addresses = []netip.Addr{addr}
		name := rec.VPC + "." + addr.String()
		err = errors.Join(err, store.PutAddress(tx, &store.Address{
			Meta: r.meta(name), Name: name, VPC: rec.VPC, Subnet: "s1", IP: addr, MAC: "02:00:00:00:01:01", Node: "node1",
			Holder: store.Holder{Kind: store.HolderPod, Namespace: row.Namespace, Name: "p", UID: rec.Pod.UID},
		}))
	}
	return errors.Join(err, slice(row.Namespace, row.Name, row.Name, row.Ports, endpoint)(tx))
}

func (r *randomWorld) exposed() string { return fmt.Sprintf("203.0.113.%d", 1+r.IntN(8)) }

func (r *randomWorld) serviceName() (namespace, name string) {
	switch r.IntN(3) {
	case 0:
		return "kube-system", r.of("kube-dns", "other")
	case 1:
		return "shop", r.of("kube-dns", "other", "web")
	}
	return "default", r.of("kubernetes", "web")
}

// serviceUID returns the UID of a Service, or of an earlier or later Service of the name.
func (r *randomWorld) serviceUID(namespace, name string) string {
	return namespace + "/" + name + r.of("", "", "", " again")
}

func (r *randomWorld) changeService(tx store.Tx, remove bool) error {
	namespace, name := r.serviceName()
	ports := []store.ServicePort{{Name: "p", Protocol: r.of("TCP", "UDP"), Port: 443, NodePort: uint16(r.IntN(2)) * 30443}, {Name: "q", Protocol: "TCP", Port: 80}}[r.IntN(2):]
	switch r.IntN(4) {
	case 0:
		if remove {
			if held := store.GetService(tx, namespace, name); held != nil {
				store.DeleteService(tx, namespace, name, held.UID)
			}
			return nil
		}
		return store.PutService(tx, &store.Service{
			Meta: r.meta(r.serviceUID(namespace, name)), Namespace: namespace, Name: name, Network: r.of("", "", "shop"), Ports: ports,
			HealthCheckNodePort: []uint16{0, 0, 30444}[r.IntN(3)],
			ClusterIPs:          ips("10.96.0.1", "10.96.0.2", "10.96.0.3")[r.IntN(3):],
			Selectorless:        r.IntN(2) == 0,
			NodeLocal:           r.IntN(3) == 0,
			ExternalNodeLocal:   r.IntN(3) == 0,
			Affinity:            time.Duration(r.IntN(2)) * time.Hour,
			LoadBalancer:        r.of("", store.LoadBalancerVPC, store.LoadBalancerExternal),
		})
	case 1:
		if remove {
			store.DeleteSharedService(tx, name, name)
			return nil
		}
		return store.PutSharedService(tx, &store.SharedService{Meta: store.Meta{UID: name}, Name: name, ServiceNamespace: namespace, ServiceName: name})
	}
	of := r.of("kubernetes", "web", "kube-dns", "other")
	if remove {
		store.DeleteEndpointSlice(tx, namespace, name, name)
		return nil
	}
	ends := []store.Endpoint{
		ready(r.ip()),
		ready(r.of(r.ip(), "192.0.2.1", "203.0.113.7")),
		{Addresses: ips(r.of(r.ip(), "192.0.2.2", "10.97.0.1")), Terminating: true},
	}
	for i := range ends {
		ends[i].Node = r.of("node1", "node2", "node3", "")
		ends[i].PodUID = r.of("", "p0", "p1", "p2", "b1", "b1")
		ends[i].ForZones = [][]string{nil, {"a"}, {"b"}}[r.IntN(3)]
		ends[i].ForNodes = [][]string{nil, nil, {"node1"}, {"node2"}}[r.IntN(4)]
	}
	return slice(namespace, of, name, ports, ends[r.IntN(3):]...)(tx)
}
