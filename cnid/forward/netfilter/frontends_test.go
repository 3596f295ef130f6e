// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/go-cmp/cmp"
	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
)

// externalAddress is one that leads to services and that the node does not have.
const externalAddress = "203.0.113.80"

func places(list ...string) []netip.AddrPort {
	var out []netip.AddrPort
	for _, text := range list {
		out = append(out, netip.MustParseAddrPort(text))
	}
	return out
}

// nodePort is UDP port 30000 of all of the node's addresses of a family.
func nodePort(any string, all, here []netip.AddrPort) ruleset.Frontend {
	return ruleset.Frontend{Protocol: unix.IPPROTO_UDP, IP: netip.MustParseAddr(any), Port: 30000, All: all, Here: here}
}

// inOrder are frontends as a State has them: of two for one address, protocol and port the
// first.
func inOrder(list ...ruleset.Frontend) []*ruleset.Frontend {
	var sorted []*ruleset.Frontend
	for _, f := range list {
		sorted = append(sorted, &f)
	}
	slices.SortStableFunc(sorted, (*ruleset.Frontend).Compare)
	return slices.CompactFunc(sorted, func(a, b *ruleset.Frontend) bool { return a.Compare(b) == 0 })
}

func (r rig) serve(t *testing.T, frontends ...ruleset.Frontend) {
	t.Helper()
	testnet.In(t, r.node, func() error {
		apply(t, serving(frontends...))
		return nil
	})
}

func serving(frontends ...ruleset.Frontend) ruleset.State {
	s := testState()
	s.Frontends = inOrder(frontends...)
	return s
}

func TestFrontend_Connection_ReachesBackend(t *testing.T) {
	const egress, node = 0x20000000, 0x30000000
	local := []ruleset.Frontend{
		nodePort("0.0.0.0", places("169.254.64.5:9000"), places("169.254.64.5:9000")),
		nodePort("::", places("[fd41:6c69:6f74:6801::5]:9000"), places("[fd41:6c69:6f74:6801::5]:9000")),
	}
	remote := []ruleset.Frontend{
		nodePort("0.0.0.0", places("10.244.0.9:9000"), nil),
		nodePort("::", places("[fd10:244::9]:9000"), nil),
	}
	sticky := nodePort("0.0.0.0", places("169.254.64.5:9000"), nil)
	sticky.Affinity, sticky.VNI = time.Hour, vniA
	shown := []ruleset.Frontend{local[0], local[1]}
	shown[0].Local, shown[1].Local = true, true
	hidden := local[0]
	hiddenNode := local[0]
	hiddenNode.Local, hiddenNode.Hidden = true, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	hidden.Local, hidden.Hidden = true, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.8/29")}
	elsewhere := remote[0]
	elsewhere.Local = true
	// The host outside stands for another node.
	asked := elsewhere
	asked.Own = places("192.0.2.9:30000")
	onHost := []ruleset.Frontend{
		nodePort("0.0.0.0", places("192.0.2.1:9000"), places("192.0.2.1:9000")),
		nodePort("::", places("[2001:db8::1]:9000"), places("[2001:db8::1]:9000")),
	}
	localOnHost := onHost[0]
	localOnHost.Local = true
	nowhere := nodePort("0.0.0.0", nil, nil)
	nowhere.Local = true
	external := ruleset.Frontend{Protocol: unix.IPPROTO_UDP, IP: netip.MustParseAddr(externalAddress), Port: 30000, All: places("169.254.64.5:9000")}
	picky, welcome, otherPort := external, external, external
	picky.Sources = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("2001:db8::/32")}
	welcome.Sources = slices.Concat(picky.Sources, []netip.Prefix{netip.MustParsePrefix("192.0.2.9/32")})
	otherPort.Port = 30001
	// The node's own datagram is refused by the call that sends it.
	const refused, forbidden, silence = "refused", "forbidden", ""
	cases := []struct {
		name      string
		frontends []ruleset.Frontend
		mark      uint32
		from      func(rig) question
		dialled   string
		// target is where the server listens, in the pod's or the other node's
		// namespace; seen is the source there.
		target, seen string
		reason       string
	}{
		{"from outside", local, 0, fromOutside, "192.0.2.1", pod4, nodeShadow4, ""},
		{"from outside, IPv6", local, 0, fromOutside6, "2001:db8::1", pod6, nodeShadow6, ""},
		{"from outside to an address on lo", local, 0, fromOutside, loAddress, pod4, nodeShadow4, ""},
		{"from the node itself", local, 0, fromNode, "192.0.2.1", pod4, nodeShadow4, ""},
		{"from the node itself, by loopback", local, 0, fromNode, "127.0.0.1", pod4, refused, ""},
		{"from a pod of the default VPC", local, node, fromPod, "192.0.2.1", pod4, nodeShadow4, ""},
		{"from a tenant's pod", local, egress, fromPod, "192.0.2.1", pod4, nodeShadow4, ""},
		{"from a tenant's pod, IPv6", local, egress, fromPod6, "2001:db8::1", pod6, nodeShadow6, ""},
		{"from a tenant's pod, to an address that programs don't know", local, egress, fromPod, loAddress, pod4, silence, ReasonNodeClosed},
		{"from a tenant's pod, unmarked", local, 0, fromPod, "192.0.2.1", pod4, silence, ReasonNodeClosed},
		{"by its client's address", []ruleset.Frontend{sticky}, 0, fromOutside, "192.0.2.1", pod4, nodeShadow4, ""},
		{"to an address that is not the node's", []ruleset.Frontend{external}, 0, fromOutside, externalAddress, pod4, nodeShadow4, ""},
		{"to such an address from the node", []ruleset.Frontend{external}, 0, fromNode, externalAddress, pod4, nodeShadow4, ""},
		{"who is on the list", []ruleset.Frontend{welcome}, 0, fromOutside, externalAddress, pod4, nodeShadow4, ""},
		{"who is not", []ruleset.Frontend{picky}, 0, fromOutside, externalAddress, pod4, silence, ReasonSourceRange},
		{"a list is for the outside", []ruleset.Frontend{picky}, 0, fromNode, externalAddress, pod4, nodeShadow4, ""},
		{"another port of such an address", []ruleset.Frontend{otherPort}, 0, fromOutside, externalAddress, pod4, refused, ""},
		{"on another node", remote, 0, fromOutside, "192.0.2.1", "10.244.0.9", "10.244.0.1", ""},
		{"on another node, IPv6", remote, 0, fromOutside6, "2001:db8::1", "fd10:244::9", "fd10:244::1", ""},
		{"on another node, from the node", remote, 0, fromNode, "192.0.2.1", "10.244.0.9", "10.244.0.1", ""},
		{"on another node, from a pod of the default VPC", remote, node, fromPod, "192.0.2.1", "10.244.0.9", "10.244.0.1", ""},
		{"on another node, from a tenant's pod", remote, egress, fromPod, "192.0.2.1", "10.244.0.9", "10.244.0.1", ""},
		{"on the node's network", onHost, 0, fromOutside, "192.0.2.1", "192.0.2.1", "192.0.2.9", ""},
		{"on the node's network, IPv6", onHost, 0, fromOutside6, "2001:db8::1", "2001:db8::1", "2001:db8::9", ""},
		{"on the node's network, here only", []ruleset.Frontend{localOnHost}, 0, fromOutside, "192.0.2.1", "192.0.2.1", "192.0.2.9", ""},
		{"on the node's network, from the node", onHost, 0, fromNode, "192.0.2.1", "192.0.2.1", "192.0.2.1", ""},
		{"on the node's network, from a pod of the default VPC", onHost, node, fromPod, "192.0.2.1", "192.0.2.1", "192.0.2.1", ""},
		{"on the node's network, from such a pod over IPv6", onHost, node, fromPod6, "2001:db8::1", "2001:db8::1", "2001:db8::1", ""},
		{"on the node's network, sent here by another node", onHost, 0, fromBackend, "10.244.0.1", "192.0.2.1", "192.0.2.1", ""},
		{"on the node's network, from a tenant's pod", onHost, egress, fromPod, "192.0.2.1", "192.0.2.1", silence, ReasonRewritten},
		{"shown", shown, 0, fromOutside, "192.0.2.1", pod4, "192.0.2.9", ""},
		{"shown, IPv6", shown, 0, fromOutside6, "2001:db8::1", pod6, "2001:db8::9", ""},
		{"shown but hidden", []ruleset.Frontend{hidden}, 0, fromOutside, "192.0.2.1", pod4, nodeShadow4, ""},
		{"the node is shown", shown, 0, fromNode, "192.0.2.1", pod4, "192.0.2.1", ""},
		{"the node is shown, IPv6", shown, 0, fromNode, "2001:db8::1", pod6, "2001:db8::1", ""},
		{"the node is hidden", []ruleset.Frontend{hiddenNode}, 0, fromNode, "192.0.2.1", pod4, nodeShadow4, ""},
		{"a pod is never shown", shown, node, fromPod, "192.0.2.1", pod4, nodeShadow4, ""},
		{"another node is never shown", shown, 0, fromBackend, "10.244.0.1", pod4, nodeShadow4, ""},
		{"here only, and there is none", []ruleset.Frontend{elsewhere}, 0, fromOutside, "192.0.2.1", "10.244.0.9", silence, ReasonNoLocalEndpoint},
		{"here only, asked by the node", []ruleset.Frontend{asked}, 0, fromNode, "192.0.2.1", "192.0.2.9", "192.0.2.1", ""},
		{"here only, asked by the node that knows no other way", []ruleset.Frontend{elsewhere}, 0, fromNode, "192.0.2.1", "10.244.0.9", "10.244.0.1", ""},
		{"here only, asked by a pod of the default VPC", []ruleset.Frontend{asked}, node, fromPod, "192.0.2.1", "10.244.0.9", "10.244.0.1", ""},
		{"here only, and there is none anywhere", []ruleset.Frontend{nowhere}, 0, fromOutside, "192.0.2.1", pod4, refused, ""},
		{"sent here by another node", local, 0, fromBackend, "10.244.0.1", pod4, nodeShadow4, ""},
		{"sent here by another node, and there is none", remote, 0, fromBackend, "10.244.0.1", pod4, refused, ""},
		{"nowhere", []ruleset.Frontend{nodePort("0.0.0.0", nil, nil)}, 0, fromOutside, "192.0.2.1", pod4, refused, ""},
		{"nowhere, IPv6", []ruleset.Frontend{nodePort("::", nil, nil)}, 0, fromOutside6, "2001:db8::1", pod6, refused, ""},
		{"nowhere, from the node", []ruleset.Frontend{nodePort("0.0.0.0", nil, nil)}, 0, fromNode, "192.0.2.1", pod4, forbidden, ""},
		{"nowhere, from a pod of the default VPC", []ruleset.Frontend{nodePort("0.0.0.0", nil, nil)}, node, fromPod, "192.0.2.1", "192.0.2.1", refused, ""},
	}
	r := newRig(t, 0)
	routeThroughNode(t, r)
	routes(t, r.outside, "eth0", "192.0.2.1", externalAddress+"/32")
	routes(t, r.node, "eth0", "192.0.2.9", "203.0.113.0/24")
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r.reset(t, c.mark, serving(c.frontends...))
			q := c.from(r)
			q.to, q.target, q.port, q.dialled, q.dialledPort = r.pod, c.target, 9000, c.dialled, 30000
			switch c.target {
			case "10.244.0.9", "fd10:244::9":
				q.to = r.backend
			case "192.0.2.1", "2001:db8::1":
				q.to, q.target = r.node, "" // as most programs listen
			case "192.0.2.9":
				q.to, q.port = r.outside, 30000
			}
			q.shy = c.seen == silence
			seen, err := q.ask(t)
			switch c.seen {
			case refused:
				if !errors.Is(err, unix.ECONNREFUSED) {
					t.Errorf("seen %v, error %v; want a refusal", seen, err)
				}
			case forbidden:
				if !errors.Is(err, unix.EPERM) {
					t.Errorf("seen %v, error %v; want a refusal", seen, err)
				}
			case silence:
				if err == nil {
					t.Errorf("answered; the server saw %v", seen)
				}
			default:
				if err != nil || seen != netip.MustParseAddr(c.seen) {
					t.Errorf("the server saw %v, error %v; want %s", seen, err, c.seen)
				}
			}
			r.wantCounter(t, c.reason)
		})
	}
}

func TestFrontend_NoBackend_TCPReset(t *testing.T) {
	r := newRig(t, 0)
	frontend := nodePort("0.0.0.0", nil, nil)
	frontend.Protocol = unix.IPPROTO_TCP
	r.serve(t, frontend)
	for name, space := range map[string]ns.NetNS{"from outside": r.outside, "from the node": r.node} {
		err := space.Do(func(ns.NetNS) error {
			conn, err := net.DialTimeout("tcp", "192.0.2.1:30000", patience)
			if err == nil {
				conn.Close()
			}
			return err
		})
		if !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("%s: %v; want a refusal", name, err)
		}
	}
}

// answerers answer at UDP ports of the pod with the port's number until the test
// ends.
func (r rig) answerers(t *testing.T, ports ...int) {
	t.Helper()
	for _, port := range ports {
		var server net.PacketConn
		testnet.In(t, r.pod, func() (err error) {
			server, err = (&net.ListenConfig{}).ListenPacket(context.Background(), "udp", fmt.Sprintf("%s:%d", pod4, port))
			return err
		})
		t.Cleanup(func() { server.Close() })
		go func() {
			buffer := make([]byte, 16)
			for {
				_, peer, err := server.ReadFrom(buffer)
				if err != nil {
					return
				}
				_, _ = fmt.Fprint(answer{server, peer}, port)
			}
		}()
	}
}

// answer writes to one peer.
type answer struct {
	net.PacketConn
	to net.Addr
}

func (a answer) Write(text []byte) (int, error) { return a.WriteTo(text, a.to) }

// questions counts the questions. Each has a source port of its own: a port that is used again
// belongs to the flow before, which still leads to its place.
var questions atomic.Int32

// answered returns the name of the backend that answers a new flow from an address.
func (r rig) answered(t *testing.T, source string) (who string) {
	t.Helper()
	testnet.In(t, r.outside, func() error {
		local := &net.UDPAddr{IP: net.ParseIP(source), Port: 20000 + int(questions.Add(1))}
		conn, err := (&net.Dialer{LocalAddr: local}).Dial("udp", "192.0.2.1:30000")
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		if _, err := conn.Write([]byte("who?")); err != nil {
			return err
		}
		buffer := make([]byte, 16)
		n, err := conn.Read(buffer)
		who = string(buffer[:n])
		return err
	})
	return who
}

func TestFrontend_SeveralBackends_SpreadOrSticky(t *testing.T) {
	const flows = 40
	r := newRig(t, 0)
	r.answerers(t, 9001, 9002, 9003)
	testnet.In(t, r.outside, func() error { return addAddress("eth0", "192.0.2.10/24") })
	frontend := nodePort("0.0.0.0", places("169.254.64.5:9001", "169.254.64.5:9002", "169.254.64.5:9003"), nil)
	s := testState()
	s.FlowsPerShadow, s.Frontends = 0, inOrder(frontend)
	testnet.In(t, r.node, func() error { apply(t, s); return nil })
	seen := map[string]int{}
	for range flows {
		seen[r.answered(t, "192.0.2.9")]++
	}
	if len(seen) != 3 { // one is missed by chance once in 10 million times
		t.Errorf("flows went to %v, want all three", seen)
	}
	frontend.Affinity, frontend.VNI = time.Hour, vniA
	s.Frontends = inOrder(frontend)
	testnet.In(t, r.node, func() error { apply(t, s); return nil })
	for _, source := range []string{"192.0.2.9", "192.0.2.10"} {
		first := r.answered(t, source)
		for range flows / 4 {
			if next := r.answered(t, source); next != first {
				t.Errorf("%s went to %s and to %s", source, first, next)
			}
		}
	}
}

func TestFrontends_ComeAndGo_TableUntouched(t *testing.T) {
	testnet.In(t, testnet.New(t), func() error {
		s := testState()
		apply(t, s)
		before := handles(t)
		one, two := places("169.254.64.5:9000"), places("169.254.64.5:9000", "169.254.64.6:9000")
		six := places("[fd41:6c69:6f74:6801::5]:9000")
		for _, frontends := range [][]ruleset.Frontend{
			{nodePort("0.0.0.0", one, one), nodePort("::", six, nil)},
			{nodePort("0.0.0.0", two, one), nodePort("::", nil, nil)},
			{nodePort("0.0.0.0", two[1:], nil)},
			nil,
		} {
			s.Frontends = inOrder(frontends...)
			for _, want := range []bool{true, false} {
				if replaced, err := Apply(s); err != nil || replaced != want {
					t.Errorf("Apply with %v = %v, %v; want %v", frontends, replaced, err, want)
				}
			}
			if diff := cmp.Diff(before, handles(t)); diff != "" {
				t.Errorf("other rules' handles (-before +after):\n%s", diff)
			}
		}
		held, err := readFrontends(&nftables.Conn{}, ruleset.State{})
		if err != nil {
			return err
		}
		for name, elements := range held.elements {
			if len(elements) > 0 {
				t.Errorf("%s has %d elements left", name, len(elements))
			}
		}
		if len(held.chains) > 0 {
			t.Errorf("chains left: %v", held.chains)
		}
		return nil
	})
}

func TestFrontends_ForeignChange_Repaired(t *testing.T) {
	for name, command := range map[string]string{
		"a map emptied":             "flush map inet alioth all4",
		"a map emptied of verdicts": "flush map inet alioth from_outside4",
		"a verdict changed":         "delete element inet alioth from_outside4 { 0.0.0.0 . udp . 30000 }; add element inet alioth from_outside4 { 0.0.0.0 . udp . 30000 : goto refused }",
		"a place added":             "add element inet alioth places4 { 169.254.64.7 . tcp . 22 }",
		"a chain emptied":           "flush chain inet alioth frontend_all_node_1",
		"the table deleted":         "delete table inet alioth",
	} {
		t.Run(name, func(t *testing.T) {
			testnet.In(t, testnet.New(t), func() error {
				s := testState()
				s.Frontends = inOrder(nodePort("0.0.0.0", places("169.254.64.5:9000"), nil))
				apply(t, s)
				if err := testnet.NFT(command); err != nil {
					return err
				}
				for _, want := range []bool{true, false} {
					if held, err := Holds(s); err != nil || held == want {
						t.Errorf("Holds = %v, %v; want %v", held, err, !want)
					}
					if replaced, err := Apply(s); err != nil || replaced != want {
						t.Errorf("Apply = %v, %v; want %v", replaced, err, want)
					}
				}
				return nil
			})
		})
	}
}

// manyFrontends returns the frontends of node ports of services with 4 backends each.
func manyFrontends(services int) []ruleset.Frontend {
	var list []ruleset.Frontend
	for n := range services {
		f := nodePort("0.0.0.0", nil, nil)
		f.Port = uint16(20000 + n)
		for backend := range 4 {
			f.All = append(f.All, netip.AddrPortFrom(netip.AddrFrom4([4]byte{169, 254, 64 + byte(n/250%60), byte(n%250 + backend)}), 9000))
		}
		f.Here = f.All
		list = append(list, f)
	}
	return list
}

func TestFrontends_Thousands_FitOneTransaction(t *testing.T) {
	testnet.In(t, testnet.New(t), func() error {
		s := testState()
		s.Frontends = inOrder(manyFrontends(5000)...)
		var table Table
		began := time.Now()
		if _, err := table.Apply(s); err != nil {
			return err
		}
		t.Logf("5,000 frontends of 4 backends: %s", time.Since(began))
		s.Frontends = slices.Clone(s.Frontends)
		changed := *s.Frontends[17]
		changed.All = changed.All[1:]
		s.Frontends[17] = &changed
		began = time.Now()
		if err := table.Change(s); err != nil {
			return err
		}
		t.Logf("one of them changed: %s", time.Since(began))
		if replaced, err := Apply(s); err != nil || replaced {
			t.Errorf("Apply once more = %v, %v", replaced, err)
		}
		return nil
	})
}
