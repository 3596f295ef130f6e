// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package vpc

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/operator/verdict"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/replies"
)

// ReservedRange is a range that the cluster needs and no VPC may use.
type ReservedRange struct {
	Prefix netip.Prefix
	// What describes the range, as it completes "overlaps ...".
	What string
}

// Rules are the cluster-wide facts that VPCs are checked against.
type Rules struct {
	// DefaultVPC is the name of the VPC that the nodes are part of.
	DefaultVPC string
	// Reserved ranges: service ranges and shadow ranges.
	Reserved []ReservedRange
}

// Ranges returns the reserved ranges. They include the ranges of ServiceCIDRs, which may be added
// to a cluster at any time.
func (r Rules) Ranges(tx store.ReadTx) []ReservedRange {
	all := slices.Clone(r.Reserved)
	for _, row := range store.ListServiceCIDRs(tx) {
		for _, prefix := range row.Prefixes {
			all = append(all, ReservedRange{Prefix: prefix, What: fmt.Sprintf("the service range of ServiceCIDR %q", row.Name)})
		}
	}
	return all
}

// decision is the next step for one VPC, and the content of its status and Usage.
type decision struct {
	// claim is the VNI to claim now; 0 for none.
	claim uint32
	// release lists claims that the VPC must not keep.
	release []*store.VNIClaim
	// empty is true once a VPC being deleted may lose its finalizer.
	empty bool
	// vni is the VNI that the VPC's own claim holds; 0 for none.
	vni                uint32
	subnets, addresses int
	verdict.Verdict
}

// decide plans for one VPC. taken are VNIs that are claimed although the store does
// not have the claim yet.
func decide(tx store.ReadTx, vpc *store.VPC, rules Rules, taken []uint32) decision {
	own := ownClaims(tx, vpc)
	d := decision{
		subnets:   len(store.SubnetsByVPC(tx, vpc.Name)),
		addresses: countAddresses(tx, vpc.Name),
	}
	if len(own) > 0 {
		d.vni = own[0].VNI
		d.release = own[1:]
	}
	if vpc.Deleting {
		// The subnets' counts lack addresses whose subnet is gone.
		d.addresses = len(store.AddressesByDomain(tx, vpc.Name))
		return d.deleting(tx, vpc)
	}
	if d.vni == 0 {
		return d.claiming(tx, vpc, taken)
	}
	if text := reservedOverlap(tx, vpc, rules); text != "" {
		d.Verdict = verdict.Refuse(v1alpha1.RangeReservedReason, text)
		return d
	}
	d.Verdict = verdict.Use(fmt.Sprintf("VNI %d is claimed", d.vni))
	return d
}

// ownClaims returns the claims of the VPC, the one to keep first: the VNI in the
// status, else the one in the spec, else the lowest.
func ownClaims(tx store.ReadTx, vpc *store.VPC) []*store.VNIClaim {
	own := store.VNIClaimsByVPCUID(tx, vpc.UID)
	rank := func(c *store.VNIClaim) int {
		switch c.VNI {
		case vpc.VNI:
			return 0
		case vpc.WantVNI:
			return 1
		}
		return 2
	}
	slices.SortFunc(own, func(a, b *store.VNIClaim) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.VNI, b.VNI))
	})
	return own
}

// named is how many subnets or holders of addresses a message names.
const named = 3

// deleting lists the reasons that delay the deletion of the VPC. Its claim outlives it: the VNI
// stays reserved until no node uses it.
func (d decision) deleting(tx store.ReadTx, vpc *store.VPC) decision {
	var names []string
	switch {
	case d.subnets > 0:
		for _, subnet := range store.SubnetsByVPC(tx, vpc.Name) {
			names = append(names, subnet.Name)
		}
		d.Verdict = verdict.Deleting(fmt.Sprintf("held by %d subnet(s): %s; delete them first", d.subnets, some(names)))
	case d.addresses > 0:
		for _, address := range store.AddressesByDomain(tx, vpc.Name) {
			holder := address.Holder
			names = append(
				names,
				fmt.Sprintf("%s by %s %s", address.IP, holder.Kind, strings.TrimPrefix(holder.Namespace+"/"+holder.Name, "/")),
			)
		}
		d.Verdict = verdict.Deleting(fmt.Sprintf("held by %d address(es): %s", d.addresses, some(names)))
	default:
		d.empty, d.Verdict = true, verdict.Deleting("nothing holds it")
	}
	return d
}

func some(names []string) string {
	if len(names) > named {
		names = append(slices.Clone(names[:named]), "and others")
	}
	return strings.Join(names, ", ")
}

func (d decision) claiming(tx store.ReadTx, vpc *store.VPC, taken []uint32) decision {
	request := ipam.VNIRequest{Want: cmp.Or(vpc.VNI, vpc.WantVNI), Taken: taken, Held: replies.HeldVNIs(tx)}
	if request.Want != 0 {
		if text := takenBy(tx, vpc, request.Want, taken); text != "" {
			d.Verdict = verdict.Refuse(v1alpha1.VNITakenReason, text)
			return d
		}
	}
	vni, err := ipam.ChooseVNI(tx, request)
	if err != nil {
		d.Verdict = verdict.Refuse(v1alpha1.VNIExhaustedReason, err.Error())
		return d
	}
	d.claim = vni
	d.Verdict = verdict.Wait(v1alpha1.VNIPendingReason, fmt.Sprintf("VNI %d is being claimed", vni))
	return d
}

// takenBy explains why a VPC can't have the VNI that it requests by number, "" if it can. State of
// nodes under a VNI that the VPC already had belongs to this VPC.
func takenBy(tx store.ReadTx, vpc *store.VPC, vni uint32, taken []uint32) string {
	claim := store.GetVNIClaim(tx, vni)
	if claim != nil && !replies.Rests(tx, claim) {
		return fmt.Sprintf("VNI %d belongs to VPC %q: use another VNI, or remove the request", vni, claim.VPC)
	}
	if claim != nil || vni != vpc.VNI && len(replies.NodesWith(tx, vni)) > 0 {
		return fmt.Sprintf(
			"VNI %d of a deleted VPC is reserved until all nodes have reported that they no longer hold it%s: "+
				"wait, or use another VNI; delete a node that is permanently lost, or taint it with %s",
			vni,
			nodeList(replies.Awaited(tx, vni)),
			corev1.TaintNodeOutOfService,
		)
	}
	// Its claim may have been deleted by hand.
	if other := store.VPCByVNI(tx, vni); other != nil && other.UID != vpc.UID {
		return fmt.Sprintf("VNI %d belongs to VPC %q: use another VNI, or remove the request", vni, other.Name)
	}
	if slices.Contains(taken, vni) {
		return fmt.Sprintf("VNI %d belongs to another VPC: use another VNI, or remove the request", vni)
	}
	return ""
}

// nodesNamed is how many nodes a message names.
const nodesNamed = 3

func nodeList(names []string) string {
	switch {
	case len(names) == 0:
		return ""
	case len(names) > nodesNamed:
		return fmt.Sprintf(" (missing: %s, and others)", strings.Join(names[:nodesNamed], ", "))
	}
	return fmt.Sprintf(" (missing: %s)", strings.Join(names, ", "))
}

// reservedOverlap returns the range of the VPC that is reserved, "" for none. The
// default VPC is routed on every node, so the nodes' own addresses must not lie in it.
func reservedOverlap(tx store.ReadTx, vpc *store.VPC, rules Rules) string {
	for _, prefix := range vpc.Prefixes {
		for _, reserved := range rules.Ranges(tx) {
			if prefix.Overlaps(reserved.Prefix) {
				return fmt.Sprintf("range %s overlaps %s (%s): use another range", prefix, reserved.What, reserved.Prefix)
			}
		}
	}
	if vpc.Name != rules.DefaultVPC {
		return ""
	}
	for _, prefix := range vpc.Prefixes {
		if isInUse(tx, vpc, prefix) {
			continue // a kubelet that reports an address there must not end the VPC
		}
		for _, node := range store.ListNodes(tx) {
			if i := slices.IndexFunc(node.AllAddresses, prefix.Contains); i >= 0 {
				return fmt.Sprintf("range %s of the default VPC contains the address %s of node %s: use another range",
					prefix, node.AllAddresses[i], node.Name)
			}
		}
	}
	return ""
}

// isInUse reports whether a range serves pods, or has Addresses: claims stay when a status is
// lost.
func isInUse(tx store.ReadTx, vpc *store.VPC, prefix netip.Prefix) bool {
	if store.ServesRange(tx, vpc.Name, prefix) {
		return true
	}
	for _, subnet := range store.SubnetsByVPC(tx, vpc.Name) {
		v4, v6 := store.CountAddressesBySubnet(tx, subnet.Name)
		if v4+v6 > 0 && slices.ContainsFunc(subnet.Prefixes, prefix.Overlaps) {
			return true
		}
	}
	return false
}

// countAddresses adds up the subnets' own counts, which costs the same however
// many addresses there are.
func countAddresses(tx store.ReadTx, vpc string) int {
	var total int64
	for _, subnet := range store.SubnetsByVPC(tx, vpc) {
		v4, v6 := store.CountAddressesBySubnet(tx, subnet.Name)
		total += v4 + v6
	}
	return int(total)
}
