// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
	"github.com/alioth-net/alioth/cnid/nmstate/dhcp/dhcptest"
	"github.com/alioth-net/alioth/test/waits"
)

func TestDHCPClient_TwoHundredInterfaces_AllGetLeases(t *testing.T) {
	t.Parallel()
	const count = 200
	s := &site{t: t, client: testnet.New(t), server: testnet.New(t), folder: filepath.Join(t.TempDir(), "leases")}
	testnet.In(t, s.server, func() error { return makeBridge("srv", "10.9.0.1/16") })
	var configs []dhcp.Config
	testnet.In(t, s.client, func() error {
		for i := range count {
			configs = append(configs, dhcp.Config{Interface: fmt.Sprintf("eth%d", i), V4: &dhcp.V4{}})
			if err := joinBridge(s.server, i); err != nil {
				return err
			}
		}
		return nil
	})
	s.dnsmasq("--dhcp-range=10.9.1.0,10.9.9.255,255.255.0.0,2m", "--dhcp-lease-max=1000")
	r := s.run(configs...)
	waits.Until(t, limit, "leases", func() error {
		addresses := map[netip.Addr]string{}
		for _, h := range r.Leases() {
			if !h.Lease.HasAddress() {
				return fmt.Errorf("%s is %s: %s", h.Key, h.Phase, h.Problem.Text)
			}
			addresses[h.Lease.Address.Addr()] = h.Interface
		}
		if len(addresses) != count {
			return fmt.Errorf("%d addresses for %d interfaces", len(addresses), count)
		}
		return nil
	})
}

func makeBridge(name, address string) error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = name
	bridge := &netlink.Bridge{LinkAttrs: attributes}
	if err := netlink.LinkAdd(bridge); err != nil {
		return err
	}
	parsed, err := netlink.ParseAddr(address)
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(bridge, parsed); err != nil {
		return err
	}
	return netlink.LinkSetUp(bridge)
}

// joinBridge joins eth<i> of this namespace to the bridge of the server's. The interface has the
// same hardware address each time, once it is up.
func joinBridge(server ns.NetNS, i int) error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = fmt.Sprintf("eth%d", i)
	port := fmt.Sprintf("port%d", i)
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: port, PeerNamespace: netlink.NsFd(int(server.Fd()))}); err != nil {
		return err
	}
	l, err := netlink.LinkByName(attributes.Name)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetHardwareAddr(l, net.HardwareAddr{2, 0, 0, 0, 0x11, byte(i)}); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(l); err != nil {
		return err
	}
	return server.Do(func(ns.NetNS) error {
		bridge, err := netlink.LinkByName("srv")
		if err != nil {
			return err
		}
		end, err := netlink.LinkByName(port)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetMaster(end, bridge); err != nil {
			return err
		}
		return netlink.LinkSetUp(end)
	})
}

func TestDHCPClient_DnsmasqLease_AllOptionsRead(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.dnsmasq("--dhcp-range=192.0.2.50,192.0.2.60,255.255.255.0,1h", "--dhcp-range=2001:db8::1000,2001:db8::1fff,64,1h",
		"--dhcp-option=option:mtu,1400", "--dhcp-option=option:dns-server,192.0.2.53", "--dhcp-option=option:domain-search,example.com,corp.example",
		"--dhcp-option=option:classless-static-route,198.51.100.0/24,192.0.2.9,0.0.0.0/0,192.0.2.1",
		"--dhcp-option=option6:dns-server,[2001:db8::53]", "--dhcp-option=option6:domain-search,six.example")
	r := s.run(dhcp.Config{Interface: "eth1", V4: four.V4, V6: six.V6})
	got := r.waitFor("a lease of IPv4", ipfamily.IPv4, hasAddress)
	if got.Address.Bits() != 24 || got.MTU != 1400 || len(got.DNS) != 1 || len(got.Routes) != 2 ||
		!slices.Equal(got.Search, []string{"example.com", "corp.example"}) {
		t.Errorf("the lease is %+v", got)
	}
	got = r.waitFor("a lease of IPv6", ipfamily.IPv6, hasAddress)
	if !netip.MustParsePrefix("2001:db8::1000/116").Contains(got.Address.Addr()) || len(got.DNS) != 1 || !slices.Equal(got.Search, []string{"six.example"}) {
		t.Errorf("the lease is %+v", got)
	}
}

func TestDHCPClient_RouterFlags_DecideWhetherToAsk(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ranges  string
		address bool
	}{
		"addresses":    {"2001:db8::1000,2001:db8::1fff,64,1h", true},
		"name servers": {"2001:db8::,ra-stateless,64,1h", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			r := s.run(dhcp.Config{Interface: "eth1", V6: &dhcp.V6{Mode: dhcp.ByRouter}})
			if h := r.held(ipfamily.IPv6); h.Lease != nil || h.Phase != "no advertisement" {
				t.Errorf("without a router the client is %s with %+v", h.Phase, h.Lease)
			}
			s.dnsmasq("--enable-ra", "--dhcp-range="+c.ranges, "--dhcp-option=option6:dns-server,[2001:db8::53]")
			lease := r.waitFor("what a router advertises", ipfamily.IPv6, func(l *dhcp.Lease) bool { return l != nil })
			if lease.HasAddress() != c.address || len(lease.DNS) != 1 {
				t.Errorf("the lease is %+v", lease)
			}
		})
	}
}

// TestDHCPClient_RouterAdvertisement_NameServersUsed without any client.
func TestDHCPClient_RouterAdvertisement_NameServersUsed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.run()
	s.dnsmasq(
		"--enable-ra",
		"--dhcp-range=2001:db8::,ra-only,64,1h",
		"--dhcp-option=option6:dns-server,[2001:db8::53]",
		"--dhcp-option=option6:domain-search,six.example",
	)
	waits.Until(t, limit, "what routers tell about the resolver", func() error {
		list := r.Advertised()
		if len(list) != 1 || len(list[0].DNS) != 1 || list[0].DNS[0].Text != "2001:db8::53" || len(list[0].Search) != 1 || list[0].Search[0].Text != "six.example" {
			return fmt.Errorf("it is %+v", list)
		}
		return nil
	})
}

func TestDHCPClient_Killed_LeaseContinued(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	server := s.four(time.Hour, 0, 0)
	killed := exec.CommandContext(t.Context(), os.Args[0])
	killed.Env = append(os.Environ(), folderVariable+"="+s.folder)
	killed.Stderr = os.Stderr
	testnet.In(t, s.client, killed.Start)
	waits.Until(t, limit, "the file of the lease", func() error {
		_, err := os.Stat(filepath.Join(s.folder, "eth1.4.lease"))
		return err
	})
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait()
	before := len(server.Asked())
	// Nobody answers: the lease is there all the same, before anything was sent.
	server.SetAway(true)
	r := s.run(four)
	if h := r.held(ipfamily.IPv4); !is("192.0.2.10/24")(h.Lease) {
		t.Fatalf("the client begins %s with %+v", h.Phase, h.Lease)
	}
	server.SetAway(false)
	r.waitFor("an acknowledgement", ipfamily.IPv4, func(*dhcp.Lease) bool { return r.held(ipfamily.IPv4).Phase == "bound" })
	for _, a := range server.Asked()[before:] {
		if a.Kind != dhcpv4.MessageTypeRequest || a.Requested != netip.MustParseAddr("192.0.2.10") || a.Server.IsValid() {
			t.Errorf("the client asked by %+v", a)
		}
	}
}

func TestDHCPClient_ServerAway_ProlongedUntilExpiry(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	server := s.four(10*time.Second, 2*time.Second, 5*time.Second)
	r := s.run(four)
	first := r.waitFor("a lease", ipfamily.IPv4, is("192.0.2.10/24"))
	second := r.waitFor("a longer lease", ipfamily.IPv4, func(l *dhcp.Lease) bool { return l != nil && l.Expires.After(first.Expires) })
	server.SetAway(true)
	waits.Until(t, limit, "the end of the lease", func() error {
		lease := r.held(ipfamily.IPv4).Lease
		if lease == nil {
			return nil
		}
		return fmt.Errorf("there is %+v", lease)
	})
	if now := time.Now(); now.Before(second.Expires) {
		t.Errorf("the lease ended before %s", second.Expires)
	}
	waits.Until(t, limit, "the address to go", func() error {
		if s.has(netip.MustParseAddr("192.0.2.10")) {
			return fmt.Errorf("the host still has it")
		}
		return nil
	})
	if _, err := os.Stat(filepath.Join(s.folder, "eth1.4.lease")); !os.IsNotExist(err) {
		t.Errorf("the file of the lease: %v", err)
	}
	server.SetAway(false)
	r.waitFor("the lease again", ipfamily.IPv4, is("192.0.2.10/24"))
}

func TestDHCPv4Client_AddressConflict_Declined(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	server := s.four(time.Hour, 0, 0)
	testnet.In(t, s.server, func() error {
		l, err := netlink.LinkByName("srv")
		if err != nil {
			return err
		}
		return netlink.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(192, 0, 2, 10), Mask: net.CIDRMask(24, 32)}})
	})
	r := s.run(four)
	r.waitFor("another address", ipfamily.IPv4, is("192.0.2.11/24"))
	declined := slices.ContainsFunc(server.Asked(), func(a dhcptest.Asked) bool {
		return a.Kind == dhcpv4.MessageTypeDecline && a.Requested == netip.MustParseAddr("192.0.2.10")
	})
	if !declined {
		t.Errorf("the server was asked %+v", server.Asked())
	}
}

func TestDHCPv6Client_AddressConflict_Declined(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.dnsmasq("--dhcp-range=2001:db8::1000,2001:db8::1001,64,1h")
	testnet.In(t, s.server, func() error {
		l, err := netlink.LinkByName("srv")
		if err != nil {
			return err
		}
		var errs error
		for _, last := range []byte{0, 1} {
			ip := net.IP{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, last}
			address := &netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: net.CIDRMask(64, 128)}, Flags: unix.IFA_F_NODAD}
			errs = errors.Join(errs, netlink.AddrAdd(l, address))
		}
		return errs
	})
	r := s.run(six)
	waits.Until(t, limit, "a conflict", func() error {
		if h := r.held(ipfamily.IPv6); !strings.Contains(h.Problem.Text, "in use by another host") || h.Lease != nil {
			return fmt.Errorf("the client is %s with %+v (problem: %s)", h.Phase, h.Lease, h.Problem.Text)
		}
		return nil
	})
}

func TestDHCPClient_Disabled_AddressReleased(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	server := s.four(time.Hour, 0, 0)
	r := s.run(four)
	r.waitFor("a lease", ipfamily.IPv4, hasAddress)
	waits.Until(t, limit, "the address", func() error {
		if !s.has(netip.MustParseAddr("192.0.2.10")) {
			return fmt.Errorf("the host does not have it")
		}
		return nil
	})
	r.set()
	waits.Until(t, limit, "a RELEASE", func() error {
		if asked := server.Asked(); asked[len(asked)-1].Kind != dhcpv4.MessageTypeRelease {
			return fmt.Errorf("the server was asked %+v", asked)
		}
		return nil
	})
	if files, err := os.ReadDir(s.folder); err != nil || len(files) != 1 || len(r.Leases()) != 0 {
		t.Errorf("left are %v, %v, %v", files, err, r.Leases())
	}
}

func TestDHCPClient_OtherMACAddress_OtherClient(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ id, want string }{
		"known by the address":    {"ll", "192.0.2.11/24"},
		"known by another number": {"01:02:03", "192.0.2.10/24"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			server := s.four(time.Hour, 0, 0)
			server.ByID = true
			r := s.run(dhcp.Config{Interface: "eth1", V4: &dhcp.V4{ClientID: c.id}})
			r.waitFor("a lease", ipfamily.IPv4, is("192.0.2.10/24"))
			s.setLink(netlink.LinkSetDown)
			r.waitFor("the carrier to go", ipfamily.IPv4, func(l *dhcp.Lease) bool { return l != nil && r.held(ipfamily.IPv4).Phase == "no carrier" })
			s.setLink(func(l netlink.Link) error {
				return errors.Join(netlink.LinkSetHardwareAddr(l, net.HardwareAddr{2, 0, 0, 0, 0, 0x77}), netlink.LinkSetUp(l))
			})
			r.waitFor("a lease for the address", ipfamily.IPv4, func(l *dhcp.Lease) bool {
				asked := server.Asked()
				return asked[len(asked)-1].Hardware == "02:00:00:00:00:77" && is(c.want)(l) && r.held(ipfamily.IPv4).Phase == "bound"
			})
		})
	}
}

// bridged is a site whose server is behind a bridge, so the interface of the host can go.
func bridged(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, client: testnet.New(t), server: testnet.New(t), folder: filepath.Join(t.TempDir(), "leases")}
	testnet.In(t, s.server, func() error { return makeBridge("srv", "192.0.2.1/24") })
	return s
}

// plug gives the host eth1.
func (s *site) plug() {
	s.t.Helper()
	testnet.In(s.t, s.client, func() error { return joinBridge(s.server, 1) })
}

func TestDHCPClient_InterfaceRecreated_LeaseKept(t *testing.T) {
	t.Parallel()
	s := bridged(t)
	server := s.four(time.Hour, 0, 0)
	r := s.run(four)
	if h := r.held(ipfamily.IPv4); h.Index != 0 || h.Phase != "no interface" {
		t.Errorf("without an interface the client is %s on %d", h.Phase, h.Index)
	}
	s.plug()
	r.waitFor("a lease", ipfamily.IPv4, is("192.0.2.10/24"))
	before := r.held(ipfamily.IPv4).Index
	s.setLink(netlink.LinkDel)
	r.waitFor("the interface to go", ipfamily.IPv4, func(l *dhcp.Lease) bool { return l != nil && r.held(ipfamily.IPv4).Index == 0 })
	asked := len(server.Asked())
	s.plug()
	r.waitFor("the interface with its lease", ipfamily.IPv4, func(l *dhcp.Lease) bool {
		h := r.held(ipfamily.IPv4)
		return l != nil && h.Index != 0 && h.Index != before && h.Phase == "bound"
	})
	for _, a := range server.Asked()[asked:] {
		if a.Kind != dhcpv4.MessageTypeRequest || a.Requested != netip.MustParseAddr("192.0.2.10") {
			t.Errorf("the client asked by %+v", a)
		}
	}
}

func TestDHCPClient_HostnameChanged_LeaseKept(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	server := s.four(time.Hour, 0, 0)
	r := s.run(four)
	lease := r.waitFor("a lease", ipfamily.IPv4, hasAddress)
	r.set(dhcp.Config{Interface: "eth1", V4: &dhcp.V4{Hostname: "node-2"}})
	if h := r.held(ipfamily.IPv4); !h.Lease.Same(lease) {
		t.Errorf("the client has %+v", h.Lease)
	}
	waits.Until(t, limit, "the other name at the server", func() error {
		if asked := server.Asked(); asked[len(asked)-1].Hostname != "node-2" {
			return fmt.Errorf("the server was asked %+v", asked)
		}
		return nil
	})
	for _, a := range server.Asked() {
		if a.Kind == dhcpv4.MessageTypeRelease {
			t.Error("the client gave its address back")
		}
	}
	r.set(dhcp.Config{Interface: "eth1", V4: &dhcp.V4{ClientID: "01:02:03"}})
	waits.Until(t, limit, "the other client at the server", func() error {
		if asked := server.Asked(); len(asked[len(asked)-1].ID) != 3 {
			return fmt.Errorf("the server was asked %+v", asked)
		}
		return nil
	})
}
