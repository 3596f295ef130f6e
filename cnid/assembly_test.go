// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/forward/netfilter"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/internal/testrows"
	"github.com/alioth-net/alioth/cnid/lifecycle/install/cnidir"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/test/waits"
)

// lab has two nodes on one underlay, with three VPCs, two of them with the same range, and pods
// with given addresses.
type lab struct {
	nodes [2]*machine
	shim  string
	pods  map[string]*labPod
}

type labPod struct {
	ns.NetNS
	name, vpc string
	// uid of the pod; its name where no API gave one.
	uid string
	// sandbox is the container ID; made of the name when "".
	sandbox string
	node    *machine
	addrs   []netip.Prefix
}

func (p *labPod) ip(family ipfamily.Family) netip.Addr {
	at := slices.IndexFunc(p.addrs, func(prefix netip.Prefix) bool { return family.Has(prefix.Addr()) })
	return p.addrs[at].Addr()
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{nodes: [2]*machine{newMachine(t, "node1"), newMachine(t, "node2")}, pods: map[string]*labPod{}}
	testnet.Veth(t, l.nodes[0], "eth0", []string{"192.0.2.1/24", "2001:db8::1/64"}, l.nodes[1], "eth0", []string{"192.0.2.2/24", "2001:db8::2/64"})
	l.shim = buildShim(t)
	s := script{
		VPCs: []store.VPC{
			vpcRow("default", 1, "10.244.0.0/16", "fd10:244::/48"), vpcRow("blue", 20, "10.10.0.0/16", "fd10:10::/48"), vpcRow("red", 30, "10.10.0.0/16"),
		},
		Subnets: []store.Subnet{
			subnetRow("default", "default", "10.244.0.0/16", "10.244.0.1", "fd10:244::/64", "fd10:244::1"),
			subnetRow("blue1", "blue", "10.10.1.0/24", "10.10.1.1", "fd10:10:0:1::/64", "fd10:10:0:1::1"),
			subnetRow("blue2", "blue", "10.10.2.0/24", "10.10.2.1"),
			subnetRow("red1", "red", "10.10.1.0/24", "10.10.1.1"),
		},
		Nodes: []store.Node{nodeRow("node1", "192.0.2.1", "2001:db8::1"), nodeRow("node2", "192.0.2.2", "2001:db8::2")},
		Addresses: []store.Address{
			addressRow("default", "default", "10.244.0.7", "node1", store.Holder{Kind: store.HolderNode, Name: "node1", UID: "node1"}, "10.244.0.7"),
			addressRow("default", "default", "10.244.0.8", "node2", store.Holder{Kind: store.HolderNode, Name: "node2", UID: "node2"}, "10.244.0.8"),
		},
	}
	l.addPod(t, &s, 0, "b1", "blue", "blue1", true, "10.10.1.10/24", "fd10:10:0:1::10/64")
	l.addPod(t, &s, 0, "b2", "blue", "blue2", false, "10.10.2.10/24")
	l.addPod(t, &s, 1, "b3", "blue", "blue1", false, "10.10.1.11/24", "fd10:10:0:1::11/64")
	l.addPod(t, &s, 0, "r1", "red", "red1", false, "10.10.1.10/24")
	l.addPod(t, &s, 1, "r3", "red", "red1", true, "10.10.1.11/24")
	l.addPod(t, &s, 1, "d1", "default", "default", true, "10.244.0.20/16")
	for _, m := range l.nodes {
		m.script = s
	}
	return l
}

// shims is the folder of the plugin's binary; TestMain makes it.
var shims string

// shim builds the plugin at its first use. In a virtual machine without a compiler, the test
// binary acts as the plugin.
var shim = sync.OnceValues(func() (string, error) {
	if _, err := exec.LookPath("go"); err != nil {
		return os.Executable()
	}
	path := filepath.Join(shims, cnidir.PluginName)
	out, err := exec.Command("go", "build", "-o", path, "github.com/alioth-net/alioth/cmd/alioth").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the plugin: %w\n%s", err, out)
	}
	return path, nil
})

func buildShim(t *testing.T) string {
	t.Helper()
	path, err := shim()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// The rows that stand for the API.
var (
	meta       = testrows.Meta
	vpcRow     = testrows.VPC
	subnetRow  = testrows.Subnet
	nodeRow    = testrows.Node
	addressRow = testrows.Address
)

// addPod decides a pod's network and makes its sandbox, without interface.
func (l *lab) addPod(t *testing.T, s *script, node int, name, vpc, subnet string, probed bool, addrs ...string) {
	t.Helper()
	pod := &labPod{NetNS: testnet.New(t), name: name, vpc: vpc, uid: name, node: l.nodes[node]}
	var set []string
	for _, addr := range addrs {
		pod.addrs = append(pod.addrs, netip.MustParsePrefix(addr))
		set = append(set, netip.MustParsePrefix(addr).Addr().String())
	}
	var mac string
	for _, ip := range set {
		row := addressRow(vpc, subnet, ip, pod.node.cfg.NodeName, store.Holder{Kind: store.HolderPod, Namespace: "ns", Name: name, UID: name}, set...)
		mac = row.MAC
		s.Addresses = append(s.Addresses, row)
	}
	text, err := annotations.FormatAttachments([]netif.Interface{{Name: "eth0", Kind: "veth", VPC: vpc, Subnet: subnet, Addresses: pod.addrs, MAC: mac}})
	if err != nil {
		t.Fatal(err)
	}
	s.Pods = append(s.Pods, store.Pod{
		Meta: meta(name), Namespace: "ns", Name: name, Node: pod.node.cfg.NodeName,
		Attachments: text, NetworkReady: true, Reason: v1alpha1.AttachedReason, NetworkProbes: probed,
	})
	l.pods[name] = pod
}

// cni runs the plugin as a container runtime would, with the configuration
// that the daemon wrote.
func (l *lab) cni(t *testing.T, command string, pod *labPod) error {
	t.Helper()
	text, err := os.ReadFile(pod.node.conflist())
	if errors.Is(err, os.ErrNotExist) {
		text, err = os.ReadFile(pod.node.conflist() + ".last")
	}
	if err != nil {
		return err
	}
	var list struct {
		CNIVersion string           `json:"cniVersion"`
		Name       string           `json:"name"`
		Plugins    []map[string]any `json:"plugins"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	config := list.Plugins[0]
	config["cniVersion"], config["name"] = list.CNIVersion, list.Name
	stdin, err := json.Marshal(config)
	if err != nil {
		return err
	}
	cmd := exec.Command(l.shim)
	cmd.Stdin = strings.NewReader(string(stdin))
	sandbox := cmp.Or(pod.sandbox, "sandbox-"+pod.name)
	namespace := "ns"
	if pod.uid != pod.name {
		namespace = "default"
	}
	cmd.Env = []string{
		roleVariable + "=plugin",
		"CNI_COMMAND=" + command, "CNI_CONTAINERID=" + sandbox, "CNI_NETNS=" + pod.Path(), "CNI_IFNAME=eth0", "CNI_PATH=/",
		"CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=" + namespace + ";K8S_POD_NAME=" + pod.name + ";K8S_POD_UID=" + pod.uid + ";K8S_POD_INFRA_CONTAINER_ID=" + sandbox,
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s of %s: %w: %s", command, pod.name, err, out)
	}
	return nil
}

func (l *lab) start(t *testing.T) {
	t.Helper()
	for _, m := range l.nodes {
		m.start(t)
	}
	for _, name := range []string{"b1", "b2", "b3", "r1", "r3", "d1"} {
		if err := l.cni(t, "ADD", l.pods[name]); err != nil {
			t.Fatal(err)
		}
		l.pods[name].serve(t)
	}
}

// serve answers every TCP connection to port 80 of a pod with the pod's name, and then sends
// received data back.
func (p *labPod) serve(t *testing.T) {
	t.Helper()
	var listener net.Listener
	testnet.In(t, p.NetNS, func() (err error) {
		listener, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", ":80")
		return err
	})
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				fmt.Fprintln(conn, p.name)
				asker := conn.(*net.TCPConn).RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
				if p.node.cfg.shadow(ipfamily.Of(asker)).Contains(asker) {
					return // a probe
				}
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
}

func dialFrom(t *testing.T, space ns.NetNS, ip netip.Addr) (net.Conn, string, error) {
	t.Helper()
	var conn net.Conn
	err := space.Do(func(ns.NetNS) (err error) {
		conn, err = net.DialTimeout("tcp", netip.AddrPortFrom(ip, 80).String(), patience)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	if err := conn.SetDeadline(time.Now().Add(waits.Limit(20 * time.Second))); err != nil {
		return nil, "", err
	}
	name, err := bufio.NewReader(conn).ReadString('\n')
	return conn, strings.TrimSpace(name), err
}

// patience is the limit of a connect that has to succeed. A connect that must fail takes this
// long.
var patience = waits.Limit(time.Second)

func TestDatapath_OverlappingVPCOnTwoNodes_TrafficIsolated(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.start(t)
	cases := []struct {
		from   string
		to     string
		family ipfamily.Family
		want   string
	}{
		{"b1", "b2", ipfamily.IPv4, "b2"}, // one node, another subnet
		{"b1", "b3", ipfamily.IPv4, "b3"}, // across nodes
		{"b3", "b2", ipfamily.IPv4, "b2"}, // across nodes and subnets
		{"b1", "b3", ipfamily.IPv6, "b3"},
		{"r1", "r3", ipfamily.IPv4, "r3"}, // the same addresses in another VPC
		{"r1", "b3", ipfamily.IPv4, "r3"},
		{"r1", "b2", ipfamily.IPv4, ""}, // an address that only blue has
		{"r1", "d1", ipfamily.IPv4, ""},
		{"d1", "b2", ipfamily.IPv4, ""},
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%s to %s, IPv6 %v", c.from, c.to, c.family == ipfamily.IPv6), func(t *testing.T) {
			conn, got, err := dialFrom(t, l.pods[c.from].NetNS, l.pods[c.to].ip(c.family))
			if conn != nil {
				conn.Close()
			}
			if got != c.want || (err == nil) != (c.want != "") {
				t.Errorf("answered by %q, error %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestKubeletProbe_ProbedPods_OnlyLocalPodReached(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.start(t)
	cases := []struct {
		node    *machine
		target  string
		want    string
		refused bool
	}{
		{l.nodes[0], "10.10.1.10:80", "b1\n", false}, // of b1 and r1, which share the address, b1 has probes
		{l.nodes[1], "10.10.1.11:80", "r3\n", false}, // of b3 and r3, r3
		{l.nodes[1], "10.244.0.20:80", "d1\n", false},
		{l.nodes[0], "10.10.1.11:80", "", true},
	}
	for _, c := range cases {
		t.Run(c.node.cfg.NodeName+" probes "+c.target, func(t *testing.T) {
			got, err := c.node.probe(t, c.target)
			if got != c.want || (err != nil) != c.refused {
				t.Errorf("answered %q, error %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestNode_DefaultVPCTraffic_KeepsOwnSourceAddress(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.start(t)
	for _, m := range l.nodes {
		conn, got, err := dialFrom(t, m.NetNS, l.pods["d1"].ip(ipfamily.IPv4))
		if err != nil || got != "d1" {
			t.Fatalf("%s: answered by %q, error %v", m.cfg.NodeName, got, err)
		}
		local := conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr()
		conn.Close()
		if want := map[string]string{"node1": "10.244.0.7", "node2": "10.244.0.8"}[m.cfg.NodeName]; local.String() != want {
			t.Errorf("%s came as %s, want %s", m.cfg.NodeName, local, want)
		}
	}
}

func TestConnection_DaemonRestarts_Survives(t *testing.T) {
	l := newLab(t)
	l.start(t)
	conn, _, err := dialFrom(t, l.pods["b1"].NetNS, l.pods["b3"].ip(ipfamily.IPv4))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	echo := func(when string) {
		t.Helper()
		text := "hello " + when
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		got := make([]byte, len(text))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != text {
			t.Fatalf("%s: got %q, %v", when, got, err)
		}
	}
	echo("before")
	for _, m := range l.nodes {
		m.stop(unix.SIGKILL)
	}
	echo("while both daemons are dead")
	for _, m := range l.nodes {
		m.start(t)
	}
	echo("after both started anew")
}

func TestUninstall_AfterDEL_NothingLeft(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.start(t)
	m := l.nodes[0]
	for _, name := range []string{"b1", "b2", "r1"} {
		for range 2 { // a runtime may repeat it
			if err := l.cni(t, "DEL", l.pods[name]); err != nil {
				t.Fatal(err)
			}
		}
	}
	reader, err := datapath.OpenReader(m.cfg.BPFDir)
	if err != nil {
		t.Fatal(err)
	}
	found, err := reader.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	for _, row := range found.Addresses {
		if row.VNI != 1 {
			t.Errorf("address left after DEL: %+v", row)
		}
	}
	// Addresses that the kubelet may still probe lead nowhere.
	probed := slices.ContainsFunc(found.Probes, func(p state.ProbeTarget) bool { return p.Shadow.IsValid() })
	if len(found.Interfaces) != 1 || probed {
		t.Errorf("left after DEL: interfaces %+v, probes %+v", found.Interfaces, found.Probes)
	}
	m.stop(unix.SIGTERM)
	m.uninstall(t)
	m.uninstall(t)
	testnet.In(t, m.NetNS, func() error {
		links, err := rtnl.Complete(netlink.LinkList)
		if err != nil {
			return err
		}
		if len(links) != 2 { // lo, eth0
			t.Errorf("%d devices are left", len(links))
		}
		counters, err := netfilter.Counters()
		if len(counters) > 0 {
			t.Error("the packet filter's table is left")
		}
		return err
	})
	for _, dir := range []string{m.cfg.BPFDir, m.cfg.CNIConfDir, m.cfg.StateDir, m.cfg.RunDir} {
		left, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) || len(left) > 0 {
			t.Errorf("left in %s: %v, %v", dir, left, err)
		}
	}
}

// get asks the daemon for a page of health, or at its socket for the metrics.
func (m *machine) get(t *testing.T, path string) string {
	t.Helper()
	var body []byte
	testnet.In(t, m.NetNS, func() error {
		network, address := "tcp", m.cfg.HealthAddr
		if path == metricsPath {
			network, address = "unix", m.cfg.socket()
		}
		conn, err := net.Dial(network, address)
		if err != nil {
			return err
		}
		client := http.Client{Transport: &http.Transport{
			DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		}}
		defer client.CloseIdleConnections()
		answer, err := client.Get("http://node" + path)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, answer.Status)
		}
		body, err = io.ReadAll(answer.Body)
		return err
	})
	return string(body)
}

func TestHealthAndMetrics_RunningNode_NodeStateReported(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.start(t)
	l.nodes[0].get(t, "/healthz")
	l.nodes[0].get(t, "/readyz")
	text := l.nodes[0].get(t, "/metrics")
	for _, name := range []string{
		"alioth_cnid_add_seconds_bucket", "alioth_cnid_sync_seconds_count", `alioth_datapath_packets_total{direction=`,
		`alioth_filter_dropped_packets_total{reason="node_closed"} 0`,
	} {
		if !strings.Contains(text, name) {
			t.Errorf("metrics lack %s", name)
		}
	}
}
