// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// TCP asks whether something accepts connections at an address, HOST:PORT.
func TCP(name, address string) Probe {
	return Probe{Name: name + " at " + address, Check: func(ctx context.Context) error {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}}
}

// Lookup asks a name server for a name. The answer that there is no such name is one.
func Lookup(server, name string) Probe {
	return Probe{Name: "name server " + server, Check: func(ctx context.Context) error {
		return lookup(ctx, net.JoinHostPort(server, "53"), name)
	}}
}

func lookup(ctx context.Context, server, name string) error {
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, server)
	}}
	_, err := resolver.LookupHost(ctx, name)
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return nil
	}
	return err
}

// Gateway asks whether a next hop answers: to an echo request (RFC 792, RFC 4443), or, as
// many gateways do not answer that, to a request for its Ethernet address.
func Gateway(ip netip.Addr) Probe {
	return Probe{Name: "gateway " + ip.String(), Check: func(ctx context.Context) error {
		err := echo(ctx, ip)
		if err == nil || resolved(ip) {
			return nil
		}
		return err
	}}
}

// resolved reports whether the kernel has confirmed the Ethernet address of a neighbour.
// The echo request has just made it ask, unless it knows.
func resolved(ip netip.Addr) bool {
	rows, err := netlink.NeighList(0, 0)
	if err != nil {
		return false
	}
	for _, row := range rows {
		if addr, ok := netip.AddrFromSlice(row.IP); ok && addr.Unmap() == ip && row.State&netlink.NUD_REACHABLE != 0 {
			return true
		}
	}
	return false
}

func echo(ctx context.Context, ip netip.Addr) error {
	network, local, request, protocol := "ip4:icmp", "0.0.0.0", icmp.Type(ipv4.ICMPTypeEcho), 1
	reply := icmp.Type(ipv4.ICMPTypeEchoReply)
	if ip.Is6() {
		network, local, request, protocol = "ip6:ipv6-icmp", "::", ipv6.ICMPTypeEchoRequest, 58
		reply = ipv6.ICMPTypeEchoReply
	}
	conn, err := icmp.ListenPacket(network, local)
	if err != nil {
		return fmt.Errorf("open a socket for echo requests: %w", err)
	}
	defer func() { _ = conn.Close() }()
	id := int(time.Now().UnixNano() & 0xffff)
	message := icmp.Message{Type: request, Body: &icmp.Echo{ID: id, Seq: 1, Data: []byte("alioth")}}
	text, err := message.Marshal(nil)
	if err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if _, err := conn.WriteTo(text, &net.IPAddr{IP: ip.AsSlice(), Zone: ip.Zone()}); err != nil {
		return err
	}
	return awaitReply(conn, ip, reply, id, protocol)
}

func awaitReply(conn *icmp.PacketConn, from netip.Addr, kind icmp.Type, id, protocol int) error {
	buffer := make([]byte, 1500)
	for {
		n, sender, err := conn.ReadFrom(buffer)
		if err != nil {
			return err
		}
		address, ok := sender.(*net.IPAddr)
		if !ok || !address.IP.Equal(from.AsSlice()) {
			continue
		}
		message, err := icmp.ParseMessage(protocol, buffer[:n])
		if err != nil || message.Type != kind {
			continue
		}
		if body, ok := message.Body.(*icmp.Echo); ok && body.ID == id {
			return nil
		}
	}
}
