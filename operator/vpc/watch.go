// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package vpc

import (
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/write"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
)

// source requests a VPC when it, its claim, its usage, its subnets or its addresses change, all
// VPCs when a ServiceCIDR changes, and the default VPC when a node changes.
func source(f *feed.Feed, defaultVPC string) *feed.Source {
	return feed.NewSource(f, func(tx store.ReadTx) []feed.Request {
		return append(everything(tx), f.Leaving(vpcs.VPC.Kind)...)
	},
		feed.OnLeaving(vpcs.VPC.Kind),
		feed.On(func(_ store.ReadTx, old, now *store.VPC) []feed.Request {
			return []feed.Request{feed.Now("", feed.Either(old, now).Name)}
		}),
		feed.On(func(tx store.ReadTx, old, now *store.VNIClaim) []feed.Request {
			return append(lackingVNI(tx), feed.Now("", feed.Either(old, now).VPC))
		}),
		feed.On(func(tx store.ReadTx, _, _ *store.RollCall) []feed.Request { return lackingVNI(tx) }),
		feed.On(func(_ store.ReadTx, old, now *store.Subnet) []feed.Request {
			if old != nil && now != nil {
				return nil // the VPC only counts them
			}
			return []feed.Request{feed.Now("", feed.Either(old, now).VPC)}
		}),
		feed.On(func(_ store.ReadTx, old, now *store.Address) []feed.Request {
			vpc := feed.Either(old, now).VPC
			if vpc == "" {
				return nil
			}
			return []feed.Request{feed.Later(countsEvery, "", vpc)}
		}),
		feed.On(write.UsageRequests(v1alpha1.UsageOfVPC)),
		feed.On(func(tx store.ReadTx, _, _ *store.ServiceCIDR) []feed.Request { return everything(tx) }),
		feed.On(func(_ store.ReadTx, _, _ *store.Node) []feed.Request {
			return []feed.Request{feed.Now("", defaultVPC)}
		}),
	)
}

// lackingVNI lists the VPCs without a VNI. A settled term or a released VNI may help
// them, or change the message of their condition.
func lackingVNI(tx store.ReadTx) []feed.Request {
	var all []feed.Request
	for _, vpc := range store.ListVPCs(tx) {
		if vpc.VNI == 0 {
			all = append(all, feed.Now("", vpc.Name))
		}
	}
	return all
}

// everything lists all VPCs.
func everything(tx store.ReadTx) []feed.Request {
	var all []feed.Request
	for _, vpc := range store.ListVPCs(tx) {
		all = append(all, feed.Now("", vpc.Name))
	}
	return all
}
