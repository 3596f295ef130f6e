// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package subnet

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/operator/verdict"
	"github.com/alioth-net/alioth/store"
)

// holdersNamed is how many holders a message names.
const holdersNamed = 3

// decision is the content of a subnet's status and Usage, and whether the subnet may be deleted.
type decision struct {
	used, free int64
	cursors    []string
	// empty is true once a subnet being deleted may lose its finalizer.
	empty bool
	verdict.Verdict
}

// check finds a reason not to use a subnet.
type check func(tx store.CentralTx, subnet *store.Subnet) verdict.Verdict

// checks lists the checks in the order of reporting.
func checks() []check {
	return []check{vpcExists, insideVPC, overlapsNoOlder, nameIsUnique, cutsNothingOff, vpcIsReady}
}

// decide plans for one subnet.
func decide(tx store.CentralTx, subnet *store.Subnet) decision {
	v4, v6 := store.CountAddressesBySubnet(tx, subnet.Name)
	d := decision{used: v4 + v6, free: ipam.Free(tx, subnet), cursors: cursors(tx, subnet)}
	if subnet.Deleting {
		return d.deleting(tx, subnet)
	}
	for _, finds := range checks() {
		if d.Verdict = finds(tx, subnet); !d.IsReady() {
			return d
		}
	}
	d.Verdict = verdict.Use(fmt.Sprintf("addresses of VPC %q", subnet.VPC))
	return d
}

func (d decision) deleting(tx store.CentralTx, subnet *store.Subnet) decision {
	if d.used > 0 {
		d.Verdict = verdict.Deleting(fmt.Sprintf("held by %d address(es): %s", d.used, someHolders(tx, subnet)))
		return d
	}
	d.empty, d.Verdict = true, verdict.Deleting("nothing holds it")
	return d
}

// someHolders names the first few holders of a subnet's addresses.
func someHolders(tx store.CentralTx, subnet *store.Subnet) string {
	var names []string
	for _, address := range store.AddressesBySubnet(tx, subnet.Name) {
		if len(names) == holdersNamed {
			names = append(names, "and others")
			break
		}
		names = append(names, fmt.Sprintf("%s by %s", address.IP, holderText(address.Holder)))
	}
	return strings.Join(names, ", ")
}

func holderText(h store.Holder) string {
	if h.Namespace == "" {
		return fmt.Sprintf("%s %s", h.Kind, h.Name)
	}
	return fmt.Sprintf("%s %s/%s", h.Kind, h.Namespace, h.Name)
}

func cursors(tx store.ReadTx, subnet *store.Subnet) []string {
	var all []string
	for _, prefix := range subnet.Prefixes {
		if ip := store.Cursor(tx, subnet, ipfamily.Of(prefix.Addr())); ip.IsValid() {
			all = append(all, ip.String())
		}
	}
	return all
}

func vpcExists(tx store.CentralTx, subnet *store.Subnet) verdict.Verdict {
	if store.GetVPC(tx, subnet.VPC) == nil {
		return verdict.Refuse(v1alpha1.VPCNotFoundReason, fmt.Sprintf("VPC %q does not exist: create it", subnet.VPC))
	}
	return verdict.Passed
}

func insideVPC(tx store.CentralTx, subnet *store.Subnet) verdict.Verdict {
	vpc := store.GetVPC(tx, subnet.VPC)
	for _, prefix := range subnet.Prefixes {
		if !insideAny(prefix, vpc.Prefixes) {
			return verdict.Refuse(v1alpha1.OutsideVPCReason, fmt.Sprintf("range %s is in none of the ranges of VPC %q: %s",
				prefix, vpc.Name, joined(vpc.Prefixes)))
		}
	}
	return verdict.Passed
}

func insideAny(prefix netip.Prefix, ranges []netip.Prefix) bool {
	for _, r := range ranges {
		if r.Bits() <= prefix.Bits() && r.Contains(prefix.Addr()) {
			return true
		}
	}
	return false
}

func joined(prefixes []netip.Prefix) string {
	texts := make([]string, 0, len(prefixes))
	for _, p := range prefixes {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, ", ")
}

// older returns the subnets of the same VPC that have precedence over this one.
func older(tx store.ReadTx, subnet *store.Subnet) []*store.Subnet {
	var all []*store.Subnet
	for _, other := range store.SubnetsByVPC(tx, subnet.VPC) {
		if other.Older(subnet) {
			all = append(all, other)
		}
	}
	return all
}

func overlapsNoOlder(tx store.CentralTx, subnet *store.Subnet) verdict.Verdict {
	for _, other := range older(tx, subnet) {
		for _, mine := range subnet.Prefixes {
			for _, theirs := range other.Prefixes {
				if mine.Overlaps(theirs) {
					return verdict.Refuse(v1alpha1.OverlapReason, fmt.Sprintf("range %s overlaps %s of subnet %q, which is older",
						mine, theirs, other.Name))
				}
			}
		}
	}
	return verdict.Passed
}

func nameIsUnique(tx store.CentralTx, subnet *store.Subnet) verdict.Verdict {
	for _, other := range older(tx, subnet) {
		if other.ShortName == subnet.ShortName {
			return verdict.Refuse(
				v1alpha1.NameConflictReason,
				fmt.Sprintf("subnet %q, which is older, has the name %q in VPC %q: set another spec.name",
					other.Name, subnet.ShortName, subnet.VPC),
			)
		}
	}
	return verdict.Passed
}

func cutsNothingOff(tx store.CentralTx, subnet *store.Subnet) verdict.Verdict {
	for _, address := range store.AddressesBySubnet(tx, subnet.Name) {
		if !insideAny(netip.PrefixFrom(address.IP, address.IP.BitLen()), subnet.Prefixes) {
			return verdict.Refuse(
				v1alpha1.CutsOffReason,
				fmt.Sprintf("%s is held by %s and lies outside the ranges: widen them again",
					address.IP, holderText(address.Holder)),
			)
		}
	}
	return verdict.Passed
}

func vpcIsReady(tx store.CentralTx, subnet *store.Subnet) verdict.Verdict {
	if vpc := store.GetVPC(tx, subnet.VPC); !vpc.Ready || vpc.Deleting {
		return verdict.Refuse(
			v1alpha1.VPCNotReadyReason,
			fmt.Sprintf("VPC %q is not ready: see its Ready condition", subnet.VPC),
		)
	}
	return verdict.Passed
}
