// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package otherplugin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/api/ipamconf"
	"github.com/alioth-net/alioth/cnid/cni/delegate/delegatetest"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/nodeipam/plugin/ipam"
	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/store/rules/pluginconf"
)

// TestMain is a plugin where it is started under its name.
func TestMain(m *testing.M) {
	delegatetest.Main()
	if text, ok := os.LookupEnv(daemonOf); ok {
		fmt.Fprintln(os.Stderr, daemon(text))
		os.Exit(1)
	}
	if filepath.Base(os.Args[0]) == ipamconf.Type {
		ipam.Main()
		return
	}
	os.Exit(m.Run())
}

func TestOtherPlugin_BridgeWithOwnIPAM_Attached(t *testing.T) {
	r := newRig(t)
	spec := r.spec(build(t, r.bridge(), nil))
	link, err := r.attach(t, spec)
	if err != nil {
		t.Fatal(err)
	}
	id, err := netns.Identify(r.pod.Path)
	if err != nil || link.NetnsCookie != id.Cookie || link.NetnsInode != id.Inode || link.HostIfName != "" || link.Result == nil {
		t.Fatalf("link is %+v, %v", link, err)
	}
	inPod, ok := link.Result.InPod("net1")
	if !ok || inPod.MAC == "" || inPod.Sandbox != r.pod.Path || len(link.Result.Interfaces) != 3 || link.Result.Interfaces[0].Name != "br0" {
		t.Errorf("interfaces are %+v", link.Result.Interfaces)
	}
	wantAddrs := []ifdriver.ResultAddr{{Addr: netip.MustParsePrefix("192.0.2.2/24"), Gateway: netip.MustParseAddr("192.0.2.1"), Interface: 2}}
	wantRoutes := []ifdriver.ResultRoute{{Dst: netip.MustParsePrefix("198.51.100.0/24"), Gateway: netip.MustParseAddr("192.0.2.1")}}
	wantDNS := ifdriver.ResultDNS{Nameservers: []string{"192.0.2.53"}, Search: []string{"example.org"}}
	comparable := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	addrs := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	for _, diff := range []string{
		cmp.Diff(wantAddrs, link.Result.Addrs, comparable, addrs), cmp.Diff(wantRoutes, link.Result.Routes, comparable, addrs), cmp.Diff(wantDNS, link.Result.DNS),
	} {
		if diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
	}
	if addrs, _ := r.inside(t); !slices.Equal(addrs, []string{"192.0.2.2/24"}) || len(r.leases(t)) != 1 {
		t.Errorf("the pod has %v, leases %v", addrs, r.leases(t))
	}
	r.open(t) // a new daemon
	again, err := r.check(t, spec)
	if diff := cmp.Diff(link, again, comparable, addrs); err != nil || diff != "" {
		t.Errorf("CHECK: %v (-made +checked):\n%s", err, diff)
	}
	for range 2 {
		if err := r.detach(t); err != nil {
			t.Errorf("detach: %v", err)
		}
	}
	if _, exists := r.inside(t); exists || len(r.leases(t)) != 0 {
		t.Errorf("left are the interface (%v) and leases %v", exists, r.leases(t))
	}
}

func TestOtherPlugin_OperatorAddresses_Used(t *testing.T) {
	ours := func(request *pluginconf.Request) {
		request.IPAM = &pluginconf.IPAM{
			Addresses: []ipamconf.Address{
				{Address: netip.MustParsePrefix("192.0.2.77/24"), Gateway: netip.MustParseAddr("192.0.2.1")}, {Address: netip.MustParsePrefix("2001:db8::77/64")},
			},
			Routes: []ipamconf.Route{{Dst: netip.MustParsePrefix("198.51.100.0/24"), Gateway: netip.MustParseAddr("192.0.2.1")}},
		}
	}
	for _, version := range []string{"0.3.1", "0.4.0", "1.0.0"} {
		for name, text := range map[string]string{
			"macvlan":                       `{"type":"macvlan","master":"uplink","mode":"bridge"}`,
			"bridge instead of its own":     `{"type":"bridge","bridge":"br0","ipam":{"type":"host-local","ranges":[[{"subnet":"10.0.0.0/24"}]]}}`,
			"bridge that lacks an IPAM key": `{"type":"bridge","bridge":"br0"}`,
		} {
			t.Run(version+"/"+name, func(t *testing.T) {
				r := newRig(t)
				spec := r.spec(build(t, fmt.Sprintf(`{"cniVersion":%q,"plugins":[%s]}`, version, text), ours))
				link, err := r.attach(t, spec)
				if err != nil {
					t.Fatal(err)
				}
				if addrs, _ := r.inside(t); !slices.Equal(addrs, []string{"192.0.2.77/24", "2001:db8::77/64"}) || len(link.Result.Addrs) != 2 ||
					len(link.Result.Routes) != 1 {
					t.Errorf("the pod has %v, result %+v", addrs, link.Result)
				}
				if _, err := r.check(t, spec); err != nil {
					t.Errorf("CHECK: %v", err)
				}
				if err := r.detach(t); err != nil {
					t.Errorf("detach: %v", err)
				}
				if _, exists := r.inside(t); exists {
					t.Error("the interface is left")
				}
			})
		}
	}
}

// TestOtherPlugin_InterfaceOnNodeLink_Attached has the node's name of a VLAN or VXLAN as its parent, and keeps
// it although the link gets another name: DEL goes by the arguments of ADD.
func TestOtherPlugin_InterfaceOnNodeLink_Attached(t *testing.T) {
	r := newRig(t)
	r.node.Do(t, func() error {
		link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "red.100", MTU: 1300}, PeerName: "other"}
		return errors.Join(netlink.LinkAdd(link), netlink.LinkSetUp(link))
	})
	conf := build(t, `{"cniVersion":"1.0.0","type":"macvlan","master":"uplink","vlan":100}`, func(r *pluginconf.Request) { r.Links = true })
	spec := r.spec(conf)
	spec.Parent = "red.100"
	if _, err := r.attach(t, spec); err != nil {
		t.Fatal(err)
	}
	var mtu, parent int
	r.pod.Do(t, func() error {
		link, err := netlink.LinkByName("net1")
		if err == nil {
			mtu, parent = link.Attrs().MTU, link.Attrs().ParentIndex
		}
		return err
	})
	r.node.Do(t, func() error {
		link, err := netlink.LinkByName("red.100")
		if err == nil && (mtu != 1300 || parent != link.Attrs().Index) {
			t.Errorf("the interface has MTU %d, and device %d as its parent, want %d", mtu, parent, link.Attrs().Index)
		}
		return err
	})
	spec.Parent = ""
	if _, err := r.check(t, spec); err != nil {
		t.Error(err)
	}
	if err := r.detach(t); err != nil {
		t.Error(err)
	}
	if _, exists := r.inside(t); exists {
		t.Error("the interface is left")
	}
}

func TestOtherPlugin_NoAddresses_Attached(t *testing.T) {
	r := newRig(t)
	spec := r.spec(build(t, r.bridge(), func(request *pluginconf.Request) {
		request.Text = []byte(strings.ReplaceAll(string(request.Text), `"isGateway":true,`, ""))
		request.IPAM = &pluginconf.IPAM{}
	}))
	link, err := r.attach(t, spec)
	if addrs, exists := r.inside(t); err != nil || !exists || len(addrs) != 0 || len(link.Result.Addrs) != 0 || len(r.leases(t)) != 0 {
		t.Errorf("%v, the pod has %v, result %+v, leases %v", err, addrs, link.Result, r.leases(t))
	}
}

// DEL MUST release the plugin's holdings on the node, with the namespace or without.
func TestDetach_NamespaceEnded_AddressesReleased(t *testing.T) {
	r := newRig(t)
	spec := r.spec(build(t, r.bridge(), nil))
	if _, err := r.attach(t, spec); err != nil {
		t.Fatal(err)
	}
	r.pod.Close(t)
	r.open(t)
	if _, err := r.check(t, spec); !errors.Is(err, ifdriver.ErrGone) || !errors.Is(err, ifdriver.ErrMismatch) {
		t.Errorf("CHECK without the namespace: %v", err)
	}
	list, err := r.List(t.Context())
	if err != nil || len(list) != 1 || list[0].ContainerID != "sandbox" || list[0].IfName != "net1" || list[0].Request != "eth0" ||
		list[0].PodUID != "uid" || list[0].Network != "alioth" || list[0].Link.NetnsCookie != 0 {
		t.Errorf("listed are %+v, %v", list, err)
	}
	if err := r.detach(t); err != nil {
		t.Fatal(err)
	}
	if len(r.leases(t)) != 0 {
		t.Errorf("left are leases %v", r.leases(t))
	}
	if list, err := r.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("listed are %+v, %v", list, err)
	}
}

func TestList_InterfaceAlive_Listed(t *testing.T) {
	r := newRig(t)
	link, err := r.attach(t, r.spec(build(t, r.bridge(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	list, err := r.List(t.Context())
	if err != nil || len(list) != 1 || list[0].Link.NetnsCookie != link.NetnsCookie || list[0].NetnsPath != r.pod.Path || list[0].Link.Result == nil {
		t.Errorf("listed are %+v, %v", list, err)
	}
}

// ADD MUST fail if the pod has an interface of that name.
func TestOtherPlugin_ForeignInterface_Kept(t *testing.T) {
	r := newRig(t)
	r.pod.Do(t, func() error { return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "net1"}}) })
	if _, err := r.attach(t, r.spec(build(t, r.bridge(), nil))); !errors.Is(err, ifdriver.ErrExists) {
		t.Errorf("%v", err)
	}
	if _, exists := r.inside(t); !exists || len(r.leases(t)) != 0 {
		t.Errorf("the interface is there: %v; leases %v", exists, r.leases(t))
	}
}

func TestOtherPlugin_NodeNamespace_Refused(t *testing.T) {
	r := newRig(t)
	spec := r.spec(build(t, r.bridge(), nil))
	spec.NetnsPath = r.node.Path
	if _, err := r.attach(t, spec); err == nil || !strings.Contains(err.Error(), "node's own network namespace") {
		t.Errorf("%v", err)
	}
}

func TestOtherPlugin_AttachFails_NothingLeft(t *testing.T) {
	log := func(r *rig) string { return filepath.Join(r.dir, "log") }
	cases := map[string]struct {
		text func(*rig) string
		says string
	}{
		"a missing parent, which prevents the DEL too": {
			func(*rig) string { return `{"cniVersion":"1.0.0","type":"macvlan","master":"none","ipam":{}}` },
			"CNI plugin macvlan: ADD failed: Link not found",
		},
		"a later plugin fails": {
			func(r *rig) string {
				return strings.Replace(r.bridge(), `{"type":"tuning","mtu":1300}`, fmt.Sprintf(`{"type":"fake","log":%q,"do":{"ADD":"error"}}`, log(r)), 1)
			},
			"CNI plugin fake: ADD failed: try again; the pool is empty (code 11)",
		},
		"a plugin that reports no interface and makes none": {
			func(r *rig) string {
				return fmt.Sprintf(`{"cniVersion":"1.0.0","type":"fake","log":%q,"result":{"cniVersion":"1.0.0"}}`, log(r))
			},
			"the pod has no interface net1 after the ADD",
		},
		"a plugin that reports an interface and makes none": {
			func(r *rig) string { return fmt.Sprintf(`{"cniVersion":"1.0.0","type":"fake","log":%q}`, log(r)) },
			"the pod has no interface net1 after the ADD",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			_, err := r.attach(t, r.spec(build(t, c.text(r), nil)))
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
			if _, exists := r.inside(t); exists || len(r.leases(t)) != 0 {
				t.Errorf("left are the interface (%v) and leases %v", exists, r.leases(t))
			}
			if list, err := r.List(t.Context()); err != nil || len(list) != 0 {
				t.Errorf("listed are %+v, %v", list, err)
			}
		})
	}
}

func TestOtherPlugin_DeviceWithoutDriver_NoInterfaceNeeded(t *testing.T) {
	r := newRig(t)
	result, err := json.Marshal(map[string]any{"cniVersion": "1.1.0", "interfaces": []any{
		map[string]any{"name": "net1", "sandbox": r.pod.Path, "pciID": "0000:03:02.1", "mtu": 9000},
	}})
	if err != nil {
		t.Fatal(err)
	}
	spec := r.spec(build(t, fmt.Sprintf(`{"cniVersion":"1.1.0","type":"fake","log":%q,"result":%s}`, filepath.Join(r.dir, "log"), result), nil))
	link, err := r.attach(t, spec)
	if err != nil {
		t.Fatal(err)
	}
	if iface, ok := link.Result.InPod("net1"); !ok || iface.PCIID != "0000:03:02.1" || iface.MTU != 9000 {
		t.Errorf("result is %+v", link.Result)
	}
	if _, err := r.check(t, spec); err != nil {
		t.Errorf("CHECK: %v", err)
	}
	if list, err := r.List(t.Context()); err != nil || len(list) != 1 || list[0].MTU != 9000 {
		t.Errorf("listed are %+v, %v", list, err)
	}
}

// CHECK MUST be forwarded to the delegate, and MUST fail where it fails.
func TestOtherPluginCheck_Differences_Reported(t *testing.T) {
	cases := map[string]struct {
		damage func() error
		says   string
	}{
		"a lost interface": {func() error { return onNet1(netlink.LinkDel) }, "no interface net1"},
		"a lost address (only the plugin knows it)": {func() error {
			return onNet1(func(link netlink.Link) error {
				addr, err := netlink.ParseAddr("192.0.2.2/24")
				return errors.Join(err, netlink.AddrDel(link, addr))
			})
		}, "CNI plugin bridge: CHECK failed"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			spec := r.spec(build(t, r.bridge(), nil))
			if _, err := r.attach(t, spec); err != nil {
				t.Fatal(err)
			}
			r.pod.Do(t, c.damage)
			if _, err := r.check(t, spec); !errors.Is(err, ifdriver.ErrMismatch) || errors.Is(err, ifdriver.ErrGone) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
	r := newRig(t)
	if _, err := r.check(t, r.spec(nil)); !errors.Is(err, ifdriver.ErrGone) {
		t.Errorf("CHECK of nothing: %v", err)
	}
}

func onNet1(f func(netlink.Link) error) error {
	link, err := netlink.LinkByName("net1")
	if err != nil {
		return err
	}
	return f(link)
}

func TestOtherPlugin_SpecWithoutConfiguration_Refused(t *testing.T) {
	r := newRig(t)
	if _, err := r.attach(t, r.spec(nil)); err == nil || !strings.Contains(err.Error(), "no configuration") {
		t.Errorf("%v", err)
	}
}

// TestOtherPlugin_PluginRun_InNodeNetworkNamespace guards the rigs above: a bridge in another
// namespace would be invisible to the pod's end.
func TestOtherPlugin_PluginRun_InNodeNetworkNamespace(t *testing.T) {
	r := newRig(t)
	if _, err := r.attach(t, r.spec(build(t, r.bridge(), nil))); err != nil {
		t.Fatal(err)
	}
	if err := ns.WithNetNSPath(r.node.Path, func(ns.NetNS) error {
		_, err := net.InterfaceByName("br0")
		return err
	}); err != nil {
		t.Error(err)
	}
}
