// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package sockdiag_test

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/sockdiag"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/test/cgrouptest"
)

func TestSockDiag_Connection_CgroupOfSocketCreation(t *testing.T) {
	bpftest.InNamespace(t)
	server4, server6 := listen(t, "127.0.0.1:0"), listen(t, "[::1]:0")
	early := dial(t, server4)
	group := bpftest.ChildCgroup(t)
	var dir unix.Stat_t
	bpftest.Must(t, unix.Stat(group, &dir))
	cgrouptest.Join(t, group)
	for name, c := range map[string]struct {
		conn net.Conn
		in   bool
	}{"IPv4": {dial(t, server4), true}, "IPv6": {dial(t, server6), true}, "before the process joined": {early, false}} {
		id, err := sockdiag.Cgroup(ends(c.conn))
		if err != nil || (id == dir.Ino) != c.in {
			t.Errorf("%s: cgroup %d, %v; that of the process is %d", name, id, err, dir.Ino)
		}
	}
}

func TestSockDiag_ConnectionMissing_NoCgroup(t *testing.T) {
	bpftest.InNamespace(t)
	server := listen(t, "127.0.0.1:0")
	conn := dial(t, server)
	local, remote := ends(conn)
	if id, err := sockdiag.Cgroup(remote, netip.AddrPortFrom(local.Addr(), 1)); !errors.Is(err, sockdiag.ErrGone) {
		t.Errorf("a listener: cgroup %d, %v", id, err)
	}
	bpftest.Must(t, conn.(*net.TCPConn).SetLinger(0))
	bpftest.Must(t, conn.Close())
	if id, err := sockdiag.Cgroup(local, remote); !errors.Is(err, sockdiag.ErrGone) {
		t.Errorf("a closed connection: cgroup %d, %v", id, err)
	}
}

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	server, err := net.Listen("tcp", address)
	bpftest.Must(t, err)
	t.Cleanup(func() { server.Close() })
	return server
}

func dial(t *testing.T, server net.Listener) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", server.Addr().String())
	bpftest.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

func ends(conn net.Conn) (local, remote netip.AddrPort) {
	return netip.MustParseAddrPort(conn.LocalAddr().String()), netip.MustParseAddrPort(conn.RemoteAddr().String())
}
