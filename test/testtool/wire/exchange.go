// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Exchange puts frames on a device as they are. It returns the frames that come to the device from
// then on, up to and with the first UDP datagram from a port. For port 0 it returns nothing. It
// fails when ctx ends before. Needs CAP_NET_RAW.
func Exchange(ctx context.Context, device string, frames [][]byte, untilPort uint16) (back [][]byte, err error) {
	link, err := net.InterfaceByName(device)
	if err != nil {
		return nil, fmt.Errorf("find device %s: %w", device, err)
	}
	socket, err := openAll(link.Index)
	if err != nil {
		return nil, err
	}
	defer unix.Close(socket)
	for _, frame := range frames {
		if len(frame) < 14 {
			return nil, fmt.Errorf("a frame of %d bytes has no Ethernet header", len(frame))
		}
		to := &unix.SockaddrLinklayer{Ifindex: link.Index, Halen: 6}
		copy(to.Addr[:], frame[:6])
		// With a netkit pair, sendto(2) fails when a program has dropped the packet.
		if err := unix.Sendto(socket, frame, 0, to); err != nil && !errors.Is(err, unix.ENOBUFS) {
			return nil, fmt.Errorf("send frame on %s: %w", device, err)
		}
	}
	buffer := make([]byte, 65536)
	for untilPort != 0 {
		n, from, err := unix.Recvfrom(socket, buffer, 0)
		switch at, ok := from.(*unix.SockaddrLinklayer); {
		case ctx.Err() != nil:
			return back, fmt.Errorf("no datagram from port %d has come to %s: %w", untilPort, device, ctx.Err())
		case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		case err != nil:
			return back, fmt.Errorf("listen on %s: %w", device, err)
		case ok && at.Pkttype != unix.PACKET_OUTGOING:
			back = append(back, append([]byte{}, buffer[:n]...))
			if fromPort(buffer[:n], untilPort) {
				return back, nil
			}
		}
	}
	return nil, nil
}

// openAll opens a socket for all frames of a device, whose reads end after askEvery.
func openAll(index int) (int, error) {
	// Without a protocol, which bind sets: the frames of all devices would come until then.
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open packet socket (needs CAP_NET_RAW): %w", err)
	}
	limit := unix.NsecToTimeval(askEvery.Nanoseconds())
	err = errors.Join(
		unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
		unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: index}))
	if err != nil {
		unix.Close(socket)
		return -1, fmt.Errorf("prepare packet socket: %w", err)
	}
	return socket, nil
}

// fromPort reports whether a frame without options is a UDP datagram from the port.
func fromPort(frame []byte, port uint16) bool {
	next, at := 0, 0
	switch {
	case len(frame) < 14:
		return false
	case binary.BigEndian.Uint16(frame[12:]) == etherIPv4:
		next, at = 23, 34
	case binary.BigEndian.Uint16(frame[12:]) == etherIPv6:
		next, at = 20, 54
	}
	return at > 0 && len(frame) >= at+8 && frame[next] == protocolUDP && binary.BigEndian.Uint16(frame[at:]) == port
}
