// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/nftables"

	"github.com/alioth-net/alioth/cnid/internal/testnet"
)

// thief is a namespace on another device of the node's, with addresses of another node.
func (r rig) thief(t *testing.T) ns.NetNS {
	t.Helper()
	thief := testnet.New(t)
	testnet.Veth(t, r.node, "eth1", nil, thief, "eth0", []string{"192.0.2.9/32", "2001:db8::9/128"})
	routes(t, thief, "eth0", "", "192.0.2.1/32", "2001:db8::1/128")
	neighbours(t, thief, "eth0", r.node, "eth1", "192.0.2.1", "2001:db8::1")
	testnet.In(t, r.node, func() error {
		var failed []error
		for _, device := range []string{"all", "eth1"} {
			failed = append(failed, os.WriteFile(filepath.Join("/proc/sys/net/ipv4/conf", device, "rp_filter"), []byte("0"), 0o644))
		}
		return errors.Join(failed...)
	})
	return thief
}

// arrives reports whether a datagram to a server on the node comes from an address.
func arrives(t *testing.T, server net.PacketConn, space ns.NetNS, from netip.Addr, limit time.Duration) bool {
	t.Helper()
	word := t.Name() + time.Now().String()
	testnet.In(t, space, func() error {
		dialer := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
		client, err := dialer.DialContext(context.Background(), "udp", server.LocalAddr().String())
		if err != nil {
			return err
		}
		_, err = client.Write([]byte(word))
		return errors.Join(err, client.Close())
	})
	if err := server.SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 512)
	for {
		n, _, err := server.ReadFrom(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		if string(buffer[:n]) == word {
			return true
		}
	}
}

// The node takes packets for its address at each device. Who is at another one than the
// nodes' network must not be taken for a node.
func TestTunnelPacket_WrongUplink_Dropped(t *testing.T) {
	r := newRig(t, 0)
	thief := r.thief(t)
	for own, node := range map[string]string{"192.0.2.1": "192.0.2.9", "2001:db8::1": "2001:db8::9"} {
		var server net.PacketConn
		testnet.In(t, r.node, func() (err error) {
			server, err = (&net.ListenConfig{}).ListenPacket(context.Background(), "udp", net.JoinHostPort(own, "4789"))
			return err
		})
		defer server.Close()
		from := netip.MustParseAddr(node)
		testnet.In(t, r.node, func() error {
			conn := &nftables.Conn{}
			conn.FlushRuleset()
			return conn.Flush()
		})
		if !arrives(t, server, thief, from, patience) {
			t.Errorf("%s, before the table: nothing arrives", node)
		}
		r.reset(t, 0, testState())
		if !arrives(t, server, r.outside, from, patience) {
			t.Errorf("%s: nothing arrives from the nodes' network", node)
		}
		r.wantCounter(t, "")
		if arrives(t, server, thief, from, shyness) {
			t.Errorf("%s: a packet arrives at another device", node)
		}
		r.wantCounter(t, ReasonTunnelDevice)
	}
}
