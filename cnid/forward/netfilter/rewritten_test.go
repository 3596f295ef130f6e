// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
)

// divert stands in for kube-proxy, or another program that translates destinations: packets
// to one address go to the other address.
func (r rig) divert(t *testing.T, from, to string) {
	t.Helper()
	testnet.In(t, r.node, func() error {
		conn := &nftables.Conn{}
		other := conn.AddTable(&nftables.Table{Name: "proxy", Family: nftables.TableFamilyINet})
		hooks := map[string]*nftables.ChainHook{"pre": nftables.ChainHookPrerouting, "out": nftables.ChainHookOutput}
		was, is := netip.MustParseAddr(from), netip.MustParseAddr(to)
		family := ipfamily.Of(is).Number()
		for name, hook := range hooks {
			c := conn.AddChain(&nftables.Chain{
				Name: name, Table: other, Type: nftables.ChainTypeNAT, Hooknum: hook, Priority: nftables.ChainPriorityNATDest,
			})
			conn.AddRule(&nftables.Rule{Table: other, Chain: c, Exprs: when(inside(destination, netip.PrefixFrom(was, was.BitLen())), rule{
				&expr.Immediate{Register: 1, Data: is.AsSlice()},
				&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(family), RegAddrMin: 1},
			})})
		}
		return conn.Flush()
	})
}

func TestForward_ForeignRedirect_Dropped(t *testing.T) {
	const pod4, pod6 = "169.254.64.5", "fd41:6c69:6f74:6801::5"
	const vip4, vip6 = "203.0.113.50", "2001:db8:50::50"
	const shared, egress, node = 0x10000000, 0x20000000, 0x30000000
	cases := []struct {
		name                    string
		mark                    uint32
		to                      func(rig) ns.NetNS
		source, dialled, target string
	}{
		{"egress, to the node", egress, atNode, pod4, vip4, "192.0.2.1"},
		{"egress, to the node, IPv6", egress, atNode, pod6, vip6, "2001:db8::1"},
		{"egress, to the outside", egress, atOutside, pod4, vip4, "192.0.2.9"},
		{"egress, to the outside, IPv6", egress, atOutside, pod6, vip6, "2001:db8::9"},
		{"the default VPC's, to the node", node, atNode, pod4, vip4, "192.0.2.1"},
		{"the default VPC's, to the outside", node, atOutside, pod4, vip4, "192.0.2.9"},
		{"a shared service's, to the node", shared, atNode, pod4, vip4, "192.0.2.1"},
		{"a shared service's, to the default VPC", shared, atBackend, pod4, vip4, "10.244.0.9"},
	}
	r := newRig(t, 0)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r.reset(t, c.mark, testState())
			r.divert(t, c.dialled, c.target)
			seen, err := question{from: r.pod, to: c.to(r), source: c.source, target: c.target, dialled: c.dialled, shy: true}.ask(t)
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("answered with %v, error %v; want silence", seen, err)
			}
			r.wantCounter(t, ReasonRewritten)
		})
	}
}

func TestPodReply_ForeignTranslation_ReachesNode(t *testing.T) {
	r := newRig(t, 0)
	r.divert(t, "192.0.2.77", "169.254.64.5")
	q := question{from: r.node, to: r.pod, source: "169.254.64.1", target: "169.254.64.5", dialled: "192.0.2.77"}
	if _, err := q.ask(t); err != nil {
		t.Errorf("the node's question was not answered: %v", err)
	}
	r.wantCounter(t, "")
}

func TestFlow_OpenedBeforeTable_NotTakenAsReply(t *testing.T) {
	r := newRig(t, 0x20000000)
	testnet.In(t, r.node, Remove)
	testnet.In(t, r.node, func() error {
		// Rules of another program that use conntrack, so that the flow is tracked.
		conn := &nftables.Conn{}
		other := conn.AddTable(&nftables.Table{Name: "other", Family: nftables.TableFamilyINet})
		c := conn.AddChain(&nftables.Chain{
			Name: "in", Table: other, Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter,
		})
		conn.AddRule(&nftables.Rule{Table: other, Chain: c, Exprs: answering()})
		return conn.Flush()
	})
	server, client := r.dialNode(t)
	if err := exchange(server, client, patience); err != nil {
		t.Fatalf("before the table: %v", err)
	}
	testnet.In(t, r.node, func() error {
		_, err := Apply(testState())
		return err
	})
	if err := exchange(server, client, shyness); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("with the table: %v; want silence", err)
	}
	r.wantCounter(t, ReasonNodeClosed)
}

func TestPodPacket_LikeTunnel_Dropped(t *testing.T) {
	const shared, egress, node = 0x10000000, 0x20000000, 0x30000000
	r := newRig(t, 0)
	for _, c := range []struct {
		name   string
		mark   uint32
		to     func(rig) ns.NetNS
		target string
	}{
		{"egress, to the outside", egress, atOutside, "192.0.2.9"},
		{"the default VPC's, to the outside", node, atOutside, "192.0.2.9"},
		{"a shared service's, to the default VPC", shared, atBackend, "10.244.0.9"},
		{"a shared service's, to the node", shared, atNode, "192.0.2.1"},
		{"the default VPC's, to the node", node, atNode, "192.0.2.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.reset(t, c.mark, testState())
			q := question{from: r.pod, to: c.to(r), source: "169.254.64.5", target: c.target, port: testState().TunnelPort, shy: true}
			if seen, err := q.ask(t); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("answered with %v, error %v; want silence", seen, err)
			}
			r.wantCounter(t, ReasonTunnelPort)
		})
	}
}

// dialNode makes a pod's socket that talks to one of the node's.
func (r rig) dialNode(t *testing.T) (server net.PacketConn, client net.Conn) {
	t.Helper()
	testnet.In(t, r.node, func() (err error) {
		server, err = (&net.ListenConfig{}).ListenPacket(context.Background(), "udp", "192.0.2.1:0")
		return err
	})
	t.Cleanup(func() { server.Close() })
	testnet.In(t, r.pod, func() (err error) {
		client, err = (&net.Dialer{}).DialContext(context.Background(), "udp", server.LocalAddr().String())
		return err
	})
	t.Cleanup(func() { client.Close() })
	return server, client
}

// exchange sends a datagram to the server and one back.
func exchange(server net.PacketConn, client net.Conn, limit time.Duration) error {
	if _, err := client.Write([]byte("hello")); err != nil {
		return err
	}
	end := time.Now().Add(limit)
	if err := errors.Join(server.SetReadDeadline(end), client.SetReadDeadline(end)); err != nil {
		return err
	}
	buffer := make([]byte, 16)
	n, peer, err := server.ReadFrom(buffer)
	if err != nil {
		return err
	}
	if _, err := server.WriteTo(buffer[:n], peer); err != nil {
		return err
	}
	_, err = client.Read(buffer)
	return err
}
