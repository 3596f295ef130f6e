// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package vpcs

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds/values"
	"github.com/alioth-net/alioth/store/sound"
)

// Subnet is the kind of a part of a VPC's ranges. A node follows the subnets of the VPCs where it
// has interfaces.
var Subnet = descriptor.Define(&all, descriptor.Description[*v1alpha1.Subnet, store.Subnet]{
	Name: "Subnet", Object: &v1alpha1.Subnet{}, List: &v1alpha1.SubnetList{}, Convert: convertSubnet,
	Table: descriptor.ByName(store.GetSubnet, store.PutSubnet, store.DeleteSubnet),
	Verdict: func(row *store.Subnet) descriptor.Verdict {
		return descriptor.Verdict{
			ID:      descriptor.ID{Name: row.Name, UID: row.UID},
			Ready:   row.Ready,
			Reason:  row.Reason,
			Message: row.Message,
		}
	},
	Rows: descriptor.Listed(store.ListSubnets),
	Of: descriptor.Scopes{
		descriptor.AllSubnets: descriptor.WithField("spec.vpc"), descriptor.DescribedVPC: descriptor.WithField("spec.vpc"),
		descriptor.OneSubnet: descriptor.WithField("metadata.name"),
	},
})

// convertSubnet converts a Subnet and fills in the short name and the gateways that
// the object leaves out. It returns an error where a range or address can't be
// read, which the schema refuses.
func convertSubnet(in *v1alpha1.Subnet) (*store.Subnet, error) {
	row := &store.Subnet{
		Meta:      values.Meta(in),
		Name:      in.Name,
		VPC:       in.Spec.VPC,
		ShortName: cmp.Or(in.Spec.Name, in.Name),

		ForServices: in.Spec.Use == v1alpha1.SubnetForServices,
	}
	if in.Spec.Bouncers != nil {
		row.Bouncers = int(*in.Spec.Bouncers)
	}
	row.Ready, row.Reason, row.Message = values.Readiness(in.Status.Conditions)
	err := values.Known("spec.use", in.Spec.Use, v1alpha1.SubnetForPods, v1alpha1.SubnetForServices)
	if err = cmp.Or(err, subnetAddresses(row, in)); err != nil {
		return nil, fmt.Errorf("convert Subnet %s: %w", in.Name, err)
	}
	return row, nil
}

func subnetAddresses(row *store.Subnet, in *v1alpha1.Subnet) error {
	prefixes, err := values.Prefixes(in.Spec.CIDRs)
	if err != nil {
		return err
	}
	gateways, err := values.Addrs(in.Spec.Gateway)
	if err != nil {
		return err
	}
	for _, text := range in.Spec.Reserved {
		reserved, err := parseRange(text)
		if err != nil {
			return err
		}
		row.Reserved = append(row.Reserved, reserved)
	}
	// A cursor is a hint. An unreadable cursor counts as a missing one.
	row.Cursors = values.HostAddrs(in.Status.Cursors)
	row.Prefixes = prefixes
	for _, prefix := range prefixes {
		row.Gateways = append(row.Gateways, gatewayOf(prefix, gateways))
	}
	return nil
}

// gatewayOf returns the first of the gateways that lies in the prefix, else the
// address after the prefix's own.
func gatewayOf(prefix netip.Prefix, gateways []netip.Addr) netip.Addr {
	for _, gateway := range gateways {
		if prefix.Contains(gateway) {
			return gateway
		}
	}
	return prefix.Addr().Next()
}

// parseRange reads an address, a CIDR, or first-last in either order.
func parseRange(text string) (store.AddrRange, error) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		prefix = prefix.Masked()
		return store.AddrRange{First: prefix.Addr(), Last: sound.LastOf(prefix)}, nil
	}
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	ends, err := values.Addrs([]string{first, last})
	if err != nil {
		return store.AddrRange{}, err
	}
	if ends[0].Is4() != ends[1].Is4() {
		return store.AddrRange{}, fmt.Errorf("range %s mixes address families", quote.Text(text))
	}
	if ends[1].Less(ends[0]) {
		ends[0], ends[1] = ends[1], ends[0]
	}
	return store.AddrRange{First: ends[0], Last: ends[1]}, nil
}
