// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"net/netip"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
)

// open leads the node's UDP ports 7000 and up to the pod's port 9000.
func (r rig) open(t *testing.T, ports ...ruleset.HostPort) {
	t.Helper()
	testnet.In(t, r.node, func() error {
		apply(t, opened(ports...))
		return nil
	})
	r.routeLoopback(t)
}

func opened(ports ...ruleset.HostPort) ruleset.State {
	s := testState()
	s.HostPorts = ports
	return s
}

// routeLoopback does what the daemon does for a pod whose port is open on loopback
// addresses.
func (r rig) routeLoopback(t *testing.T) {
	t.Helper()
	testnet.In(t, r.node, func() error {
		return os.WriteFile("/proc/sys/net/ipv4/conf/alv0/route_localnet", []byte("1"), 0o644)
	})
}

func udpPort(hostIP string, hostPort uint16, shadow string) ruleset.HostPort {
	p := ruleset.HostPort{Protocol: unix.IPPROTO_UDP, HostPort: hostPort, Port: 9000, Shadow: netip.MustParseAddr(shadow)}
	if hostIP != "" {
		p.HostIP = netip.MustParseAddr(hostIP)
	}
	return p
}

const (
	pod4, pod6               = "169.254.64.5", "fd41:6c69:6f74:6801::5"
	nodeShadow4, nodeShadow6 = "169.254.64.1", "fd41:6c69:6f74:6801::1"
)

func TestHostPort_Connection_ReachesPod(t *testing.T) {
	all := []ruleset.HostPort{udpPort("", 7000, pod4), udpPort("", 7000, pod6)}
	own := []ruleset.HostPort{all[0], all[1]}
	own[0].Own, own[1].Own = true, true
	at := func(ip string) []ruleset.HostPort { return []ruleset.HostPort{udpPort(ip, 7000, pod4)} }
	ownLoopback := at("127.0.0.1")
	ownLoopback[0].Own = true
	tcp := ruleset.HostPort{Protocol: unix.IPPROTO_TCP, HostPort: 7000, Port: 9000, Shadow: netip.MustParseAddr(pod4)}
	const egress, node = 0x20000000, 0x30000000
	cases := []struct {
		name    string
		ports   []ruleset.HostPort
		mark    uint32
		from    func(rig) (q question)
		dialled string
		// seen is the source at the pod; "" means refused.
		seen, reason string
	}{
		{"from outside", all, 0, fromOutside, "192.0.2.1", nodeShadow4, ""},
		{"from outside, IPv6", all, 0, fromOutside6, "2001:db8::1", nodeShadow6, ""},
		{"from outside to an address on lo", all, 0, fromOutside, loAddress, nodeShadow4, ""},
		{"from the node itself", own, 0, fromNode, "192.0.2.1", nodeShadow4, ""},
		{"from the node itself, by loopback", own, 0, fromNode, "127.0.0.1", nodeShadow4, ""},
		{"from outside, where the node's own goes, too", own, 0, fromOutside, "192.0.2.1", nodeShadow4, ""},
		{"from the node itself to a tenant's pod", all, 0, fromNode, "192.0.2.1", "", ""},
		{"from the node itself to a tenant's pod, by an address on lo", all, 0, fromNode, loAddress, "", ""},
		{"from the node itself to a tenant's pod, by loopback", all, 0, fromNode, "127.0.0.1", "", ""},
		{"from the node itself to a tenant's pod, IPv6", all, 0, fromNode, "2001:db8::1", "", ""},
		{"from the node itself to a tenant's pod, by IPv6 loopback", all, 0, fromNode, "::1", "", ""},
		{"from a pod of the default VPC", all, node, fromPod, "192.0.2.1", nodeShadow4, ""},
		{"from a tenant's pod", all, egress, fromPod, "192.0.2.1", "", ReasonNodeClosed},
		{"from the default VPC on another node", all, 0, fromBackend, "10.244.0.1", "", ""},
		{"to one address, asked there", at("192.0.2.1"), 0, fromOutside, "192.0.2.1", nodeShadow4, ""},
		{"to one address, asked elsewhere", at(loAddress), 0, fromOutside, "192.0.2.1", "", ""},
		{"to loopback alone, asked there", ownLoopback, 0, fromNode, "127.0.0.1", nodeShadow4, ""},
		{"to loopback alone, asked from outside", at("127.0.0.1"), 0, fromOutside, "192.0.2.1", "", ""},
		{"of another protocol", []ruleset.HostPort{tcp}, 0, fromOutside, "192.0.2.1", "", ""},
		{"of another port", []ruleset.HostPort{udpPort("", 7001, pod4)}, 0, fromOutside, "192.0.2.1", "", ""},
	}
	r := newRig(t, 0)
	r.routeLoopback(t)
	routeThroughNode(t, r)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r.reset(t, c.mark, opened(c.ports...))
			q := c.from(r)
			q.to, q.target, q.port, q.dialled, q.dialledPort, q.shy = r.pod, pod4, 9000, c.dialled, 7000, c.seen == ""
			if netip.MustParseAddr(c.dialled).Is6() {
				q.target = pod6
			}
			seen, err := q.ask(t)
			if c.seen == "" {
				if err == nil {
					t.Errorf("the pod answered; it saw %v", seen)
				}
			} else if err != nil || seen != netip.MustParseAddr(c.seen) {
				t.Errorf("the pod saw %v, error %v; want %s", seen, err, c.seen)
			}
			r.wantCounter(t, c.reason)
		})
	}
}

// A program on the node that begins to listen at a port which a tenant's pod has
// already keeps the clients that it has on the node, and gets none from outside.
func TestHostPort_NodeListener_KeepsItsClients(t *testing.T) {
	r := newRig(t, 0)
	r.open(t, udpPort("", 7000, pod4), udpPort("", 7000, pod6))
	for _, dialled := range []string{"127.0.0.1", "::1", "192.0.2.1", "2001:db8::1", loAddress} {
		q := question{from: r.node, to: r.node, target: "0.0.0.0", port: 7000, dialled: dialled, dialledPort: 7000}
		if netip.MustParseAddr(dialled).Is6() {
			q.target = "::"
		}
		if seen, err := q.ask(t); err != nil || seen == netip.MustParseAddr(nodeShadow4) || seen == netip.MustParseAddr(nodeShadow6) {
			t.Errorf("asked at %s the listener saw %v, error %v", dialled, seen, err)
		}
	}
	q := fromOutside(r)
	q.to, q.target, q.port, q.dialled, q.dialledPort = r.pod, pod4, 9000, "192.0.2.1", 7000
	if seen, err := q.ask(t); err != nil || seen != netip.MustParseAddr(nodeShadow4) {
		t.Errorf("from outside the pod saw %v, error %v", seen, err)
	}
}

// routeThroughNode lets the host outside reach what the node has on lo.
func routeThroughNode(t *testing.T, r rig) {
	t.Helper()
	routes(t, r.outside, "eth0", "192.0.2.1", loAddress+"/32")
}

func fromOutside(r rig) question  { return question{from: r.outside, source: "192.0.2.9"} }
func fromOutside6(r rig) question { return question{from: r.outside, source: "2001:db8::9"} }
func fromNode(r rig) question     { return question{from: r.node} }
func fromPod(r rig) question      { return question{from: r.pod, source: pod4} }
func fromPod6(r rig) question     { return question{from: r.pod, source: pod6} }
func fromBackend(r rig) question  { return question{from: r.backend, source: "10.244.0.9"} }

func TestForeignTranslation_HostPorts_OnlyServedReached(t *testing.T) {
	r := newRig(t, 0)
	r.open(t, udpPort("", 7000, pod4))
	testnet.In(t, r.node, func() error {
		return testnet.NFT(`table ip other { chain nat { type nat hook prerouting priority -150; ip daddr 192.0.2.1 udp dport 7777 dnat to 169.254.64.5:9001; }; }`)
	})
	q := fromOutside(r)
	q.to, q.target, q.port, q.dialled, q.dialledPort, q.shy = r.pod, pod4, 9001, "192.0.2.1", 7777, true
	if seen, err := q.ask(t); err == nil {
		t.Errorf("the pod answered; it saw %v", seen)
	}
	r.wantCounter(t, ReasonShadowUnsolicited)
}

func TestHostPort_FlowsToPod_CountedSeparately(t *testing.T) {
	r := newRig(t, 0x20000000)
	r.open(t, udpPort("", 7000, pod4))
	q := fromOutside(r)
	q.to, q.target, q.port, q.dialled, q.dialledPort = r.pod, pod4, 9000, "192.0.2.1", 7000
	for i := range 4 {
		if _, err := q.ask(t); err != nil {
			t.Fatalf("flow %d of the 4 allowed: %v", i+1, err)
		}
	}
	q.shy = true
	if seen, err := q.ask(t); err == nil {
		t.Errorf("flow 5 was answered, from %v", seen)
	}
	r.wantCounter(t, ReasonFlowLimit)
	if _, err := ask(t, r.pod, r.outside, pod4, "192.0.2.9"); err != nil {
		t.Errorf("the pod's own flow to the outside: %v", err)
	}
}

func TestHostPorts_ComeAndGo_TableUntouched(t *testing.T) {
	testnet.In(t, testnet.New(t), func() error {
		s := testState()
		apply(t, s)
		before := handles(t)
		for _, ports := range [][]ruleset.HostPort{{udpPort("", 7000, pod4), udpPort("192.0.2.1", 7000, pod4)}, {udpPort("", 7001, pod6)}, nil} {
			for i := range ports {
				ports[i].Own = true
			}
			s.HostPorts = ports
			for _, want := range []bool{true, false} {
				if replaced, err := Apply(s); err != nil || replaced != want {
					t.Errorf("Apply with %v = %v, %v; want %v", ports, replaced, err, want)
				}
			}
			if diff := cmp.Diff(before, handles(t)); diff != "" {
				t.Errorf("other rules' handles (-before +after):\n%s", diff)
			}
			for _, name := range []string{hostPortsChain, ownPortsChain, servedChain} {
				rules, err := (&nftables.Conn{}).GetRules(table(), &nftables.Chain{Name: name, Table: table()})
				if err != nil || len(rules) != len(ports) {
					t.Errorf("chain %s has %d rules, %v; want %d", name, len(rules), err, len(ports))
				}
			}
		}
		return nil
	})
}

func TestHostPort_ForeignClose_Reopened(t *testing.T) {
	testnet.In(t, testnet.New(t), func() error {
		s := testState()
		s.HostPorts = []ruleset.HostPort{udpPort("", 7000, pod4)}
		apply(t, s)
		if err := testnet.NFT("flush chain inet alioth " + hostPortsChain); err != nil {
			return err
		}
		for _, want := range []bool{true, false} {
			if replaced, err := Apply(s); err != nil || replaced != want {
				t.Errorf("Apply = %v, %v; want %v", replaced, err, want)
			}
		}
		return nil
	})
}
