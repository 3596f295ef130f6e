// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/cnid/forward/netfilter"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/ebpf/datapath/connections"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
)

// daemon answers as a node's daemon would, and returns its socket.
func daemon(t *testing.T, path string, handler http.Handler) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "cnid.sock")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(path, handler)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: mux}}
	server.Start()
	t.Cleanup(server.Close)
	return socket
}

// run runs aliothctl and returns its output.
func run(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	cmd := newCommand("aliothctl")
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(arguments)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func drop(vpc, pod, to string) nodestatus.Packet {
	return nodestatus.Packet{
		Time: time.Date(2026, 5, 1, 12, 3, 4, 0, time.Local), Node: "node1", VPC: vpc, Pod: pod, Direction: "from_pod",
		Reason: "no_endpoint", Means: "nobody has it", Remedy: "look for it", Proto: "TCP",
		Came: &nodestatus.Ends{
			Src: nodestatus.End{IP: netip.MustParseAddr("10.10.1.10"), Port: 1000, Name: pod},
			Dst: nodestatus.End{IP: netip.MustParseAddr("10.10.1.99"), Port: 80, Name: to},
		},
	}
}

func TestDrops_Filters_MatchingOnesPrinted(t *testing.T) {
	socket := daemon(t, nodestatus.DropsPath, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		last := drop("red", "shop/c", "")
		last.Missed = 7
		for _, d := range []nodestatus.Packet{drop("blue", "shop/a", ""), drop("blue", "shop/b", "shop/a"), last} {
			if err := json.NewEncoder(w).Encode(d); err != nil {
				t.Error(err)
			}
		}
	}))
	missed := "(7 drops of node node1 were lost: they came too fast)\n"
	line := func(vpc, pod, to string) string { return drop(vpc, pod, to).String() + "\n" }
	for _, c := range []struct{ arguments, want string }{
		{"", line("blue", "shop/a", "") + line("blue", "shop/b", "shop/a") + missed + line("red", "shop/c", "")},
		{"--vpc=red", missed + line("red", "shop/c", "")},
		{"--pod=shop/a", line("blue", "shop/a", "") + line("blue", "shop/b", "shop/a") + missed},
		{"--pod=shop/z", missed + "(no drops of pod \"shop/z\")\n"},
	} {
		got, err := run(t, append([]string{"drops", "--local", "--socket", socket}, strings.Fields(c.arguments)...)...)
		if err != nil || got != c.want {
			t.Errorf("%s: %v\n%swant\n%s", c.arguments, err, got, c.want)
		}
	}
	want := "12:03:04.000 node1 VPC blue from pod shop/a: TCP 10.10.1.10:1000 (shop/a) > 10.10.1.99:80 dropped: nobody has it [no_endpoint]; look for it"
	if got := drop("blue", "shop/a", "").String(); got != want {
		t.Errorf("a line is\n%s, want\n%s", got, want)
	}
	text, err := run(t, "drops", "--local", "--socket", socket, "-o", "json", "--vpc", "red")
	var read nodestatus.Packet
	if err != nil || json.Unmarshal([]byte(text), &read) != nil || read.Pod != "shop/c" {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestDrops_Routine_ShownOnlyWithAll(t *testing.T) {
	routine := drop("blue", "shop/a", "")
	routine.Reason, routine.Means, routine.Remedy, routine.Routine = "mld", "groups", "", true
	socket := daemon(t, nodestatus.DropsPath, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, d := range []nodestatus.Packet{routine, drop("blue", "shop/b", ""), routine} {
			if err := json.NewEncoder(w).Encode(d); err != nil {
				t.Error(err)
			}
		}
	}))
	other := drop("blue", "shop/b", "").String() + "\n"
	const left = "(2 routine drops left out: MLD reports, router solicitations, duplicate address detection; --all shows them)\n"
	for arguments, want := range map[string]string{
		"":             other + left,
		"--all":        routine.String() + "\n" + other + routine.String() + "\n",
		"--pod=shop/b": other,
		"--vpc=red":    "(no drops of VPC \"red\")\n",
		"--pod=shop/a": left,
	} {
		got, err := run(t, append([]string{"drops", "--local", "--socket", socket}, strings.Fields(arguments)...)...)
		if err != nil || got != want {
			t.Errorf("%s: %v\n%swant\n%s", arguments, err, got, want)
		}
	}
	if got, err := run(t, "drops", "--local", "--socket", socket, "-o", "json"); err != nil || strings.Count(got, "\n") != 1 {
		t.Errorf("as JSON without --all: %v\n%s", err, got)
	}
	if got, err := run(t, "drops", "--local", "--socket", socket, "-o", "json", "--vpc", "red"); err != nil || got != "" {
		t.Errorf("as JSON, of a VPC without drops: %v\n%s", err, got)
	}
	if got, err := run(t, "drops", "--local", "--socket", filepath.Join(t.TempDir(), "none")); err == nil || strings.Contains(got, "no drops") {
		t.Errorf("of a daemon that does not answer: %v\n%s", err, got)
	}
	if _, err := run(t, "flows", "--all"); err == nil {
		t.Error("flows has no routine packets, but takes --all")
	}
}

func TestFlows_Filters_AskedAndPrinted(t *testing.T) {
	flow := drop("blue", "shop/a", "shop/b")
	flow.Passed, flow.Reason, flow.Means, flow.Remedy = true, "forwarded_remote", "sent to another node", ""
	flow.Outer = &nodestatus.Ends{
		Src: nodestatus.End{IP: netip.MustParseAddr("192.0.2.1"), Name: "node1"}, Dst: nodestatus.End{IP: netip.MustParseAddr("192.0.2.2"), Name: "node2"},
	}
	var asked nodestatus.Watch
	socket := daemon(t, nodestatus.FlowsPath, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = nodestatus.ReadWatch(r.URL.Query())
		last := drop("red", "shop/c", "")
		last.Passed, last.Missed = true, 7
		for _, p := range []nodestatus.Packet{flow, last} {
			if err := json.NewEncoder(w).Encode(p); err != nil {
				t.Error(err)
			}
		}
	}))
	line := "12:03:04.000 node1 VPC blue from pod shop/a: TCP 10.10.1.10:1000 (shop/a) > 10.10.1.99:80 (shop/b) " +
		"in the tunnel 192.0.2.1 (node1) > 192.0.2.2 (node2) passed: sent to another node [forwarded_remote]\n"
	missed := "(7 flows of node node1 were lost: they came too fast)\n"
	for arguments, listens := range map[string]nodestatus.Watch{
		"--vpc=blue":                 {For: 5 * time.Second},
		"--pod=shop/b --for=0":       {},
		"--pod=shop/a --for=1m":      {For: time.Minute},
		"--pod=shop/a --follow":      {Follow: true, For: 5 * time.Second},
		"--vpc=blue --pod=shop/a -f": {Follow: true, For: 5 * time.Second},
	} {
		got, err := run(t, append([]string{"flows", "--local", "--socket", socket}, strings.Fields(arguments)...)...)
		if err != nil || got != line+missed || asked != listens {
			t.Errorf("%s: asked %+v; %v\n%swant\n%s", arguments, asked, err, got, line+missed)
		}
	}
	text, err := run(t, "flows", "--local", "--socket", socket, "-o", "json", "--vpc", "blue")
	var read nodestatus.Packet
	if err != nil || json.Unmarshal([]byte(text), &read) != nil || !read.Passed || read.Outer.Dst.Name != "node2" {
		t.Errorf("got %q, %v", text, err)
	}
	if _, err := run(t, "flows", "--local", "--socket", socket, "--for=-1s"); err == nil || !strings.Contains(err.Error(), "--for") {
		t.Errorf("a time before now: %v", err)
	}
}

func TestTrace_Arguments_ParsedOrRefused(t *testing.T) {
	for _, c := range []struct {
		pod, to, proto string
		size           int
		want, refused  string
	}{
		{"shop/a", "10.1.2.3:80", "", 0, "10.1.2.3:80 6", ""},
		{"shop/a", "10.1.2.3:53", "UDP", 0, "10.1.2.3:53 17", ""},
		{"shop/a", "10.1.2.3", "", 1400, "10.1.2.3:0 1", ""},
		{"shop/a", "fd00::1", "", 0, "[fd00::1]:0 58", ""},
		{"shop/a", "[fd00::1]:443", "", 0, "[fd00::1]:443 6", ""},
		{"a", "10.1.2.3", "", 0, "", "want NAMESPACE/POD"},
		{"shop/a", "10.1.2", "", 0, "", "want IP or IP:PORT"},
		{"shop/a", "web:80", "", 0, "", "want IP or IP:PORT"},
		{"shop/a", "10.1.2.3", "tcp", 0, "", "want a port"},
		{"shop/a", "10.1.2.3:80", "icmp", 0, "", "want a port"},
		{"shop/a", "10.1.2.3:80", "sctp", 0, "", "want tcp, udp or icmp"},
		{"shop/a", "10.1.2.3", "", 1 << 20, "", "--size"},
	} {
		q, err := traceOptions{proto: c.proto, size: c.size}.question(c.pod, c.to)
		switch {
		case c.refused != "":
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s %s: %v, want %q", c.to, c.proto, err, c.refused)
			}
		case err != nil || strings.Join([]string{q.To.String(), decimal(q.Proto)}, " ") != c.want || q.Size != c.size:
			t.Errorf("%s %s: %+v, %v", c.to, c.proto, q, err)
		}
	}
	for _, arguments := range [][]string{
		{"trace", "shop/a"},
		{"trace", "shop/a", "10.1.2.3", "--kubeconfig", "/nowhere"},
		{"trace", "shop/a", "10.1.2.3", "-o", "yaml"},
		{"drops", "--kubeconfig", "/nowhere"},
		{"flows", "--kubeconfig", "/nowhere"},
		{"map", "dump", "--node", "node1", "--kubeconfig", "/nowhere"},
	} {
		if out, err := run(t, arguments...); err == nil || exitStatus(err) != 2 {
			t.Errorf("%v: %v\n%s", arguments, err, out)
		}
	}
	if exitStatus(errStopped) != 1 {
		t.Error("a packet that stops is an answer, and no failure")
	}
}

func decimal(n uint8) string {
	text, _ := json.Marshal(n)
	return string(text)
}

func TestPacketTrace_Question_DaemonAsked(t *testing.T) {
	socket := daemon(t, nodestatus.TracePath, nodestatus.TraceHandler(func(_ context.Context, q nodestatus.Question) (nodestatus.PacketTrace, error) {
		if q.Pod == "" {
			return nodestatus.PacketTrace{}, errors.New("node1 has no such pod")
		}
		return nodestatus.PacketTrace{Node: "node1", At: q.Pod}, nil
	}))
	out, err := run(t, "packet-trace", "--socket", socket, `{"pod":"shop/a","to":"10.1.2.3:80"}`)
	var step nodestatus.PacketTrace
	if err != nil || json.Unmarshal([]byte(out), &step) != nil || step.At != "shop/a" {
		t.Errorf("got %q, %v", out, err)
	}
	if again, err := run(t, "hop", "--socket", socket, `{"pod":"shop/a","to":"10.1.2.3:80"}`); err != nil || again != out {
		t.Errorf("an aliothctl of the last release gets %q, %v", again, err)
	}
	if _, err := run(t, "packet-trace", "--socket", socket, `{"to":"10.1.2.3:80"}`); err == nil || err.Error() != "node1 has no such pod" {
		t.Errorf("got %v", err)
	}
	if _, err := run(t, "packet-trace", "--socket", socket, `{"pod":1}`); err == nil {
		t.Error("a question that is none was asked")
	}
}

func TestMapDump_Contents_ToldInWords(t *testing.T) {
	held := contents{
		State: state.State{
			VPCs: []state.VPC{
				{VNI: 20, Prefixes: []netip.Prefix{netip.MustParsePrefix("10.10.0.0/16")}},
				{VNI: 1, Prefixes: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}, EgressMasquerade: true, Default: true},
			},
			Subnets: []state.Subnet{{VNI: 20, Prefix: netip.MustParsePrefix("10.10.1.0/24")}},
			Interfaces: []state.Interface{
				{Ifindex: 7, VNI: 20, Addrs: []netip.Addr{netip.MustParseAddr("10.10.1.10")}, Shadow4: netip.MustParseAddr("169.254.64.2")},
				{Ifindex: 8, VNI: 1, Node: true},
			},
			Addresses: []state.Address{
				{VNI: 20, IP: netip.MustParseAddr("10.10.1.10"), Kind: state.Local, Ifindex: 7},
				{VNI: 20, IP: netip.MustParseAddr("10.10.1.11"), Kind: state.Remote, Node: netip.MustParseAddr("192.0.2.2")},
				{VNI: 1, IP: netip.MustParseAddr("10.244.0.7"), Kind: state.Local, Ifindex: 8},
				{VNI: 20, IP: netip.MustParseAddr("10.10.1.1"), Kind: state.Gateway},
			},
			Nodes:  []netip.Addr{netip.MustParseAddr("192.0.2.2")},
			Closed: []state.ClosedPrefix{{Prefix: netip.MustParsePrefix("10.96.0.0/16"), Class: state.ClosedService}},
			Services: []state.Service{
				{VIP: netip.MustParseAddr("10.96.0.10"), Port: 53, Proto: 17, Backends: []state.Backend{{IP: netip.MustParseAddr("10.244.0.9"), Port: 53}}},
				{VIP: netip.MustParseAddr("10.96.0.1"), Port: 443, Proto: 6},
				{
					VNI: 1<<24 + 1, VIP: netip.MustParseAddr("10.96.0.9"), Port: 80, Proto: 6,
					Backends: []state.Backend{{IP: netip.MustParseAddr("192.168.0.9"), Port: 8080}},
				},
			},
			Namespaces: []state.Namespace{{Cookie: 4001, Memberships: []state.Membership{
				{VNI: 1<<24 + 1, Addrs: []netip.Addr{netip.MustParseAddr("192.168.0.2"), netip.MustParseAddr("fd00::2")}},
				{VNI: 1<<24 + 2, Addrs: []netip.Addr{netip.MustParseAddr("192.168.0.7")}},
				{VNI: 20, Addrs: []netip.Addr{netip.MustParseAddr("10.10.1.10")}, Ifindex: 7},
			}}},
			Probes: []state.ProbeTarget{{IP: netip.MustParseAddr("10.10.1.10"), Shadow: netip.MustParseAddr("169.254.64.2")}},
		},
		Connections: []connections.Connection{{
			VNI: 20, Ifindex: 7, Proto: 17, Pod: netip.MustParseAddrPort("10.10.1.10:4000"), Service: netip.MustParseAddrPort("10.96.0.10:53"),
			Backend: netip.MustParseAddrPort("10.244.0.9:53"), LastSeen: 3 * time.Second, Answered: true,
		}},
	}
	attachments := []nodestatus.Attachment{{
		Key: nodestatus.Key{IfName: "eth0"}, Pod: nodestatus.Pod{Namespace: "shop", Name: "a"}, VPC: "blue", VNI: 20,
		HostIfName: "alv1", Device: nodestatus.Device{HostIfindex: 7},
	}, {
		Key: nodestatus.Key{IfName: "net1"}, Pod: nodestatus.Pod{Namespace: "shop", Name: "a"}, Outside: "DanmNet/shop/lan",
		Addrs: []netip.Prefix{netip.MustParsePrefix("fd00::2/64"), netip.MustParsePrefix("192.168.0.2/24")}, Device: nodestatus.Device{NetnsCookie: 4001},
	}}
	var out strings.Builder
	if err := newWords(held, 8*time.Second, attachments).write(&out); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"blue (VNI 20) 10.10.0.0/16 10.10.1.0/24 none",
		"VNI 1 10.244.0.0/16 masqueraded yes",
		"pod shop/a eth0 (alv1) blue (VNI 20) 10.10.1.10",
		"blue (VNI 20) 10.10.1.10 here: pod shop/a eth0 (alv1)",
		"blue (VNI 20) 10.10.1.11 on node 192.0.2.2",
		"VNI 1 10.244.0.7 here: this node",
		"10.10.1.1 a gateway",
		"UDP 10.96.0.10:53 10.244.0.9:53",
		"TCP 10.96.0.1:443 none is ready",
		"pod shop/a eth0 (alv1) UDP 10.10.1.10:4000 10.96.0.10:53 10.244.0.9:53 open 5s",
		"every VPC 10.96.0.0/16 services",
		"10.10.1.10, probes 169.254.64.2",
		"DanmNet/shop/lan (number 16777217) TCP 10.96.0.9:80 192.168.0.9:8080",
		"pod shop/a net1 4001 DanmNet/shop/lan (number 16777217) 192.168.0.2,fd00::2",
		"a network outside of VPCs (number 16777218) 192.168.0.7",
		"pod shop/a eth0 (alv1) 4001 blue (VNI 20) 10.10.1.10",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
}

func TestStatus_Drops_PodNamed(t *testing.T) {
	attachments := []nodestatus.Attachment{{
		Key: nodestatus.Key{IfName: "eth0"}, Pod: nodestatus.Pod{Namespace: "shop", Name: "a"}, VPC: "blue", VNI: 20,
		HostIfName: "alv1", Device: nodestatus.Device{HostIfindex: 7},
	}}
	row := func(ifindex int, vni uint32, packets uint64) telemetry.DropCounter {
		return telemetry.DropCounter{Counter: telemetry.Counter{Direction: telemetry.FromPod, Packets: packets}, Ifindex: ifindex, VNI: vni}
	}
	var out strings.Builder
	if err := writeDropped(&out, []telemetry.DropCounter{row(7, 20, 5), row(0, 20, 6), row(3, 0, 7)}, attachments); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"5 pod shop/a eth0 (alv1) blue (VNI 20) from pod", "6 interfaces that are gone blue (VNI 20) from pod", "7 device 3 none from pod",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
	out.Reset()
	mld := row(7, 20, 3)
	mld.Reason = reason(t, "mld")
	if err := writeDropped(&out, []telemetry.DropCounter{mld, row(7, 20, 5), mld}, attachments); err != nil {
		t.Fatal(err)
	}
	text = strings.Join(strings.Fields(out.String()), " ")
	if want := " 6 routine packets were dropped: "; !strings.Contains(text, want) || !strings.Contains(text, " 5 pod ") || strings.Contains(text, "mld") {
		t.Errorf("want %q and no row of mld:\n%s", want, out.String())
	}
	out.Reset()
	if err := writeDropped(&out, nil, attachments); err != nil || out.Len() > 0 {
		t.Errorf("of no drop it says %q, %v", out.String(), err)
	}
}

// reason returns the reason of a name.
func reason(t *testing.T, name string) telemetry.Reason {
	t.Helper()
	for reason := range telemetry.Reason(256) {
		if reason.String() == name {
			return reason
		}
	}
	t.Fatalf("no reason has the name %q", name)
	return 0
}

func TestStatus_RoutineDrops_CountedApart(t *testing.T) {
	var out strings.Builder
	from := func(name string, packets uint64) telemetry.Counter {
		return telemetry.Counter{Direction: telemetry.FromPod, Reason: reason(t, name), Packets: packets}
	}
	rows := packetRows([]telemetry.Counter{from("mld", 3), from("forwarded_local", 4), from("no_endpoint", 5)},
		[]netfilter.Counter{{Reason: "flow_limit", Packets: 6}, {Reason: "invalid"}})
	if err := writePackets(&out, rows); err != nil {
		t.Fatal(err)
	}
	want := "PACKETS FATE WHERE REASON 5 dropped from pod no_endpoint 6 dropped host filter flow_limit 3 dropped, routine from pod mld 4 passed from pod forwarded_local"
	if got := strings.Join(strings.Fields(out.String()), " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
