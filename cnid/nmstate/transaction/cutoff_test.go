// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/api/nmstate/reach"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/nmstate/probe"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
	"github.com/alioth-net/alioth/test/waits"
)

// hardware is a Host whose eth0 is a hardware interface: it can be down.
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

// asker asks as the node's own processes do.
func (w world) asker(t *testing.T, server string) probe.Asker {
	t.Helper()
	api, err := reach.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	return probe.Asker{Space: w.node, APIServer: api}
}

// connected waits until all is reached.
func (w world) connected(t *testing.T, asker probe.Asker) {
	t.Helper()
	state := w.show(t)
	const all = 3 // the gateway, with packets of full size too, and the API server
	waits.True(t, 30*time.Second, "all is reached", func() bool {
		return len(asker.Before(t.Context(), probe.Change{Before: state})(state)) == all
	})
}

func TestTransaction_NodeCutsItselfOff_Restored(t *testing.T) {
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
			asker := w.asker(t, w.server(t))
			w.connected(t, asker)
			before := w.show(t)
			guarded := func(cfg *transaction.Config) {
				cfg.Host, cfg.ProbeLimit = hardware{cfg.Host}, time.Second
				cfg.Safeguards = asks(cfg, asker.Before)
			}
			if _, err := w.with(t, text, transaction.Options{}, guarded); !errors.Is(err, transaction.ErrRolledBack) {
				t.Errorf("got %v", err)
			}
			w.same(t, before)
			w.connected(t, asker)
		})
	}
}

func TestTransaction_NothingCutOff_Committed(t *testing.T) {
	w := newWorld(t)
	asker := w.asker(t, w.server(t))
	w.connected(t, asker)
	guarded := func(cfg *transaction.Config) { cfg.Safeguards = asks(cfg, asker.Before) }
	if _, err := w.with(t, "interfaces: [{name: eth0, mtu: 1400}]", transaction.Options{}, guarded); err != nil {
		t.Error(err)
	}
}
