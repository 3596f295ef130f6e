// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/store"
)

// outsideLab is a lab whose first node has a way out:
//
//	node 1 --- router --- host
//
// with a narrow link behind the router, and two pods of two VPCs that have the
// same addresses.
type outsideLab struct {
	*lab
	host        ns.NetNS
	green, grey *labPod
}

// narrowMTU is that of the link to the host, in bytes.
const narrowMTU = 1300

var (
	hostAddrs = []netip.Addr{netip.MustParseAddr("203.0.113.9"), netip.MustParseAddr("2001:db8:2::9")}
	wanAddrs  = []netip.Addr{netip.MustParseAddr("198.51.100.254"), netip.MustParseAddr("2001:db8:1::254")}
)

// newOutsideLab starts the first node, with both VPCs adapted and no pod
// attached yet.
func newOutsideLab(t *testing.T, adapt func(*script)) *outsideLab {
	t.Helper()
	l := &outsideLab{lab: newLab(t), host: testnet.New(t)}
	node, router := l.nodes[0], testnet.New(t)
	testnet.Veth(t, node, "wan", []string{"198.51.100.254/24", "2001:db8:1::254/64"}, router, "in", []string{"198.51.100.1/24", "2001:db8:1::1/64"})
	testnet.Veth(t, router, "out", []string{"203.0.113.1/24", "2001:db8:2::1/64"}, l.host, "eth0", []string{"203.0.113.9/24", "2001:db8:2::9/64"})
	defaultRoutes(t, node, "198.51.100.1", "2001:db8:1::1")
	defaultRoutes(t, l.host, "203.0.113.1", "2001:db8:2::1")
	testnet.In(t, router, func() error {
		for _, file := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
			if err := os.WriteFile("/proc/sys/net/"+file, []byte("1"), 0o644); err != nil {
				return err
			}
		}
		return onLink("out", func(link netlink.Link) error { return netlink.LinkSetMTU(link, narrowMTU) })()
	})
	s := node.script
	for vni, name := range map[uint32]string{40: "green", 50: "grey"} {
		row := vpcRow(name, vni, "10.20.0.0/16", "fd20::/48")
		row.EgressMasquerade = true
		s.VPCs = append(s.VPCs, row)
		s.Subnets = append(s.Subnets, subnetRow(name, name, "10.20.1.0/24", "10.20.1.1", "fd20:0:0:1::/64", "fd20:0:0:1::1"))
		l.addPod(t, &s, 0, name, name, name, false, "10.20.1.10/24", "fd20:0:0:1::10/64")
	}
	l.green, l.grey = l.pods["green"], l.pods["grey"]
	if adapt != nil {
		adapt(&s)
	}
	node.script = s
	node.start(t)
	return l
}

func (s *script) vpc(name string) *store.VPC {
	for i := range s.VPCs {
		if s.VPCs[i].Name == name {
			return &s.VPCs[i]
		}
	}
	return nil
}

func (s *script) pod(name string) *store.Pod {
	for i := range s.Pods {
		if s.Pods[i].Name == name {
			return &s.Pods[i]
		}
	}
	return nil
}

func (l *outsideLab) attach(t *testing.T) {
	t.Helper()
	for _, pod := range []*labPod{l.green, l.grey} {
		if err := l.cni(t, "ADD", pod); err != nil {
			t.Fatal(err)
		}
	}
}

func defaultRoutes(t *testing.T, space ns.NetNS, gateways ...string) {
	t.Helper()
	testnet.In(t, space, func() error {
		for _, gateway := range gateways {
			if err := netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(gateway)}); err != nil {
				return err
			}
		}
		return nil
	})
}

// echoPort is where the host sends back what comes.
const echoPort = 7000

// echo sends back what comes to the host, until the test ends or it is closed, by
// UDP and by TCP.
func (l *outsideLab) echo(t *testing.T) (closeUDP func()) {
	t.Helper()
	var packets net.PacketConn
	var listener net.Listener
	testnet.In(t, l.host, func() (err error) {
		at := fmt.Sprintf(":%d", echoPort)
		if packets, err = (&net.ListenConfig{}).ListenPacket(context.Background(), "udp", at); err != nil {
			return err
		}
		listener, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", at)
		return err
	})
	t.Cleanup(func() { packets.Close(); listener.Close() })
	go func() {
		buffer := make([]byte, 2048)
		for {
			n, peer, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = packets.WriteTo(buffer[:n], peer)
		}
	}()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return func() { packets.Close() }
}

// dial connects a pod to an address, from one certain port if it is not 0.
func (p *labPod) dial(t *testing.T, network string, from uint16, to netip.AddrPort) (net.Conn, error) {
	t.Helper()
	dialer := net.Dialer{Timeout: patience}
	if from != 0 {
		own := netip.AddrPortFrom(p.ip(to.Addr().Is4()), from)
		dialer.LocalAddr = net.UDPAddrFromAddrPort(own)
		if network == "tcp" {
			dialer.LocalAddr = net.TCPAddrFromAddrPort(own)
		}
	}
	var conn net.Conn
	err := p.Do(func(ns.NetNS) (err error) {
		conn, err = dialer.Dial(network, to.String())
		return err
	})
	if err == nil {
		t.Cleanup(func() { conn.Close() })
	}
	return conn, err
}

// mustDial fails the test when there is no connection.
func (p *labPod) mustDial(t *testing.T, network string, from uint16, to netip.AddrPort) net.Conn {
	t.Helper()
	conn, err := p.dial(t, network, from, to)
	if err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	return conn
}

// says sends a text and wants it back.
func says(conn net.Conn, text string) error {
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return err
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != text {
		return fmt.Errorf("got %q for %q, %w", got, text, err)
	}
	return nil
}

// option reads a number of a connected UDP socket.
func option(t *testing.T, conn net.Conn, level, name int) int {
	t.Helper()
	raw, err := conn.(*net.UDPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var value int
	var failure error
	err = raw.Control(func(fd uintptr) { value, failure = unix.GetsockoptInt(int(fd), level, name) })
	if err := errors.Join(err, failure); err != nil {
		t.Fatal(err)
	}
	return value
}

func pathMTU(t *testing.T, conn net.Conn, is4 bool) int {
	t.Helper()
	if is4 {
		return option(t, conn, unix.IPPROTO_IP, unix.IP_MTU)
	}
	return option(t, conn, unix.IPPROTO_IPV6, unix.IPV6_MTU)
}

func TestPodsOfOneAddressAndPortTalkToOnePeerAtOnce(t *testing.T) {
	l := newOutsideLab(t, nil)
	l.attach(t)
	for _, addr := range hostAddrs {
		t.Run(addr.String(), func(t *testing.T) {
			closeUDP := l.echo(t)
			peer := netip.AddrPortFrom(addr, echoPort)
			for _, network := range []string{"udp", "tcp"} {
				green, grey := l.green.mustDial(t, network, 40000, peer), l.grey.mustDial(t, network, 40000, peer)
				for range 3 {
					if err := errors.Join(says(green, "green "+network), says(grey, "grey! "+network)); err != nil {
						t.Fatalf("%s: %v", network, err)
					}
				}
			}
			t.Run("path MTU", func(t *testing.T) { l.learnsPathMTU(t, addr) })
			t.Run("port unreachable", func(t *testing.T) {
				green, grey := l.green.mustDial(t, "udp", 40001, peer), l.grey.mustDial(t, "udp", 40001, peer)
				if err := errors.Join(says(green, "green"), says(grey, "grey")); err != nil {
					t.Fatal(err)
				}
				closeUDP()
				if err := refusal(green); !errors.Is(err, unix.ECONNREFUSED) {
					t.Errorf("the pod that sends is told %v", err)
				}
				if got := option(t, grey, unix.SOL_SOCKET, unix.SO_ERROR); got != 0 {
					t.Errorf("the other pod is told: %v", unix.Errno(got))
				}
				if err := refusal(grey); !errors.Is(err, unix.ECONNREFUSED) {
					t.Errorf("the other pod is told %v when it sends", err)
				}
			})
		})
	}
}

// refusal sends and returns what the socket is told of it.
func refusal(conn net.Conn) error {
	if _, err := io.WriteString(conn, "anybody there?"); err != nil {
		return err
	}
	_, err := conn.Read(make([]byte, 16))
	return err
}

// learnsPathMTU lets one pod send more than fits and sees who is told. Both
// know this peer by one and the same tuple.
func (l *outsideLab) learnsPathMTU(t *testing.T, addr netip.Addr) {
	peer := netip.AddrPortFrom(addr, echoPort)
	green, grey := l.green.mustDial(t, "udp", 40002, peer), l.grey.mustDial(t, "udp", 40002, peer)
	if err := errors.Join(says(green, "green"), says(grey, "grey")); err != nil {
		t.Fatal(err)
	}
	wide := pathMTU(t, grey, addr.Is4())
	if wide <= narrowMTU {
		t.Fatalf("the path MTU is %d before anything was sent", wide)
	}
	for _, conn := range []net.Conn{green, grey} {
		if got := pathMTU(t, grey, addr.Is4()); got != wide {
			t.Errorf("a pod that has sent nothing has a path MTU of %d, had %d", got, wide)
		}
		eventually(t, "the pod that sends learns the path's MTU", func() error {
			// A datagram that is lost is what this is about; an error tells of it.
			_, _ = conn.Write(make([]byte, narrowMTU))
			if got := pathMTU(t, conn, addr.Is4()); got != narrowMTU {
				return fmt.Errorf("it is %d", got)
			}
			return nil
		})
		if err := says(conn, strings.Repeat("x", 1000)); err != nil && !errors.Is(err, unix.EMSGSIZE) {
			t.Errorf("what fits: %v", err)
		}
	}
}

// flows is the number of flows of a flood.
const flows = 200_000

// flood opens flows by UDP to the host, each with one datagram.
func (p *labPod) flood(t *testing.T) {
	t.Helper()
	const ports = 50_000
	err := p.Do(func(ns.NetNS) error {
		for range flows / ports {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			for port := range ports {
				// ENOBUFS and refusals of single datagrams are the flood's own affair.
				_ = unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrInet4{Addr: hostAddrs[0].As4(), Port: 10_000 + port})
			}
			if err := unix.Close(fd); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAPodThatFloodsTakesNothingFromAnother(t *testing.T) {
	l := newOutsideLab(t, nil)
	l.attach(t)
	l.echo(t)
	peer := netip.AddrPortFrom(hostAddrs[0], echoPort)
	lasting := l.grey.mustDial(t, "tcp", 0, peer)
	flooded := make(chan struct{})
	go func() {
		defer close(flooded)
		l.green.flood(t)
	}()
	opened, most := 0, l.flowsPerPod(t)/4 // of each kind; flows that have ended count for a while
	for during := true; during || opened < 50; {
		select {
		case <-flooded:
			during = false
		default:
		}
		if err := says(lasting, "still there?"); err != nil {
			t.Fatalf("the connection from before the flood: %v", err)
		}
		if opened == most {
			continue
		}
		opened++
		for _, network := range []string{"tcp", "udp"} {
			conn := l.grey.mustDial(t, network, 0, peer)
			if err := says(conn, "new"); err != nil {
				t.Fatalf("new flow %d, %s: %v", opened, network, err)
			}
			conn.Close()
		}
	}
	if refused := l.filterDrops(t, "flow_limit"); refused < flows-l.flowsPerPod(t) {
		t.Errorf("%d of %d flows were refused and counted; a pod may have %d", refused, flows, l.flowsPerPod(t))
	}
	t.Logf("%d new flows of each kind by the other pod; %d of the flood's refused", opened, l.filterDrops(t, "flow_limit"))
}

// floodService opens flows to ports of one address, each from another port of the
// pod, each with one datagram.
func (p *labPod) floodService(t *testing.T, vip netip.Addr, ports []uint16) {
	t.Helper()
	err := p.Do(func(ns.NetNS) error {
		for _, port := range ports {
			for source := range flows / len(ports) {
				fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
				if err != nil {
					return err
				}
				err = unix.Bind(fd, &unix.SockaddrInet4{Port: 10_000 + source})
				// Refusals of single datagrams are the flood's own affair.
				_ = unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrInet4{Addr: vip.As4(), Port: int(port)})
				if err := errors.Join(err, unix.Close(fd)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAPodThatFloodsASharedServiceTakesNothingFromAnother(t *testing.T) {
	vip, ports := netip.MustParseAddr("10.96.0.10"), []uint16{53, 54, 55, 56}
	l := newOutsideLab(t, func(s *script) {
		service := store.Service{Meta: meta("dns"), Namespace: "kube-system", Name: "kube-dns", ClusterIPs: []netip.Addr{vip}}
		slice := store.EndpointSlice{
			Meta: meta("slice"), Namespace: "kube-system", Name: "slice", Service: "kube-dns",
			Endpoints: []store.Endpoint{{Addresses: hostAddrs[:1], Ready: true}},
		}
		for _, port := range ports {
			name := fmt.Sprint("p", port)
			service.Ports = append(service.Ports, store.ServicePort{Name: name, Protocol: "UDP", Port: port})
			slice.Ports = append(slice.Ports, store.ServicePort{Name: name, Protocol: "UDP", Port: echoPort})
		}
		s.Services, s.Slices = []store.Service{service}, []store.EndpointSlice{slice}
		for _, vpc := range []string{"green", "grey"} {
			s.vpc(vpc).EgressMasquerade = false
		}
	})
	l.attach(t)
	l.echo(t)
	at := netip.AddrPortFrom(vip, 53)
	lasting := l.grey.mustDial(t, "udp", 0, at)
	flooded := make(chan struct{})
	go func() {
		defer close(flooded)
		l.green.floodService(t, vip, ports)
	}()
	opened, most := 0, l.flowsPerPod(t)/4
	for during := true; during || opened < 50; {
		select {
		case <-flooded:
			during = false
		default:
		}
		if err := says(lasting, "still there?"); err != nil {
			t.Fatalf("the flow from before the flood: %v", err)
		}
		if opened == most {
			continue
		}
		opened++
		conn := l.grey.mustDial(t, "udp", 0, at)
		if err := says(conn, "new"); err != nil {
			t.Fatalf("new flow %d: %v", opened, err)
		}
		conn.Close()
	}
	byTable := l.nodes[0].packets(t, `reason="conn_limit"`)
	byFilter := l.filterDrops(t, "flow_limit")
	if refused := byTable + byFilter; byTable == 0 || refused < flows-2*l.flowsPerPod(t) {
		t.Errorf("%d of %d flows were refused and counted: %d by the table of flows, %d by the packet filter", refused, flows, byTable, byFilter)
	}
	if full := l.nodes[0].packets(t, `reason="conn_full"`); full != 0 {
		t.Errorf("%d flows found the table of the node full", full)
	}
	t.Logf("%d new flows by the other pod; of the flood %d refused by the table of flows, %d by the packet filter", opened, byTable, byFilter)
}

// filterDrops reads a counter of the packet filter from the daemon's metrics.
func (l *outsideLab) filterDrops(t *testing.T, reason string) int {
	t.Helper()
	return l.metric(t, fmt.Sprintf("alioth_filter_dropped_packets_total{reason=%q}", reason))
}

func (l *outsideLab) flowsPerPod(t *testing.T) int { return l.metric(t, "alioth_filter_flows_per_pod") }

func (l *outsideLab) metric(t *testing.T, name string) int {
	t.Helper()
	for line := range strings.Lines(l.nodes[0].get(t, "/metrics")) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			var number float64
			if _, err := fmt.Sscan(value, &number); err != nil {
				t.Fatalf("metric %s: %v", name, err)
			}
			return int(number)
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func TestAVPCsListsOpenAndCloseItsWayOut(t *testing.T) {
	l := newOutsideLab(t, func(s *script) {
		s.vpc("green").EgressDeny = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/28")}
	})
	l.attach(t)
	l.echo(t)
	peer := netip.AddrPortFrom(hostAddrs[0], echoPort)
	if _, err := l.green.dial(t, "tcp", 0, peer); err == nil {
		t.Error("a denied destination was reached")
	}
	lasting := l.grey.mustDial(t, "tcp", 0, peer)
	if err := says(lasting, "before"); err != nil {
		t.Fatal(err)
	}
	change := func(allow ...string) {
		s := l.nodes[0].script
		grey := s.vpc("grey")
		grey.EgressAllow = nil
		for _, text := range allow {
			grey.EgressAllow = append(grey.EgressAllow, netip.MustParsePrefix(text))
		}
		l.nodes[0].say(t, s)
	}
	change("198.51.100.0/24")
	eventually(t, "the list closes the way", func() error {
		if _, err := l.grey.dial(t, "tcp", 0, peer); err == nil {
			return errors.New("a destination that is not listed was reached")
		}
		return nil
	})
	if err := lasting.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(lasting, "after"); err == nil {
		if n, err := lasting.Read(make([]byte, 16)); err == nil {
			t.Errorf("a connection from before went on: %d bytes", n)
		}
	}
	change("203.0.113.9/32")
	eventually(t, "the list opens the way", func() error {
		conn, err := l.grey.dial(t, "tcp", 0, peer)
		if err != nil {
			return err
		}
		return says(conn, "now")
	})
}

// servesOnNode asks a port of the node and returns who answers.
func (l *outsideLab) servesOnNode(t *testing.T, from ns.NetNS, at string) (string, error) {
	t.Helper()
	var name string
	err := from.Do(func(ns.NetNS) error {
		conn, err := net.DialTimeout("tcp", at, patience)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			return err
		}
		text, err := bufio.NewReader(conn).ReadString('\n')
		name = strings.TrimSpace(text)
		return err
	})
	return name, err
}

func TestAPortOfTheNodeLeadsToItsPodUntilDEL(t *testing.T) {
	l := newOutsideLab(t, func(s *script) {
		s.vpc("green").EgressMasquerade = false
		s.pod("green").HostPorts = []store.HostPort{{Protocol: "TCP", HostPort: 8080, Port: 80}}
		s.pod("grey").HostPorts = []store.HostPort{{Protocol: "TCP", HostIP: wanAddrs[0], HostPort: 8081, Port: 80}}
	})
	l.attach(t)
	l.green.serve(t)
	l.grey.serve(t)
	node := l.nodes[0]
	ways := []struct {
		name string
		from ns.NetNS
		at   string
		want string
	}{
		{"from outside", l.host, "198.51.100.254:8080", "green"},
		{"from outside, IPv6", l.host, "[2001:db8:1::254]:8080", "green"},
		{"from the other node", l.nodes[1], "192.0.2.1:8080", "green"},
		{"from the node itself", node, "192.0.2.1:8080", "green"},
		{"from the node itself, IPv6", node, "[2001:db8::1]:8080", "green"},
		{"by loopback", node, "127.0.0.1:8080", "green"},
		{"at its one address", l.host, "198.51.100.254:8081", "grey"},
		{"at another address than its own", l.nodes[1], "192.0.2.1:8081", ""},
		{"from a pod of another tenant", l.grey, "198.51.100.254:8080", ""},
	}
	check := func(when string) {
		for _, way := range ways {
			got, err := l.servesOnNode(t, way.from, way.at)
			for began := time.Now(); err != nil && way.want != "" && time.Since(began) < 20*time.Second; {
				got, err = l.servesOnNode(t, way.from, way.at) // neighbours may still look for each other
			}
			if got != way.want || (err == nil) != (way.want != "") {
				t.Errorf("%s, %s: answered by %q, error %v; want %q", when, way.name, got, err, way.want)
			}
		}
	}
	check("at first")
	node.stop(unix.SIGKILL)
	check("while the daemon is dead")
	node.start(t)
	check("after it started anew")
	if err := l.cni(t, "DEL", l.green); err != nil {
		t.Fatal(err)
	}
	for i := range ways {
		if ways[i].want == "green" {
			ways[i].want = ""
		}
	}
	check("after DEL")
}

func TestAPortOnWhichTheNodeListensIsRefused(t *testing.T) {
	l := newOutsideLab(t, func(s *script) {
		s.pod("green").HostPorts = []store.HostPort{{Protocol: "TCP", HostPort: 8080, Port: 80}}
		s.pod("grey").HostPorts = []store.HostPort{{Protocol: "UDP", HostPort: 4789, Port: 80}}
	})
	var listener net.Listener
	testnet.In(t, l.nodes[0], func() (err error) {
		listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", ":8080")
		return err
	})
	defer listener.Close()
	for pod, want := range map[*labPod]string{l.green: "itself listens there", l.grey: "the port of the tunnel"} {
		if err := l.cni(t, "ADD", pod); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ADD of %s: %v, want %q", pod.name, err, want)
		}
	}
	listener.Close()
	if err := l.cni(t, "ADD", l.green); err != nil {
		t.Errorf("once the port is free: %v", err)
	}
}

// packets sums up the packets of a datapath's counters whose labels have all of
// these.
func (m *machine) packets(t *testing.T, labels ...string) int {
	t.Helper()
	sum := 0
	for line := range strings.Lines(m.get(t, "/metrics")) {
		has := func(label string) bool { return strings.Contains(line, label) }
		if !strings.HasPrefix(line, "alioth_datapath_packets_total{") || slices.ContainsFunc(labels, func(l string) bool { return !has(l) }) {
			continue
		}
		var number float64
		if _, err := fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &number); err != nil {
			t.Fatalf("metric %q: %v", line, err)
		}
		sum += int(number)
	}
	return sum
}

func TestNoDatagramOfAPodIsTakenForATunnels(t *testing.T) {
	l := newLab(t)
	l.start(t)
	sender, receiver, pod := l.nodes[1], l.nodes[0], l.pods["d1"] // of the default VPC, which alone may reach nodes
	testnet.In(t, sender, func() error {
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader("table ip other { chain nat { type nat hook prerouting priority -150; udp dport 5000 dnat to 192.0.2.1:4789; }; }")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("nft: %w: %s", err, out)
		}
		return nil
	})
	vxlan := append([]byte{8, 0, 0, 0, 0, 0, 20, 0}, make([]byte, 100)...)
	before := receiver.packets(t, `direction="from_tunnel"`)
	for _, c := range []struct {
		name    string
		port    uint16
		payload []byte
		refused func() bool
	}{
		{"to the port itself", 4789, vxlan, func() bool { return sender.packets(t, `reason="egress_tunnel_port"`) >= 1 }},
		{"in fragments", 4789, append(vxlan, make([]byte, 3000)...), func() bool { return sender.packets(t, `reason="egress_tunnel_port"`) >= 4 }},
		{"by somebody else's translation", 5000, vxlan, func() bool {
			return strings.Contains(sender.get(t, "/metrics"), `alioth_filter_dropped_packets_total{reason="tunnel_port"} 1`)
		}},
	} {
		conn := pod.mustDial(t, "udp", 0, netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), c.port))
		if _, err := conn.Write(c.payload); err != nil {
			t.Fatal(err)
		}
		eventually(t, c.name, func() error {
			if !c.refused() {
				return errors.New("the packets are not counted as refused")
			}
			return nil
		})
	}
	if after := receiver.packets(t, `direction="from_tunnel"`); after != before {
		t.Errorf("the other node took %d packets for the tunnel's", after-before)
	}
}
