// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package bpf

// Received is the context of a packet that a device has received.
func Received(ifindex int) Context {
	return Context{Ifindex: uint32(ifindex), IngressIfindex: uint32(ifindex)}
}

// Context is struct __sk_buff, as a test run takes and gives it.
type Context struct {
	Len, PktType, Mark, QueueMapping, Protocol   uint32
	VlanPresent, VlanTCI, VlanProto, Priority    uint32
	IngressIfindex, Ifindex, TCIndex             uint32
	CB                                           [5]uint32
	Hash, TCClassid, Data, DataEnd, NAPI, Family uint32
	RemoteIP4, LocalIP4                          uint32
	RemoteIP6, LocalIP6                          [4]uint32
	RemotePort, LocalPort, DataMeta              uint32
	FlowKeys, Tstamp                             uint64
	WireLen, GSOSegs                             uint32
	SK                                           uint64
	GSOSize, Pad2                                uint32
	HardwareTstamp                               uint64
}
