// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/testtool/blocking"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// echoSize is the payload size of the common ping command.
const echoSize = 56

// Echo sends an echo request (RFC 792) and waits for its reply, again and again
// for the given time, as "ping -f" does. It needs CAP_NET_RAW.
func Echo(ctx context.Context, target netip.Addr, duration time.Duration) (report.Latency, error) {
	if !target.Is4() {
		return report.Latency{}, fmt.Errorf("ping %s: want an IPv4 address", target)
	}
	conn, err := net.DialIP("ip4:icmp", nil, &net.IPAddr{IP: target.AsSlice()})
	if err != nil {
		return report.Latency{}, fmt.Errorf("open raw socket (needs CAP_NET_RAW): %w", err)
	}
	socket, err := blocking.New(conn)
	if err != nil {
		return report.Latency{}, err
	}
	defer socket.Close()
	defer watchdog(ctx, duration, socket)()
	p := &pinger{socket: socket, id: rand.IntN(1 << 16), reply: make([]byte, 1500)}
	return exchange(ctx, target.String(), duration, p.once)
}

// pinger sends requests under one identifier.
type pinger struct {
	socket  *blocking.Socket
	id, seq int
	reply   []byte
}

// once sends a request and waits for the reply to it.
func (p *pinger) once() error {
	p.seq = (p.seq + 1) & 0xffff
	message := icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{ID: p.id, Seq: p.seq, Data: make([]byte, echoSize)}}
	request, err := message.Marshal(nil)
	if err != nil {
		return fmt.Errorf("encode echo request: %w", err)
	}
	if _, err := p.socket.Write(request); err != nil {
		return fmt.Errorf("send echo request: %w", err)
	}
	for {
		n, err := p.socket.Read(p.reply)
		if err != nil {
			return fmt.Errorf("read echo reply: %w", err)
		}
		mine, err := p.answers(p.reply[:n])
		if mine || err != nil {
			return err
		}
	}
}

// answers reports whether a packet, IP header included, is the reply to the last
// request.
func (p *pinger) answers(packet []byte) (bool, error) {
	header, err := ipv4.ParseHeader(packet)
	if err != nil {
		return false, fmt.Errorf("read echo reply: %w", err)
	}
	message, err := icmp.ParseMessage(unix.IPPROTO_ICMP, packet[header.Len:])
	if err != nil {
		return false, fmt.Errorf("read echo reply: %w", err)
	}
	echo, ok := message.Body.(*icmp.Echo)
	if message.Type == ipv4.ICMPTypeDestinationUnreachable {
		return false, errors.New("destination unreachable")
	}
	return ok && message.Type == ipv4.ICMPTypeEchoReply && echo.ID == p.id && echo.Seq == p.seq, nil
}
