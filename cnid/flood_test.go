// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/test/waits"
)

// flows is the number of flows of a flood, many times the limit of a pod.
const flows = 50_000

// keepFlows makes the node's connection tracking keep UDP flows for longer than any flood
// takes. By default a flow that is not answered ends after 30 seconds, and makes room for
// another one of the flood on a machine that is busy with other work.
func (l *outsideLab) keepFlows(t *testing.T) {
	t.Helper()
	testnet.In(t, l.nodes[0], func() error {
		return os.WriteFile("/proc/sys/net/netfilter/nf_conntrack_udp_timeout", []byte("3600"), 0o644)
	})
}

// flood opens flows by UDP to the host, each with one datagram.
func (p *labPod) flood(t *testing.T) {
	t.Helper()
	err := p.Do(func(ns.NetNS) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		for port := range flows {
			// ENOBUFS and refusals of single datagrams are the flood's own affair.
			_ = unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrInet4{Addr: hostAddrs[0].As4(), Port: 10_000 + port})
		}
		return unix.Close(fd)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// answered sends a datagram, again while it gets lost, as any does now and then
// where a flood keeps all CPUs busy, and wants it back.
func answered(conn net.Conn, text string) error {
	got := make([]byte, 64)
	for end := time.Now().Add(waits.Limit(20 * time.Second)); ; {
		if _, err := io.WriteString(conn, text); err != nil {
			return err
		}
		if err := conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
		n, err := conn.Read(got)
		switch {
		case err == nil && string(got[:n]) == text:
			return nil
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded) || time.Now().After(end):
			return fmt.Errorf("got %q for %q, %w", got[:n], text, err)
		}
	}
}

func TestFlood_OnePod_OtherPodsUnaffected(t *testing.T) {
	l := newOutsideLab(t, nil)
	l.attach(t)
	l.keepFlows(t)
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
			conn, says := l.grey.mustDial(t, network, 0, peer), says
			if network == "udp" {
				says = answered
			}
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

func TestFlood_SharedService_OtherPodsUnaffected(t *testing.T) {
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
	l.keepFlows(t)
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
		if err := answered(lasting, "still there?"); err != nil {
			t.Fatalf("the flow from before the flood: %v", err)
		}
		if opened == most {
			continue
		}
		opened++
		conn := l.grey.mustDial(t, "udp", 0, at)
		if err := answered(conn, "new"); err != nil {
			t.Fatalf("new flow %d: %v", opened, err)
		}
		conn.Close()
	}
	byTable := l.nodes[0].packets(t, `reason="conn_limit"`)
	byFilter := l.filterDrops(t, "flow_limit")
	if refused := byTable + byFilter; byTable == 0 || refused < flows-2*l.flowsPerPod(t) {
		t.Errorf("%d of %d flows were refused and counted: %d by the table of flows, %d by the packet filter", refused, flows, byTable, byFilter)
	}
	for line := range strings.Lines(l.nodes[0].get(t, "/metrics")) {
		if strings.HasPrefix(line, "alioth_datapath_vpc_dropped_packets_total{") && strings.Contains(line, `reason="conn_`) && strings.Contains(line, `vpc="grey"`) {
			t.Errorf("the other pod was refused flows: %s", line)
		}
	}
	if full := l.nodes[0].packets(t, `reason="conn_full"`); full != 0 {
		t.Errorf("%d flows found the table of the node full", full)
	}
	t.Logf("%d new flows by the other pod; of the flood %d refused by the table of flows, %d by the packet filter", opened, byTable, byFilter)
}

// filterDrops reads a counter of the packet filter from the daemon's metrics.
func (l *outsideLab) filterDrops(t *testing.T, reason string) int {
	t.Helper()
	return l.nodes[0].metric(t, fmt.Sprintf("alioth_filter_dropped_packets_total{reason=%q}", reason))
}

func (l *outsideLab) flowsPerPod(t *testing.T) int {
	return l.nodes[0].metric(t, "alioth_filter_flows_per_pod")
}

func (m *machine) metric(t *testing.T, name string) int {
	t.Helper()
	for line := range strings.Lines(m.get(t, "/metrics")) {
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
