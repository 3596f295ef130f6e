// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
	"github.com/alioth-net/alioth/test/testtool/wire"
	"github.com/alioth-net/alioth/test/waits"
)

// virtualMAC is at every neighbour of a pod's.
var virtualMAC = net.HardwareAddr{2, 0xa1, 7, 0, 0, 1}

// nodeShadows are the source addresses of a node when it speaks to its pods.
var nodeShadows = []netip.Addr{netip.MustParseAddr("169.254.64.1"), netip.MustParseAddr("fd41:6c69:6f74:6801::1")}

// macOf returns the Ethernet address of a pod's interface.
func macOf(t *testing.T, pod *corev1.Pod) net.HardwareAddr {
	t.Helper()
	list, err := annotations.ParseAttachments(pod.Annotations[v1alpha1.AttachmentsAnnotation])
	if err != nil || len(list) == 0 {
		t.Fatalf("pod %s has no attachments: %v", pod.Name, err)
	}
	mac, err := net.ParseMAC(list[0].MAC)
	if err != nil {
		t.Fatal(err)
	}
	return mac
}

// frameOf returns a frame that a pod may send.
func frameOf(t *testing.T, pod *corev1.Pod, sourcePort uint16, target netip.AddrPort) wire.Frame {
	t.Helper()
	own := scene.IP(pod, target.Addr().Is6())
	return wire.Frame{SourceMAC: macOf(t, pod), TargetMAC: virtualMAC, Source: netip.AddrPortFrom(own, sourcePort), Target: target}
}

// sends puts frames on a pod's device as they are.
func (e *env) sends(t *testing.T, pod *corev1.Pod, frames ...[]byte) {
	t.Helper()
	e.InPod(t, pod, append([]string{scene.Tool, "raw", "bytes"}, inHex(frames)...)...)
}

func inHex(frames [][]byte) (list []string) {
	for _, frame := range frames {
		list = append(list, hex.EncodeToString(frame))
	}
	return list
}

// shadowsOn returns the shadow addresses of the pods of a node. One of them is the victim's. An
// attacker can guess them, since they are given out one after the other.
func (e *env) shadowsOn(t *testing.T, node string) (shadows []netip.Addr) {
	t.Helper()
	ranges := []netip.Prefix{netip.MustParsePrefix(v1alpha1.ShadowCIDR4), netip.MustParsePrefix(v1alpha1.ShadowCIDR6)}
	for family, flag := range []string{"-4", "-6"} {
		for line := range strings.Lines(e.OnNode(t, node, "ip", flag, "route", "show")) {
			first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			if ip, err := netip.ParseAddr(first); err == nil && ranges[family].Contains(ip) {
				shadows = append(shadows, ip)
			}
		}
	}
	if len(shadows) < 2 {
		t.Fatalf("the pods of %s have the shadows %v", node, shadows)
	}
	return shadows
}

// outsider returns a host on the nodes' network outside of the cluster, for the time of a test.
func (e *env) outsider(t *testing.T, number byte) (*cluster.Host, []netip.Addr) {
	t.Helper()
	net4, net6 := e.Lab.Topology().Networks()
	four, six := net4.Addr().As4(), net6.Addr().As16()
	four[3], six[15] = number, number
	addrs := []netip.Addr{netip.AddrFrom4(four), netip.AddrFrom16(six)}
	host, err := e.Lab.AddHost(fmt.Sprintf("outsider%d", number), addrs...)
	if err != nil {
		t.Fatalf("add a host to the nodes' network: %v", err)
	}
	t.Cleanup(func() {
		if err := host.Remove(); err != nil {
			t.Errorf("remove a host: %v", err)
		}
	})
	return host, addrs
}

// background runs the test tool on a host. wait waits for its end and returns its output.
func (e *env) background(t *testing.T, host *cluster.Host, arguments ...string) (wait func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waits.Limit(stage.Patience))
	done := make(chan struct{})
	var out string
	var err error
	go func() {
		defer close(done)
		out, err = host.Exec(ctx, append([]string{e.Tool}, arguments...)...)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return func() string {
		t.Helper()
		if <-done; err != nil {
			t.Fatalf("on a host outside: %v\n%s", err, out)
		}
		return out
	}
}

// awaitOn waits for a text in a file of a host's kernel, and returns the line.
func awaitOn(t *testing.T, host *cluster.Host, file, text string) (found string) {
	t.Helper()
	err := scene.Until(stage.Within(t, stage.Patience), text+" in "+file, func(ctx context.Context) (bool, string, error) {
		out, err := host.Exec(ctx, "cat", file)
		for line := range strings.Lines(out) {
			if strings.Contains(line, text) {
				found = line
			}
		}
		return found != "", out, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestForgedICMPError_FlowOfOthers_Survives forges ICMP errors about the flow of a client outside
// to another tenant's port, which the client's kernel would believe.
func TestForgedICMPError_FlowOfOthers_Survives(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, _ := e.Nodes()
	victim, attacker := e.Tenant(t, stage.Overlapping("victim")), e.Tenant(t, stage.Overlapping("forger"))
	service := published(victim.Namespace.Name, "published", 0)
	service.Spec.Ports[0].Protocol = corev1.ProtocolUDP
	policy := corev1.IPFamilyPolicyPreferDualStack
	service.Spec.IPFamilyPolicy = &policy
	e.Make(t, service)
	server, forger := victim.Pod("server", scene.OnNode(first), scene.WithLabel("app", "victim")), attacker.Pod("forger", scene.OnNode(first))
	e.Run(t, server, forger)
	host, _ := e.outsider(t, 211)
	node, shadows := e.Lab.Nodes()[0], e.shadowsOn(t, first)
	port := uint16(service.Spec.Ports[0].NodePort)
	for family, ip := range []netip.Addr{node.IPv4, node.IPv6} {
		target := scene.TargetPort("udp", ip, port)
		err := scene.Until(stage.Within(t, stage.Patience), "an answer of "+target, func(ctx context.Context) (bool, string, error) {
			out, err := host.Exec(ctx, e.Tool, "socket", target)
			return strings.Contains(out, server.Name), out, err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, own := range []bool{false, true} {
			stop := filepath.Join(t.TempDir(), "stop")
			wait := e.background(t, host, "socket", "hold", target, "--stop-file", stop)
			peer := netip.AddrPortFrom(nodeShadows[family], e.portTowards(t, host, port, ip.Is6()))
			var frames [][]byte
			for _, shadow := range shadows {
				if shadow.Is6() == ip.Is6() {
					frames = append(frames, frameOf(t, forger, 0, peer).PortUnreachable(peer, netip.AddrPortFrom(shadow, report.PortEcho)))
				}
			}
			from := forger
			if own { // the server itself sends the same error: so the forged one is well-formed
				from = server
				frames = [][]byte{frameOf(t, server, 0, peer).PortUnreachable(peer, netip.AddrPortFrom(scene.IP(server, ip.Is6()), report.PortEcho))}
			}
			e.sends(t, from, frames...)
			if !own {
				if err := os.WriteFile(stop, nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			held, err := scene.ParseLines[report.Held](wait())
			if err != nil || len(held) != 1 {
				t.Fatalf("%+v, %v", held, err)
			}
			if ended := held[0].Ended != ""; ended != own || !own && held[0].Again.Name == "" {
				t.Errorf("a flow to %s after errors of %s: %+v", target, from.Name, held[0])
			}
		}
	}
}

// portTowards returns the local port of a host's UDP socket that is connected to a port.
func (e *env) portTowards(t *testing.T, host *cluster.Host, port uint16, v6 bool) uint16 {
	t.Helper()
	file := "/proc/net/udp"
	if v6 {
		file = "/proc/net/udp6"
	}
	fields := strings.Fields(awaitOn(t, host, file, fmt.Sprintf(":%04X 01", port)))
	_, text, _ := strings.Cut(fields[1], ":")
	local, err := strconv.ParseUint(text, 16, 16)
	if err != nil {
		t.Fatal(err)
	}
	return uint16(local)
}

// TestLyingFragments_ClosedPort_Unreachable sends cluster DNS a TCP opening to another port that
// looks like a question, and then an honest question in fragments.
func TestLyingFragments_ClosedPort_Unreachable(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, _ := e.Nodes()
	dns := &corev1.Service{}
	if err := e.Client.Get(stage.Within(t, stage.Patience), client.ObjectKey{Namespace: "kube-system", Name: "kube-dns"}, dns); err != nil {
		t.Fatal(err)
	}
	var vip netip.Addr
	for _, text := range dns.Spec.ClusterIPs {
		if ip := netip.MustParseAddr(text); ip.Is6() {
			vip = ip
		}
	}
	if !vip.IsValid() {
		t.Fatalf("cluster DNS has no IPv6 address: %v", dns.Spec.ClusterIPs)
	}
	attacker := e.Tenant(t, stage.Overlapping("liar"))
	liar := attacker.Pod("liar", scene.OnNode(first))
	e.Run(t, liar)
	var frames [][]byte
	for i, server := range e.nameServers(t) {
		for j, shadow := range e.shadowsOn(t, first) {
			if !server.Is6() || !shadow.Is6() {
				continue
			}
			for k := range byte(3) { // of several questions some go to each server
				f := frameOf(t, liar, 20000+1000*uint16(i)+10*uint16(j)+uint16(k), netip.AddrPortFrom(vip, 53))
				seen := wire.Frame{Source: netip.AddrPortFrom(shadow, 0), Target: netip.AddrPortFrom(server, 0)}
				for _, port := range []uint16{8080, 9153} {
					frames = append(frames, f.HiddenSYN(seen, port, byte(len(frames)/2+1))...)
				}
			}
		}
	}
	question := frameOf(t, liar, 30000, netip.AddrPortFrom(vip, 53))
	question.Payload = []byte("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x0akubernetes\x07default\x03svc\x07cluster\x05local\x00\x00\x1c\x00\x01")
	frames = append(frames, question.Fragments(0)...)
	out := e.InPod(t, liar, append([]string{scene.Tool, "raw", "bytes", "--until-port", "53"}, inHex(frames)...)...)
	for line := range strings.Lines(out) {
		frame, err := hex.DecodeString(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		if len(frame) > 54 && frame[12] == 0x86 && frame[20] == 6 {
			t.Errorf("a TCP port that is closed has answered: %x", frame)
		}
	}
}

// TestShadowAddress_UntrackedPackets_NeverLeaveNode sends packets that connection tracking can't
// take for a flow, and listens outside.
func TestShadowAddress_UntrackedPackets_NeverLeaveNode(t *testing.T) {
	t.Parallel()
	e := start(t)
	_, second := e.Nodes()
	spec := stage.Overlapping("leaker")
	spec.Egress = v1alpha1.EgressMasquerade
	tenant := e.Tenant(t, spec)
	leaker := tenant.Pod("leaker", scene.OnNode(second))
	e.Run(t, leaker)
	host, addrs := e.outsider(t, 212)
	for _, ip := range addrs {
		const marker = 7777
		target := netip.AddrPortFrom(ip, 9)
		wait := e.background(t, host, "raw", "bytes", "--until-port", fmt.Sprint(marker), "--timeout", "60s", hex.EncodeToString(make([]byte, 14)))
		awaitOn(t, host, "/proc/net/packet", " 0003 ")
		last := frameOf(t, leaker, marker, target)
		last.Payload = []byte("the last one")
		datagram, err := last.Encode()
		if err != nil {
			t.Fatal(err)
		}
		var frames [][]byte
		for port := range uint16(5) {
			frames = append(frames, frameOf(t, leaker, 6000+port, target).Reset())
		}
		e.sends(t, leaker, append(frames, datagram)...)
		for line := range strings.Lines(wait()) {
			frame, err := hex.DecodeString(strings.TrimSpace(line))
			if err != nil {
				t.Fatal(err)
			}
			if hasShadow(frame) {
				t.Errorf("a packet has left the node under a shadow address: %x", frame)
			}
		}
	}
}

// hasShadow reports whether a frame's source is of the shadow ranges.
func hasShadow(frame []byte) bool {
	var source netip.Addr
	switch {
	case len(frame) >= 34 && frame[12] == 8 && frame[13] == 0:
		source = netip.AddrFrom4([4]byte(frame[26:30]))
	case len(frame) >= 54 && frame[12] == 0x86:
		source = netip.AddrFrom16([16]byte(frame[22:38]))
	default:
		return false
	}
	return netip.MustParsePrefix(v1alpha1.ShadowCIDR4).Contains(source) || netip.MustParsePrefix(v1alpha1.ShadowCIDR6).Contains(source)
}
