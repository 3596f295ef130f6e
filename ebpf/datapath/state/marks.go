// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package state

// The marks on packets that the programs hand to the host's stack; replies to the node
// have none. Rules of the host compare with them under MarkMask.
const (
	MarkMask   = uint32(0x30000000)
	MarkShared = uint32(0x10000000) // to a backend of a shared service
	MarkEgress = uint32(0x20000000) // to the outside, to be masqueraded, never to this node
	MarkNode   = uint32(0x30000000) // of the default VPC: to the outside or to a node
	// MarkOpening is set by the host on packets that open a flow to a shadow address;
	// the programs forward only the kubelet's.
	MarkOpening = uint32(0x10000000)
	// MarkTunneled is set on packets that the node sends by the tunnel's device.
	MarkTunneled = uint32(0x30000000)
)
