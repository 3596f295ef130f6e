// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
)

// Request asks for the addresses of one attachment, or of a Service.
type Request struct {
	// VPC to take them from, which must have its VNI; "" with a Network.
	VPC string
	// Network outside of every VPC to take them from; nil in a VPC.
	Network *NetworkRange
	// Subnet asked for, by spec.name or object name; "" for any.
	Subnet string
	// requested IPs, at most one per family. Families that are not named are chosen.
	IPs []netip.Addr
	// Families are the families of the requested addresses. The zero value means all families of
	// the subnet. In a Network it means the families of IPs alone: an interface need not have
	// addresses.
	Families Families
	// Node, Holder and Attachment describe the holder; a Service is on no node and has no
	// attachment. A requested IP does not conflict if the same attachment of the same holder has it
	// already.
	Node       string
	Holder     store.Holder
	Attachment string
	// External: another CNI plugin makes the interface.
	External bool
	// Config is the configuration of the interface of a pod in a VPC, nil for others. Interfaces are
	// the names of all interfaces of the pod, nil if this is not the first one. They are for the node.
	Config     *netif.VPCConfig
	Interfaces []string
	// Devices are the Ethernet addresses of devices of the node; nil for an interface without a
	// device. A device that no other attachment has becomes the interface.
	Devices []string
	// Instance is namespace/name of the PodNetworkInstance whose reserved addresses the holder may
	// have, "" for none. If the instance has reserved addresses for PodNetwork, the holder gets one
	// of these.
	Instance, PodNetwork string
	// OwnerUID is the UID of the controller that made the holder, or "".
	OwnerUID string
	// Exclude are IPs of the VPC that are taken although the store does not have
	// their claims yet.
	Exclude map[netip.Addr]struct{}
	// Resting has the addresses that were released shortly before Now. It may
	// be nil.
	Resting *Resting
	Now     time.Time
}

// Domain returns the domain of the requested addresses: the name of the VPC, or the domain
// of the network outside of every VPC.
func (req *Request) Domain() string {
	if req.Network != nil {
		return req.Network.Domain()
	}
	return req.VPC
}

// Families is a set of address families.
type Families struct{ V4, V6 bool }

// FamiliesOf returns the families of addresses.
func FamiliesOf(ips []netip.Addr) Families {
	var f Families
	for _, ip := range ips {
		f.V4, f.V6 = f.V4 || ip.Is4(), f.V6 || !ip.Is4()
	}
	return f
}

// String lists the families.
func (f Families) String() string {
	switch f {
	case Families{V4: true}:
		return "IPv4"
	case Families{V6: true}:
		return "IPv6"
	}
	return "IPv4 and IPv6"
}

// Count returns how many families there are.
func (f Families) Count() int {
	switch f {
	case Families{}:
		return 0
	case Families{V4: true, V6: true}:
		return 2
	}
	return 1
}

// has reports whether a family is in the set.
func (f Families) has(family ipfamily.Family) bool { return ipfamily.Pick(family, f.V4, f.V6) }

// wanted reports whether an address of a family is asked for.
func (f Families) wanted(family ipfamily.Family) bool {
	return f == Families{} || f.has(family)
}

// in reports whether a subnet has all of the families.
func (f Families) in(subnet *store.Subnet) bool {
	has := Families{}
	for _, prefix := range subnet.Prefixes {
		has.V4, has.V6 = has.V4 || prefix.Addr().Is4(), has.V6 || !prefix.Addr().Is4()
	}
	return (has.V4 || !f.V4) && (has.V6 || !f.V6)
}

// Result is the reply to a Request.
type Result struct {
	// Subnet that the addresses are from; nil in a network outside of every VPC.
	Subnet *store.Subnet
	// Network outside of every VPC; the zero value in a VPC.
	Network store.NetworkRef
	// IPs, one per family of the request or else of the subnet, IPv4 first.
	IPs []netip.Addr
	// MAC is the MAC of the attachment, "" without one.
	MAC string
	// Cursors are the cursors of the IPs that were not requested.
	Cursors []netip.Addr
	// Rows of the Address objects to create, in the order of IPs.
	Rows []*store.Address
}

// Choose finds addresses for a request:
//
//	neither IPs nor Subnet   the first Ready subnet with a free address per family:
//	                         the oldest, of one age the one with the lowest name
//	Subnet                   that subnet and never another one
//	IPs                      the subnet that contains them
//	both                     that subnet, which must contain the IPs
//
// In a network outside of every VPC the network is the only source of addresses. A refusal
// is an *Error.
func Choose(tx store.ReadTx, req Request) (Result, error) {
	if req.Network != nil {
		now, err := req.Network.Renewed(tx)
		if err != nil {
			return Result{}, err
		}
		req.Network = now
		return chooseInNetwork(tx, &req)
	}
	vpc := store.GetVPC(tx, req.VPC)
	if vpc == nil || vpc.VNI == 0 {
		return Result{}, refuse(v1alpha1.NetworkNotReadyReason, WhenSubnetsChange,
			"VPC %q does not exist or has no VNI yet", req.VPC)
	}
	if err := instanceServes(tx, &req); err != nil {
		return Result{}, err
	}
	candidates, err := candidateSubnets(tx, &req)
	if err != nil {
		return Result{}, err
	}
	device, err := freeDevice(tx, &req)
	if err != nil {
		return Result{}, err
	}
	for _, subnet := range candidates {
		if result, ok := chooseIn(tx, subnet, &req); ok {
			result.MAC = device
			return finish(result, vpc, &req), nil
		}
	}
	return Result{}, exhausted(candidates, &req)
}

// Assume puts the rows and cursors of a Result into the store, so that later choices see them
// before the API does. It belongs into the transaction of the Choose. Rows that the holder has
// already stay as they are, and replace rows that are held back for it.
func Assume(tx store.Tx, result Result) error {
	for _, row := range result.Rows {
		if held := store.GetAddress(tx, row.Name); held != nil {
			if sameAttachment(held, row) {
				continue
			}
			if held.IsHeldBack() && held.CountsFor(row.Holder, row.Node) {
				store.DeleteAddress(tx, held.Name, "")
			}
		}
		if err := store.AssumeAddress(tx, row); err != nil {
			return err
		}
	}
	for _, ip := range result.Cursors {
		if err := setCursor(tx, result, ip); err != nil {
			return err
		}
	}
	return nil
}

func setCursor(tx store.Tx, result Result, ip netip.Addr) error {
	if result.Subnet == nil {
		return store.SetNetworkCursor(tx, result.Network.Domain(), ip)
	}
	return store.SetCursor(tx, result.Subnet.Name, ip)
}

func sameAttachment(a, b *store.Address) bool {
	return a.CountsFor(b.Holder, b.Node) && a.Attachment == b.Attachment
}

// candidateSubnets returns the subnets that may serve a request, in the order of the attempts.
// Subnets that contain the requested IPs have been checked to be able to give them.
func candidateSubnets(tx store.ReadTx, req *Request) ([]*store.Subnet, error) {
	all, others := subnetsFor(tx, req)
	if req.Subnet != "" {
		named, err := namedSubnet(all, others, req)
		if err != nil {
			return nil, err
		}
		all = []*store.Subnet{named}
	}
	if len(req.IPs) > 0 {
		holding, err := subnetOfIPs(tx, all, others, req)
		if err != nil {
			return nil, err
		}
		return []*store.Subnet{holding}, nil
	}
	all = slices.DeleteFunc(slices.Clone(all), func(s *store.Subnet) bool { return !req.Families.in(s) })
	known := decided(all)
	ready := slices.DeleteFunc(slices.Clone(known), func(s *store.Subnet) bool { return !usable(s) })
	switch {
	case len(ready) > 0:
		return ready, nil
	case len(known) < len(all):
		return nil, noneReady(all[len(known):len(known)+1], req)
	}
	return nil, noneReady(all, req)
}

// decided returns the subnets before the first one without a verdict. The subnet without a verdict
// may be Ready in a moment. So of two subnets applied together the first one serves, whatever the
// order of their examination, before or after their VPC is Ready.
func decided(subnets []*store.Subnet) []*store.Subnet {
	undecided := slices.IndexFunc(
		subnets,
		func(s *store.Subnet) bool { return !s.Ready && !s.Deleting && awaitsVerdict(s.Reason) },
	)
	if undecided < 0 {
		undecided = len(subnets)
	}
	return subnets[:undecided]
}

// awaitsVerdict reports whether a subnet with this reason is examined again without a change
// of any Subnet: its own ranges have not been looked at, or only the VPC was not Ready.
func awaitsVerdict(reason string) bool {
	switch reason {
	case "", v1alpha1.VPCNotFoundReason, v1alpha1.VPCNotReadyReason:
		return true
	}
	return false
}

// subnetsFor returns the subnets of the VPC for holders of this kind, and the subnets for other
// kinds.
func subnetsFor(tx store.ReadTx, req *Request) (mine, others []*store.Subnet) {
	for _, subnet := range store.SubnetsByVPC(tx, req.VPC) {
		if subnet.ForServices == (req.Holder.Kind == store.HolderService) {
			mine = append(mine, subnet)
		} else {
			others = append(others, subnet)
		}
	}
	return mine, others
}

func usable(subnet *store.Subnet) bool { return subnet.Ready && !subnet.Deleting }

// namedSubnet finds the subnet that a request names. spec.name counts before the object's name. Of
// two subnets with one name the older serves.
func namedSubnet(all, others []*store.Subnet, req *Request) (*store.Subnet, error) {
	if found := byName(all, req.Subnet); found != nil {
		return found, nil
	}
	if found := byName(others, req.Subnet); found != nil {
		return nil, forOthers(found, req)
	}
	return nil, refuse(v1alpha1.SubnetNotFoundReason, WhenSubnetsChange,
		"VPC %q has no subnet %q: it has %s; correct the nic annotation, or create the subnet",
		req.VPC, req.Subnet, names(all))
}

func byName(subnets []*store.Subnet, wanted string) *store.Subnet {
	for _, name := range []func(*store.Subnet) string{
		func(s *store.Subnet) string { return s.ShortName },
		func(s *store.Subnet) string { return s.Name },
	} {
		for _, subnet := range subnets {
			if name(subnet) == wanted {
				return subnet
			}
		}
	}
	return nil
}

// subnetOfIPs finds the subnet that contains all requested IPs, a usable one before
// others, and checks that it can give them.
func subnetOfIPs(tx store.ReadTx, all, others []*store.Subnet, req *Request) (*store.Subnet, error) {
	var found *store.Subnet
	for _, subnet := range all {
		if containsAll(subnet, req.IPs) && (found == nil || usable(subnet) && !usable(found)) {
			found = subnet
		}
	}
	if found == nil {
		return nil, outside(all, others, req)
	}
	if !req.Families.in(found) {
		return nil, noneReady(nil, req)
	}
	if !usable(found) {
		return nil, noneReady([]*store.Subnet{found}, req)
	}
	for _, ip := range req.IPs {
		cause := blockedBy(prefixOf(found, ip), reservesOf(found), ip)
		if err := available(tx, ip, cause, "subnet "+found.Name, req); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func containsAll(subnet *store.Subnet, ips []netip.Addr) bool {
	return !slices.ContainsFunc(ips, func(ip netip.Addr) bool { return !prefixOf(subnet, ip).IsValid() })
}

// prefixOf returns the subnet's prefix that contains an IP, or the zero Prefix.
func prefixOf(subnet *store.Subnet, ip netip.Addr) netip.Prefix {
	for _, prefix := range subnet.Prefixes {
		if prefix.Contains(ip) {
			return prefix
		}
	}
	return netip.Prefix{}
}

// chooseIn takes one address of every family of the subnet: the requested address, else a free one.
func chooseIn(tx store.ReadTx, subnet *store.Subnet, req *Request) (Result, bool) {
	result := Result{Subnet: subnet}
	for _, prefix := range subnet.Prefixes {
		if !req.Families.wanted(ipfamily.Of(prefix.Addr())) {
			continue
		}
		asked := slices.IndexFunc(req.IPs, func(ip netip.Addr) bool { return ip.Is4() == prefix.Addr().Is4() })
		if asked >= 0 {
			result.IPs = append(result.IPs, req.IPs[asked])
			continue
		}
		if own := req.reserved(tx, prefix); own != nil {
			ip, ok := req.best(tx, subnet.VPC, slices.Values(own))
			if !ok {
				return Result{}, false
			}
			result.IPs = append(result.IPs, ip)
			continue
		}
		if freeOf(tx, subnet, prefix).Sign() <= 0 {
			return Result{}, false
		}
		ip, ok := ringOf(tx, subnet, prefix).pick(tx, req)
		if !ok {
			return Result{}, false
		}
		result.IPs = append(result.IPs, ip)
		result.Cursors = append(result.Cursors, ip)
	}
	return result, true
}

// finish orders the addresses and fills in the fields that depend on them.
func finish(result Result, vpc *store.VPC, req *Request) Result {
	slices.SortFunc(result.IPs, netip.Addr.Compare) // IPv4 sorts in front of IPv6
	if req.Attachment != "" && result.MAC == "" {
		result.MAC = MAC(vpc.VNI, result.IPs)
	}
	result.Rows = req.rows(result)
	return result
}

// rows makes the rows of chosen addresses.
func (req *Request) rows(result Result) (rows []*store.Address) {
	for _, ip := range result.IPs {
		row := &store.Address{
			Name: v1alpha1.AddressName(req.Domain(), ip), VPC: req.VPC, Network: result.Network,
			IP: ip, MAC: result.MAC, Node: req.Node, Holder: req.Holder, Attachment: req.Attachment,
			External: req.External, Set: slices.Clone(result.IPs), Config: req.Config, Interfaces: req.Interfaces,
		}
		if result.Subnet != nil {
			row.Subnet = result.Subnet.Name
		}
		rows = append(rows, row)
	}
	return rows
}

// names lists subnets as text, short names first.
func names(subnets []*store.Subnet) string {
	if len(subnets) == 0 {
		return "none"
	}
	texts := make([]string, 0, len(subnets))
	for _, subnet := range subnets {
		texts = append(texts, fmt.Sprintf("%s (%s)", subnet.ShortName, ranges(subnet)))
	}
	return strings.Join(texts, ", ")
}

func ranges(subnet *store.Subnet) string {
	texts := make([]string, 0, len(subnet.Prefixes))
	for _, prefix := range subnet.Prefixes {
		texts = append(texts, prefix.String())
	}
	return strings.Join(texts, ", ")
}
