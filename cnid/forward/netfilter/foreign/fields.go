// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"net/netip"
	"strings"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
)

// field has the values of a field in Alioth's packets. Packets without an entry never fit a
// condition about the field.
type field []known

// known is a value that a field of some of Alioth's packets has, nil if it can be any.
type known struct {
	of    ours
	value []byte
	// wide tells that packets of others have this value, too.
	wide bool
}

// pods are the packets in the forward hook.
const pods = fromPods | toPods | replies

// meta returns the values of a key.
func (t Traffic) meta(key expr.MetaKey) field {
	number := binaryutil.NativeEndian.PutUint32
	pod, node, group := padded(t.podDevice()), padded(t.NodeDevice), number(t.PodGroup)
	switch key {
	case expr.MetaKeyIIFNAME:
		return field{{of: fromPods, value: pod}, {of: toPods | replies, value: node}, {tunnel, padded(t.Underlay), true}}
	case expr.MetaKeyOIFNAME:
		return field{{of: toPods | replies, value: pod}, {of: fromPods, value: node}}
	case expr.MetaKeyIIFGROUP:
		return field{{of: fromPods, value: group}, {tunnel, number(t.UnderlayGroup), true}}
	case expr.MetaKeyOIFGROUP:
		return field{{of: toPods | replies, value: group}}
	case expr.MetaKeyIIF:
		return field{{of: pods}, {tunnel, number(t.UnderlayIndex), true}}
	case expr.MetaKeyNFPROTO:
		return field{{of: pods}, {tunnel, []byte{ipfamily.Of(t.Tunnel).Number()}, true}}
	case expr.MetaKeyL4PROTO:
		return protocol()
	}
	return nil
}

func protocol() field { return field{{of: pods}, {tunnel, []byte{unix.IPPROTO_UDP}, true}} }

func (t Traffic) port() field {
	return field{{of: tunnel, value: binaryutil.BigEndian.PutUint16(t.TunnelPort)}}
}

// States of connection tracking, from linux/netfilter/nf_conntrack_common.h.
const established, begins, untracked = 1 << 1, 1 << 3, 1 << 6

func states() field {
	number := binaryutil.NativeEndian.PutUint32
	return field{
		{of: replies, value: number(established)},
		{of: fromPods | toPods, value: number(begins)},
		{tunnel, number(untracked), true},
	}
}

// inStates reports whether a state is one of a mask.
func inStates(value []byte, mask uint32) bool { return binaryutil.NativeEndian.Uint32(value)&mask != 0 }

// inGroup reports whether a group of devices is one that a rule names.
func inGroup(value []byte, group, mask uint32) bool {
	return binaryutil.NativeEndian.Uint32(value)&mask == group
}

// sources returns source addresses of a family. The tunnel's packets come from any node.
func (t Traffic) sources(family ipfamily.Family) (list field) {
	if ipfamily.Of(t.Tunnel) == family {
		list = field{{of: tunnel}}
	}
	return append(list, t.shadows(family, fromPods)...)
}

// destinations returns destination addresses of a family.
func (t Traffic) destinations(family ipfamily.Family) (list field) {
	if t.Tunnel.IsValid() && ipfamily.Of(t.Tunnel) == family {
		list = field{{tunnel, t.Tunnel.AsSlice(), true}}
	}
	return append(list, t.shadows(family, toPods|replies)...)
}

func (t Traffic) shadows(family ipfamily.Family, of ours) (list field) {
	for _, shadow := range t.Shadows {
		if ipfamily.Of(shadow.Addr()) == family {
			list = append(list, known{of: of, value: shadow.Addr().Next().AsSlice()})
		}
	}
	return list
}

// payload returns the values of an address, the protocol or the destination port: RFC 791 section
// 3.1, RFC 8200 section 3, RFC 768.
func (t Traffic) payload(e *expr.Payload) field {
	type place struct{ base, offset, length uint32 }
	const network, transport = uint32(expr.PayloadBaseNetworkHeader), uint32(expr.PayloadBaseTransportHeader)
	switch (place{uint32(e.Base), e.Offset, e.Len}) {
	case place{transport, 2, 2}:
		return t.port()
	case place{network, 9, 1}, place{network, 6, 1}:
		return protocol()
	}
	if uint32(e.Base) != network {
		return nil
	}
	switch e.Offset {
	case 12:
		return t.sources(ipfamily.IPv4).first(e.Len)
	case 16:
		return t.destinations(ipfamily.IPv4).first(e.Len)
	case 8:
		return t.sources(ipfamily.IPv6).first(e.Len)
	case 24:
		return t.destinations(ipfamily.IPv6).first(e.Len)
	}
	return nil
}

// first returns the beginning of each value.
func (f field) first(length uint32) (list field) {
	for _, k := range f {
		if k.value != nil {
			k.value = k.value[:min(int(length), len(k.value))]
		}
		list = append(list, k)
	}
	return list
}

// within reports whether an address is in a range.
func within(value []byte, in netip.Prefix) bool {
	address, _ := netip.AddrFromSlice(value)
	return in.Contains(address)
}

// podDevice is the longest name of a pod's device.
func (t Traffic) podDevice() string { return t.PodDevices + strings.Repeat("0", 12) }

// padded returns a device's name as the kernel compares it.
func padded(name string) []byte {
	return append([]byte(name), make([]byte, unix.IFNAMSIZ-len(name))...)
}
