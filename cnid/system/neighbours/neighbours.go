// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package neighbours tells the neighbours on an Ethernet where addresses are.
package neighbours

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Announce announces addresses on the network of a device, whose MAC is given: by a
// gratuitous ARP request (RFC 5944 section 4.6) and an unsolicited neighbour
// advertisement (RFC 4861 section 7.2.6).
func Announce(ifindex int, mac [6]byte, ips []netip.Addr) error {
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a packet socket: %w", err)
	}
	// The kernel waits in the close of a packet socket until no CPU uses it any more, which
	// takes tens of milliseconds under load.
	defer func() { go unix.Close(socket) }()
	var failures []error
	for _, ip := range ips {
		frame := advertisement(mac, ip)
		if ip.Is4() {
			frame = gratuitous(mac, ip)
		}
		if err := unix.Sendto(socket, frame, 0, &unix.SockaddrLinklayer{Ifindex: ifindex, Protocol: 0}); err != nil {
			failures = append(failures, fmt.Errorf("announce %s: %w", ip, err))
		}
	}
	return errors.Join(failures...)
}

// gratuitous returns an ARP request of an address for itself.
func gratuitous(mac [6]byte, ip netip.Addr) []byte {
	frame := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, mac[:]...)
	frame = binary.BigEndian.AppendUint16(frame, unix.ETH_P_ARP)
	frame = append(frame, 0, 1, 8, 0, 6, 4, 0, 1) // Ethernet, IPv4, their lengths, a request
	frame = append(append(frame, mac[:]...), ip.AsSlice()...)
	return append(append(frame, make([]byte, 6)...), ip.AsSlice()...)
}

// advertisement returns an unsolicited one to all nodes, which overrides.
func advertisement(mac [6]byte, ip netip.Addr) []byte {
	all := netip.MustParseAddr("ff02::1")
	body := append([]byte{136, 0, 0, 0, 0x20, 0, 0, 0}, ip.AsSlice()...)
	body = append(append(body, 2, 1), mac[:]...)
	pseudo := append(append(ip.AsSlice(), all.AsSlice()...), 0, 0, 0, byte(len(body)), 0, 0, 0, unix.IPPROTO_ICMPV6)
	binary.BigEndian.PutUint16(body[2:], checksum(append(pseudo, body...)))
	frame := append([]byte{0x33, 0x33, 0, 0, 0, 1}, mac[:]...)
	frame = binary.BigEndian.AppendUint16(frame, unix.ETH_P_IPV6)
	frame = append(frame, 0x60, 0, 0, 0, 0, byte(len(body)), unix.IPPROTO_ICMPV6, 255)
	return append(append(append(frame, ip.AsSlice()...), all.AsSlice()...), body...)
}

// checksum returns the checksum of RFC 1071, of an even number of bytes.
func checksum(data []byte) uint16 {
	var sum uint32
	for at := 0; at < len(data); at += 2 {
		sum += uint32(binary.BigEndian.Uint16(data[at:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
