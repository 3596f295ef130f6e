// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// ARP asks by ARP whether somebody has an address (RFC 5227).
type ARP struct {
	hardware net.HardwareAddr
	socket   *packetSocket
}

// OpenARP opens the socket of an interface of Ethernet.
func OpenARP(index int, hardware net.HardwareAddr) (*ARP, error) {
	socket, err := openPacket(index, unix.ETH_P_ARP, allOfTheLink())
	if err != nil {
		return nil, fmt.Errorf("ask whether an address is in use: %w", err)
	}
	return &ARP{hardware, socket}, nil
}

// Close closes the socket; Read then ends.
func (a *ARP) Close() error { return a.socket.file.Close() }

const (
	arpSize                = 28
	etherHardware          = 1
	arpRequest, arpReply   = 1, 2
	hardwareSize, addrSize = 6, 4
	// Where the addresses are: of the sender and of the target.
	senderHardware, sender, target = 8, 14, 24
)

// Probe asks who has an address, without telling one.
func (a *ARP) Probe(address netip.Addr) error {
	return a.socket.send(a.request(netip.IPv4Unspecified(), address))
}

// Announce tells that the address is this host's.
func (a *ARP) Announce(address netip.Addr) error {
	return a.socket.send(a.request(address, address))
}

func (a *ARP) request(from, to netip.Addr) []byte {
	p := make([]byte, arpSize)
	binary.BigEndian.PutUint16(p, etherHardware)
	binary.BigEndian.PutUint16(p[2:], unix.ETH_P_IP)
	p[4], p[5] = hardwareSize, addrSize
	binary.BigEndian.PutUint16(p[6:], arpRequest)
	copy(p[senderHardware:], a.hardware)
	copy(p[sender:], from.AsSlice())
	copy(p[target:], to.AsSlice())
	return p
}

// Read returns an address that another host has or is about to take, and the hardware address
// of that host.
func (a *ARP) Read(buffer []byte) (netip.Addr, net.HardwareAddr, error) {
	for {
		n, err := a.socket.file.Read(buffer)
		if errors.Is(err, unix.ENETDOWN) {
			continue
		}
		if err != nil {
			return netip.Addr{}, nil, err
		}
		if address, by, ok := a.claimOf(buffer[:n]); ok {
			return address, by, nil
		}
	}
}

// claimOf returns who claims which address by a packet: its sender, or the target of a probe,
// which somebody else is about to take.
func (a *ARP) claimOf(p []byte) (netip.Addr, net.HardwareAddr, bool) {
	if len(p) < arpSize || p[4] != hardwareSize || p[5] != addrSize || binary.BigEndian.Uint16(p[2:]) != unix.ETH_P_IP {
		return netip.Addr{}, nil, false
	}
	by := net.HardwareAddr(bytes.Clone(p[senderHardware : senderHardware+hardwareSize]))
	operation := binary.BigEndian.Uint16(p[6:])
	if bytes.Equal(by, a.hardware) || operation != arpRequest && operation != arpReply {
		return netip.Addr{}, nil, false
	}
	address := netip.AddrFrom4([4]byte(p[sender : sender+addrSize]))
	if address.IsUnspecified() && operation == arpRequest {
		address = netip.AddrFrom4([4]byte(p[target : target+addrSize]))
	}
	return address, by, true
}
