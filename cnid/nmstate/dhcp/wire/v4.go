// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// V4 is the sockets of a DHCP client.
type V4 struct {
	name     string
	hardware net.HardwareAddr
	answers  *packetSocket
	// unicast was last used to ask the server of the lease. It stays open, so the kernel
	// tells the server not that nobody listens; answers are read from the packet socket.
	unicast net.Conn
}

// OpenV4 opens the sockets of an interface of Ethernet.
func OpenV4(name string, index int, hardware net.HardwareAddr) (*V4, error) {
	if len(hardware) != len(broadcast) {
		return nil, fmt.Errorf(
			"open the DHCP sockets of %s: the interface has a hardware address of %d bytes; DHCP is for Ethernet, with 6",
			name,
			len(hardware),
		)
	}
	answers, err := openPacket(index, unix.ETH_P_IP, answersTo(hardware))
	if err != nil {
		return nil, fmt.Errorf("open the DHCP sockets of %s: %w", name, err)
	}
	return &V4{name: name, hardware: hardware, answers: answers}, nil
}

// Close closes the sockets; Read then ends.
func (v *V4) Close() error {
	err := v.answers.file.Close()
	if v.unicast != nil {
		err = errors.Join(err, v.unicast.Close())
	}
	return err
}

// Broadcast sends the payload of a message to all servers, from an address or from none.
func (v *V4) Broadcast(payload []byte, from netip.Addr) error {
	if !from.IsValid() {
		from = netip.IPv4Unspecified()
	}
	return v.answers.send(datagram(payload, from, netip.AddrFrom4([4]byte{255, 255, 255, 255})))
}

// Unicast sends the payload of a message to a server, from an address of the interface.
func (v *V4) Unicast(ctx context.Context, payload []byte, from, to netip.Addr) error {
	if v.unicast != nil {
		_ = v.unicast.Close()
		v.unicast = nil
	}
	dialer := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, clientPort)), Control: v.onInterface}
	conn, err := dialer.DialContext(ctx, "udp4", netip.AddrPortFrom(to, serverPort).String())
	if err != nil {
		return err
	}
	v.unicast = conn
	_, err = conn.Write(payload)
	return err
}

// onInterface prepares a socket before it gets its address.
func (v *V4) onInterface(_, _ string, raw syscall.RawConn) error {
	return bindToDevice(raw, v.name)
}

// bindToDevice ties a socket to an interface. Other clients may have the same port.
func bindToDevice(raw syscall.RawConn, name string) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
		if failed == nil {
			failed = unix.BindToDevice(int(fd), name)
		}
	})
	if err == nil {
		err = failed
	}
	return err
}

// Read returns the payload of the next answer. The buffer has room for a frame (Buffer).
func (v *V4) Read(buffer []byte) ([]byte, error) {
	for {
		n, err := v.answers.file.Read(buffer)
		if errors.Is(err, unix.ENETDOWN) {
			// The interface went down, once. The socket hears again when it is up.
			continue
		}
		if err != nil {
			return nil, err
		}
		if payload, ok := payloadOf(buffer[:n]); ok {
			return payload, nil
		}
	}
}

// Buffer returns a buffer for Read.
func Buffer() []byte { return make([]byte, maxFrame) }

const (
	ipHeader, udpHeader = 20, 8
	version4            = 0x45 // without options
	dontFragment        = 0x4000
	timeToLive          = 64
)

// datagram returns a packet of IPv4 from the port of clients to the port of servers.
func datagram(payload []byte, from, to netip.Addr) []byte {
	size := ipHeader + udpHeader + len(payload)
	p := make([]byte, ipHeader+udpHeader, size)
	p[0] = version4
	binary.BigEndian.PutUint16(p[2:], uint16(size))
	binary.BigEndian.PutUint16(p[6:], dontFragment)
	p[8], p[9] = timeToLive, unix.IPPROTO_UDP
	copy(p[12:], from.AsSlice())
	copy(p[16:], to.AsSlice())
	binary.BigEndian.PutUint16(p[10:], checksum(p[:ipHeader], 0))
	udp := p[ipHeader:]
	binary.BigEndian.PutUint16(udp, clientPort)
	binary.BigEndian.PutUint16(udp[2:], serverPort)
	binary.BigEndian.PutUint16(udp[4:], uint16(udpHeader+len(payload)))
	p = append(p, payload...)
	pseudo := sum(p[12:ipHeader], unix.IPPROTO_UDP+uint32(udpHeader+len(payload)))
	total := checksum(p[ipHeader:], pseudo)
	if total == 0 {
		total = 0xffff // 0 would mean that the checksum is missing
	}
	binary.BigEndian.PutUint16(p[ipHeader+6:], total)
	return p
}

func sum(data []byte, begin uint32) uint32 {
	for i, octet := range data {
		if i%2 == 0 {
			begin += uint32(octet) << 8
		} else {
			begin += uint32(octet)
		}
	}
	return begin
}

func checksum(data []byte, begin uint32) uint16 {
	total := sum(data, begin)
	for total > 0xffff {
		total = total&0xffff + total>>16
	}
	return ^uint16(total)
}

// payloadOf returns the payload of UDP of a packet. The checksum of UDP is not looked at:
// hosts on a virtual link leave it to hardware that is not there.
func payloadOf(packet []byte) ([]byte, bool) {
	if len(packet) < ipHeader || packet[0]>>4 != 4 {
		return nil, false
	}
	header := int(packet[0]&0xf) * 4
	size := int(binary.BigEndian.Uint16(packet[2:]))
	if header < ipHeader || size < header+udpHeader || size > len(packet) {
		return nil, false
	}
	udp := packet[header:size]
	length := int(binary.BigEndian.Uint16(udp[4:]))
	if length < udpHeader || length > len(udp) {
		return nil, false
	}
	return udp[udpHeader:length], true
}
