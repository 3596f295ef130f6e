// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/store"
)

// chooseLive finds the records to be programmed.
func (b *builder) chooseLive() {
	for _, rec := range b.in.Records {
		index, ok := b.in.Devices[rec.HostIfName]
		if !ok || rec.Phase != journal.PhaseDone || index != rec.Device.HostIfindex {
			continue
		}
		if reason := WhyLost(b.tx, rec); reason != "" {
			b.want.Lost = append(b.want.Lost, Lost{Record: rec, Reason: reason})
			continue
		}
		b.live = append(b.live, rec)
	}
}

// WhyLost says why an attachment's addresses are its own no longer, or "". A
// journal can disagree with the API after the API was restored from an older
// backup, or after claims were taken away by hand; then the API wins, because
// it is what everybody else goes by (docs/design/010). An Address that is
// merely missing is no loss: the daemon asserts it.
func WhyLost(tx store.ReadTx, rec journal.Record) string {
	vpc := store.GetVPC(tx, rec.VPC)
	switch {
	case vpc == nil:
		return fmt.Sprintf("VPC %s does not exist any more", rec.VPC)
	case vpc.VNI != rec.VNI:
		return fmt.Sprintf("VPC %s has the VNI %d now, and the pod was attached with %d", rec.VPC, vpc.VNI, rec.VNI)
	}
	for _, prefix := range rec.Addrs {
		row := store.AddressByIP(tx, rec.VPC, prefix.Addr())
		if row != nil && row.Holder.UID != rec.Pod.UID {
			return fmt.Sprintf("%s of VPC %s belongs to %s %s now", row.IP, rec.VPC, strings.ToLower(string(row.Holder.Kind)),
				strings.TrimPrefix(row.Holder.Namespace+"/"+row.Holder.Name, "/"))
		}
	}
	return ""
}

// present notes that a VPC is on this node.
func (b *builder) present(row *store.VPC) *localVPC {
	if b.vpcs[row.VNI] == nil {
		b.vpcs[row.VNI] = &localVPC{row: row}
	}
	return b.vpcs[row.VNI]
}

// addVPCs adds the tables of every VPC that is present.
func (b *builder) addVPCs() {
	for _, vni := range slices.Sorted(maps.Keys(b.vpcs)) {
		vpc := b.vpcs[vni]
		b.want.Datapath.VPCs = append(b.want.Datapath.VPCs, datapath.VPC{
			VNI: vni, Prefixes: vpc.row.Prefixes,
			EgressMasquerade: vpc.row.EgressMasquerade, Default: vpc.row.Name == b.in.DefaultVPC,
		})
		b.subnets(vni, vpc)
		b.remotes(vni, vpc.row.Name)
	}
}

// subnets adds the ranges and gateways of a VPC's subnets. Of two that
// conflict, the older wins, as in the operator.
func (b *builder) subnets(vni uint32, vpc *localVPC) {
	seen := map[netip.Prefix]bool{}
	for _, row := range store.SubnetsByVPC(b.tx, vpc.row.Name) {
		if !row.Ready && !inUse(row, vpc) {
			continue
		}
		for _, prefix := range row.Prefixes {
			if !seen[prefix] {
				seen[prefix] = true
				b.want.Datapath.Subnets = append(b.want.Datapath.Subnets, datapath.Subnet{VNI: vni, Prefix: prefix})
			}
		}
		for _, gateway := range row.Gateways {
			key := addressKey{vni, gateway}
			if _, taken := b.addresses[key]; !taken {
				b.addresses[key] = datapath.Address{VNI: vni, IP: gateway, Kind: datapath.Gateway}
			}
		}
	}
}

// inUse says whether a pod here got its address from the subnet while it was
// ready.
func inUse(row *store.Subnet, vpc *localVPC) bool {
	return slices.ContainsFunc(row.Prefixes, func(p netip.Prefix) bool { return slices.Contains(vpc.ranges, p) })
}

// remotes adds the addresses of a VPC that other nodes hold.
func (b *builder) remotes(vni uint32, name string) {
	for _, row := range store.AddressesByVPC(b.tx, name) {
		key := addressKey{vni, row.IP}
		if _, taken := b.addresses[key]; taken || row.Node == b.in.Node {
			continue
		}
		mac, err := journal.ParseMAC(row.MAC)
		if err != nil {
			continue // the schema allows nothing else
		}
		node, ok := TunnelAddress(b.self, store.GetNode(b.tx, row.Node))
		if !ok {
			continue // its Node row will come, and with it another pass
		}
		b.addresses[key] = datapath.Address{VNI: vni, IP: row.IP, Kind: datapath.Remote, Node: node, MAC: datapath.MAC(mac)}
	}
}

// TunnelAddress returns the underlay address under which self reaches peer:
// the first InternalIP of a family that self has as well, IPv4 before IPv6. A
// self of nil has both families.
func TunnelAddress(self, peer *store.Node) (netip.Addr, bool) {
	if peer == nil {
		return netip.Addr{}, false
	}
	for _, is4 := range []bool{true, false} {
		family := func(ip netip.Addr) bool { return ip.Is4() == is4 }
		if self != nil && !slices.ContainsFunc(self.Addresses, family) {
			continue
		}
		if at := slices.IndexFunc(peer.Addresses, family); at >= 0 {
			return peer.Addresses[at], true
		}
	}
	return netip.Addr{}, false
}

// nodes adds the addresses from which tunnel packets are accepted. This node's
// own are not among them: nobody else may send under them.
func (b *builder) nodes() {
	var own, others []netip.Addr
	for _, row := range store.ListNodes(b.tx) {
		if row.Name == b.in.Node {
			own = append(own, row.Addresses...)
			continue
		}
		others = append(others, row.Addresses...)
	}
	b.want.Datapath.Nodes = unique(slices.DeleteFunc(others, func(ip netip.Addr) bool { return slices.Contains(own, ip) }))
}

// unique returns a sorted copy without duplicates.
func unique[T interface {
	comparable
	Compare(T) int
}](list []T) []T {
	sorted := slices.SortedFunc(slices.Values(list), T.Compare)
	return slices.Compact(sorted)
}
