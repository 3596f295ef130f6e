// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package sockdiag

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// From linux/inet_diag.h and net/tcp_states.h.
const (
	anyCookie   = math.MaxUint64 // INET_DIAG_NOCOOKIE
	attrCgroup  = 21             // INET_DIAG_CGROUP_ID
	replySize   = 72             // of struct inet_diag_msg
	replyState  = 1              // the place of idiag_state
	established = 1              // TCP_ESTABLISHED
)

// ErrNoCgroup reports that the kernel keeps no cgroup of sockets.
var ErrNoCgroup = errors.New("the kernel does not know the cgroups of sockets; it needs CONFIG_SOCK_CGROUP_DATA")

// Cgroup returns the id of the cgroup2 directory that the socket of a TCP connection was made in.
// The socket is in the calling thread's network namespace, and has these ends. Errors are ErrGone
// without such a connection, ErrNoCgroup or the kernel's.
func Cgroup(local, remote netip.AddrPort) (uint64, error) {
	request := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, 0)
	request.AddRawData(requestOf(unix.IPPROTO_TCP, Socket{Cookie: anyCookie, Local: local, Remote: remote}))
	replies, err := request.Execute(unix.NETLINK_SOCK_DIAG, 0)
	if errors.Is(err, unix.ENOENT) {
		return 0, ErrGone
	}
	if err != nil {
		return 0, fmt.Errorf("find socket %s to %s: %w", local, remote, err)
	}
	// Without a connection the kernel returns the listener at the local end.
	if len(replies) != 1 || len(replies[0]) < replySize || replies[0][replyState] != established {
		return 0, ErrGone
	}
	attributes, err := nl.ParseRouteAttr(replies[0][replySize:])
	if err != nil {
		return 0, fmt.Errorf("read about socket %s to %s: %w", local, remote, err)
	}
	for _, a := range attributes {
		if a.Attr.Type == attrCgroup && len(a.Value) == 8 {
			return binary.NativeEndian.Uint64(a.Value), nil
		}
	}
	return 0, ErrNoCgroup
}
