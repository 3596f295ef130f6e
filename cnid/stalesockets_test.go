// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/sockdiag"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/test/cgrouptest"
)

// ask opens a socket for datagrams in a namespace that talks to one address.
func ask(t *testing.T, space ns.NetNS, to string) net.Conn {
	t.Helper()
	var conn net.Conn
	err := space.Do(func(ns.NetNS) (err error) {
		conn, err = (&net.Dialer{}).DialContext(context.Background(), "udp", to)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// ended returns nil if a socket has been ended, otherwise the reason.
func ended(t *testing.T, conn net.Conn) error {
	t.Helper()
	if errno := unix.Errno(option(t, conn, unix.SOL_SOCKET, unix.SO_ERROR)); errno != unix.ECONNABORTED {
		return fmt.Errorf("the socket to %s says: %w", conn.RemoteAddr(), errno)
	}
	return nil
}

// podAt has the pods of the lab by address.
var podAt = map[string]string{"10.244.0.20": "d1", "10.244.0.21": "d2"}

// leadsTo returns a slice of a service with backends at port 9.
func leadsTo(service string, ips ...string) store.EndpointSlice {
	row := store.EndpointSlice{
		Meta: meta(service), Namespace: "ns", Name: service, Service: service, Ports: []store.ServicePort{{Protocol: "UDP", Port: 9}},
	}
	for _, ip := range ips {
		row.Endpoints = append(row.Endpoints, store.Endpoint{Addresses: []netip.Addr{netip.MustParseAddr(ip)}, Ready: true, PodUID: podAt[ip]})
	}
	return row
}

func TestStaleSockets_BackendGone_OnlyItsSocketsEnded(t *testing.T) {
	if err := sockdiag.Probe(); errors.Is(err, sockdiag.ErrNotSupported) {
		t.Skip("missing feature: SOCK_DESTROY of UDP sockets")
	}
	l := newLab(t)
	m := l.nodes[1]
	cgrouptest.Join(t, m.cgroup)
	s := &m.script
	l.addPod(t, s, 1, "d2", "default", "default", false, "10.244.0.21/16")
	s.vpc("default").AllowedTenants = []string{"*"}
	s.Namespaces = []store.Namespace{{Meta: meta("ns"), Name: "ns", Tenant: "ns"}}
	for name, vip := range map[string]string{"moves": "10.96.0.50", "stays": "10.96.0.51"} {
		s.Services = append(s.Services, store.Service{
			Meta: meta(name), Namespace: "ns", Name: name, ClusterIPs: []netip.Addr{netip.MustParseAddr(vip)},
			Ports: []store.ServicePort{{Protocol: "UDP", Port: 53}},
		})
		s.Slices = append(s.Slices, leadsTo(name, "10.244.0.21"))
	}
	m.start(t)
	asker := l.pods["d1"]
	for _, pod := range []*labPod{asker, l.pods["d2"]} {
		if err := l.cni(t, "ADD", pod); err != nil {
			t.Fatal(err)
		}
	}
	stays := []net.Conn{ask(t, asker, "10.244.0.21:9"), ask(t, asker, "10.96.0.51:53"), ask(t, m, "10.96.0.51:53")}
	// The pod's packets pass a program, which leads its socket to the next backend.
	led, goes := ask(t, asker, "10.96.0.50:53"), []net.Conn{ask(t, m, "10.96.0.50:53")}
	stays = append(stays, led)
	m.say(t, script{Slices: []store.EndpointSlice{leadsTo("moves", "10.244.0.20")}})
	for _, conn := range goes {
		eventually(t, "a socket of the backend that is gone is ended", func() error { return ended(t, conn) })
	}
	// The daemon counts after it has ended the sockets of all namespaces.
	eventually(t, "the ended sockets to be counted", func() error {
		if got := m.metric(t, "alioth_cnid_stale_sockets_ended_total"); got != len(goes) {
			return fmt.Errorf("%d sockets were ended, want %d", got, len(goes))
		}
		return nil
	})
	late := ask(t, m, "10.96.0.50:53")
	m.stop(unix.SIGKILL)
	s.Slices = []store.EndpointSlice{leadsTo("moves", "10.244.0.21"), leadsTo("stays", "10.244.0.21")}
	m.start(t)
	eventually(t, "a socket whose backend went while there was no daemon is ended", func() error { return ended(t, late) })
	for _, conn := range stays {
		if err := ended(t, conn); err == nil {
			t.Errorf("the socket to %s was ended", conn.RemoteAddr())
		}
	}
}
