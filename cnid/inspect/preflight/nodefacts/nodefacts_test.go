// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodefacts

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/utils/ptr"

	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/forward/hostlink/links"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/inspect/preflight"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// defaults returns the values of the chart.
func defaults(t *testing.T) preflight.Values {
	t.Helper()
	v, err := preflight.ParseValues()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestNodeFacts_Rehearsal_SucceedsOnThisKernel also requires that the namespace of the caller stays as
// it is.
func TestNodeFacts_Rehearsal_SucceedsOnThisKernel(t *testing.T) {
	testnet.In(t, testnet.New(t), func() error {
		before := devices(t)
		for _, problem := range rehearse(t.Context(), Config{Values: defaults(t)}) {
			if problem.Kind == "" {
				t.Errorf("%s: %s", problem.Part, problem.Error)
			}
		}
		if diff := cmp.Diff(before, devices(t)); diff != "" {
			t.Errorf("devices have changed (-before +after):\n%s", diff)
		}
		return nil
	})
}

func devices(t *testing.T) (names []string) {
	t.Helper()
	list, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, device := range list {
		names = append(names, device.Attrs().Name)
	}
	return names
}

// TestNodeFacts_PartFails_ProblemReported rehearses with values that the kernel refuses.
func TestNodeFacts_PartFails_ProblemReported(t *testing.T) {
	testnet.In(t, testnet.New(t), func() error {
		values := defaults(t)
		values.ShadowCIDRs = nil
		problems := rehearse(t.Context(), Config{Values: values})
		if !slices.ContainsFunc(problems, func(p preflight.Problem) bool {
			return p.Part == "the packet filter" && p.Error != "" && p.Remedy != ""
		}) {
			t.Errorf("got %v", problems)
		}
		return nil
	})
}

// busyNode makes a node with everything that a check looks for.
func busyNode(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	for _, file := range []string{
		"etc/cni/net.d/10-flannel.conflist", "etc/cni/net.d/.hidden", "opt/cni/bin/flannel", "run/containerd/containerd.sock",
		"var/lib/k0s/cni/net.d/10-calico.conflist", "var/lib/alioth/journal.log",
	} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const filterOfOthers = `
table ip nat { chain POSTROUTING { type nat hook postrouting priority srcnat; masquerade; }; }
table inet firewall { chain forward { type filter hook forward priority filter; policy drop; }; }
`

func TestNodeFacts_Node_AllFound(t *testing.T) {
	root := busyNode(t)
	space, far := testnet.New(t), testnet.New(t)
	testnet.Veth(t, space, "eth0", []string{"198.51.100.1/24"}, far, "far", nil)
	var n preflight.Node
	testnet.In(t, space, func() error {
		prepare(t)
		proxy(t, "nftables")
		n = Node(t.Context(), Config{Root: root, Values: defaults(t), StateDir: "/var/lib/alioth"})
		return nil
	})
	if len(n.Unread) > 0 || n.Kernel == "" || !n.Root || ptr.Deref(n.FreeBytes, 0) == 0 || n.ProxyMode != "nftables" {
		t.Errorf("got %+v", n)
	}
	if !strings.Contains(n.BPFFS, "not on a bpf file system") {
		t.Errorf("a folder without a bpf file system: %q", n.BPFFS)
	}
	for _, want := range []preflight.Listener{
		{Protocol: "udp", Address: netip.MustParseAddrPort("0.0.0.0:4789")}, {Protocol: "tcp", Address: netip.MustParseAddrPort("127.0.0.1:9471")},
	} {
		if !slices.Contains(n.Listening, want) {
			t.Errorf("nobody listens at %v: %v", want, n.Listening)
		}
	}
	if len(n.Uplinks) != 1 || n.Uplinks[0].Device != "eth0" || n.Uplinks[0].PodMTU != 1450 || n.Uplinks[0].Settings["ipv4/conf/eth0/accept_redirects"] != "on" {
		t.Errorf("uplinks are %+v", n.Uplinks)
	}
	if len(n.Blocks) == 0 || !strings.Contains(n.Blocks[0], "inet firewall forward") {
		t.Errorf("blocks are %q", n.Blocks)
	}
	got := fmt.Sprint(n.Configurations, n.Plugins, n.OtherFolders, n.Sockets, n.Alioth, n.Masquerading)
	const want = "[10-flannel.conflist] [flannel] [/var/lib/k0s/cni/net.d] [containerd] [/var/lib/alioth/journal.log] [table nat chain POSTROUTING]"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, want := range []preflight.Program{{Name: "others", Hook: "tc ingress", Device: "eth0"}, {Name: "others", Hook: "XDP", Device: "eth0"}} {
		if !slices.Contains(n.Programs, want) {
			t.Errorf("no %v among %v", want, n.Programs)
		}
	}
}

// TestNodeFacts_SocketAnswers_DaemonRunning and nowhere else: not where files are left, among them
// the socket of a daemon that was killed.
func TestNodeFacts_SocketAnswers_DaemonRunning(t *testing.T) {
	root, err := os.MkdirTemp("", "") // a short path: the kernel limits the paths of sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	path := filepath.Join(root, cniapi.DefaultSocket)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	daemon, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	daemon.SetUnlinkOnClose(false)
	look := func() preflight.Node {
		n := &node{cfg: Config{Root: root, Values: defaults(t), StateDir: "/var/lib/alioth"}}
		n.folders(t.Context())
		return n.Node
	}
	if n := look(); !n.Running || !slices.Contains(n.Alioth, cniapi.DefaultSocket) {
		t.Errorf("of a daemon that listens: %+v", n)
	}
	daemon.Close()
	if n := look(); n.Running || !slices.Contains(n.Alioth, cniapi.DefaultSocket) {
		t.Errorf("of a daemon that has ended: %+v", n)
	}
}

// TestNodeFacts_AliothDevice_NotOtherProgram leaves a node with the devices of a daemon that has ended,
// and with a device of others.
func TestNodeFacts_AliothDevice_NotOtherProgram(t *testing.T) {
	var n preflight.Node
	testnet.In(t, testnet.New(t), func() error {
		for _, device := range []struct {
			name, alias string
			port        int
		}{
			{hostdev.Tunnel, "", 4789}, {"link", links.Mark(multinet.LinkID{Device: "eth0", Type: multinet.VXLAN, VNI: 7}), 14789}, {"others", "", 8472},
		} {
			attrs := netlink.NewLinkAttrs()
			attrs.Name = device.name
			vxlan := &netlink.Vxlan{LinkAttrs: attrs, VxlanId: device.port, Port: device.port}
			if err := errors.Join(netlink.LinkAdd(vxlan), netlink.LinkSetAlias(vxlan, device.alias), netlink.LinkSetUp(vxlan)); err != nil {
				return err
			}
		}
		n = Node(t.Context(), Config{Root: t.TempDir(), Values: defaults(t), StateDir: "/var/lib/alioth"})
		return nil
	})
	var ports []uint16
	for _, listener := range n.Listening {
		ports = append(ports, listener.Address.Port())
	}
	slices.Sort(ports)
	if ports = slices.Compact(ports); !slices.Equal(ports, []uint16{8472}) {
		t.Errorf("other programs listen at %v, want 8472 alone", ports)
	}
}

// prepare gives the namespace what other programs leave on a node.
func prepare(t *testing.T) {
	t.Helper()
	eth0, err := netlink.LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	// No host has the address as a neighbour: nothing is sent there.
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: eth0.Attrs().Index, Gw: net.IPv4(198, 51, 100, 2)}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/conf/all/accept_redirects", []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := testnet.NFT(filterOfOthers); err != nil {
		t.Fatal(err)
	}
	if err := attachTo(eth0.Attrs().Index, program(t, ebpf.SchedCLS)); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetXdpFdWithFlags(eth0, program(t, ebpf.XDP).FD(), unix.XDP_FLAGS_SKB_MODE); err != nil {
		t.Fatal(err)
	}
	// As flannel and Calico do: the socket is the kernel's.
	vxlan := &netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "vxlan.calico"}, VxlanId: 4096, Port: 4789, VtepDevIndex: eth0.Attrs().Index}
	if err := netlink.LinkAdd(vxlan); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(vxlan); err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:9471")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
}

// program returns a program of another project, which lets everything pass.
func program(t *testing.T, kind ebpf.ProgramType) *ebpf.Program {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "others", Type: kind, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// proxy answers as kube-proxy does.
func proxy(t *testing.T, mode string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:10249")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, mode) })}
	go func() { _ = server.Serve(listener) }() // until it is closed
	t.Cleanup(func() { server.Close() })
}
