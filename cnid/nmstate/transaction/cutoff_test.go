// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/nmstate/probe"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
)

// hardware is a Host whose eth0 is no virtual interface: it can be down.
type hardware struct{ transaction.Host }

func (h hardware) Show(ctx context.Context) (*document.State, error) {
	state, err := h.Host.Show(ctx)
	if err != nil {
		return nil, err
	}
	for n, i := range state.Interfaces {
		if i.Name == "eth0" {
			state.Interfaces[n].Type, state.Interfaces[n].Veth = document.Ethernet, nil
		}
	}
	return state, nil
}

// server accepts connections beyond the gateway, at the address that it returns.
func (w world) server(t *testing.T) string {
	t.Helper()
	var listener net.Listener
	testnet.In(t, w.gateway, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		beyond, err := netlink.ParseAddr("203.0.113.9/32")
		if err == nil {
			err = errors.Join(netlink.LinkSetUp(lo), netlink.AddrAdd(lo, beyond))
		}
		if err == nil {
			listener, err = net.Listen("tcp", "203.0.113.9:0")
		}
		return err
	})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// connections are the node's, as its own processes have them.
func (w world) connections(server string) []probe.Probe {
	gateway := netip.MustParseAddr("192.0.2.1")
	list := []probe.Probe{probe.Gateway(gateway), probe.FullSize(gateway), probe.TCP("the API server", server)}
	for n, p := range list {
		list[n].Check = func(ctx context.Context) (err error) {
			failure := w.node.Do(func(_ ns.NetNS) error { err = p.Check(ctx); return nil })
			return errors.Join(failure, err)
		}
	}
	return list
}

func TestANodeThatCutsItselfOffComesBack(t *testing.T) {
	for name, text := range map[string]string{
		"an MTU that the network does not carry": "interfaces: [{name: eth0, mtu: 9000}]",
		"no default route":                       "routes: {config: [{state: absent, destination: 0.0.0.0/0}]}",
		"no address":                             "interfaces: [{name: eth0, ipv4: {enabled: true, address: []}}]",
		"another network":                        "interfaces: [{name: eth0, ipv4: {enabled: true, address: [{ip: 198.18.0.7, prefix-length: 24}]}}]",
		"the interface is down":                  "interfaces: [{name: eth0, state: down}]",
		"the interface is a port":                "interfaces: [{name: br1, type: linux-bridge, state: up, bridge: {port: [{name: eth0}]}}]",
		"another gateway": `routes: {config: [{state: absent, destination: 0.0.0.0/0},
			{destination: 0.0.0.0/0, next-hop-address: 192.0.2.99, next-hop-interface: eth0}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			watched := w.connections(w.server(t))
			if err := probe.Await(t.Context(), watched, 30*time.Second); err != nil {
				t.Fatal(err)
			}
			before := w.show(t)
			guarded := func(cfg *transaction.Config) {
				cfg.Host, cfg.ProbeLimit = hardware{cfg.Host}, time.Second
				cfg.Probes = func(*document.State) []probe.Probe { return watched }
			}
			if _, err := w.with(t, text, transaction.Options{}, guarded); !errors.Is(err, transaction.ErrRolledBack) {
				t.Errorf("got %v", err)
			}
			w.same(t, before)
			if err := probe.Await(t.Context(), watched, 30*time.Second); err != nil {
				t.Errorf("after it was undone: %v", err)
			}
		})
	}
}

func TestAChangeThatCutsNothingOffIsCommitted(t *testing.T) {
	w := newWorld(t)
	watched := w.connections(w.server(t))
	guarded := func(cfg *transaction.Config) {
		cfg.Probes = func(*document.State) []probe.Probe { return watched }
	}
	if _, err := w.with(t, "interfaces: [{name: eth0, mtu: 1400}]", transaction.Options{}, guarded); err != nil {
		t.Error(err)
	}
}
