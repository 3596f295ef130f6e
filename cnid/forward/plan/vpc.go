// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/allocation"
)

// vpcPlan holds the wanted state of one VPC on the node. It is never changed: another vpcPlan
// takes its place.
type vpcPlan struct {
	// part of the datapath; nil: the VPC is not present on this node.
	part *state.State
	here here
	// joint has what Services add to part, since the last plan.
	joint joint
}

// here holds the facts about a VPC that other parts of the plan of the node use.
type here struct {
	vni uint32
	// live are the records to be programmed, lost those that must not be.
	live []journal.Record
	lost []Lost
	// opensAll reports that a pod of the VPC may send to the backends of every shared
	// service by itself: they are in its VPC, or where its egress leads without any
	// exception.
	opensAll bool
	// node is the node's own interface, in the default VPC alone.
	node hostdev.NodeInterface
	// uid is the UID of the VPC, and listed the revision of its role members, 0 for none.
	// complete has the names of the members on this node whose tables are complete.
	uid      string
	listed   int64
	complete []string
}

// vpcBuilder plans one VPC; its methods are called once each.
type vpcBuilder struct {
	tx   store.ReadTx
	in   Input
	self *store.Node
	row  *store.VPC
	part state.State
	here here
	// ranges are the subnets of the attachments here.
	ranges []netip.Prefix
	// programmed holds the rows of the datapath for the live records.
	programmed []state.State
	// addresses by IP, so that an address is programmed once.
	addresses map[netip.Addr]state.Address
	roles     *roleBuilder
}

// planVPC plans the VPC of a name from the records that are attached in it, the oldest first.
// It reads the VPC's own rows and the rows of nodes; for the default VPC it also reads the
// rows of the API server's Service.
func planVPC(tx store.ReadTx, in Input, name string, attached []journal.Record) *vpcPlan {
	b := &vpcBuilder{
		tx:        tx,
		in:        in,
		self:      store.GetNode(tx, in.Node),
		row:       store.GetVPC(tx, name),
		addresses: map[netip.Addr]state.Address{},
	}
	b.chooseLive(attached)
	if b.row == nil || b.row.VNI == 0 {
		return &vpcPlan{here: b.here}
	}
	b.here.vni, b.here.opensAll = b.row.VNI, b.opensAll()
	b.attachments()
	if name == in.DefaultVPC {
		b.nodeInterface()
	}
	b.roles = newRoleBuilder(tx, in, b.self, b.row)
	if len(b.part.Interfaces) == 0 && !b.roles.isMember() {
		return &vpcPlan{here: b.here}
	}
	b.part.VPCs = []state.VPC{{
		VNI: b.row.VNI, Prefixes: b.row.Prefixes, Role: b.roles.dividers(),
		EgressMasquerade: b.row.EgressMasquerade, Default: name == in.DefaultVPC,
	}}
	b.subnets()
	b.remotes()
	b.part.Roles = b.roles.out
	b.here.uid, b.here.listed, b.here.complete = b.row.UID, b.roles.listed, b.roles.complete
	b.part.Closed = closedLists(b.row, in.Metadata)
	b.sort()
	part := b.part // a pointer into b would keep the whole snapshot of the store
	return &vpcPlan{part: &part, here: b.here}
}

// chooseLive finds the records to be programmed.
func (b *vpcBuilder) chooseLive(attached []journal.Record) {
	for _, rec := range attached {
		one := Programmed(rec, b.in.Kinds[rec.Kind].Hook)
		reason := WhyLost(b.tx, rec)
		if err := one.Interfaces[0].Check(); reason == "" && err != nil {
			reason = fmt.Sprintf("its interface can't be programmed: %v", err)
		}
		if reason != "" {
			b.here.lost = append(b.here.lost, Lost{Record: rec, Reason: reason})
			continue
		}
		b.here.live, b.programmed = append(b.here.live, rec), append(b.programmed, one)
	}
}

// WhyLost explains why an attachment has lost its addresses, or returns "". A journal can
// disagree with the API after a restore of the API from an older backup, or after claims
// were deleted by hand. Then the API has precedence, because all other components use it
// (docs/design/010). A missing Address is not a loss while the allocation status of a living
// pod has it: the operator keeps it for the pod and creates it again.
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
		switch {
		case row == nil && !keptFor(tx, rec):
			return fmt.Sprintf("no Address object holds %s of VPC %s for it", prefix.Addr(), rec.VPC)
		case row != nil && row.Holder.UID != rec.Pod.UID:
			return fmt.Sprintf("%s of VPC %s belongs to %s %s now", row.IP, rec.VPC, strings.ToLower(string(row.Holder.Kind)),
				strings.TrimPrefix(row.Holder.Namespace+"/"+row.Holder.Name, "/"))
		}
	}
	return ""
}

// keptFor reports whether the operator keeps the addresses of an attachment for its pod
// whose objects are missing.
func keptFor(tx store.ReadTx, rec journal.Record) bool {
	pod := store.GetPod(tx, rec.Pod.UID)
	var ips []netip.Addr
	for _, prefix := range rec.Addrs {
		ips = append(ips, prefix.Addr())
	}
	return pod != nil && allocation.Same(pod, rec.VPC, ips)
}

// attachments adds the interfaces and local addresses of the journal's
// records. The journal, not the store, has the attachments of this node.
func (b *vpcBuilder) attachments() {
	for i, rec := range b.here.live {
		for _, prefix := range rec.Addrs {
			b.ranges = append(b.ranges, prefix.Masked())
		}
		one := b.programmed[i]
		for _, row := range one.Addresses {
			b.addresses[row.IP] = row
		}
		b.part.Interfaces = append(b.part.Interfaces, one.Interfaces...)
	}
}

// nodeInterface adds the node's own interface, if the VPC has given it an
// address.
func (b *vpcBuilder) nodeInterface() {
	iface := state.Interface{Ifindex: b.in.NodePeer, VNI: b.row.VNI, Node: true}
	isUsed := usedByHosts(b.tx, b.in.Config, b.row)
	var gateways []netip.Addr
	for _, row := range store.OwnAddresses(b.tx, b.in.Node, b.row.Name) {
		mac, err := journal.ParseMAC(row.MAC)
		if err != nil || isUsed(row.IP) {
			continue // the schema allows no other MAC; the IP is in use
		}
		iface.MAC, iface.Addrs = state.MAC(mac), append(iface.Addrs, row.IP)
		if subnet := store.GetSubnet(b.tx, row.Subnet); subnet != nil && subnet.VPC == b.row.Name {
			gateways = append(gateways, gatewayFor(subnet, row.IP))
		}
	}
	iface.Gateway4, iface.Gateway6 = onePerFamily(gateways)
	if len(iface.Addrs) == 0 {
		return
	}
	for _, ip := range iface.Addrs {
		b.addresses[ip] = localAddress(ip, iface)
	}
	b.part.Interfaces = append(b.part.Interfaces, iface)
	b.here.node = hostdev.NodeInterface{
		Addrs:    iface.Addrs,
		MAC:      [6]byte(iface.MAC),
		Prefixes: harmless(b.tx, b.in.Config, b.row),
	}
}

// gatewayFor returns the subnet's gateway of an address's family, or the zero
// value.
func gatewayFor(subnet *store.Subnet, ip netip.Addr) netip.Addr {
	at := slices.IndexFunc(subnet.Gateways, func(gateway netip.Addr) bool { return gateway.Is4() == ip.Is4() })
	if at < 0 {
		return netip.Addr{}
	}
	return subnet.Gateways[at]
}

// harmless are the prefixes of the default VPC without an address of the node itself, or of a
// host that the node must reach. Routing or filtering such a prefix would disconnect the node
// from the API server, and so prevent a repair. An address of another node does not take away
// a prefix that serves pods: its kubelet alone says that it is there. The operator reports the
// one in the VPC's condition, and the other by an event of the Node.
func harmless(tx store.ReadTx, cfg Config, vpc *store.VPC) []netip.Prefix {
	isUsed, must := usedByHosts(tx, cfg, vpc), append(needed(tx, cfg), addressesOf(store.ListNodes(tx)...)...)
	return slices.DeleteFunc(slices.Clone(vpc.Prefixes), func(p netip.Prefix) bool {
		return slices.ContainsFunc(must, func(ip netip.Addr) bool { return p.Contains(ip) && isUsed(ip) })
	})
}

// usedByHosts returns a function that reports whether an address in the default VPC belongs to
// a host that the node must reach at this address.
func usedByHosts(tx store.ReadTx, cfg Config, vpc *store.VPC) func(netip.Addr) bool {
	must, others := needed(tx, cfg), addressesOf(store.ListNodes(tx)...)
	return func(ip netip.Addr) bool {
		if slices.Contains(must, ip) {
			return true
		}
		serves := func(p netip.Prefix) bool { return p.Contains(ip) && store.ServesRange(tx, vpc.Name, p) }
		return slices.Contains(others, ip) && !slices.ContainsFunc(vpc.Prefixes, serves)
	}
}

// subnets adds the ranges and gateways of the VPC's subnets. Of two that
// conflict, the older wins, as in the operator.
func (b *vpcBuilder) subnets() {
	seen := map[netip.Prefix]bool{}
	for _, row := range store.SubnetsByVPC(b.tx, b.row.Name) {
		if !b.roles.table.Knows(row.Name) || !row.Ready && !b.inUse(row) {
			continue
		}
		var role uint32
		if slices.ContainsFunc(row.Prefixes, func(prefix netip.Prefix) bool { return !seen[prefix] }) {
			role = b.roles.bouncers(row)
		}
		for _, prefix := range row.Prefixes {
			if !seen[prefix] {
				seen[prefix] = true
				b.part.Subnets = append(b.part.Subnets, state.Subnet{VNI: b.row.VNI, Prefix: prefix, Role: role})
			}
		}
		for _, gateway := range row.Gateways {
			if _, taken := b.addresses[gateway]; !taken {
				b.addresses[gateway] = state.Address{VNI: b.row.VNI, IP: gateway, Kind: state.Gateway}
			}
		}
	}
}

// inUse reports whether a pod here got its address from the subnet while it was
// ready.
func (b *vpcBuilder) inUse(row *store.Subnet) bool {
	return slices.ContainsFunc(row.Prefixes, func(p netip.Prefix) bool { return slices.Contains(b.ranges, p) })
}

// remotes adds the addresses that other nodes hold, and those at interfaces of other CNI
// plugins on any node.
func (b *vpcBuilder) remotes() {
	for _, row := range store.AddressesByDomain(b.tx, b.row.Name) {
		if _, taken := b.addresses[row.IP]; taken || !b.holds(row) {
			continue
		}
		if one, ok := Elsewhere(b.tx, b.self, b.in.Node, b.row.VNI, row); ok {
			b.addresses[row.IP] = one
		}
	}
}

// holds reports whether an address belongs to a table that this node has. Each
// node has the addresses of all nodes.
func (b *vpcBuilder) holds(row *store.Address) bool {
	return b.roles.table.Has(row.Subnet) || row.Holder.Kind == store.HolderNode
}

// Elsewhere returns what a node programs for an Address of the VPC with the VNI that none
// of its own interfaces has: a Remote row, or a HeldOutside one. It returns false for an
// Address that leads nowhere: of the node itself, of a node without an address that self
// reaches or with one of self's, or with the UID of a pod of this node that it contradicts.
// self is the Node of the name, or nil.
func Elsewhere(tx store.ReadTx, self *store.Node, node string, vni uint32, row *store.Address) (state.Address, bool) {
	if contradicts(tx, row) {
		return state.Address{}, false
	}
	if row.External {
		return state.Address{VNI: vni, IP: row.IP, Kind: state.HeldOutside}, true
	}
	if row.Node == node {
		return state.Address{}, false
	}
	mac, err := journal.ParseMAC(row.MAC)
	if err != nil {
		return state.Address{}, false // the schema allows nothing else
	}
	to, ok := TunnelAddress(self, store.GetNode(tx, row.Node))
	if !ok {
		return state.Address{}, false // its Node row will come, and with it another plan
	}
	if self != nil && slices.Contains(self.Addresses, to) {
		return state.Address{}, false // a kubelet reports its node's addresses itself
	}
	return state.Address{VNI: vni, IP: row.IP, Kind: state.Remote, Node: to, MAC: state.MAC(mac)}, true
}

// contradicts reports whether an Address names a pod of this node that does not hold it.
// Pods of other nodes a node does not know.
func contradicts(tx store.ReadTx, row *store.Address) bool {
	pod := store.GetPod(tx, row.Holder.UID)
	return pod != nil && !pod.Holds(row)
}

// TunnelAddress returns the underlay address under which self reaches peer:
// the first InternalIP of a family that self has as well, IPv4 before IPv6. A
// self of nil has both families.
func TunnelAddress(self, peer *store.Node) (netip.Addr, bool) {
	if peer == nil {
		return netip.Addr{}, false
	}
	for _, family := range ipfamily.Both {
		if self != nil && !slices.ContainsFunc(self.Addresses, family.Has) {
			continue
		}
		if at := slices.IndexFunc(peer.Addresses, family.Has); at >= 0 {
			return peer.Addresses[at], true
		}
	}
	return netip.Addr{}, false
}

func (b *vpcBuilder) opensAll() bool {
	return b.row.Name == b.in.DefaultVPC && b.row.EgressMasquerade && len(b.row.EgressAllow) == 0 &&
		len(b.row.EgressDeny) == 0
}

// sort brings every list into the order of its keys.
func (b *vpcBuilder) sort() {
	b.part.Addresses = slices.AppendSeq(make([]state.Address, 0, len(b.addresses)), maps.Values(b.addresses))
	slices.SortFunc(b.part.Addresses, func(a, b state.Address) int { return a.IP.Compare(b.IP) })
	slices.SortFunc(b.part.Interfaces, func(a, b state.Interface) int { return cmp.Compare(a.Ifindex, b.Ifindex) })
	slices.SortFunc(b.part.Roles, func(a, b state.Role) int { return cmp.Compare(a.Key.ID, b.Key.ID) })
	slices.SortFunc(b.part.Subnets, func(a, b state.Subnet) int { return a.Prefix.Compare(b.Prefix) })
	slices.SortFunc(b.part.Closed, func(a, b state.ClosedPrefix) int { return a.Prefix.Compare(b.Prefix) })
}
