// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// echoer sends echo requests to one address and reads the replies. A 64-bit number in the payload
// tells requests apart, because the protocol's own sequence number wraps within a minute at 1 kHz.
type echoer struct {
	conn   *icmp.PacketConn
	target netip.Addr
	id     int
	token  uint64
}

// payloadSize is the payload size of the common ping command: an echo request of 84 bytes over
// IPv4.
const payloadSize = 56

func newEchoer(target netip.Addr) (*echoer, error) {
	network, local := "ip4:icmp", "0.0.0.0"
	if target.Is6() {
		network, local = "ip6:ipv6-icmp", "::"
	}
	conn, err := icmp.ListenPacket(network, local)
	if err != nil {
		return nil, fmt.Errorf("open raw socket (needs CAP_NET_RAW): %w", err)
	}
	return &echoer{conn: conn, target: target, id: rand.IntN(1 << 16), token: rand.Uint64()}, nil
}

func (e *echoer) close() { e.conn.Close() }

func (e *echoer) requestType() icmp.Type {
	if e.target.Is6() {
		return ipv6.ICMPTypeEchoRequest
	}
	return ipv4.ICMPTypeEcho
}

// send sends the request with the given number.
func (e *echoer) send(number uint64) error {
	data := make([]byte, payloadSize)
	binary.BigEndian.PutUint64(data, e.token)
	binary.BigEndian.PutUint64(data[8:], number)
	message := icmp.Message{Type: e.requestType(), Body: &icmp.Echo{ID: e.id, Seq: int(number & 0xffff), Data: data}}
	packet, err := message.Marshal(nil) // the kernel fills in ICMPv6 checksums
	if err != nil {
		return fmt.Errorf("encode echo request: %w", err)
	}
	_, err = e.conn.WriteTo(packet, &net.IPAddr{IP: e.target.AsSlice(), Zone: e.target.Zone()})
	return err
}

// receive waits for the next reply to this echoer and returns its number.
// An ICMP error about one of its requests is returned as an error.
func (e *echoer) receive(deadline time.Time) (uint64, error) {
	if err := e.conn.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	buffer := make([]byte, 65536)
	for {
		n, from, err := e.conn.ReadFrom(buffer)
		if err != nil {
			return 0, err
		}
		number, mine, err := e.parse(buffer[:n])
		if err != nil {
			return 0, fmt.Errorf("%s: %w", from, err)
		}
		if mine {
			return number, nil
		}
	}
}

var errUnreachable = errors.New("destination unreachable")

func (e *echoer) parse(packet []byte) (number uint64, mine bool, err error) {
	protocol := 1
	if e.target.Is6() {
		protocol = 58
	}
	message, err := icmp.ParseMessage(protocol, packet)
	if err != nil {
		return 0, false, nil //nolint:nilerr // somebody else's broken packet
	}
	switch body := message.Body.(type) {
	case *icmp.Echo:
		if message.Type != ipv4.ICMPTypeEchoReply && message.Type != ipv6.ICMPTypeEchoReply {
			return 0, false, nil
		}
		if len(body.Data) < 16 || binary.BigEndian.Uint64(body.Data) != e.token {
			return 0, false, nil
		}
		return binary.BigEndian.Uint64(body.Data[8:]), true, nil
	case *icmp.DstUnreach:
		if e.about(body.Data) {
			return 0, false, errUnreachable
		}
	}
	return 0, false, nil
}

// about reports whether the packet that an ICMP error quotes is addressed to this
// echoer's target and carries its identifier.
func (e *echoer) about(quoted []byte) bool {
	header, at := 20, 16
	if e.target.Is6() {
		header, at = 40, 24
	} else if len(quoted) > 0 {
		header = int(quoted[0]&0x0f) * 4
	}
	if len(quoted) < header+6 || header < 20 {
		return false
	}
	destination, ok := netip.AddrFromSlice(quoted[at : at+e.target.BitLen()/8])
	return ok && destination == e.target.WithZone("") && int(binary.BigEndian.Uint16(quoted[header+4:])) == e.id
}

func askICMP(ctx context.Context, target netip.Addr) error {
	echoer, err := newEchoer(target)
	if err != nil {
		return err
	}
	defer echoer.close()
	if err := echoer.send(1); err != nil {
		return err
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(AttemptTimeout)
	}
	_, err = echoer.receive(deadline)
	return err
}
