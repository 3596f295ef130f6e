// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/cnid/forward/reconcile"
	"github.com/alioth-net/alioth/store"
)

// atLinks are the addresses of links.
type atLinks []netip.Addr

// Addresses returns them.
func (a atLinks) Addresses() []netip.Addr { return a }

func TestDrivers_NodeAddresses_PassedOn(t *testing.T) {
	rows, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	n := &node{cfg: Config{NodeName: "node-1"}, store: rows, kernel: reconcile.NewKernel(reconcile.KernelConfig{})}
	if _, err := n.Underlay(); err == nil || !strings.Contains(err.Error(), "node-1 are not known yet") {
		t.Errorf("without a Node: %v", err)
	}
	own := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	err = rows.Update(func(tx store.Tx) error {
		return store.PutNode(tx, &store.Node{Meta: store.Meta{UID: "uid"}, Name: "node-1", Addresses: own})
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := n.Underlay()
	if err != nil || !slices.Equal(got.Addrs, own) || got.Guarded != 0 {
		t.Errorf("before the programs are loaded: %+v, %v", got, err)
	}
	vxlan := netip.MustParseAddr("198.51.100.1")
	n.ofLinks = atLinks{vxlan}
	if got, err := n.Underlay(); err != nil || !slices.Equal(got.Addrs, append(slices.Clone(own), vxlan)) {
		t.Errorf("with a VXLAN at another address: %+v, %v", got, err)
	}
	n.cfg.UnderlayAttachments = true
	if got, err := n.Underlay(); err != nil || len(got.Addrs) != 0 {
		t.Errorf("where each interface is permitted: %+v, %v", got, err)
	}
}
