// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
)

// V6 is the socket of a client of DHCPv6.
type V6 struct {
	conn *net.UDPConn
	to   netip.AddrPort
}

// serversAndRelays is All_DHCP_Relay_Agents_and_Servers.
var serversAndRelays = netip.MustParseAddr("ff02::1:2")

// OpenV6 opens the socket of an interface. The kernel sends from the link-local address of the
// interface, once there is one.
func OpenV6(ctx context.Context, name string, index int) (*V6, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error { return bindToDevice(raw, name) }}
	conn, err := config.ListenPacket(ctx, "udp6", netip.AddrPortFrom(netip.IPv6Unspecified(), client6Port).String())
	if err != nil {
		return nil, fmt.Errorf("open the DHCPv6 socket of %s: %w", name, err)
	}
	zone := strconv.Itoa(index)
	return &V6{conn.(*net.UDPConn), netip.AddrPortFrom(serversAndRelays.WithZone(zone), server6Port)}, nil
}

// Close closes the socket; Read then ends.
func (v *V6) Close() error { return v.conn.Close() }

// Multicast sends the payload of a message to all servers and relays of the link.
func (v *V6) Multicast(payload []byte) error {
	_, err := v.conn.WriteToUDPAddrPort(payload, v.to)
	return err
}

// Read returns the payload of the next message of a host of the link, and its address. Servers
// elsewhere answer by a relay of the link.
func (v *V6) Read(buffer []byte) ([]byte, netip.Addr, error) {
	for {
		n, from, err := v.conn.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return nil, netip.Addr{}, err
		}
		if from.Addr().IsLinkLocalUnicast() {
			return buffer[:n], from.Addr().WithZone(""), nil
		}
	}
}
