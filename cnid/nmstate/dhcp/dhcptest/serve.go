// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcptest

import (
	"context"
	"net"
	"syscall"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"
)

// Serve answers on an interface of a namespace until the test ends.
func (f *Four) Serve(t testing.TB, space ns.NetNS, name string) {
	t.Helper()
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		control := raw.Control(func(fd uintptr) { err = unix.BindToDevice(int(fd), name) })
		if err == nil {
			err = control
		}
		return err
	}}
	var conn net.PacketConn
	err := space.Do(func(ns.NetNS) (err error) {
		conn, err = config.ListenPacket(context.Background(), "udp4", "0.0.0.0:67")
		return err
	})
	if err != nil {
		t.Fatalf("serve DHCP on %s: %v", name, err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	go func() {
		defer close(done)
		buffer := make([]byte, 1500)
		all := &net.UDPAddr{IP: net.IPv4bcast, Port: 68}
		for {
			n, _, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			if answer := f.Answer(buffer[:n]); answer != nil {
				// A client that does not hear it asks again.
				_, _ = conn.WriteTo(answer, all)
			}
		}
	}()
}
