// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	protocolICMPv6 = 58
	solicitation   = 135
	advertisement  = 136
	// askEvery is the time between two questions.
	askEvery = 100 * time.Millisecond
)

// WhoHas asks on a device's network, past the kernel's own table, who has an
// address, by ARP (RFC 826) or neighbour discovery (RFC 4861), again and again
// until ctx ends. It returns the MACs that answered, in order. Needs CAP_NET_RAW.
func WhoHas(ctx context.Context, device string, ip netip.Addr) ([]string, error) {
	link, own, err := Own(device, ip.Is4())
	if err != nil {
		return nil, err
	}
	q := questionOf(link.HardwareAddr, own, ip)
	socket, err := openNeighbour(q.protocol)
	if err != nil {
		return nil, err
	}
	defer unix.Close(socket)
	to := &unix.SockaddrLinklayer{Ifindex: link.Index, Protocol: htons(q.protocol), Halen: 6}
	copy(to.Addr[:], q.to)
	var at []string
	for ctx.Err() == nil {
		if err := unix.Sendto(socket, q.packet, 0, to); err != nil {
			return nil, fmt.Errorf("ask for %s on %s: %w", ip, device, err)
		}
		if at, err = q.collect(socket, at); err != nil {
			return nil, err
		}
	}
	slices.Sort(at)
	return at, nil
}

// openNeighbour opens a socket for one protocol whose reads end after askEvery.
func openNeighbour(protocol uint16) (int, error) {
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(htons(protocol)))
	if err != nil {
		return -1, fmt.Errorf("open packet socket (needs CAP_NET_RAW): %w", err)
	}
	limit := unix.NsecToTimeval(askEvery.Nanoseconds())
	if err := unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		unix.Close(socket)
		return -1, fmt.Errorf("bound reads of socket: %w", err)
	}
	return socket, nil
}

// question is who has one address.
type question struct {
	ip       netip.Addr
	protocol uint16
	to       net.HardwareAddr
	packet   []byte
}

func questionOf(mac net.HardwareAddr, own, ip netip.Addr) question {
	if ip.Is4() {
		packet := []byte{0, 1, 8, 0, 6, 4, 0, 1} // Ethernet, IPv4, their lengths, a request
		packet = append(append(packet, mac...), own.AsSlice()...)
		packet = append(append(packet, make([]byte, 6)...), ip.AsSlice()...)
		return question{ip, unix.ETH_P_ARP, net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, packet}
	}
	// The solicited-node group of the address, RFC 4291 section 2.7.1.
	group := netip.MustParseAddr("ff02::1:ff00:0").As16()
	target := ip.As16()
	copy(group[13:], target[13:])
	body := append([]byte{solicitation, 0, 0, 0, 0, 0, 0, 0}, ip.AsSlice()...)
	body = append(append(body, 1, 1), mac...)
	pseudo := append(append(own.AsSlice(), group[:]...), 0, 0, 0, byte(len(body)), 0, 0, 0, protocolICMPv6)
	binary.BigEndian.PutUint16(body[2:], checksum(append(pseudo, body...)))
	packet := append([]byte{0x60, 0, 0, 0, 0, byte(len(body)), protocolICMPv6, 255}, own.AsSlice()...)
	packet = append(append(packet, group[:]...), body...)
	return question{ip, unix.ETH_P_IPV6, append(net.HardwareAddr{0x33, 0x33}, group[12:]...), packet}
}

// collect adds who answers until a read takes too long.
func (q question) collect(socket int, at []string) ([]string, error) {
	buffer := make([]byte, 65536)
	for end := time.Now().Add(askEvery); time.Now().Before(end); {
		n, _, err := unix.Recvfrom(socket, buffer, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read answers: %w", err)
		}
		if mac := q.answer(buffer[:n]); mac != nil && !slices.Contains(at, mac.String()) {
			at = append(at, mac.String())
		}
	}
	return at, nil
}

// answer returns the MAC of the address according to the packet, or nil.
func (q question) answer(packet []byte) net.HardwareAddr {
	if q.protocol == unix.ETH_P_ARP {
		if len(packet) < 28 || packet[7] != 2 || !bytes.Equal(packet[14:18], q.ip.AsSlice()) {
			return nil
		}
		return bytes.Clone(packet[8:14])
	}
	const header = 40
	if len(packet) < header+32 || packet[6] != protocolICMPv6 || packet[header] != advertisement ||
		!bytes.Equal(packet[header+8:header+24], q.ip.AsSlice()) || packet[header+24] != 2 {
		return nil
	}
	return bytes.Clone(packet[header+26 : header+32])
}

// Own returns a device, and its address of a family. Others on its network can be asked from this
// address.
func Own(device string, v4 bool) (*net.Interface, netip.Addr, error) {
	link, err := net.InterfaceByName(device)
	if err != nil {
		return nil, netip.Addr{}, fmt.Errorf("find device %s: %w", device, err)
	}
	list, err := link.Addrs()
	if err != nil {
		return nil, netip.Addr{}, fmt.Errorf("list addresses of %s: %w", device, err)
	}
	for _, text := range list {
		prefix, err := netip.ParsePrefix(text.String())
		if err == nil && prefix.Addr().Is4() == v4 && !prefix.Addr().IsLinkLocalUnicast() {
			return link, prefix.Addr(), nil
		}
	}
	return nil, netip.Addr{}, fmt.Errorf("device %s has no address to ask from", device)
}

func htons(value uint16) uint16 { return value<<8 | value>>8 }
