// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
)

// outcome is the allocation status of a pod's attachments.
type outcome struct {
	attachments []netif.Interface
	// text is the annotation of the attachments.
	text string
	// userInput is about the first attachment in a VPC, the zero value without one.
	userInput annotations.UserInput
}

// describe makes the allocation status of a pod. claimed has the rows of a complete
// set for each desired attachment that gets addresses, in their order. It returns an error if the
// subnet of one is gone, or its network has changed since the desired attachment was decided.
func describe(tx store.ReadTx, pod *store.Pod, desired []Desired, claimed [][]*store.Address) (outcome, error) {
	var o outcome
	for _, w := range desired {
		var rows []*store.Address
		if w.addressed() {
			rows = slices.SortedFunc(slices.Values(claimed[0]), func(a, b *store.Address) int { return a.IP.Compare(b.IP) })
			claimed = claimed[1:]
		}
		if w.Recorded != nil {
			o.attachments = append(o.attachments, *w.Recorded)
			o.note(tx, w, rows)
			continue
		}
		if w.Range != nil {
			if _, err := w.Range.Renewed(tx); err != nil {
				return outcome{}, fmt.Errorf("interface %s: %w", w.Interface, err)
			}
		}
		if !w.InVPC() {
			o.attachments = append(o.attachments, outside(pod, w, rows))
			continue
		}
		subnet := store.GetSubnet(tx, rows[0].Subnet)
		if subnet == nil {
			return outcome{}, fmt.Errorf("interface %s: subnet %s is gone", w.Interface, rows[0].Subnet)
		}
		o.attachments = append(o.attachments, inVPC(w, rows, subnet))
		o.note(tx, w, rows)
	}
	var err error
	o.text, err = annotations.FormatAttachments(o.attachments)
	return o, err
}

// note sets the user input to the data of an attachment, if this attachment is the first one in a
// VPC.
func (o *outcome) note(tx store.ReadTx, w Desired, rows []*store.Address) {
	if o.userInput != (annotations.UserInput{}) || !w.InVPC() || len(rows) == 0 {
		return
	}
	name := rows[0].Subnet
	if subnet := store.GetSubnet(tx, name); subnet != nil {
		name = cmp.Or(subnet.ShortName, subnet.Name)
	}
	o.userInput = annotations.UserInput{VPC: w.VPC, Net: name, IP: rows[0].IP.String()}
}

// inVPC describes an attachment in a VPC. Gateways and prefix lengths come from the subnet.
func inVPC(w Desired, rows []*store.Address, subnet *store.Subnet) netif.Interface {
	attachment := netif.Interface{
		Name: w.Interface, AltName: w.AltName, Kind: w.Kind, Network: w.Network, VPC: w.VPC,
		Definition: w.Definition, DefaultRoute: w.DefaultRoute, NoDefaultRoute: w.NoDefaultRoute,
		Subnet: rows[0].Subnet, MAC: rows[0].MAC,
	}
	for _, row := range rows {
		for i, prefix := range subnet.Prefixes {
			if prefix.Contains(row.IP) {
				attachment.Addresses = append(attachment.Addresses, netip.PrefixFrom(row.IP, prefix.Bits()))
				attachment.Gateways = append(attachment.Gateways, subnet.Gateways[i])
			}
		}
	}
	return attachment
}

// outside describes an attachment outside of every VPC. Prefix lengths come from the network's
// ranges.
func outside(pod *store.Pod, w Desired, rows []*store.Address) netif.Interface {
	link := w.Link
	attachment := netif.Interface{
		Name: w.Interface, AltName: w.AltName, Kind: w.Kind, Outside: w.Outside.Path(), OutsideUID: w.Outside.UID,
		Definition: w.Definition, DefaultRoute: w.DefaultRoute, NoDefaultRoute: w.NoDefaultRoute, Delegate: w.Delegate,
	}
	if w.Delegate != nil && w.Range == nil { // the plugins make all but the default routes and the link
		if len(link.Routes) > 0 || link.Parent != "" {
			attachment.Link = &link
		}
		return attachment
	}
	attachment.Link = &link
	if w.Range == nil || !w.Range.SharedMAC {
		attachment.MAC = ipam.NetworkMAC(pod.UID, w.Interface, 0).String()
	}
	var own []netip.Addr
	for _, row := range rows {
		own = append(own, row.IP)
		attachment.Addresses = append(attachment.Addresses, netip.PrefixFrom(row.IP, w.Range.Bits(row.IP)))
		attachment.MAC = row.MAC
	}
	// A pod that is a gateway needs no route to itself.
	link.Routes = slices.DeleteFunc(
		slices.Clone(link.Routes),
		func(r netif.Route) bool { return slices.Contains(own, r.Gateway) },
	)
	if !w.Delegate.OwnIPAM() {
		link.Rules = ownRules(link.Rules, own)
	}
	return attachment
}

// ownRules returns the rules with the addresses of the interface as sources.
func ownRules(rules []netif.Rule, own []netip.Addr) []netif.Rule {
	var all []netif.Rule
	for _, rule := range rules {
		for _, ip := range own {
			if ip.Is4() == rule.From.Addr().Is4() {
				all = append(all, netif.Rule{From: netip.PrefixFrom(ip, ip.BitLen()), Table: rule.Table})
			}
		}
	}
	return all
}
