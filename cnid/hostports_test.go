// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
	"github.com/alioth-net/alioth/test/waits"
)

// servesOnNode asks a port of the node and returns the name of the pod or node that answers.
func (l *outsideLab) servesOnNode(t *testing.T, from ns.NetNS, at string) (string, error) {
	t.Helper()
	var name string
	err := from.Do(func(ns.NetNS) error {
		conn, err := net.DialTimeout("tcp", at, patience)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(waits.Limit(20 * time.Second))); err != nil {
			return err
		}
		text, err := bufio.NewReader(conn).ReadString('\n')
		name = strings.TrimSpace(text)
		return err
	})
	return name, err
}

// grantPorts gives all pods to a tenant with a grant for every port of the nodes.
func (s *script) grantPorts() {
	s.Namespaces = append(s.Namespaces, store.Namespace{Meta: meta("ns"), Name: "ns", Tenant: "ns"})
	s.Grants = append(s.Grants, external.HostAccess{
		Meta: meta("grant"), Name: "grant", AllowedTenants: []string{"ns"}, Ports: []external.HostPortRange{{First: 1, Last: 65535}},
	})
}

func TestHostPort_UntilDEL_LeadsToPod(t *testing.T) {
	t.Parallel()
	l := newOutsideLab(t, func(s *script) {
		s.vpc("green").EgressMasquerade = false
		s.pod("green").HostPorts = []store.HostPort{{Protocol: "TCP", HostPort: 8080, Port: 80}}
		s.pod("grey").HostPorts = []store.HostPort{{Protocol: "TCP", HostIP: wanAddrs[0], HostPort: 8081, Port: 80}}
		s.grantPorts()
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
		{"from the node itself", node, "192.0.2.1:8080", ""},
		{"from the node itself, IPv6", node, "[2001:db8::1]:8080", ""},
		{"by loopback", node, "127.0.0.1:8080", ""},
		{"at its one address", l.host, "198.51.100.254:8081", "grey"},
		{"at another address than its own", l.nodes[1], "192.0.2.1:8081", ""},
		{"from a pod of another tenant", l.grey, "198.51.100.254:8080", ""},
	}
	check := func(when string) {
		for _, way := range ways {
			got, err := l.servesOnNode(t, way.from, way.at)
			for began := time.Now(); err != nil && way.want != "" && time.Since(began) < waits.Limit(20*time.Second); {
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

func TestHostPort_NodeListens_Refused(t *testing.T) {
	t.Parallel()
	l := newOutsideLab(t, func(s *script) {
		s.pod("green").HostPorts = []store.HostPort{{Protocol: "TCP", HostPort: 8080, Port: 80}}
		s.pod("grey").HostPorts = []store.HostPort{{Protocol: "UDP", HostPort: 4789, Port: 80}}
		s.grantPorts()
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

// TestHostPort_OtherOwnerOrUngranted_Closed has a pod that took a number before it became
// a Service's node port, and a grant that ends.
func TestHostPort_OtherOwnerOrUngranted_Closed(t *testing.T) {
	t.Parallel()
	l := newOutsideLab(t, func(s *script) {
		s.pod("green").HostPorts = []store.HostPort{{Protocol: "TCP", HostPort: 30080, Port: 80}}
		s.pod("grey").HostPorts = []store.HostPort{{Protocol: "TCP", HostPort: 8081, Port: 80}}
		s.grantPorts()
		s.tenantOf("grey")
	})
	l.attach(t)
	l.green.serve(t)
	l.grey.serve(t)
	awaits := func(at, want string) {
		t.Helper()
		got, err := l.servesOnNode(t, l.host, at)
		for began := time.Now(); got != want && time.Since(began) < waits.Limit(20*time.Second); {
			got, err = l.servesOnNode(t, l.host, at)
		}
		if got != want {
			t.Fatalf("%s: answered by %q, error %v; want %q", at, got, err, want)
		}
	}
	awaits("198.51.100.254:30080", "green")
	awaits("198.51.100.254:8081", "grey")
	var more script
	more.Services = append(more.Services, serviceOf("grey", "10.96.1.1", 30080))
	more.Slices = append(more.Slices, sliceOf("grey", map[string]string{"node1": "10.20.1.10"}))
	l.nodes[0].say(t, more)
	awaits("198.51.100.254:30080", "grey")
	ended := l.nodes[0].script.Grants[0]
	ended.Ports, ended.ResourceVersion = []external.HostPortRange{{First: 30080, Last: 30080}}, "2"
	l.nodes[0].say(t, script{Grants: []external.HostAccess{ended}})
	awaits("198.51.100.254:8081", "")
}
