// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package delegate

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/types/create"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
)

// maxPCIID is the length of the PCI addresses that are kept, in bytes. Linux writes 12 or 13.
const maxPCIID = 64

// result returns the result that a plugin printed, in the version of the list. A result without a
// version counts as one in the version of the list, as in package libcni.
func (c chain) result(out []byte) (json.RawMessage, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(out, &raw); err != nil || raw == nil {
		return nil, fmt.Errorf("its output is not a result of CNI: %s", quoted(out))
	}
	var version string
	_ = json.Unmarshal(raw["cniVersion"], &version) // another type counts as none
	if version == c.CNIVersion {
		return out, c.readable(out)
	}
	if version == "" {
		encoded, err := json.Marshal(c.CNIVersion)
		if err != nil {
			return nil, err
		}
		raw["cniVersion"] = encoded
		if out, err = json.Marshal(raw); err != nil {
			return nil, err
		}
		return out, c.readable(out)
	}
	res, err := create.CreateFromBytes(out)
	if err == nil {
		res, err = res.GetAsVersion(c.CNIVersion)
	}
	if err != nil {
		return nil, fmt.Errorf("its result of version %q can't be converted to %s: %w", version, c.CNIVersion, err)
	}
	return json.Marshal(res)
}

func (c chain) readable(out []byte) error {
	if _, err := create.CreateFromBytes(out); err != nil {
		return fmt.Errorf("its result can't be read: %w: %s", err, quoted(out))
	}
	return nil
}

// Result returns the result of the ADD.
func (k Kept) Result() (*ifdriver.Result, error) {
	if len(k.RawResult) == 0 {
		return nil, errors.New("the ADD of the delegated attachment has not ended")
	}
	read, err := create.CreateFromBytes(k.RawResult)
	if err != nil {
		return nil, fmt.Errorf("read the result of a delegated attachment: %w", err)
	}
	res, err := types100.NewResultFromResult(read)
	if err != nil {
		return nil, fmt.Errorf("convert the result of a delegated attachment: %w", err)
	}
	return plain(res)
}

func plain(res *types100.Result) (*ifdriver.Result, error) {
	out := &ifdriver.Result{DNS: ifdriver.ResultDNS{
		Nameservers: res.DNS.Nameservers, Domain: res.DNS.Domain, Search: res.DNS.Search, Options: res.DNS.Options,
	}}
	for _, i := range res.Interfaces {
		if i == nil {
			return nil, errors.New("the result has an interface that is null")
		}
		out.Interfaces = append(out.Interfaces, ifdriver.ResultInterface{
			Name: i.Name, MAC: i.Mac, MTU: i.Mtu, Sandbox: i.Sandbox, SocketPath: i.SocketPath,
			PCIID: quote.Cut(i.PciID, maxPCIID),
		})
	}
	for _, ip := range res.IPs {
		addr, err := plainAddr(ip, len(res.Interfaces))
		if err != nil {
			return nil, err
		}
		out.Addrs = append(out.Addrs, addr)
	}
	for _, r := range res.Routes {
		route, err := plainRoute(r)
		if err != nil {
			return nil, err
		}
		out.Routes = append(out.Routes, route)
	}
	return out, nil
}

func plainAddr(ip *types100.IPConfig, interfaces int) (ifdriver.ResultAddr, error) {
	if ip == nil {
		return ifdriver.ResultAddr{}, errors.New("the result has an address that is null")
	}
	prefix, ok := prefixOf(ip.Address)
	if !ok {
		return ifdriver.ResultAddr{}, fmt.Errorf("the result has the address %q", ip.Address.String())
	}
	addr := ifdriver.ResultAddr{Addr: prefix, Gateway: addrOf(ip.Gateway), Interface: -1}
	if ip.Interface != nil {
		addr.Interface = *ip.Interface
	}
	if addr.Interface < -1 || addr.Interface >= interfaces {
		return addr, fmt.Errorf(
			"the result has address %s of interface %d, and %d interfaces",
			prefix,
			addr.Interface,
			interfaces,
		)
	}
	return addr, nil
}

func plainRoute(r *types.Route) (ifdriver.ResultRoute, error) {
	if r == nil {
		return ifdriver.ResultRoute{}, errors.New("the result has a route that is null")
	}
	dst, ok := prefixOf(r.Dst)
	if !ok {
		return ifdriver.ResultRoute{}, fmt.Errorf("the result has a route to %q", r.Dst.String())
	}
	route := ifdriver.ResultRoute{Dst: dst, Gateway: addrOf(r.GW), MTU: r.MTU, AdvMSS: r.AdvMSS, Priority: r.Priority}
	if r.Table != nil {
		route.Table = *r.Table
	}
	if r.Scope != nil {
		route.Scope = *r.Scope
	}
	return route, nil
}

func prefixOf(n net.IPNet) (netip.Prefix, bool) {
	addr := addrOf(n.IP)
	ones, bits := n.Mask.Size()
	if addr.IsValid() && bits == 128 && addr.Is4() {
		ones -= 96 // the mask of an IPv4-mapped address
	}
	prefix := netip.PrefixFrom(addr, ones)
	return prefix, bits > 0 && prefix.IsValid()
}

func addrOf(ip net.IP) netip.Addr {
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap()
}
