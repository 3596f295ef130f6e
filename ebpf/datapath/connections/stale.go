// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/cilium/ebpf/link"

	"github.com/alioth-net/alioth/ebpf/bpf"
)

// StaleSocket is a UDP socket that is connected to a removed backend of its service.
type StaleSocket struct {
	// Cookie is the kernel's identity of the socket, socket(7) SO_COOKIE.
	Cookie uint64
	// Local and Remote are its ends as the kernel has them. IPv4 addresses of
	// sockets of IPv6 are IPv4.
	Local, Remote netip.AddrPort
	// Ifindex is the device that it is bound to, 0 if none.
	Ifindex int
}

// ReadStale lists the stale sockets of the calling thread's network namespace. It compares
// sockets with the present maps, and so also finds stale sockets of an earlier process.
func ReadStale(objects *bpf.AliothObjects) ([]StaleSocket, error) {
	iterator, err := link.AttachIter(link.IterOptions{Program: objects.AliothStale})
	if err != nil {
		return nil, fmt.Errorf("look for stale sockets: %w", err)
	}
	defer iterator.Close()
	rows, err := iterator.Open()
	if err != nil {
		return nil, fmt.Errorf("look for stale sockets: %w", err)
	}
	defer rows.Close()
	return decodeStale(bufio.NewReader(rows))
}

func decodeStale(rows io.Reader) ([]StaleSocket, error) {
	var found []StaleSocket
	for {
		var row bpf.AliothStaleSocket
		err := binary.Read(rows, binary.NativeEndian, &row)
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read stale sockets: %w", err)
		}
		found = append(found, StaleSocket{
			Cookie: row.Cookie, Ifindex: int(row.Ifindex),
			Local:  netip.AddrPortFrom(bpf.DecodeAddr(row.Local), bpf.NetworkOrder(row.LocalPort)),
			Remote: netip.AddrPortFrom(bpf.DecodeAddr(row.Remote), bpf.NetworkOrder(row.RemotePort)),
		})
	}
}
