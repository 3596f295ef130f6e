// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/types/create"

	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

// resultOf returns the CNI result for one interface. The other entries are of delegated
// devices, and of interfaces that other commands make.
func resultOf(entries []wire.PodIPInfo, ifName string) (*types100.Result, error) {
	res := &types100.Result{CNIVersion: types100.ImplementedSpecVersion}
	for _, entry := range entries {
		if entry.InterfaceName != ifName {
			continue
		}
		if err := add(res, entry); err != nil {
			return nil, fmt.Errorf("the service's answer: %w", err)
		}
	}
	if len(res.IPs) == 0 {
		return nil, fmt.Errorf("the pod has no address for interface %s", ifName)
	}
	return res, nil
}

// add adds one address with its routes.
func add(res *types100.Result, entry wire.PodIPInfo) error {
	addr, err := netip.ParseAddr(entry.PodIPConfig.IPAddress)
	if err != nil {
		return err
	}
	prefix, err := addr.Prefix(int(entry.PodIPConfig.PrefixLength))
	if err != nil {
		return err
	}
	gateway, err := optional(entry.NetworkContainerPrimaryIPConfig.GatewayIPAddress)
	if err != nil {
		return err
	}
	res.IPs = append(
		res.IPs,
		&types100.IPConfig{Address: IPNet(netip.PrefixFrom(addr, prefix.Bits())), Gateway: gateway.AsSlice()},
	)
	if !entry.SkipDefaultRoutes && gateway.IsValid() {
		unspecified := netip.IPv4Unspecified()
		if addr.Is6() {
			unspecified = netip.IPv6Unspecified()
		}
		res.Routes = append(res.Routes, &types.Route{Dst: IPNet(netip.PrefixFrom(unspecified, 0)), GW: gateway.AsSlice()})
	}
	for _, server := range entry.NetworkContainerPrimaryIPConfig.DNSServers {
		if !slices.Contains(res.DNS.Nameservers, server) {
			res.DNS.Nameservers = append(res.DNS.Nameservers, server)
		}
	}
	return addRoutes(res, entry.Routes, prefix, gateway)
}

// addRoutes adds the routes of an entry. The gateways in them belong to CNS, whose own plugins
// answer for them. Other plugins reach only the addresses in the subnet, so that they get the
// subnet's own gateway.
func addRoutes(res *types100.Result, routes []wire.Route, subnet netip.Prefix, gateway netip.Addr) error {
	for _, route := range routes {
		dst, err := netip.ParsePrefix(route.IPAddress)
		if err != nil {
			return err
		}
		via, err := optional(route.GatewayIPAddress)
		if err != nil {
			return err
		}
		if via.IsValid() && !subnet.Contains(via) && gateway.IsValid() {
			via = gateway
		}
		res.Routes = append(res.Routes, &types.Route{Dst: IPNet(dst), GW: via.AsSlice()})
	}
	return nil
}

// optional reads an address, the zero value for "".
func optional(text string) (netip.Addr, error) {
	if text == "" {
		return netip.Addr{}, nil
	}
	return netip.ParseAddr(text)
}

// IPNet returns a prefix as the types of CNI have it, with all bits of its address.
func IPNet(p netip.Prefix) net.IPNet {
	return net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// Lacking returns an error if a previous result (CNI 1.1, section "CHECK") lacks one of the
// addresses.
func Lacking(cniVersion string, prevResult json.RawMessage, addresses []netip.Prefix) error {
	prev, err := create.Create(cniVersion, prevResult)
	if err != nil {
		return types.NewError(types.ErrDecodingFailure, "decode prevResult", err.Error())
	}
	res, err := types100.NewResultFromResult(prev)
	if err != nil {
		return types.NewError(types.ErrDecodingFailure, "convert prevResult", err.Error())
	}
	known := map[string]bool{}
	for _, ip := range res.IPs {
		known[ip.Address.String()] = true
	}
	for _, want := range addresses {
		if !known[want.String()] {
			return types.NewError(types.ErrInternal, fmt.Sprintf("prevResult lacks the address %s", want), "")
		}
	}
	return nil
}
