// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
)

// named returns the kinds of a catalog by the names that descriptions give them: each
// by its own name, and pair, which the node has chosen, as netif.KindPair.
func named(catalog ifdriver.Catalog, pair ifdriver.Kind) map[string]ifdriver.Kind {
	kinds := map[string]ifdriver.Kind{}
	for kind := range catalog {
		kinds[string(kind)] = kind
	}
	kinds[netif.KindPair] = pair
	return kinds
}

// kindOf returns the kind of an attachment, or else why
// the node refuses the attachment.
//
// A driver with a datapath attaches to VPCs only, and one without a datapath to networks
// outside only:
//   - Only the datapath keeps VPCs apart. An interface in a VPC without it would not be
//     bound to its addresses.
//     Interfaces that another CNI plugin makes are exempt.
//   - The host end of a pair outside of every VPC has no programs. The pod would reach
//     the node's own network stack through it.
func (q question) kindOf(described netif.Interface) (kind ifdriver.Kind, refusal string) {
	kind, known := q.kinds[described.Kind]
	onDevice := described.Link != nil && described.Link.Pool != ""
	switch datapath := q.cfg.Kinds[kind].Datapath(); {
	case !known:
		return "", fmt.Sprintf(
			"interface %s is of kind %q, and node %s has the kinds %s; are alioth-operator and alioth-cnid of one release?",
			described.Name,
			described.Kind,
			q.cfg.Node,
			strings.Join(slices.Sorted(maps.Keys(q.kinds)), ", "),
		)
	case datapath && described.Outside != "":
		return "", fmt.Sprintf(
			"interface %s leads to network %q outside of every VPC, and kind %q is for VPCs only",
			described.Name,
			described.Outside,
			described.Kind,
		)
	case q.cfg.Kinds[kind].External && described.Outside != "":
		return "", fmt.Sprintf(
			"interface %s leads to network %q outside of every VPC, and the node IPAM API has addresses of VPCs only",
			described.Name,
			described.Outside,
		)
	case !datapath && !q.cfg.Kinds[kind].External && described.Outside == "":
		return "", fmt.Sprintf(
			"interface %s is in VPC %q, and kind %q has no datapath, which keeps VPCs apart",
			described.Name,
			described.VPC,
			described.Kind,
		)
	case q.cfg.Kinds[kind].Device != onDevice:
		return "", fmt.Sprintf(
			"interface %s is of kind %q, and its description does not say rightly whether it is a device; are alioth-operator and alioth-cnid of one release?",
			described.Name,
			described.Kind,
		)
	}
	return kind, ""
}
