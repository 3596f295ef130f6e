// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/forward/hostlink/links"
	"github.com/alioth-net/alioth/cnid/nmstate/engine"
	"github.com/alioth-net/alioth/cnid/nmstate/host"
	"github.com/alioth-net/alioth/cnid/nmstate/reserved"
	"github.com/alioth-net/alioth/cnid/nmstate/resolvconf"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// node is a namespace with an uplink, eth0, and the end of a pod, veth0. The other ends of
// both are in a namespace outside.
type node struct {
	space *netnstest.Namespace
	dir   string
}

const shadow = "169.254.64.1"

func newNode(t *testing.T) node {
	t.Helper()
	n := node{space: netnstest.New(t), dir: t.TempDir()}
	outside := netnstest.New(t)
	other, err := os.Open(outside.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	n.space.Do(t, func() error {
		var errs []error
		for _, name := range []string{"eth0", "veth0"} {
			errs = append(errs, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name, PeerNamespace: netlink.NsFd(int(other.Fd()))}))
		}
		return errors.Join(append(errs, give("lo", shadow+"/32"), give("eth0", "192.0.2.7/24"), give("veth0", "192.0.2.129/32"))...)
	})
	outside.Do(t, func() error { return errors.Join(give("eth0", "192.0.2.1/24"), give("veth0", "198.51.100.1/24")) })
	return n
}

// give sets a device up, with an address.
func give(name, prefix string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	address, err := netlink.ParseAddr(prefix)
	if err != nil {
		return err
	}
	return errors.Join(netlink.AddrAdd(link, address), netlink.LinkSetUp(link))
}

// with calls f with an engine of the node.
func (n node) with(t *testing.T, change func(*engine.Config), f func(*engine.Engine) error) (err error) {
	t.Helper()
	n.space.Do(t, func() error {
		cfg := configOf(n.dir, "/")
		cfg.Log = t.Output()
		shadows := []netip.Prefix{netip.MustParsePrefix("169.254.64.0/18")}
		cfg.Others = host.Others{Interface: reserved.Is, Address: reserved.Addresses(shadows)}
		if change != nil {
			change(&cfg)
		}
		e, openErr := engine.Open(cfg)
		if openErr != nil {
			return openErr
		}
		defer e.Close()
		err = f(e)
		return nil
	})
	return err
}

func parse(t *testing.T, text string) *document.State {
	t.Helper()
	state, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func (n node) apply(t *testing.T, text string) error {
	t.Helper()
	return n.with(t, nil, func(e *engine.Engine) error {
		_, err := e.Apply(t.Context(), parse(t, text), transaction.Options{Timeout: time.Hour})
		return err
	})
}

func (n node) show(t *testing.T) (state *document.State) {
	t.Helper()
	if err := n.with(t, nil, func(e *engine.Engine) (err error) {
		state, err = e.Show(t.Context())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return state
}

func (n node) equal(t *testing.T, want *document.State) bool {
	t.Helper()
	return reflect.DeepEqual(n.show(t), want)
}

func (n node) record(t *testing.T) (r transaction.Record) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(n.dir, "transaction.json"))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (n node) closed() bool {
	_, err := os.Stat(filepath.Join(n.dir, "transaction.json"))
	return errors.Is(err, os.ErrNotExist)
}

// endGuard ends the guard of a test that failed before.
func (n node) endGuard(t *testing.T, r transaction.Record) {
	if r.Guard > 0 && !n.closed() {
		t.Logf("end the guard: %v", unix.Kill(r.Guard, unix.SIGKILL))
	}
}

func find(t *testing.T, state *document.State, name string) document.Interface {
	t.Helper()
	for _, i := range state.Interfaces {
		if i.Name == name {
			return i
		}
	}
	t.Fatalf("%s is not shown", name)
	return document.Interface{}
}

func TestEngine_ContainerNodeUplink_TreatedAsHardware(t *testing.T) {
	n := newNode(t)
	state := n.show(t)
	if i := find(t, state, "eth0"); i.Type != document.Ethernet || i.Veth != nil {
		t.Errorf("it is shown as %+v", i)
	}
	for _, i := range state.Interfaces {
		if i.Name == "veth0" {
			t.Error("the end of a pod is shown")
		}
	}
	for _, word := range []string{"down", "absent"} {
		if err := n.apply(t, "interfaces: [{name: eth0, state: "+word+"}]"); !errors.Is(err, host.ErrUplink) ||
			!strings.Contains(err.Error(), "interfaces[0].state") {
			t.Errorf("%s: %v", word, err)
		}
	}
}

// TestEngine_UplinkAsPort_StaysUplink: no property distinguishes such a port from the device of a pod.
func TestEngine_UplinkAsPort_StaysUplink(t *testing.T) {
	n := newNode(t)
	if err := n.apply(t, `
interfaces:
- name: br1
  type: linux-bridge
  ipv4: {enabled: true, address: [{ip: 192.0.2.7, prefix-length: 24}]}
  bridge: {port: [{name: eth0}], options: {stp: {enabled: false}}}
- {name: eth0, type: ethernet}
`); err != nil {
		t.Fatal(err)
	}
	if i := find(t, n.show(t), "eth0"); i.Type != document.Ethernet || i.Controller == nil || *i.Controller != "br1" {
		t.Errorf("it is shown as %+v", i)
	}
}

func TestEngine_AliothObjectsInDocument_Refused(t *testing.T) {
	n := newNode(t)
	before := n.show(t)
	mark := links.Mark(multinet.LinkID{Device: "eth0", Type: multinet.VLAN, VNI: 7})
	for text, want := range map[string]string{
		"interfaces: [{name: eth0, description: " + mark + "}]":                                               "interfaces[0].description: " + mark,
		"interfaces: [{name: alioth_x, type: dummy}, {name: alv1, type: dummy}]":                              "interfaces[1].name: alv1",
		"interfaces: [{name: veth0, type: veth, veth: {peer: v1}}]":                                           "interfaces[0].name: veth0",
		"interfaces: [{name: eth0, ipv4: {enabled: true, address: [{ip: 169.254.65.3, prefix-length: 24}]}}]": "interfaces[0].ipv4.address[0].ip: 169.254.65.3",
		"interfaces: [{name: eth0, description: fine}, {name: lo, type: loopback, state: down}]":              "interfaces[1].state",
	} {
		if err := n.apply(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if !n.equal(t, before) {
		t.Error("the node was changed")
	}
}

func TestEngine_AliothAddresses_NotShownNorRemoved(t *testing.T) {
	n := newNode(t)
	if err := n.apply(t, "interfaces: [{name: lo, ipv4: {enabled: true, address: [{ip: 127.0.0.1, prefix-length: 8}, {ip: 203.0.113.1, prefix-length: 32}]}}]"); err != nil {
		t.Fatal(err)
	}
	for _, a := range find(t, n.show(t), "lo").IPv4.Addresses {
		if a.IP == shadow {
			t.Error("it is shown")
		}
	}
	n.space.Do(t, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		address, err := netlink.ParseAddr(shadow + "/32")
		if err != nil {
			return err
		}
		if err := netlink.AddrDel(lo, address); err != nil {
			t.Errorf("it is gone: %v", err)
		}
		return nil
	})
}

func TestEngine_ShownState_Reapplicable(t *testing.T) {
	n := newNode(t)
	if err := n.apply(t, "interfaces: [{name: v1, type: veth, veth: {peer: v2}}, {name: br1, type: linux-bridge}]"); err != nil {
		t.Fatal(err)
	}
	n.stays(t)
}

// stays checks that the application of the shown state changes nothing.
func (n node) stays(t *testing.T) {
	t.Helper()
	err := n.with(t, nil, func(e *engine.Engine) error {
		shown, err := e.Show(t.Context())
		if err != nil {
			return err
		}
		steps, err := e.Plan(t.Context(), shown)
		if len(steps) > 0 {
			t.Errorf("it leads to %v", steps)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestEngine_ForeignResolver_RefusedBeforeAnyChange, and so is all of the document.
func TestEngine_ForeignResolver_RefusedBeforeAnyChange(t *testing.T) {
	n := newClient(t)
	path := filepath.Join(n.root, "etc/resolv.conf")
	if err := errors.Join(os.Remove(path), os.Symlink("../run/stub.conf", path)); err != nil {
		t.Fatal(err)
	}
	text := eth1("mtu: 1400") + "\ndns-resolver: {config: {server: [192.0.2.53]}}"
	err := n.apply(t.Context(), t, text, transaction.Options{})
	if !errors.Is(err, resolvconf.ErrManaged) || errors.Is(err, transaction.ErrRolledBack) || !strings.Contains(err.Error(), "dns-resolver: /etc/resolv.conf") {
		t.Errorf("got %v", err)
	}
	if mtu := n.eth1(t).MTU; *mtu != 1500 {
		t.Errorf("eth1 has the MTU %d", *mtu)
	}
	n.must(t, eth1("mtu: 1400")) // which is not about the resolver
}
