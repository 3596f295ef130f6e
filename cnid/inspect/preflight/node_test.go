// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight_test

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/alioth-net/alioth/cnid/inspect/preflight"
)

// values returns the values of the chart, changed by a text in YAML.
func values(t *testing.T, changes string) preflight.Values {
	t.Helper()
	v, err := preflight.ParseValues([]byte("apiServer: {host: 192.0.2.10}"), []byte(changes))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// finding is an expected finding: text is a part of the line.
type finding struct {
	severity preflight.Severity
	check    preflight.Check
	text     string
}

// expect compares findings with the wanted findings, in any order.
func expect(t *testing.T, got []preflight.Finding, want ...finding) {
	t.Helper()
	for _, w := range want {
		i := slices.IndexFunc(got, func(f preflight.Finding) bool {
			return f.Severity == w.severity && f.Check == w.check && strings.Contains(f.String(), w.text)
		})
		if i < 0 {
			t.Errorf("no %s %s with %q among %v", w.severity, w.check, w.text, got)
			continue
		}
		got = slices.Delete(slices.Clone(got), i, i+1)
	}
	for _, f := range got {
		t.Errorf("unexpected: %s", f)
	}
}

// goodNode returns a node without a finding.
func goodNode() preflight.Node {
	return preflight.Node{
		Name: "node1", Root: true, Kernel: "6.12.41+deb13-amd64", FreeBytes: ptr.To[uint64](20 << 30), Sockets: []string{"containerd"},
		Listening: []preflight.Listener{
			{Protocol: "tcp", Address: netip.MustParseAddrPort("0.0.0.0:4789")},
			{Protocol: "udp", Address: netip.MustParseAddrPort("0.0.0.0:68")},
		},
		Uplinks: []preflight.Uplink{
			{Address: netip.MustParseAddr("192.0.2.1"), Device: "eth0", PodMTU: 1450, Settings: map[string]string{"ipv4/conf/eth0/forwarding": "off"}},
		},
	}
}

type nodeCase struct {
	name    string
	values  string
	change  func(*preflight.Node)
	finding []finding
}

func nodeCases() []nodeCase {
	const blocking, warning, note = preflight.Blocking, preflight.Warning, preflight.Note
	listens := func(protocol, address string) func(*preflight.Node) {
		return func(n *preflight.Node) {
			n.Listening = append(n.Listening, preflight.Listener{Protocol: protocol, Address: netip.MustParseAddrPort(address)})
		}
	}
	lacks := func(kind string) func(*preflight.Node) {
		return func(n *preflight.Node) {
			n.Problems = []preflight.Problem{{Part: "interfaces", Error: "operation not supported", Remedy: "boot another kernel"}}
			if kind == "netkit" {
				n.Problems[0].Kind = "netkit"
			}
		}
	}
	configurations := func(names ...string) func(*preflight.Node) {
		return func(n *preflight.Node) { n.Configurations = names }
	}
	return []nodeCase{
		{"nothing", "", func(*preflight.Node) {}, nil},
		{"no root", "", func(n *preflight.Node) { n.Root = false }, []finding{{warning, preflight.Rights, "as root"}}},
		{"unread", "", func(n *preflight.Node) { n.Unread = []string{"list sockets: no"} }, []finding{{warning, preflight.NotRead, "list sockets"}}},
		{"no fact at all", "", func(n *preflight.Node) {
			*n = preflight.Node{Name: "node1", Unread: []string{"inspect the node by a pod: it failed"}}
		}, []finding{{warning, preflight.NotRead, "it failed"}}},
		{"old kernel", "", func(n *preflight.Node) { n.Kernel = "5.15.0-91-generic" }, []finding{{blocking, preflight.KernelVersion, "Boot Linux 6.1"}}},
		{"oldest kernel", "", func(n *preflight.Node) { n.Kernel = "6.1.0-18-amd64" }, nil},
		{"odd kernel", "", func(n *preflight.Node) { n.Kernel = "custom" }, []finding{{warning, preflight.KernelVersion, "custom"}}},
		{"a part that fails", "", lacks(""), []finding{{blocking, preflight.KernelFeatures, "Boot another kernel"}}},
		{"a kind that the chart demands", "daemon: {podDevice: netkit}", lacks("netkit"), []finding{{blocking, preflight.KernelFeatures, "not supported"}}},
		{"a kind that networks may need", "", lacks("netkit"), []finding{{note, preflight.KernelFeatures, "not supported"}}},
		{"a kind that nobody needs", "multiNetwork: {enabled: false}", lacks("netkit"), nil},
		{"no cgroup2", "", func(n *preflight.Node) { n.Cgroup = "mount it" }, []finding{{blocking, preflight.CgroupV2, "mount it"}}},
		{"no bpffs", "", func(n *preflight.Node) { n.BPFFS = "mount it" }, []finding{{blocking, preflight.BPFFilesystem, "mount it"}}},
		{"the tunnel's port", "", listens("udp", "[::]:4789"), []finding{{blocking, preflight.PortsInUse, "tunnelPort"}}},
		{"another port for the tunnel", "tunnelPort: 4790", listens("udp", "[::]:4789"), nil},
		{"the port of links", "", listens("udp", "0.0.0.0:14789"), []finding{{blocking, preflight.PortsInUse, "hostLinks.vxlanPort"}}},
		{"the daemon's port", "", listens("tcp", "127.0.0.1:9472"), []finding{{blocking, preflight.PortsInUse, "daemon.metricsPort"}}},
		{"a port of the second replica", "", listens("tcp", "127.0.0.1:9484"), []finding{{blocking, preflight.PortsInUse, "operator.port"}}},
		{"the port of an IPAM API that is off", "nodeIPAM: {listen: 'localhost:10090'}", listens("tcp", "127.0.0.1:10090"), nil},
		{
			"the port of the IPAM API",
			"nodeIPAM: {enabled: true, listen: 'localhost:10090'}",
			listens("tcp", "127.0.0.1:10090"),
			[]finding{{blocking, preflight.PortsInUse, "nodeIPAM.listen"}},
		},
		{"a small MTU", "", func(n *preflight.Node) { n.Uplinks[0].PodMTU = 1230 }, []finding{{warning, preflight.NodeMTU, "by 50 bytes"}}},
		{"a configuration before", "", configurations("00-multus.conf"), []finding{{blocking, preflight.CNIConfiguration, "00-multus.conf"}}},
		{"a configuration behind", "", configurations("10-flannel.conflist", "README"), []finding{{warning, preflight.CNIConfiguration, "10-flannel.conflist"}}},
		{
			"other folders",
			"",
			func(n *preflight.Node) { n.OtherFolders = []string{"/var/lib/rancher/net.d"} },
			[]finding{{warning, preflight.CNIFolder, "daemon.cniConfDir"}},
		},
		{
			"other plugins",
			"",
			func(n *preflight.Node) { n.Plugins = []string{"alioth", "alioth-ipam", "bridge"} },
			[]finding{{note, preflight.CNIConfiguration, "plugins bridge,"}},
		},
		{"a program", "", func(n *preflight.Node) {
			n.Programs = []preflight.Program{{Name: "cil_from_netdev", Hook: "tc ingress", Device: "eth0"}}
		}, []finding{{warning, preflight.ForeignPrograms, "tc ingress of device eth0"}}},
		{"a filter", "", func(n *preflight.Node) { n.Blocks = []string{"let them through"} }, []finding{{blocking, preflight.PacketFilter, "let them through"}}},
		{
			"masquerading",
			"",
			func(n *preflight.Node) { n.Masquerading = []string{"table nat chain POSTROUTING"} },
			[]finding{{note, preflight.Masquerading, "POSTROUTING"}},
		},
		{"kube-proxy", "", func(n *preflight.Node) { n.ProxyMode = "nftables" }, []finding{{note, preflight.KubeProxy, "nftables"}}},
		{
			"kube-proxy and health pages",
			"daemon: {proxyHealth: true}",
			func(n *preflight.Node) { n.ProxyMode = "nftables" },
			[]finding{{blocking, preflight.KubeProxy, "daemon.proxyHealth to false"}},
		},
		{
			"a setting",
			"",
			func(n *preflight.Node) { n.Uplinks[0].Settings["ipv4/conf/eth0/accept_redirects"] = "on" },
			[]finding{{warning, preflight.NodeSettings, "accept_redirects is on"}},
		},
		{"no space", "", func(n *preflight.Node) { n.FreeBytes = ptr.To[uint64](50 << 20) }, []finding{{blocking, preflight.DiskSpace, "50 MiB left"}}},
		{"little space", "", func(n *preflight.Node) { n.FreeBytes = ptr.To[uint64](500 << 20) }, []finding{{warning, preflight.DiskSpace, "500 MiB left"}}},
		{
			"unread space",
			"",
			func(n *preflight.Node) { n.FreeBytes, n.Unread = nil, []string{"read the free space: no"} },
			[]finding{{warning, preflight.NotRead, "free space"}},
		},
		{"no runtime", "", func(n *preflight.Node) { n.Sockets = nil }, []finding{{warning, preflight.ContainerRuntime, "no socket"}}},
		{"Alioth itself", "", func(n *preflight.Node) {
			listens("udp", "[::]:4789")(n)
			n.Alioth, n.Running, n.Configurations = []string{"/run/alioth/cnid.sock"}, true, []string{"05-alioth.conflist"}
		}, []finding{{note, preflight.Present, "/run/alioth/cnid.sock"}}},
		{"what Alioth has left", "", func(n *preflight.Node) {
			listens("udp", "[::]:4789")(n)
			n.Alioth = []string{"/var/lib/alioth/journal.log"}
		}, []finding{{blocking, preflight.PortsInUse, "tunnelPort"}, {note, preflight.Present, "/var/lib/alioth/journal.log"}}},
	}
}

func TestPreflight_EachNodeFact_FindingReported(t *testing.T) {
	for _, c := range nodeCases() {
		t.Run(c.name, func(t *testing.T) {
			n := goodNode()
			c.change(&n)
			expect(t, preflight.JudgeNode(n, values(t, c.values)), c.finding...)
		})
	}
}

// TestPreflight_AnyBytes_FindingOnOneLine: a node's pod says what is wrong with it, in whatever bytes.
func TestPreflight_AnyBytes_FindingOnOneLine(t *testing.T) {
	const forged = "boot\nWarning  mtu: forged\r\x1b[2K"
	n := goodNode()
	n.Name = "node1"
	n.Problems = []preflight.Problem{{Part: forged, Error: forged, Remedy: forged}}
	n.Cgroup, n.Unread, n.Blocks, n.Sockets = forged, []string{forged}, []string{forged}, nil
	n.Configurations, n.Alioth = []string{"00-" + forged + ".conf"}, []string{forged}
	for _, f := range preflight.JudgeNode(n, values(t, "")) {
		if strings.ContainsAny(f.String(), "\n\r\x1b") {
			t.Errorf("%q has control characters", f)
		}
	}
}

func TestPreflight_EachCheck_CaseAndDescriptionPresent(t *testing.T) {
	page, err := os.ReadFile("../../../docs/install/preflight.md")
	if err != nil {
		t.Fatal(err)
	}
	tested := map[preflight.Check]bool{}
	for _, c := range nodeCases() {
		for _, f := range c.finding {
			tested[f.check] = true
		}
	}
	for _, c := range clusterCases() {
		for _, f := range c.finding {
			tested[f.check] = true
		}
	}
	for _, check := range preflight.Checks() {
		if !tested[check] {
			t.Errorf("no case of a test has the check %s", check)
		}
		if !strings.Contains(string(page), "\n| `"+string(check)+"` |") {
			t.Errorf("docs/install/preflight.md does not describe the check %s", check)
		}
		delete(tested, check)
	}
	for check := range tested {
		t.Errorf("Checks lacks %s", check)
	}
}

func TestPreflight_EqualNodeFindings_Merged(t *testing.T) {
	var all []preflight.Finding
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "a"} {
		all = append(all, preflight.Finding{Severity: preflight.Warning, Check: preflight.NodeMTU, Nodes: []string{name}, Found: "small"})
	}
	all = append(all, preflight.Finding{Severity: preflight.Blocking, Check: preflight.Ranges, Found: "overlap", Remedy: "move it"},
		preflight.Finding{Severity: preflight.Blocking, Check: preflight.Ranges, Found: "overlap", Remedy: "move it"})
	got := preflight.Sorted(all)
	if len(got) != 3 || got[0].Severity != preflight.Blocking || got[2].String() != "Warning  mtu: node a, b, c, d, e and 2 more: small" ||
		len(got[2].Nodes) != 7 {
		t.Errorf("got %v", got)
	}
	if !preflight.Blocks(got) || preflight.Blocks(got[2:]) {
		t.Error("only a blocking finding blocks")
	}
}

func TestPreflightValues_SeveralSources_MergedLikeHelm(t *testing.T) {
	v, err := preflight.ParseValues(
		[]byte("daemon: {healthPort: 1000}\ndefaultVPC: {cidrs: [10.1.0.0/16]}"),
		[]byte("daemon: {metricsPort: 1001, nodeSelector: {kubernetes.io/os: null, a: b}}"),
	)
	if err != nil {
		t.Fatal(err)
	}
	if v.Daemon.HealthPort != 1000 || v.Daemon.MetricsPort != 1001 || v.TunnelPort != 4789 || len(v.DefaultVPC.CIDRs) != 1 || !v.DefaultVPC.Enabled ||
		len(v.Daemon.NodeSelector) != 1 || v.Daemon.NodeSelector["a"] != "b" {
		t.Errorf("got %+v", v)
	}
	for _, wrong := range []string{"tunnelPort: 70000", "defaultVPC: {cidrs: [10.1.0.0]}", "daemon: ["} {
		if _, err := preflight.ParseValues([]byte(wrong)); err == nil {
			t.Errorf("%s was read", wrong)
		}
	}
}
