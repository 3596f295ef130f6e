// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
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

// NetworkMAC returns the MAC of an attachment outside of every VPC, lower case with
// colons: 0a, which no attachment in a VPC begins with, and 40 bits of a hash of the
// pod's UID and the interface. It depends on the pod alone, so that it stays the same
// when the attachment is decided again. Attempts above 0 give other addresses.
func NetworkMAC(podUID, attachment string, attempt int) net.HardwareAddr {
	input := podUID + "/" + attachment
	if attempt > 0 {
		input += fmt.Sprintf("/%d", attempt)
	}
	hash := sha256.Sum256([]byte(input))
	return append(net.HardwareAddr{0x0a}, hash[:5]...)
}

// eui64 returns the address of a prefix of at most 64 bits with the interface identifier
// of a MAC: the modified EUI-64 (RFC 4291, appendix A).
func eui64(prefix netip.Prefix, mac net.HardwareAddr) netip.Addr {
	ip := prefix.Masked().Addr().As16()
	copy(ip[8:], []byte{mac[0] ^ 0x02, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]})
	return netip.AddrFrom16(ip)
}
