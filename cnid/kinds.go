// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"maps"
	"slices"

	"github.com/alioth-net/alioth/store/descriptor"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/store/kinds/core"
	"github.com/alioth-net/alioth/store/kinds/nmstateapi"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
)

// Kinds are those whose objects the daemon follows.
func (c Config) Kinds() []*descriptor.Kind {
	without := nmstateapi.All()
	if c.NodeNetworkState {
		// The operator needs the policies where the daemon does not.
		without = slices.DeleteFunc(without, func(kind *descriptor.Kind) bool {
			return kind == nmstateapi.NodeNetworkState.Kind || c.NetworkPolicyMode == PoliciesDistributed
		})
	}
	all := kinds.All()
	if c.ScaledEndpoints {
		// They have what the operator judged by these, and by the Addresses of networks.
		without = append(without, core.Service.Kind, core.EndpointSlice.Kind, vpcs.Network.Kind)
		addresses := *vpcs.Address.Kind
		addresses.Of = maps.Clone(addresses.Of)
		delete(addresses.Of, descriptor.ServedNetwork)
		all[slices.Index(all, vpcs.Address.Kind)] = &addresses
	} else {
		without = append(without, vpcs.ScaledEndpoint.Kind)
	}
	return slices.DeleteFunc(all, func(kind *descriptor.Kind) bool { return slices.Contains(without, kind) })
}
