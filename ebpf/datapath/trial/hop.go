// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"fmt"

	"github.com/alioth-net/alioth/ebpf/bpf"
)

// Hop is the reason of a node to send a packet to another one: its class on the wire.
type Hop uint32

// Reasons of hops, in their possible order.
const (
	// ByRow is by a row of the address, held or cached.
	ByRow = Hop(bpf.AliothPacketClassCLASS_DIRECT)
	// ToDivider is over a divider: the node does not know the subnet.
	ToDivider = Hop(bpf.AliothPacketClassCLASS_TO_DIVIDER)
	// ToBouncer is over a bouncer: the node has no row of the address.
	ToBouncer = Hop(bpf.AliothPacketClassCLASS_TO_BOUNCER)
	// FromBouncer is the last hop, by the row of a bouncer.
	FromBouncer = Hop(bpf.AliothPacketClassCLASS_FROM_BOUNCER)
)

// String explains the hop in words.
func (h Hop) String() string {
	switch h {
	case ByRow:
		return "by the row of the address"
	case ToDivider:
		return "over a divider of the VPC: this node does not know the subnet"
	case ToBouncer:
		return "over a bouncer of the subnet: this node has no row of the address"
	case FromBouncer:
		return "by the row of the address, as a bouncer"
	}
	return fmt.Sprintf("by the unknown class %d", uint32(h))
}
