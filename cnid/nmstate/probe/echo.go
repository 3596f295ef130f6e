// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// request is an echo request.
type request struct {
	to netip.Addr
	// link is the interface that sends the packet; "" leaves the choice to the routes.
	link string
	// size is the packet size in bytes, sent with DF set; 0: a small packet.
	size int
}

// family has the echo requests of a family of addresses.
type family struct {
	network, local string
	ask, answer    icmp.Type
	protocol       int
	// headers are bytes of a packet before the data; level and option of setsockopt(2) say
	// that packets are not cut.
	headers, level, option int
}

func (r request) family() family {
	const echoHeader = 8
	if r.to.Is6() {
		return family{
			"ip6:ipv6-icmp", "::", ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply, unix.IPPROTO_ICMPV6,
			ipv6.HeaderLen + echoHeader, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER,
		}
	}
	return family{
		"ip4:icmp", "0.0.0.0", ipv4.ICMPTypeEcho, ipv4.ICMPTypeEchoReply, unix.IPPROTO_ICMP,
		ipv4.HeaderLen + echoHeader, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER,
	}
}

// send sends it, and returns when the answer is there or ctx ends.
func (r request) send(ctx context.Context) error {
	f := r.family()
	conn, err := r.listen(ctx, f)
	if err != nil {
		return fmt.Errorf("open a socket for echo requests: %w", err)
	}
	defer func() { _ = conn.Close() }()
	data := []byte("alioth")
	if r.size > f.headers+len(data) {
		data = append(data, make([]byte, r.size-f.headers-len(data))...)
	}
	id := int(time.Now().UnixNano() & 0xffff)
	message := icmp.Message{Type: f.ask, Body: &icmp.Echo{ID: id, Seq: 1, Data: data}}
	text, err := message.Marshal(nil)
	if err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if _, err := conn.WriteTo(text, &net.IPAddr{IP: r.to.AsSlice(), Zone: r.to.Zone()}); err != nil {
		return err
	}
	return r.await(conn, f, id)
}

// listen opens a socket.
func (r request) listen(ctx context.Context, f family) (net.PacketConn, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failure error
		err := raw.Control(func(fd uintptr) { failure = r.prepare(int(fd), f) })
		return errors.Join(err, failure)
	}}
	return config.ListenPacket(ctx, f.network, f.local)
}

// prepare binds a socket to the interface. One for a size sends packets up to the interface's
// MTU whatever the kernel has learned of the path, and says that nobody may cut them.
func (r request) prepare(fd int, f family) error {
	if r.link != "" {
		if err := unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, r.link); err != nil {
			return fmt.Errorf("bind to the interface %s: %w", r.link, err)
		}
	}
	if r.size == 0 {
		return nil
	}
	const probe = 3 // IP_PMTUDISC_PROBE and IPV6_PMTUDISC_PROBE
	return unix.SetsockoptInt(fd, f.level, f.option, probe)
}

func (r request) await(conn net.PacketConn, f family, id int) error {
	buffer := make([]byte, math.MaxUint16)
	for {
		n, sender, err := conn.ReadFrom(buffer)
		if err != nil {
			return err
		}
		address, ok := sender.(*net.IPAddr)
		if !ok || !address.IP.Equal(r.to.AsSlice()) {
			continue
		}
		message, err := icmp.ParseMessage(f.protocol, buffer[:n])
		if err != nil || message.Type != f.answer {
			continue
		}
		if body, ok := message.Body.(*icmp.Echo); ok && body.ID == id {
			return nil
		}
	}
}
