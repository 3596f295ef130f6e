// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/alioth-net/alioth/test/testtool/wire"
)

// headerLength is the length of an Ethernet header, in bytes.
const headerLength = 14

// tunnel is where VXLAN packets go, and how they are sent.
type tunnel struct {
	node, from string
	vni        uint32
	port       uint16
	by         string
	device     string
}

func rawVXLANCommand() *cobra.Command {
	frame, t := &frameFlags{}, &tunnel{}
	var count int
	command := &cobra.Command{
		Use:   "vxlan",
		Short: "Send an Ethernet frame inside VXLAN to a node",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			inner, err := frame.encode()
			if err != nil {
				return err
			}
			packet, err := wire.VXLAN(t.vni, inner)
			if err != nil {
				return err
			}
			send, err := t.sender(command.Context(), packet)
			if err != nil {
				return err
			}
			for range count {
				if err := send(); err != nil {
					return err
				}
			}
			return nil
		},
	}
	frame.register(command)
	flags := command.Flags()
	flags.StringVar(&t.node, "node", "", "underlay address to send to")
	flags.StringVar(
		&t.from,
		"from",
		"",
		"underlay address to send from, one of this machine's with --by udp; chosen by the kernel, or of --device, if empty",
	)
	flags.Uint32Var(&t.vni, "vni", 0, "VXLAN network identifier")
	flags.Uint16Var(&t.port, "port", 4789, "tunnel port")
	flags.StringVar(&t.by, "by", "udp", "socket to send by: udp, ip (raw, with an own header) or packet (on --device)")
	flags.StringVar(&t.device, "device", "eth0", "device on the underlay, for --by ip and packet")
	flags.IntVar(&count, "count", 1, "how often to send it")
	return command
}

// sender returns a function that sends a VXLAN packet once.
func (t *tunnel) sender(ctx context.Context, packet []byte) (func() error, error) {
	node, err := netip.ParseAddr(t.node)
	if err != nil {
		return nil, fmt.Errorf("read --node: %w", err)
	}
	var from netip.Addr
	if t.from != "" {
		if from, err = netip.ParseAddr(t.from); err != nil {
			return nil, fmt.Errorf("read --from: %w", err)
		}
	}
	target := netip.AddrPortFrom(node, t.port)
	switch t.by {
	case "udp":
		return func() error { return wire.SendUDP(ctx, from, target, packet) }, nil
	case "ip":
		frame, err := t.around(packet, from, target, make(net.HardwareAddr, 6))
		return func() error { return wire.SendIP(frame[headerLength:]) }, err
	case "packet":
		mac, err := macOf(ctx, t.device, node)
		if err != nil {
			return nil, err
		}
		frame, err := t.around(packet, from, target, mac)
		return func() error { return wire.Send(t.device, frame) }, err
	}
	return nil, fmt.Errorf("--by %s is none of udp, ip and packet", t.by)
}

// around puts the outer headers before a VXLAN packet.
func (t *tunnel) around(packet []byte, from netip.Addr, target netip.AddrPort, mac net.HardwareAddr) ([]byte, error) {
	link, own, err := wire.Own(t.device, target.Addr().Is4())
	if err != nil {
		return nil, err
	}
	if from.IsValid() {
		own = from
	}
	const sourcePort = 40000
	return wire.Frame{
		SourceMAC: link.HardwareAddr, TargetMAC: mac, Payload: packet, Source: netip.AddrPortFrom(own, sourcePort),
		Target: target,
	}.Encode()
}

// macOf asks on a device's network for the MAC of an address.
func macOf(ctx context.Context, device string, ip netip.Addr) (net.HardwareAddr, error) {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	at, err := wire.WhoHas(ctx, device, ip)
	if err != nil {
		return nil, err
	}
	if len(at) != 1 {
		return nil, fmt.Errorf("%s is at %v, want one neighbour", ip, at)
	}
	return net.ParseMAC(at[0])
}
