// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
	"github.com/alioth-net/alioth/cnid/nmstate/dhcp/client"
	"github.com/alioth-net/alioth/cnid/nmstate/dhcp/dhcptest"
	"github.com/alioth-net/alioth/test/waits"
)

// limit is how long anything here takes at most; a lost message costs some seconds.
const limit = time.Minute

// site is a host with the interface eth1, and a server at its other end, srv.
type site struct {
	t              testing.TB
	client, server ns.NetNS
	folder         string
}

func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{t: t, client: testnet.New(t), server: testnet.New(t), folder: filepath.Join(t.TempDir(), "leases")}
	testnet.Veth(t, s.client, "eth1", nil, s.server, "srv", []string{"192.0.2.1/24", "2001:db8::1/64"})
	return s
}

// four returns a server that gives addresses from 192.0.2.10.
func (s *site) four(lease, t1, t2 time.Duration) *dhcptest.Four {
	s.t.Helper()
	server := &dhcptest.Four{Address: netip.MustParseAddr("192.0.2.1"), Time: lease, T1: t1, T2: t2}
	for n := range 10 {
		server.Pool = append(server.Pool, netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(10 + n)}), 24))
	}
	server.Serve(s.t, s.server, "srv")
	return server
}

// dnsmasq starts the server of Debian on srv.
func (s *site) dnsmasq(args ...string) {
	s.t.Helper()
	path, err := exec.LookPath("dnsmasq")
	if err != nil {
		s.t.Fatal("dnsmasq is missing; run: make setup")
	}
	args = append([]string{
		"--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--no-resolv", "--no-hosts", "--pid-file=", "--user=root", "--no-ping",
		"--dhcp-authoritative", "--interface=srv", "--dhcp-leasefile=" + filepath.Join(s.t.TempDir(), "dnsmasq.leases"),
	}, args...)
	log, err := os.Create(filepath.Join(s.t.TempDir(), "dnsmasq.log"))
	if err != nil {
		s.t.Fatal(err)
	}
	command := exec.CommandContext(context.Background(), path, args...)
	command.Stderr = log
	testnet.In(s.t, s.server, command.Start)
	s.t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if text, err := os.ReadFile(log.Name()); err == nil && s.t.Failed() {
			s.t.Logf("dnsmasq:\n%s", text)
		}
		_ = log.Close()
	})
}

// running is a Manager that runs until end, and the addresses on the interfaces.
type running struct {
	*client.Manager
	site *site
	end  func()
}

// run starts a Manager. Like the rest of the engine, it puts addresses of leases on interfaces.
func (s *site) run(configs ...dhcp.Config) *running {
	s.t.Helper()
	manager, err := client.New(client.Options{Folder: s.folder, Space: space{s.client}})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Manager: manager, site: s}
	r.set(configs...)
	done := make(chan error, 1)
	go func() { done <- manager.Run(ctx) }()
	applied := make(chan struct{})
	go func() {
		defer close(applied)
		s.apply(ctx, manager)
	}()
	ended := false
	r.end = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		<-applied
		if err := <-done; err != nil {
			s.t.Errorf("run: %v", err)
		}
	}
	s.t.Cleanup(r.end)
	return r
}

func (r *running) set(configs ...dhcp.Config) {
	r.site.t.Helper()
	if err := r.Set(configs); err != nil {
		r.site.t.Fatal(err)
	}
}

// apply keeps the addresses of leases on the interfaces of the host.
func (s *site) apply(ctx context.Context, manager *client.Manager) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-manager.Changed():
		}
		err := s.client.Do(func(ns.NetNS) error {
			var errs []error
			for _, h := range manager.Leases() {
				errs = append(errs, applyOne(h))
			}
			return errors.Join(errs...)
		})
		if err != nil {
			s.t.Logf("apply the leases: %v", err)
		}
	}
}

func applyOne(h dhcp.Held) error {
	l, err := netlink.LinkByName(h.Interface)
	if err != nil {
		return err
	}
	family := unix.AF_INET
	if h.Family == ipfamily.IPv6 {
		family = unix.AF_INET6
	}
	if h.Lease.HasAddress() {
		valid, preferred := h.Lease.Lifetimes(time.Now())
		address := &netlink.Addr{IPNet: &net.IPNet{IP: h.Lease.Address.Addr().AsSlice(), Mask: net.CIDRMask(h.Lease.Address.Bits(), h.Lease.Address.Addr().BitLen())}}
		address.ValidLft, address.PreferedLft = int(valid), int(preferred)
		return netlink.AddrReplace(l, address)
	}
	addresses, err := netlink.AddrList(l, family)
	for _, a := range addresses {
		if a.Scope == unix.RT_SCOPE_UNIVERSE {
			err = errors.Join(err, netlink.AddrDel(l, &a))
		}
	}
	return err
}

// held returns what a client of eth1 holds.
func (r *running) held(family ipfamily.Family) dhcp.Held {
	for _, h := range r.Leases() {
		if h.Interface == "eth1" && h.Family == family {
			return h
		}
	}
	return dhcp.Held{}
}

// waitFor waits until the client of eth1 holds a lease that fits, and returns it.
func (r *running) waitFor(what string, family ipfamily.Family, fits func(*dhcp.Lease) bool) *dhcp.Lease {
	r.site.t.Helper()
	var lease *dhcp.Lease
	waits.Until(r.site.t, limit, what, func() error {
		h := r.held(family)
		if lease = h.Lease; !fits(lease) {
			return fmt.Errorf("%s is %s with %+v (problem: %s)", h.Key, h.Phase, h.Lease, h.Problem.Text)
		}
		return nil
	})
	return lease
}

func hasAddress(l *dhcp.Lease) bool { return l.HasAddress() }

func is(address string) func(*dhcp.Lease) bool {
	return func(l *dhcp.Lease) bool { return l.HasAddress() && l.Address.String() == address }
}

// setLink changes eth1.
func (s *site) setLink(change func(netlink.Link) error) {
	s.t.Helper()
	testnet.In(s.t, s.client, func() error {
		l, err := netlink.LinkByName("eth1")
		if err != nil {
			return err
		}
		return change(l)
	})
}

// has reports whether the host has an address.
func (s *site) has(address netip.Addr) (has bool) {
	s.t.Helper()
	s.setLink(func(l netlink.Link) error {
		addresses, err := netlink.AddrList(l, netlink.FAMILY_ALL)
		for _, a := range addresses {
			found, _ := netip.AddrFromSlice(a.IP)
			has = has || found.Unmap() == address
		}
		return err
	})
	return has
}

var (
	four = dhcp.Config{Interface: "eth1", V4: &dhcp.V4{Hostname: "node-1"}}
	six  = dhcp.Config{Interface: "eth1", V6: &dhcp.V6{}}
)

// space is a client.Space.
type space struct{ in ns.NetNS }

func (s space) Do(run func() error) error { return s.in.Do(func(ns.NetNS) error { return run() }) }
