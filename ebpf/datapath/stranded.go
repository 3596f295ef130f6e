// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/cilium/ebpf/link"
)

// StrandedSocket is a socket for datagrams that the socket door has connected to
// what is no backend any more of the service that it asked for.
type StrandedSocket struct {
	// NetnsCookie names its network namespace, as Namespace.Cookie.
	NetnsCookie uint64
	// Cookie is the kernel's name of the socket, socket(7) SO_COOKIE.
	Cookie uint64
	// Local and Remote are its ends as the kernel has them. IPv4 addresses of
	// sockets of IPv6 are IPv4.
	Local, Remote netip.AddrPort
	// Ifindex is the device that it is bound to, 0 if none.
	Ifindex int
}

// ReadStranded lists the stranded sockets of all network namespaces. What is stranded
// is judged by what the maps hold now, so an earlier process's are found as well.
func ReadStranded(objects *aliothObjects) ([]StrandedSocket, error) {
	iterator, err := link.AttachIter(link.IterOptions{Program: objects.AliothStranded, Map: objects.AliothSockets})
	if err != nil {
		return nil, fmt.Errorf("look for stranded sockets: %w", err)
	}
	defer iterator.Close()
	rows, err := iterator.Open()
	if err != nil {
		return nil, fmt.Errorf("look for stranded sockets: %w", err)
	}
	defer rows.Close()
	return decodeStranded(bufio.NewReader(rows))
}

func decodeStranded(rows io.Reader) ([]StrandedSocket, error) {
	var found []StrandedSocket
	for {
		var row aliothStranded
		err := binary.Read(rows, binary.NativeEndian, &row)
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read stranded sockets: %w", err)
		}
		found = append(found, StrandedSocket{
			NetnsCookie: row.NetnsCookie, Cookie: row.Cookie, Ifindex: int(row.Ifindex),
			Local:  netip.AddrPortFrom(decodeAddr(row.Local), networkOrder(row.LocalPort)),
			Remote: netip.AddrPortFrom(decodeAddr(row.Remote), networkOrder(row.RemotePort)),
		})
	}
}
