// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Send puts a frame on a device as it is. Needs CAP_NET_RAW.
func Send(device string, frame []byte) error {
	link, err := net.InterfaceByName(device)
	if err != nil {
		return fmt.Errorf("find device %s: %w", device, err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open packet socket (needs CAP_NET_RAW): %w", err)
	}
	defer unix.Close(fd)
	to := &unix.SockaddrLinklayer{Ifindex: link.Index, Halen: 6}
	copy(to.Addr[:], frame[:6])
	if err := unix.Sendto(fd, frame, 0, to); err != nil {
		return fmt.Errorf("send frame on %s: %w", device, err)
	}
	return nil
}

// SendIP sends an IP packet with the header that it has, by a raw socket. Needs
// CAP_NET_RAW.
func SendIP(packet []byte) error {
	family, to := unix.AF_INET, unix.Sockaddr(nil)
	switch {
	case len(packet) >= 20 && packet[0]>>4 == 4:
		to = &unix.SockaddrInet4{Addr: [4]byte(packet[16:20])}
	case len(packet) >= 40 && packet[0]>>4 == 6:
		family, to = unix.AF_INET6, &unix.SockaddrInet6{Addr: [16]byte(packet[24:40])}
	default:
		return fmt.Errorf("%d bytes are no IP packet", len(packet))
	}
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return fmt.Errorf("open raw socket (needs CAP_NET_RAW): %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, packet, 0, to); err != nil {
		return fmt.Errorf("send IP packet: %w", err)
	}
	return nil
}

// SendUDP sends a datagram through the kernel's own stack, from the address source if it is valid,
// else from an address that the kernel chooses.
func SendUDP(ctx context.Context, source netip.Addr, target netip.AddrPort, payload []byte) error {
	var dialer net.Dialer
	if source.IsValid() {
		dialer.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
	}
	conn, err := dialer.DialContext(ctx, "udp", target.String())
	if err != nil {
		return fmt.Errorf("open udp socket: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write(payload); err != nil {
		return fmt.Errorf("send to %s: %w", target, err)
	}
	return nil
}
