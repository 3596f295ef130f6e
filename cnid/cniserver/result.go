// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver

import (
	"encoding/json"
	"net"
	"net/netip"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/journal"
)

// result answers an ADD in the version asked for.
func result(c command, rec journal.Record, host attach.Link) (json.RawMessage, error) {
	res := &types100.Result{
		CNIVersion: types100.ImplementedSpecVersion,
		Interfaces: []*types100.Interface{
			{Name: host.HostIfName, Mac: host.HostMAC.String()},
			{Name: rec.IfName, Mac: rec.MAC.String(), Sandbox: rec.NetnsPath},
		},
	}
	if c.conf.CNIVersion == types100.ImplementedSpecVersion {
		// The key came with this version, and the conversion to earlier ones
		// would keep it.
		res.Interfaces[0].Mtu, res.Interfaces[1].Mtu = rec.MTU, rec.MTU
	}
	inPod := 1
	for i, addr := range rec.Addrs {
		ip := &types100.IPConfig{Interface: &inPod, Address: ipNet(addr)}
		if i < len(rec.Gateways) {
			ip.Gateway = rec.Gateways[i].AsSlice()
			res.Routes = append(res.Routes, &types.Route{Dst: ipNet(everywhere(addr.Addr())), GW: ip.Gateway})
		}
		res.IPs = append(res.IPs, ip)
	}
	asked, err := res.GetAsVersion(c.conf.CNIVersion)
	if err != nil {
		return nil, types.NewError(types.ErrIncompatibleCNIVersion, "convert result", err.Error())
	}
	return json.Marshal(asked)
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
