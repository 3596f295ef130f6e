// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sockdiag closes sockets of other processes, as "ss --kill" does: by SOCK_DESTROY of
// sock_diag(7). The kernel needs CONFIG_INET_DIAG_DESTROY for it. The package finds the cgroup of
// others by the same means, as "ss --cgroup" does.
package sockdiag

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
)

// ErrNotSupported reports that the kernel can't close UDP sockets.
var ErrNotSupported = errors.New(
	"the kernel can't end UDP sockets of others; it needs CONFIG_INET_DIAG_DESTROY and CONFIG_INET_UDP_DIAG",
)

// ErrGone reports that the socket does not exist.
var ErrGone = errors.New("the socket is gone")

// Socket is a socket of a network namespace.
type Socket struct {
	// Cookie is the kernel's ID of it, socket(7) SO_COOKIE. It protects a newer
	// socket with the same addresses.
	Cookie uint64
	// Local and Remote are the addresses of the socket. The kernel finds the socket by them.
	// Remote is unspecified if it is not connected.
	Local, Remote netip.AddrPort
	// Ifindex is the device that it is bound to, 0 if none.
	Ifindex int
}

// Destroy closes a socket of the calling thread's network namespace: a pending or
// following read returns ECONNABORTED, and the socket is disconnected. Errors are
// ErrGone, ErrNotSupported or the kernel's.
func Destroy(s Socket) error {
	request := nl.NewNetlinkRequest(unix.SOCK_DESTROY, unix.NLM_F_ACK)
	request.AddRawData(requestOf(unix.IPPROTO_UDP, s))
	_, err := request.Execute(unix.NETLINK_SOCK_DIAG, 0)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EOPNOTSUPP):
		return ErrNotSupported
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ESTALE):
		return ErrGone
	}
	return fmt.Errorf("end socket %s to %s: %w", s.Local, s.Remote, err)
}

// requestOf returns struct inet_diag_req_v2 of linux/inet_diag.h.
func requestOf(protocol byte, s Socket) []byte {
	b := []byte{ipfamily.Of(s.Local.Addr()).Number(), protocol, 0, 0}
	b = binary.NativeEndian.AppendUint32(b, 0xffffffff) // in any state
	b = binary.BigEndian.AppendUint16(b, s.Local.Port())
	b = binary.BigEndian.AppendUint16(b, s.Remote.Port())
	b = appendAddr(b, s.Local.Addr())
	b = appendAddr(b, s.Remote.Addr())
	b = binary.NativeEndian.AppendUint32(b, uint32(s.Ifindex))
	b = binary.NativeEndian.AppendUint32(b, uint32(s.Cookie))
	return binary.NativeEndian.AppendUint32(b, uint32(s.Cookie>>32))
}

// appendAddr appends the 16 bytes of an address. IPv4 uses the first 4.
func appendAddr(b []byte, ip netip.Addr) []byte {
	var field [16]byte
	copy(field[:], ip.AsSlice())
	return append(b, field[:]...)
}

// Probe closes a socket of its own to test the kernel's support. It returns
// ErrNotSupported without.
func Probe() (err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return fmt.Errorf("open a socket to end: %w", err)
	}
	defer unix.Close(fd)
	// This works on a node without any address.
	if err := unix.Bind(fd, &unix.SockaddrInet4{}); err != nil {
		return fmt.Errorf("bind a socket to end: %w", err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return fmt.Errorf("ask for the port of a socket to end: %w", err)
	}
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
	if err != nil {
		return fmt.Errorf("ask for the cookie of a socket to end: %w", err)
	}
	local := netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(name.(*unix.SockaddrInet4).Port))
	err = Destroy(Socket{Cookie: cookie, Local: local, Remote: netip.AddrPortFrom(netip.IPv4Unspecified(), 0)})
	if errors.Is(err, ErrGone) { // the socket exists: the kernel did not search UDP sockets
		return ErrNotSupported
	}
	return err
}
