// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver

import (
	"encoding/json"
	"net"
	"net/netip"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/alioth-net/alioth/cnid/cni/attachment"
)

// result returns the result of an ADD in the requested version.
func result(c command, list []attachment.Attached) (json.RawMessage, error) {
	res := &types100.Result{CNIVersion: types100.ImplementedSpecVersion}
	for _, one := range list {
		merge(res, one)
	}
	if c.conf.CNIVersion != types100.ImplementedSpecVersion {
		// The key came with this version, and the conversion to earlier ones
		// would keep it.
		for _, iface := range res.Interfaces {
			iface.Mtu = 0
		}
	}
	asked, err := res.GetAsVersion(c.conf.CNIVersion)
	if err != nil {
		return nil, types.NewError(types.ErrIncompatibleCNIVersion, "convert result", err.Error())
	}
	return json.Marshal(asked)
}

// merge adds an attachment: its ends, the node's first where it has one, and the
// addresses, each with the index of the pod's end.
func merge(res *types100.Result, one attachment.Attached) {
	if one.Link.Result != nil {
		mergeReported(res, one)
		return
	}
	if one.HostIfName != "" {
		res.Interfaces = append(
			res.Interfaces,
			&types100.Interface{Name: one.HostIfName, Mac: one.Link.HostMAC.String(), Mtu: one.MTU},
		)
	}
	inPod := len(res.Interfaces)
	res.Interfaces = append(
		res.Interfaces,
		&types100.Interface{Name: one.IfName, Mac: one.Ethernet().String(), Mtu: one.MTU, Sandbox: one.NetnsPath},
	)
	res.Interfaces[inPod].PciID = one.PCI
	for i, addr := range one.Addrs {
		ip := &types100.IPConfig{Interface: &inPod, Address: ipNet(addr)}
		if i < len(one.Gateways) {
			ip.Gateway = one.Gateways[i].AsSlice()
			res.Routes = append(res.Routes, &types.Route{Dst: ipNet(everywhere(addr.Addr())), GW: ip.Gateway})
		}
		res.IPs = append(res.IPs, ip)
	}
	for _, route := range one.Routes {
		if route.Table == 0 { // the key for others came with CNI 1.1
			res.Routes = append(res.Routes, &types.Route{Dst: ipNet(route.Dst), GW: route.Gateway.AsSlice()})
		}
	}
}

// mergeReported adds the reports of a delegated attachment's plugins. It turns the indices of its
// interfaces into indices of the whole result. It leaves out the DNS configuration: a pod's DNS
// configuration comes from its first network.
func mergeReported(res *types100.Result, one attachment.Attached) {
	reported, first := one.Link.Result, len(res.Interfaces)
	for _, iface := range reported.Interfaces {
		res.Interfaces = append(res.Interfaces, &types100.Interface{
			Name: iface.Name, Mac: iface.MAC, Mtu: iface.MTU, Sandbox: iface.Sandbox, SocketPath: iface.SocketPath,
			PciID: iface.PCIID,
		})
	}
	if _, ok := reported.InPod(one.IfName); !ok { // results before CNI 0.3.0 have no interfaces
		res.Interfaces = append(res.Interfaces, &types100.Interface{Name: one.IfName, Sandbox: one.NetnsPath})
	}
	inPod := slices.IndexFunc(
		res.Interfaces,
		func(i *types100.Interface) bool { return i.Name == one.IfName && i.Sandbox != "" },
	)
	for _, addr := range reported.Addrs {
		// Runtimes count an address without an interface as one of the pod's first.
		index := inPod
		if addr.Interface >= 0 && addr.Interface < len(reported.Interfaces) {
			index = first + addr.Interface
		}
		res.IPs = append(
			res.IPs,
			&types100.IPConfig{Interface: &index, Address: ipNet(addr.Addr), Gateway: addr.Gateway.AsSlice()},
		)
	}
	for _, route := range reported.Routes {
		res.Routes = append(res.Routes, &types.Route{Dst: ipNet(route.Dst), GW: route.Gateway.AsSlice()})
	}
	for _, route := range one.Routes { // routes of the network, or default routes that the pod requests
		if route.Table == 0 && reported.Lacks(route, one.IfName) {
			res.Routes = append(res.Routes, &types.Route{Dst: ipNet(route.Dst), GW: route.Gateway.AsSlice()})
		}
	}
}

func everywhere(family netip.Addr) netip.Prefix {
	if family.Is4() {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
}

func ipNet(p netip.Prefix) net.IPNet {
	return net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
