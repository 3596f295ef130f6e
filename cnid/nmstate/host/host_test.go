// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/host"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/resolvconf"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
)

// mine is the alias of interfaces that are hidden in these tests.
const mine = "somebody else's"

func hidden(i document.Interface) bool { return i.Description != nil && *i.Description == mine }

// newHost is in a namespace with a bridge that is hidden, and a route on it.
func newHost(t *testing.T) (*netnstest.Namespace, *host.Host) {
	t.Helper()
	n := netnstest.New(t)
	var h *host.Host
	n.Do(t, func() (err error) {
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br9"}}
		if err := netlink.LinkAdd(bridge); err != nil {
			return err
		}
		address, err := netlink.ParseAddr("192.0.2.1/24")
		if err != nil {
			return err
		}
		err = errors.Join(netlink.LinkSetAlias(bridge, mine), netlink.LinkSetUp(bridge), netlink.AddrAdd(bridge, address))
		if err != nil {
			return err
		}
		h, err = host.Open(resolvconf.New(t.TempDir(), "resolv.conf"), hidden)
		return err
	})
	t.Cleanup(h.Close)
	return n, h
}

func TestHost_HiddenInterface_NotShown(t *testing.T) {
	_, h := newHost(t)
	state, err := h.Show(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(state.Interfaces, func(i document.Interface) bool { return i.Name == "br9" }) {
		t.Error("the bridge is shown")
	}
	if slices.ContainsFunc(state.Routes.Running, func(r document.Route) bool { return r.Interface == "br9" }) {
		t.Error("a route of the bridge is shown")
	}
}

// TestHost_HiddenInterface_NotTakenOver: whoever writes a state may know its name, its type
// and all its settings.
func TestHost_HiddenInterface_NotTakenOver(t *testing.T) {
	n, h := newHost(t)
	if _, err := h.Show(t.Context()); err != nil {
		t.Fatal(err)
	}
	wanted := document.Interface{Name: "br9", Type: document.LinuxBridge, MTU: new(1400), Description: new("taken")}
	if err := h.Do(t.Context(), plan.Create{Interface: wanted}); !errors.Is(err, host.ErrHidden) {
		t.Errorf("got %v", err)
	}
	if a := n.Link(t, "br9").Attrs(); a.Alias != mine || a.MTU != 1500 {
		t.Errorf("it has the alias %q and the MTU %d", a.Alias, a.MTU)
	}
}

func TestHost_Steps_ReachKernelAndResolver(t *testing.T) {
	n, h := newHost(t)
	want := document.Resolver{Server: []string{"192.0.2.53"}}
	for _, step := range []plan.Step{
		plan.Create{Interface: document.Interface{Name: "br1", Type: document.LinuxBridge}}, plan.SetResolver{Resolver: want},
	} {
		if err := h.Do(t.Context(), step); err != nil {
			t.Fatal(err)
		}
	}
	n.Link(t, "br1")
	state, err := h.Show(t.Context())
	if err != nil || !slices.Equal(state.DNS.Config.Server, want.Server) {
		t.Errorf("the resolver is %v, %v", state.DNS, err)
	}
}

// TestHost_TypeMissingInKernel_RefusedWithPath, whatever else the document has.
func TestHost_TypeMissingInKernel_RefusedWithPath(t *testing.T) {
	n, h := newHost(t)
	lacks := false
	n.Do(t, func() error {
		bond := netlink.NewLinkBond(netlink.LinkAttrs{Name: "bond9"})
		if lacks = netlink.LinkAdd(bond) != nil; lacks {
			return nil
		}
		return netlink.LinkDel(bond)
	})
	bond := document.Interface{Name: "bond0", Type: document.Bond}
	gone := document.Interface{Name: "bond1", Type: document.Bond, State: document.Absent}
	_, err := h.Check(t.Context(), &document.State{Interfaces: []document.Interface{{Name: "br", Type: document.LinuxBridge}, gone, bond}})
	const want = "interfaces[2].type: bond: this kernel has no devices of that type: load the module bonding, or use a kernel with CONFIG_BONDING"
	if lacks && (err == nil || err.Error() != want) || !lacks && err != nil {
		t.Errorf("the kernel lacks bonds: %v, and the error is %v", lacks, err)
	}
}
