// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/test/waits"
)

// loAddress is one of the node's that no list of nodes has.
const loAddress = "198.51.100.7"

// rig is a node with a pod behind its shadow addresses, a server in the
// default VPC, and a host outside.
type rig struct {
	node, pod, outside, backend ns.NetNS
}

func newRig(t *testing.T, mark uint32) rig {
	r := rig{testnet.New(t), testnet.New(t), testnet.New(t), testnet.New(t)}
	// As the daemon makes it, the pod's device has no link-local address on the node: the
	// node would send redirects from there.
	linkLocal(t, r.node, false)
	testnet.Veth(t, r.node, "alv0", []string{"169.254.64.1/32", "fd41:6c69:6f74:6801::1/128"},
		r.pod, "eth0", []string{"169.254.64.5/18", "fd41:6c69:6f74:6801::5/64"})
	testnet.In(t, r.node, func() error { return setGroup("alv0", hostdev.PodGroup) })
	linkLocal(t, r.node, true)
	testnet.Veth(t, r.node, "eth0", []string{"192.0.2.1/24", "2001:db8::1/64"},
		r.outside, "eth0", []string{"192.0.2.9/24", "2001:db8::9/64"})
	testnet.Veth(t, r.node, "alioth_node", []string{"10.244.0.1/16", "fd10:244::1/48"},
		r.backend, "eth0", []string{"10.244.0.9/16", "fd10:244::9/48"})
	routes(t, r.node, "alv0", "", "169.254.64.5/32", "fd41:6c69:6f74:6801::5/128")
	routes(t, r.pod, "eth0", "169.254.64.1", "0.0.0.0/0")
	routes(t, r.pod, "eth0", "fd41:6c69:6f74:6801::1", "::/0")
	routes(t, r.outside, "eth0", "192.0.2.1", "169.254.64.0/18", "10.244.0.0/16")
	routes(t, r.outside, "eth0", "2001:db8::1", "fd41:6c69:6f74:6801::/64", "fd10:244::/48")
	neighbours(t, r.node, "alv0", r.pod, "eth0", "169.254.64.5", "fd41:6c69:6f74:6801::5")
	neighbours(t, r.pod, "eth0", r.node, "alv0", "169.254.64.1", "fd41:6c69:6f74:6801::1")
	testnet.In(t, r.node, func() error {
		for file, value := range map[string]string{
			"/proc/sys/net/ipv4/ip_forward": "1", "/proc/sys/net/ipv6/conf/all/forwarding": "1",
			// Each refusal is answered, however many there were before.
			"/proc/sys/net/ipv4/icmp_ratelimit": "0", "/proc/sys/net/ipv6/icmp/ratelimit": "0",
		} {
			if err := os.WriteFile(file, []byte(value), 0o644); err != nil {
				return err
			}
		}
		return addAddress("lo", loAddress+"/32")
	})
	r.reset(t, mark, testState())
	return r
}

func setGroup(device string, group uint32) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	return netlink.LinkSetGroup(link, int(group))
}

// linkLocal sets whether devices that a namespace gets have IPv6 link-local addresses.
func linkLocal(t *testing.T, space ns.NetNS, have bool) {
	t.Helper()
	mode := nl.IN6_ADDR_GEN_MODE_NONE
	if have {
		mode = nl.IN6_ADDR_GEN_MODE_EUI64
	}
	testnet.In(t, space, func() error {
		return os.WriteFile("/proc/sys/net/ipv6/conf/default/addr_gen_mode", []byte(strconv.Itoa(mode)), 0o644)
	})
}

// reset makes the node's tables anew, without flows and with all counters at zero. The cases
// of a test share the namespaces, which take longer to make than a case takes.
func (r rig) reset(t *testing.T, mark uint32, s ruleset.State) {
	t.Helper()
	testnet.In(t, r.node, func() error {
		conn := &nftables.Conn{}
		conn.FlushRuleset()
		return errors.Join(conn.Flush(), netlink.ConntrackTableFlush(netlink.ConntrackTable))
	})
	r.mark(t, mark)
	testnet.In(t, r.node, func() error {
		apply(t, s)
		return nil
	})
}

// neighbours stands in for the datapath, which answers for every neighbour of
// a pod and lets no such question through.
func neighbours(t *testing.T, at ns.NetNS, device string, of ns.NetNS, peer string, ips ...string) {
	t.Helper()
	var mac net.HardwareAddr
	testnet.In(t, of, func() error {
		link, err := netlink.LinkByName(peer)
		if err == nil {
			mac = link.Attrs().HardwareAddr
		}
		return err
	})
	testnet.In(t, at, func() error {
		link, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		for _, ip := range ips {
			entry := &netlink.Neigh{
				LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: net.ParseIP(ip), HardwareAddr: mac,
			}
			if err := netlink.NeighSet(entry); err != nil {
				return err
			}
		}
		return nil
	})
}

func routes(t *testing.T, space ns.NetNS, device, via string, prefixes ...string) {
	t.Helper()
	testnet.In(t, space, func() error {
		link, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		for _, text := range prefixes {
			dst, err := netlink.ParseIPNet(text)
			if err != nil {
				return err
			}
			if err := netlink.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: dst, Gw: net.ParseIP(via)}); err != nil {
				return err
			}
		}
		return nil
	})
}

// mark stands in for the datapath's program: packets from the pod carry the
// mark, and its multicast ends there.
func (r rig) mark(t *testing.T, value uint32) {
	t.Helper()
	testnet.In(t, r.node, func() error {
		conn := &nftables.Conn{}
		other := conn.AddTable(&nftables.Table{Name: "program", Family: nftables.TableFamilyINet})
		c := conn.AddChain(&nftables.Chain{
			Name: "mark", Table: other, Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityConntrackDefrag,
		})
		conn.AddRule(&nftables.Rule{Table: other, Chain: c, Exprs: when(fromPods(testState()), rule{
			&expr.Immediate{Register: 1, Data: binaryutil.NativeEndian.PutUint32(value)},
			&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: 1},
		})})
		multicast := inside(destination, netip.MustParsePrefix("ff00::/8"))
		conn.AddRule(&nftables.Rule{Table: other, Chain: c, Exprs: when(fromPods(testState()), multicast, verdict(expr.VerdictDrop))})
		return conn.Flush()
	})
}

// question is a datagram to a server that answers it.
type question struct {
	from, to ns.NetNS
	// source is where the client sends from, target where the server listens.
	source, target string
	// dialled is the address that the client sends to; "" is the target.
	dialled string
	// port is the server's port; 0 stands for any. dialledPort is the port that the client
	// sends to; 0 stands for the server's.
	port, dialledPort uint16
	// shy questions are not expected to be answered, and given up soon.
	shy bool
}

// ask puts a question from any port to any port of the target.
func ask(t *testing.T, from, to ns.NetNS, source, target string) (seen netip.Addr, err error) {
	t.Helper()
	return question{from: from, to: to, source: source, target: target}.ask(t)
}

// askInVain does the same when no answer is expected.
func askInVain(t *testing.T, from, to ns.NetNS, source, target string) (seen netip.Addr, err error) {
	t.Helper()
	return question{from: from, to: to, source: source, target: target, shy: true}.ask(t)
}

// ask returns the datagram's source address as the receiver saw it, once the answer is back.
// It fails if no answer comes.
func (q question) ask(t *testing.T) (seen netip.Addr, err error) {
	t.Helper()
	var server net.PacketConn
	testnet.In(t, q.to, func() (err error) {
		at := net.JoinHostPort(q.target, strconv.Itoa(int(q.port)))
		server, err = (&net.ListenConfig{}).ListenPacket(context.Background(), "udp", at)
		return err
	})
	defer server.Close()
	seenAt := make(chan netip.Addr, 1)
	go func() {
		buffer := make([]byte, 16)
		for {
			n, peer, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			select {
			case seenAt <- peer.(*net.UDPAddr).AddrPort().Addr().Unmap():
			default: // the datagram is a repetition
			}
			_, _ = server.WriteTo(buffer[:n], peer)
		}
	}()
	dialled := *server.LocalAddr().(*net.UDPAddr)
	if q.dialled != "" {
		dialled.IP = net.ParseIP(q.dialled)
	}
	if q.dialledPort != 0 {
		dialled.Port = int(q.dialledPort)
	}
	var client net.Conn
	testnet.In(t, q.from, func() (err error) {
		client, err = (&net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(q.source)}}).Dial("udp", dialled.String())
		return err
	})
	defer client.Close()
	if err := sendUntilAnswered(client, q.patience()); err != nil {
		return netip.Addr{}, err
	}
	return <-seenAt, nil
}

// sendUntilAnswered sends a datagram until an answer comes, or the time is over. All network namespaces share
// the queues of the kernel's receive path (net.core.netdev_max_backlog), so a flood of another test
// can push a datagram out.
func sendUntilAnswered(client net.Conn, patience time.Duration) error {
	end := time.Now().Add(patience)
	for {
		if _, err := client.Write([]byte("hello")); err != nil {
			return err
		}
		if err := client.SetReadDeadline(earliest(end, time.Now().Add(resendAfter))); err != nil {
			return err
		}
		_, err := client.Read(make([]byte, 16))
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Before(end) {
			return err
		}
	}
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// An answer comes as soon as neighbours have found each other. A packet that
// the table drops never gets one, so refusals cost the shorter time.
var patience = waits.Limit(10 * time.Second)

const shyness = 400 * time.Millisecond

// resendAfter is longer than shyness: counters of refusals count one datagram.
const resendAfter = time.Second

func (q question) patience() time.Duration {
	if q.shy {
		return shyness
	}
	return patience
}

func TestForward_EachPacket_OnlyMarkedAndReplies(t *testing.T) {
	const pod4, pod6 = "169.254.64.5", "fd41:6c69:6f74:6801::5"
	const shared, egress, node = 0x10000000, 0x20000000, 0x30000000
	cases := []struct {
		name           string
		mark           uint32
		from, to       func(rig) ns.NetNS
		source, target string
		// seen is the source at the receiver; "" means refused.
		seen   string
		reason string
	}{
		{"the node asks a pod, IPv4", 0, atNode, atPod, "", pod4, "169.254.64.1", ""},
		{"the node asks a pod, IPv6", 0, atNode, atPod, "fd41:6c69:6f74:6801::1", pod6, "fd41:6c69:6f74:6801::1", ""},
		{"a pod asks the node unmarked", 0, atPod, atNode, pod4, "192.0.2.1", "", ReasonNodeClosed},
		{"a pod asks the node unmarked, IPv6", 0, atPod, atNode, pod6, "2001:db8::1", "", ReasonNodeClosed},
		{"a pod asks the node marked for egress", egress, atPod, atNode, pod4, "192.0.2.1", "", ReasonNodeClosed},
		{"a pod asks the node marked for egress, IPv6", egress, atPod, atNode, pod6, "2001:db8::1", "", ReasonNodeClosed},
		{"a pod asks an address that the node has on lo, marked for egress", egress, atPod, atNode, pod4, loAddress, "", ReasonNodeClosed},
		{"a pod of the default VPC asks the node", node, atPod, atNode, pod4, "192.0.2.1", pod4, ""},
		{"a pod of the default VPC asks the node, IPv6", node, atPod, atNode, pod6, "2001:db8::1", pod6, ""},
		{"a pod of the default VPC asks outside", node, atPod, atOutside, pod4, "192.0.2.9", "192.0.2.1", ""},
		{"a pod of the default VPC asks the default VPC under its shadow address", node, atPod, atBackend, pod4, "10.244.0.9", "", ReasonDefaultVPCClosed},
		{"a pod asks the node marked for a shared service", shared, atPod, atNode, pod4, "192.0.2.1", pod4, ""},
		{"a pod asks outside unmarked", 0, atPod, atOutside, pod4, "192.0.2.9", "", ReasonForwardClosed},
		{"a pod asks outside marked for egress", egress, atPod, atOutside, pod4, "192.0.2.9", "192.0.2.1", ""},
		{"a pod asks outside marked for egress, IPv6", egress, atPod, atOutside, pod6, "2001:db8::9", "2001:db8::1", ""},
		{"a pod asks a shared service in the default VPC", shared, atPod, atBackend, pod4, "10.244.0.9", "10.244.0.1", ""},
		{"a pod asks a shared service in the default VPC, IPv6", shared, atPod, atBackend, pod6, "fd10:244::9", "fd10:244::1", ""},
		{"a pod asks the default VPC marked for egress", egress, atPod, atBackend, pod4, "10.244.0.9", "", ReasonDefaultVPCClosed},
		{"outside asks a pod's shadow", 0, atOutside, atPod, "192.0.2.9", pod4, "", ReasonForeignShadow},
		{"outside asks a pod's shadow, IPv6", 0, atOutside, atPod, "2001:db8::9", pod6, "", ReasonForeignShadow},
		{"outside asks the node's shadow", 0, atOutside, atNode, "192.0.2.9", "169.254.64.1", "", ReasonForeignShadow},
		{"outside asks the default VPC", 0, atOutside, atBackend, "192.0.2.9", "10.244.0.9", "", ReasonForeignDefaultVPC},
		{"the default VPC asks a pod's shadow", 0, atBackend, atPod, "10.244.0.9", pod4, "", ReasonShadowUnsolicited},
		{"the default VPC asks the node", 0, atBackend, atNode, "10.244.0.9", "10.244.0.1", "10.244.0.9", ""},
		{"the node asks outside", 0, atNode, atOutside, "192.0.2.1", "192.0.2.9", "192.0.2.1", ""},
	}
	r := newRig(t, 0)
	routes(t, r.backend, "eth0", "10.244.0.1", "169.254.64.0/18")
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r.reset(t, c.mark, testState())
			q := question{from: c.from(r), to: c.to(r), source: c.source, target: c.target, shy: c.seen == ""}
			seen, err := q.ask(t)
			r.wantCounter(t, c.reason)
			if c.seen == "" {
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatalf("answered with %v, error %v; want silence", seen, err)
				}
				return
			}
			if err != nil || seen != netip.MustParseAddr(c.seen) {
				t.Errorf("the receiver saw %v, error %v; want %s", seen, err, c.seen)
			}
		})
	}
}

func atNode(r rig) ns.NetNS    { return r.node }
func atPod(r rig) ns.NetNS     { return r.pod }
func atOutside(r rig) ns.NetNS { return r.outside }
func atBackend(r rig) ns.NetNS { return r.backend }

// wantCounter checks that the reason, and no other, counted a packet. A packet
// that still waits for its neighbour to be found is waited for.
func (r rig) wantCounter(t *testing.T, reason string) {
	t.Helper()
	var counters []Counter
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(patience); ; <-again.C {
		testnet.In(t, r.node, func() (err error) {
			counters, err = Counters()
			return err
		})
		counted := slices.ContainsFunc(counters, func(c Counter) bool { return c.Reason == reason && c.Packets > 0 })
		if reason == "" || counted || time.Now().After(end) {
			break
		}
	}
	if len(counters) != len(Reasons()) {
		t.Errorf("%d counters, want %d", len(counters), len(Reasons()))
	}
	for _, c := range counters {
		if (c.Packets > 0) != (c.Reason == reason) {
			t.Errorf("counter %s is %d; want packets in %q only", c.Reason, c.Packets, reason)
		}
	}
}

func TestForward_PodWithoutProgram_NothingReached(t *testing.T) {
	r := newRig(t, 0x20000000)
	testnet.In(t, r.pod, func() error { return addAddress("eth0", "10.10.1.2/32") })
	routes(t, r.node, "alv0", "", "10.10.1.2/32")
	if seen, err := askInVain(t, r.pod, r.node, "10.10.1.2", "192.0.2.1"); err == nil {
		t.Errorf("answered, from %v", seen)
	}
	r.wantCounter(t, ReasonUnshadowed)
}

func addAddress(device, text string) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	addr, err := netlink.ParseAddr(text)
	if err != nil {
		return err
	}
	addr.Flags |= unix.IFA_F_NODAD
	return netlink.AddrAdd(link, addr)
}
