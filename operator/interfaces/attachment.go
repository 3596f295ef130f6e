// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package interfaces

import (
	"net/netip"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/operator/pod"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// attachment returns the attachment for a request, with the fields that all sorts of networks have.
func (cfg Config) attachment(tx store.ReadTx, r request) (pod.Desired, *tenancy.Refusal) {
	w, refusal := cfg.inNetwork(tx, r)
	if r.decided == nil {
		w.Definition = r.definition
	}
	w.DefaultRoute, w.NoDefaultRoute, w.Notices = r.defaultRoute, r.noDefaultRoute, r.notices
	return w, refusal
}

// inNetwork returns the attachment by the sort of its network.
func (cfg Config) inNetwork(tx store.ReadTx, r request) (pod.Desired, *tenancy.Refusal) {
	if r.decided != nil {
		return *r.decided, nil
	}
	if r.inVPC() {
		return pod.Desired{
			Interface: r.name, Kind: netif.KindPair, Network: r.target.NetworkKey(),
			Binding: pod.Binding{VPC: r.target.VPC.Name}, Subnet: r.Subnet, IPs: r.literals(),
		}, nil
	}
	if r.net == nil {
		return r.ofDefinition(), nil
	}
	if refusal := checkRoutes(r); refusal != nil {
		return pod.Desired{}, refusal
	}
	w := pod.Desired{
		Interface: r.name, Kind: r.net.Type,
		Binding: pod.Binding{Outside: r.net.Reference(), Range: ipam.RangeOf(tx, r.net)},
		IPs:     r.literals(),
		Families: ipam.Families{
			V4: r.IP.Mode == annotations.AddressDynamic, V6: r.IP6.Mode == annotations.AddressDynamic,
		},
	}
	if r.delegate != nil { // the rest of the interface is the plugins'
		w.Kind, w.Delegate = netif.KindDelegate, &r.delegate.Delegate
		w.Link.Routes, w.Link.Rules = r.routes(), r.rules()
		return w, nil
	}
	w.Link = r.net.Settings
	w.Link.Routes, w.Link.Rules, w.Link.IPv6 = r.routes(), r.rules(), ipv6Of(r.IP6.Mode)
	w.Link.Parent, w.Link.VLAN, w.Link.VXLAN = r.net.HostDevice, r.net.VLAN, r.net.VXLAN
	if r.onDevice() {
		w.Link.Pool, w.Link.VF = r.net.DevicePool, &r.vf
	}
	return w, nil
}

// ofDefinition returns the attachment for a request that CNI plugins carry out by the
// configuration of a definition.
func (r request) ofDefinition() pod.Desired {
	w := pod.Desired{
		Interface: r.name, Kind: netif.KindDelegate, Binding: pod.Binding{Outside: r.delegate.network},
		Delegate: &r.delegate.Delegate,
	}
	if link := r.delegate.link; link != nil {
		w.Link.Parent, w.Link.VLAN, w.Link.VXLAN = link.Master, link.VLAN, link.VXLAN
	}
	for _, route := range r.defaultRoutes() {
		w.Link.Routes = append(w.Link.Routes, netif.Route{Dst: route.Dst, Gateway: route.Gateway})
	}
	return w
}

// literals returns the requested addresses, IPv4 first.
func (r request) literals() []netip.Addr {
	var ips []netip.Addr
	for _, one := range []annotations.AddressRequest{r.IP, r.IP6} {
		if one.Mode == annotations.AddressStatic {
			ips = append(ips, one.IP)
		}
	}
	return ips
}

// addressed reports whether the interface gets an address of a family.
func (r request) addressed(family ipfamily.Family) bool {
	mode := ipfamily.Pick(family, r.IP, r.IP6).Mode
	return mode == annotations.AddressDynamic || mode == annotations.AddressStatic
}

// ipv6Of returns the state of IPv6 on an interface (netif.Config): without a request the
// interface has none.
func ipv6Of(mode annotations.AddressMode) netif.IPv6 {
	switch mode {
	case annotations.AddressNone:
		return netif.IPv6None
	case annotations.AddressDynamic, annotations.AddressStatic:
		return netif.IPv6On
	case annotations.AddressAbsent:
	}
	return netif.IPv6Off
}
