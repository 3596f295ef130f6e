// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/store"
)

// outcome is the allocation status of a pod's attachments.
type outcome struct {
	attachments []annotations.Attachment
	// userInput is about the first attachment in a VPC, the zero value without one.
	userInput annotations.UserInput
}

// describe makes the allocation status of a pod. claimed has the rows of a complete
// set for each wish in a VPC, in their order. It returns an error if the subnet of one
// is gone.
func describe(tx store.ReadTx, wishes []Wish, claimed [][]*store.Address) (outcome, error) {
	var o outcome
	for _, w := range wishes {
		attachment := annotations.Attachment{
			Name: w.Interface, AltName: w.AltName, Kind: w.Kind, Network: w.Network, VPC: w.VPC, Outside: w.Outside,
		}
		if w.InVPC() {
			rows := slices.SortedFunc(slices.Values(claimed[0]), func(a, b *store.Address) int { return a.IP.Compare(b.IP) })
			claimed = claimed[1:]
			subnet := store.GetSubnet(tx, rows[0].Subnet)
			if subnet == nil {
				return outcome{}, fmt.Errorf("interface %s: subnet %s is gone", w.Interface, rows[0].Subnet)
			}
			addAddresses(&attachment, rows, subnet)
			if o.userInput == (annotations.UserInput{}) {
				o.userInput = annotations.UserInput{
					VPC: w.VPC, Net: cmp.Or(subnet.ShortName, subnet.Name), IP: rows[0].IP.String(),
				}
			}
		}
		o.attachments = append(o.attachments, attachment)
	}
	return o, nil
}

// addAddresses adds the addresses of the rows. Gateways and prefix lengths are those
// of the subnet.
func addAddresses(attachment *annotations.Attachment, rows []*store.Address, subnet *store.Subnet) {
	attachment.Subnet, attachment.MAC = rows[0].Subnet, rows[0].MAC
	for _, row := range rows {
		for i, prefix := range subnet.Prefixes {
			if prefix.Contains(row.IP) {
				attachment.Addresses = append(attachment.Addresses, netip.PrefixFrom(row.IP, prefix.Bits()))
				attachment.Gateways = append(attachment.Gateways, subnet.Gateways[i])
			}
		}
	}
}
