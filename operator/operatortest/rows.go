// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package operatortest makes stores for tests of the operator's plans.
package operatortest

import (
	"net/netip"
	"testing"
	"time"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds"
)

// New returns a store that holds the rows, which are pointers to the row types
// of package store.
func New(t testing.TB, rows ...any) *store.Store {
	t.Helper()
	return Central(t, rows...).Store
}

// Central returns the store of an operator that holds the rows.
func Central(t testing.TB, rows ...any) store.Central {
	t.Helper()
	s, err := store.NewCentral()
	if err != nil {
		t.Fatal(err)
	}
	err = s.Update(func(tx store.Tx) error {
		for _, row := range rows {
			if err := kinds.OfRow(row).Put(tx, row); err != nil {
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

// Meta returns the metadata of an object that was made age seconds after the first one.
func Meta(uid string, age int) store.Meta {
	return store.Meta{UID: uid, Created: time.Unix(int64(1_000_000+age), 0)}
}

// VPC returns a VPC that is ready, with the UID "uid-<name>".
func VPC(name string, vni uint32, tenants []string, cidrs ...string) *store.VPC {
	return &store.VPC{
		Meta: Meta("uid-"+name, 0), Name: name, VNI: vni, Ready: true,
		AllowedTenants: tenants, Prefixes: Prefixes(cidrs...),
	}
}

// Subnet returns a subnet that is ready, with the UID "uid-<name>" and the first
// address of each range as the gateway.
func Subnet(name, vpc, short string, age int, cidrs ...string) *store.Subnet {
	s := &store.Subnet{
		Meta: Meta("uid-"+name, age), Name: name, VPC: vpc, ShortName: short, Ready: true, Prefixes: Prefixes(cidrs...),
	}
	for _, prefix := range s.Prefixes {
		s.Gateways = append(s.Gateways, prefix.Addr().Next())
	}
	return s
}

// Network returns a Network of the served type, with the UID
// "uid-<namespace>-<name>".
func Network(tenant, namespace, name, vpc string, age int) *store.Network {
	return &store.Network{
		Meta: Meta("uid-"+namespace+"-"+name, age), Namespace: namespace, Name: name, Tenant: tenant,
		Type: "mizar", VPC: vpc,
	}
}

// Pod returns a pod that is bound to node-1, with the UID
// "uid-<namespace>-<name>".
func Pod(tenant, namespace, name, network, nic string) *store.Pod {
	return &store.Pod{
		Meta: Meta("uid-"+namespace+"-"+name, 0), Namespace: namespace, Name: name, Tenant: tenant,
		Node: "node-1", Network: network, NIC: nic,
	}
}

// Address returns one address of the set that a pod holds as eth0, its only interface, on node-1.
// The UID is "uid-<name of the object>".
func Address(vpc, subnet, ip string, pod *store.Pod, set ...string) *store.Address {
	addr := netip.MustParseAddr(ip)
	row := &store.Address{
		Name: v1alpha1.AddressName(vpc, addr), VPC: vpc, Subnet: subnet, IP: addr, MAC: "02:00:00:00:00:01",
		Node: "node-1", Attachment: v1alpha1.PodAttachment, Set: Addrs(append([]string{ip}, set...)...),
		Holder: store.Holder{Kind: store.HolderPod, Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Config: &netif.VPCConfig{}, Interfaces: []string{v1alpha1.PodAttachment},
	}
	row.Meta = Meta("uid-"+row.Name, 0)
	return row
}

// ServiceAddress returns one address of the set that a Service holds in a VPC. The
// UID is "uid-<name of the object>".
func ServiceAddress(vpc, subnet, ip string, service *store.Service, set ...string) *store.Address {
	addr := netip.MustParseAddr(ip)
	row := &store.Address{
		Name: v1alpha1.AddressName(
			vpc,
			addr,
		), VPC: vpc, Subnet: subnet, IP: addr, Set: Addrs(append([]string{ip}, set...)...),
		Holder: service.AsHolder(),
	}
	row.Meta = Meta("uid-"+row.Name, 0)
	return row
}

// Prefixes parses CIDRs.
func Prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// Addrs parses addresses and sorts them as sets are, IPv4 first.
func Addrs(texts ...string) []netip.Addr {
	var v4, v6 []netip.Addr
	for _, text := range texts {
		if addr := netip.MustParseAddr(text); addr.Is4() {
			v4 = append(v4, addr)
		} else {
			v6 = append(v6, addr)
		}
	}
	return append(v4, v6...)
}

// Term is a term of the operator that is settled, or not.
type Term bool

// Settled reports whether addresses and VNIs may be chosen.
func (t Term) Settled() bool { return bool(t) }
