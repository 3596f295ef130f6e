// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/sockdiag"
)

// errPod reports a client in the cgroup of pods.
var errPod = errors.New("the client is in the cgroup of pods")

// gate is a listener that closes connections of pods before anything is read from them.
type gate struct {
	net.Listener
	pods string
	log  *slog.Logger
	// lastLogged is the time of the last log line about a refusal.
	lastLogged time.Time
}

// tellEvery limits how often a pod can write to the log.
const tellEvery = time.Second

// Accept implements net.Listener.
func (g *gate) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		err = admit(conn, g.pods)
		if err == nil {
			return conn, nil
		}
		if now := time.Now(); now.Sub(g.lastLogged) >= tellEvery {
			g.log.Info("refused a client of the TCP listener", "client", conn.RemoteAddr(), "error", err)
			g.lastLogged = now
		}
		conn.Close()
	}
}

// admit returns nil for a client whose socket is known and not in the cgroup of pods. A
// client without a socket makes its packets itself, or is behind a translation of addresses.
func admit(conn net.Conn, pods string) error {
	client, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return err
	}
	server, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		return err
	}
	id, err := sockdiag.Cgroup(client, server)
	if err != nil {
		return fmt.Errorf("find the client: %w", err)
	}
	inside, err := within(pods, id)
	if err != nil {
		return err
	}
	if inside {
		return errPod
	}
	return nil
}

// errMisplaced has the remedy for a configured cgroup that contains no pods.
var errMisplaced = errors.New("the daemon is a pod and not in the cgroup of pods, so other pods are not either; " +
	"set the chart value nodeIPAM.podCgroup (--node-ipam-pod-cgroup) to the cgroup2 directory that all pods are in, or leave it empty")

// probe returns why clients can't be told apart on this node, by a connection of its own. If the
// daemon is a pod itself, its process has to be in the cgroup of pods.
func (s *Server) probe(ctx context.Context) error {
	l, err := listenAt(ctx, netip.AddrPortFrom(s.cfg.Places.Addrs[0], 0))
	if err != nil {
		return err
	}
	defer l.Close()
	var dialer net.Dialer
	client, err := dialer.DialContext(ctx, "tcp", l.Addr().String())
	if err != nil {
		return err
	}
	defer client.Close()
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	switch err := admit(conn, s.cfg.Pods); {
	case err == nil && s.cfg.InPod:
		return fmt.Errorf("%s: %w", s.cfg.Pods, errMisplaced)
	case err != nil && !errors.Is(err, errPod):
		return fmt.Errorf("tell pods from processes of the node: %w", err)
	}
	return nil
}

// kernfsHandle is FILEID_KERNFS of the kernel: the handle is the id of the file.
const kernfsHandle = 0xfe

// within reports whether the cgroup with this id is dir, or below it.
func within(dir string, id uint64) (bool, error) {
	top, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, fmt.Errorf("open the cgroup of pods %s: %w", dir, err)
	}
	defer unix.Close(top)
	want, err := inode(top)
	if err != nil {
		return false, err
	}
	handle := unix.NewFileHandle(kernfsHandle, binary.NativeEndian.AppendUint64(nil, id))
	at, err := unix.OpenByHandleAt(top, handle, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return false, fmt.Errorf("open cgroup %d: %w", id, err)
	}
	return below(at, want)
}

// below reports whether the directory, which it closes, or one above it has the inode.
func below(at int, want uint64) (bool, error) {
	defer unix.Close(at)
	have, err := inode(at)
	if err != nil || have == want {
		return err == nil, err
	}
	above, err := unix.Openat(at, "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, fmt.Errorf("open the cgroup above %d: %w", have, err)
	}
	if up, err := inode(above); err != nil || up == have { // it is the root
		unix.Close(above)
		return false, err
	}
	return below(above, want)
}

func inode(fd int) (uint64, error) {
	var file unix.Stat_t
	if err := unix.Fstat(fd, &file); err != nil {
		return 0, fmt.Errorf("look at a cgroup: %w", err)
	}
	return file.Ino, nil
}
