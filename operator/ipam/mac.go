// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"crypto/sha256"
	"encoding/binary"
	"net"
	"net/netip"
)

// MAC returns the MAC of an attachment with these addresses, lower case with
// colons: 02:00 and the IPv4 address, which no other attachment of the VPC has,
// or, without one, 06 and 40 bits of a hash of VNI and the first address. Both
// are locally administered unicast addresses (IEEE 802-2014, 8.4).
func MAC(vni uint32, ips []netip.Addr) string {
	for _, ip := range ips {
		if ip.Is4() {
			v4 := ip.As4()
			return net.HardwareAddr{0x02, 0x00, v4[0], v4[1], v4[2], v4[3]}.String()
		}
	}
	input := binary.BigEndian.AppendUint32(nil, vni)
	if len(ips) > 0 {
		input = append(input, ips[0].AsSlice()...)
	}
	hash := sha256.Sum256(input)
	return append(net.HardwareAddr{0x06}, hash[:5]...).String()
}
