// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
)

// serviceOf returns a Service of a tenant's VPC, with a node port. It is in the namespace of
// the pods.
func serviceOf(tenant, vip string, port uint16) store.Service {
	return store.Service{
		Meta: meta(tenant + "-web"), Namespace: "ns", Name: tenant + "-web", Network: tenant, ClusterIPs: []netip.Addr{netip.MustParseAddr(vip)},
		Ports: []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 80, NodePort: port}},
	}
}

// sliceOf returns the slice of the Service: addresses of the tenant's pods by their nodes.
func sliceOf(tenant string, backends map[string]string) store.EndpointSlice {
	row := store.EndpointSlice{
		Meta: meta(
			tenant + "-web",
		), Namespace: "ns", Name: tenant + "-web", Service: tenant + "-web", Ports: []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 80}},
	}
	for node, addr := range backends {
		uid := tenant + strings.TrimPrefix(strings.TrimPrefix(node, "node"), "1")
		row.Endpoints = append(row.Endpoints, store.Endpoint{Addresses: []netip.Addr{netip.MustParseAddr(addr)}, Ready: true, Node: node, PodUID: uid})
	}
	return row
}

// tenantOf gives a VPC to the tenant of the pods' namespace, under a Network of its name.
func (s *script) tenantOf(vpc string) {
	s.vpc(vpc).AllowedTenants = []string{"ns"}
	s.Namespaces = append(s.Namespaces, store.Namespace{Meta: meta("ns"), Name: "ns", Tenant: "ns"})
	s.Networks = append(s.Networks, store.Network{Meta: meta(vpc), Namespace: "ns", Name: vpc, Tenant: "ns", Type: "vpc", VPC: vpc})
}

// everyNode starts the second node too, with further pods there.
func (l *outsideLab) everyNode(t *testing.T, pods ...string) {
	t.Helper()
	var more script
	for _, name := range pods {
		l.addPod(t, &more, 1, name+"2", name, name, false, "10.20.1.20/24", "fd20:0:0:1::20/64")
	}
	l.nodes[0].say(t, more)
	s := l.nodes[0].script
	s.Pods, s.Addresses = append(s.Pods, more.Pods...), append(s.Addresses, more.Addresses...)
	l.nodes[0].script, l.nodes[1].script = s, s
	l.nodes[1].start(t)
	for _, name := range pods {
		if err := l.cni(t, "ADD", l.pods[name+"2"]); err != nil {
			t.Fatal(err)
		}
		l.pods[name+"2"].serve(t)
	}
}

// answers asks again and again at an address. It returns an error unless all of want
// answer and no other does.
func (l *outsideLab) answers(t *testing.T, from ns.NetNS, at string, want ...string) error {
	t.Helper()
	seen := map[string]bool{}
	for range 60 {
		name, err := l.servesOnNode(t, from, at)
		if err != nil {
			return err
		}
		if !slices.Contains(want, name) {
			return fmt.Errorf("%s answered, want %v", name, want)
		}
		if seen[name] = true; len(seen) == len(want) {
			return nil
		}
	}
	return fmt.Errorf("only %v answered, want %v", seen, want)
}

// verifiedNodePorts returns the number of node ports in the maps of the first node. They have to
// agree with the API.
func (l *outsideLab) verifiedNodePorts(t *testing.T) int {
	t.Helper()
	for _, difference := range l.differences(t) {
		if strings.Contains(difference.Subject, "node port") {
			t.Error(difference)
		}
	}
	dump, err := nodestatus.FetchDump(t.Context(), l.nodes[0].cfg.socket())
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for key := range dump.Rows {
		if strings.HasPrefix(key, "node port ") {
			count++
		}
	}
	return count
}

// TestNodePort_EachNode_LeadsToVPCPods has two tenants with the same
// addresses; green has a pod on either node, grey one on the second.
func TestNodePort_EachNode_LeadsToVPCPods(t *testing.T) {
	t.Parallel()
	backends := map[string]string{"node2": "10.20.1.20"}
	l := newOutsideLab(t, func(s *script) {
		s.tenantOf("green")
		s.tenantOf("grey")
		s.vpc("green").EgressMasquerade = false
		s.Services = append(s.Services, serviceOf("green", "10.96.1.1", 30080), serviceOf("grey", "10.96.1.2", 30081))
		s.Slices = append(s.Slices, sliceOf("green", map[string]string{"node1": "10.20.1.10", "node2": "10.20.1.20"}), sliceOf("grey", backends))
	})
	l.attach(t)
	l.green.serve(t)
	l.grey.serve(t)
	l.everyNode(t, "green", "grey")
	ways := []struct {
		name string
		from ns.NetNS
		at   string
		want []string
	}{
		{"from outside, a backend on either node", l.host, "198.51.100.254:30080", []string{"green", "green2"}},
		{"from outside, on the other node only", l.host, "198.51.100.254:30081", []string{"grey2"}},
		{"from the node itself", l.nodes[0], "192.0.2.1:30081", []string{"grey2"}},
		{"from a node that has a backend, by the other", l.nodes[1], "192.0.2.1:30080", []string{"green", "green2"}},
		{"by the node that has the backend", l.nodes[0], "192.0.2.2:30081", []string{"grey2"}},
	}
	check := func(when string) {
		t.Helper()
		for _, way := range ways {
			eventually(t, when+", "+way.name, func() error { return l.answers(t, way.from, way.at, way.want...) })
		}
		if name, err := l.servesOnNode(t, l.grey, "198.51.100.254:30080"); err == nil {
			t.Errorf("%s: a pod of another tenant was answered by %s", when, name)
		}
	}
	check("at first")
	if ports := l.verifiedNodePorts(t); ports == 0 {
		t.Error("no map has a node port")
	}
	for _, node := range l.nodes {
		node.stop(unix.SIGKILL)
	}
	check("while no daemon lives")
	for _, node := range l.nodes {
		node.start(t)
	}
	check("after they started anew")
	for _, node := range l.nodes {
		node.say(t, script{Slices: []store.EndpointSlice{sliceOf("grey", nil)}})
	}
	eventually(t, "who asks for what has no backend is refused", func() error {
		name, err := l.servesOnNode(t, l.host, "198.51.100.254:30081")
		if !errors.Is(err, unix.ECONNREFUSED) {
			return fmt.Errorf("answered by %q, error %w", name, err)
		}
		return nil
	})
}

// shows answers at TCP port 80 of a pod with the address of the client.
func (p *labPod) shows(t *testing.T) {
	t.Helper()
	var listener net.Listener
	testnet.In(t, p.NetNS, func() (err error) {
		listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", ":80")
		return err
	})
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(conn, conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap())
			conn.Close()
		}
	}()
}

// TestExternalClient_LocalTrafficPolicy_AddressShown has a VPC whose egress is closed,
// so that answers are all that gets out of it.
func TestExternalClient_LocalTrafficPolicy_AddressShown(t *testing.T) {
	t.Parallel()
	l := newOutsideLab(t, func(s *script) {
		s.tenantOf("green")
		s.vpc("green").EgressMasquerade = false
		web := serviceOf("green", "10.96.1.1", 30080)
		web.ClusterIPs, web.ExternalNodeLocal = append(web.ClusterIPs, netip.MustParseAddr("fd96::1")), true
		web.HealthCheckNodePort = 32000
		s.Services = append(s.Services, web)
		s.Slices = append(s.Slices, sliceOf("green", map[string]string{"node1": "10.20.1.10"}))
		six := sliceOf("green", nil)
		six.Name, six.UID = "web6", "green-web6"
		six.Endpoints = []store.Endpoint{{Addresses: []netip.Addr{netip.MustParseAddr("fd20:0:0:1::10")}, Ready: true, Node: "node1", PodUID: "green"}}
		s.Slices = append(s.Slices, six)
	})
	l.attach(t)
	l.green.shows(t)
	l.nodes[1].script = l.nodes[0].script
	l.nodes[1].start(t)
	for _, way := range []struct {
		name     string
		from     ns.NetNS
		at, want string
	}{
		{"from outside", l.host, "198.51.100.254:30080", hostAddrs[0].String()},
		{"from outside, IPv6", l.host, "[2001:db8:1::254]:30080", hostAddrs[1].String()},
		{"from the other node", l.nodes[1], "192.0.2.1:30080", "192.0.2.2"},
		{"from the node itself", l.nodes[0], "192.0.2.1:30080", "192.0.2.1"},
		{"by the other node", l.nodes[0], "192.0.2.2:30080", ""},
	} {
		if way.want == "" {
			if name, err := l.servesOnNode(t, way.from, way.at); err == nil {
				t.Errorf("%s: answered, %s", way.name, name)
			}
			continue
		}
		eventually(t, way.name, func() error {
			seen, err := l.servesOnNode(t, way.from, way.at)
			if err == nil && seen != way.want {
				err = fmt.Errorf("the pod saw %s, want %s", seen, way.want)
			}
			return err
		})
	}
	for at, want := range map[string]string{
		"198.51.100.254:32000": `200 {"service":{"namespace":"ns","name":"green-web"},"localEndpoints":1,"serviceProxyHealthy":true}`,
		"192.0.2.2:32000":      `503 {"service":{"namespace":"ns","name":"green-web"},"localEndpoints":0,"serviceProxyHealthy":true}`,
	} {
		eventually(t, "the health check at "+at, func() error {
			got, err := l.health(l.nodes[0], at)
			if err == nil && got != want {
				err = fmt.Errorf("%s, want %s", got, want)
			}
			return err
		})
	}
	closeUDP := l.echo(t)
	defer closeUDP()
	conn := l.green.mustDial(t, "udp", 0, netip.AddrPortFrom(hostAddrs[0], echoPort))
	if err := errors.Join(conn.SetDeadline(time.Now().Add(shyness)), say(conn)); err == nil {
		t.Error("the pod got an answer from outside though its VPC's egress is closed")
	}
}

// shyness is the time that the test waits for an answer that must not come.
const shyness = 400 * time.Millisecond

// say sends a datagram and waits for the reply.
func say(conn net.Conn) error {
	if _, err := conn.Write([]byte("hello")); err != nil {
		return err
	}
	_, err := conn.Read(make([]byte, 16))
	return err
}

// TestExternalAddress_OwnerNode_Announced asks from the other node, on which no
// daemon runs.
func TestExternalAddress_OwnerNode_Announced(t *testing.T) {
	for name, nodes := range map[string][]store.Node{
		"on a network of both families": {nodeRow("node1", "192.0.2.1", "2001:db8::1"), nodeRow("node2", "192.0.2.2", "2001:db8::2")},
		"between nodes over IPv6 alone": {nodeRow("node1", "2001:db8::1"), nodeRow("node2", "2001:db8::2")},
	} {
		t.Run(name, func(t *testing.T) { announcesExternalAddresses(t, nodes) })
	}
}

func announcesExternalAddresses(t *testing.T, nodes []store.Node) {
	const four, six = "192.0.2.80", "2001:db8::80"
	announced := func(ip, node string) external.Address {
		return external.Address{
			Meta: meta("external-" + ip), IP: netip.MustParseAddr(ip), Node: node,
			Holder: store.Holder{Kind: store.HolderService, Namespace: "ns", Name: "green-web", UID: "green-web"},
		}
	}
	l := newOutsideLab(t, func(s *script) {
		s.Nodes = nodes
		s.tenantOf("green")
		s.vpc("green").EgressMasquerade = false
		web := serviceOf("green", "10.96.1.1", 30080)
		web.ClusterIPs, web.LoadBalancer, web.ExternalNodeLocal = append(web.ClusterIPs, netip.MustParseAddr("fd96::1")), store.LoadBalancerExternal, true
		web.SourceRanges = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/64")}
		s.Services = append(s.Services, web)
		slice6 := sliceOf("green", map[string]string{"node1": "fd20:0:0:1::10"})
		slice6.Name, slice6.UID = "web6", "green-web6"
		s.Slices = append(s.Slices, sliceOf("green", map[string]string{"node1": "10.20.1.10"}), slice6)
		s.External = append(s.External, announced(four, "node1"), announced(six, "node1"))
	})
	l.attach(t)
	l.green.shows(t)
	check := func(when string) {
		t.Helper()
		for at, want := range map[string]string{four + ":80": "192.0.2.2", "[" + six + "]:80": "2001:db8::2"} {
			eventually(t, when+", "+at, func() error {
				seen, err := l.servesOnNode(t, l.nodes[1], at)
				if err == nil && seen != want {
					err = fmt.Errorf("the pod saw %s, want %s", seen, want)
				}
				return err
			})
		}
	}
	check("at first")
	asked := func(want bool) func() error { return func() error { return l.isAskedFor(six, want) } }
	eventually(t, "switches send solicitations here", asked(true))
	if name, err := l.servesOnNode(t, l.nodes[1], four+":81"); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("another port: %q, %v; want a refusal", name, err)
	}
	l.nodes[0].stop(unix.SIGKILL)
	forgetNeighbours(t, l.nodes[1])
	check("while the daemon is dead")
	eventually(t, "the dead daemon's groups are left", asked(false))
	l.nodes[0].start(t)
	eventually(t, "its successor joins them", asked(true))
	l.nodes[0].say(t, script{External: []external.Address{announced(four, "node2"), announced(six, "node2")}})
	eventually(t, "another node announces it", func() error {
		forgetNeighbours(t, l.nodes[1])
		if name, err := l.servesOnNode(t, l.nodes[1], four+":80"); err == nil {
			return fmt.Errorf("%s answered", name)
		}
		return nil
	})
	eventually(t, "switches send solicitations here no more", asked(false))
}

// isAskedFor returns nil if the first node is, or is not, in the multicast group of
// the neighbour solicitations for an address.
func (l *outsideLab) isAskedFor(address string, want bool) error {
	return l.nodes[0].Do(func(ns.NetNS) error {
		rows, err := os.ReadFile("/proc/thread-self/net/igmp6")
		last := netip.MustParseAddr(address).As16()
		group := fmt.Sprintf("eth0            ff0200000000000000000001ff%x", last[13:])
		if err == nil && strings.Contains(string(rows), group) != want {
			err = fmt.Errorf("in the group: %v; groups are\n%s", !want, rows)
		}
		return err
	})
}

// forgetNeighbours empties the neighbour table of the device between the nodes.
func forgetNeighbours(t *testing.T, at ns.NetNS) {
	t.Helper()
	testnet.In(t, at, func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		list, err := netlink.NeighList(link.Attrs().Index, netlink.FAMILY_ALL)
		for _, row := range list {
			if row.State&(unix.NUD_PERMANENT|unix.NUD_NOARP) == 0 {
				err = errors.Join(err, netlink.NeighDel(&row))
			}
		}
		return err
	})
}

// health returns status and body of the response to a load balancer.
func (l *outsideLab) health(from ns.NetNS, at string) (answer string, err error) {
	err = from.Do(func(ns.NetNS) error {
		conn, err := net.DialTimeout("tcp", at, patience)
		if err != nil {
			return err
		}
		defer conn.Close()
		client := http.Client{Transport: &http.Transport{
			DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		}}
		defer client.CloseIdleConnections()
		response, err := client.Get("http://" + at)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		answer = fmt.Sprintf("%d %s", response.StatusCode, strings.TrimSpace(string(body)))
		return err
	})
	return answer, err
}
