// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/automatic"
	"github.com/alioth-net/alioth/cnid/nmstate/automatic/serve"
	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
	"github.com/alioth-net/alioth/cnid/nmstate/host"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/resolvconf"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/test/waits"
)

// clients are those that a test leads.
type clients struct {
	configs []dhcp.Config
	held    []dhcp.Held
	// advertised holds the resolver settings that the clients have received from routers.
	advertised []dhcp.Advertised
	changed    chan struct{}
}

func (c *clients) Set(configs []dhcp.Config) error { c.configs = configs; return nil }
func (c *clients) Leases() []dhcp.Held             { return slices.Clone(c.held) }
func (c *clients) Advertised() []dhcp.Advertised   { return c.advertised }
func (c *clients) Changed() <-chan struct{}        { return c.changed }

// node is a namespace with the dummy device eth1, and a server of clients that a test leads.
type node struct {
	space   *netnstest.Namespace
	host    *host.Host
	store   *automatic.Store
	dir     string
	pending bool
	clients *clients
	server  *serve.Server
}

const static = "nameserver 192.0.2.53\n"

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{space: netnstest.New(t), dir: t.TempDir(), clients: &clients{changed: make(chan struct{}, 1)}}
	if err := os.WriteFile(filepath.Join(n.dir, "resolv.conf"), []byte(static), 0o600); err != nil {
		t.Fatal(err)
	}
	n.space.Do(t, func() (err error) {
		n.host, err = host.Open(resolvconf.New(n.dir, "resolv.conf"), func(document.Interface) bool { return false })
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "eth1"
		link := &netlink.Veth{LinkAttrs: attrs, PeerName: "other"}
		if err == nil {
			err = errors.Join(netlink.LinkAdd(link), netlink.LinkSetUp(link))
		}
		return err
	})
	t.Cleanup(n.host.Close)
	n.boots(t, "first")
	return n
}

// boots begins a boot of the node, and makes a server for it.
func (n *node) boots(t *testing.T, boot string) {
	t.Helper()
	n.store = automatic.NewStore(n.dir, boot)
	n.host.Keep(n.store)
	n.server = serve.New(serve.Config{
		Store: n.store, Host: n.host, Clients: n.clients, Hostname: "node-1", Log: t.Output(),
		Rules: n,
	})
}

func (n *node) IsReserved(p netip.Prefix) bool { return p.Addr().IsLinkLocalUnicast() }
func (n *node) IsPending() bool                { return n.pending }
func (n *node) IsTransaction(string) bool      { return false }

// turn turns DHCP on or off by a step.
func (n *node) turn(t *testing.T, on bool) {
	t.Helper()
	if err := n.host.Do(t.Context(), plan.SetAutomatic{Name: "eth1", Family: document.FamilyIPv4, IP: document.IP{DHCP: &on}}); err != nil {
		t.Fatal(err)
	}
}

// lease gives the client a lease with an address, or with "" none.
func (n *node) lease(t *testing.T, address string) {
	t.Helper()
	h := dhcp.Held{Key: dhcp.Key{Interface: "eth1", Family: ipfamily.IPv4}, Index: n.host.Index(t.Context(), "eth1")}
	if address != "" {
		now := time.Now()
		h.Lease = &dhcp.Lease{
			Address: netip.MustParsePrefix(address), Acquired: now, Expires: now.Add(time.Hour), Preferred: now.Add(time.Hour),
			DNS: []netip.Addr{netip.MustParseAddr("192.0.2.2")},
			Routes: []dhcp.Route{
				{Destination: netip.MustParsePrefix("203.0.113.0/24"), Gateway: netip.MustParseAddr("192.0.2.1"), OnLink: true},
				{Destination: netip.MustParsePrefix("169.254.64.1/32"), Gateway: netip.MustParseAddr("192.0.2.1"), OnLink: true}, // reserved
			},
		}
	} else {
		h.Problem = dhcp.Problem{Text: "no answer of a DHCP server", Since: time.Now()}
	}
	n.clients.held = []dhcp.Held{h}
}

func (n *node) pass(t *testing.T) {
	t.Helper()
	if err := n.server.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// has fails the test unless eth1 has addresses of leases, and the resolver name servers.
func (n *node) has(t *testing.T, addresses, servers string) {
	t.Helper()
	state, err := n.host.Show(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(state.Interfaces, func(i document.Interface) bool { return i.Name == "eth1" })
	var list []string
	for _, a := range state.Interfaces[at].IPv4.Addresses {
		list = append(list, a.IP)
	}
	if got := strings.Join(list, " "); got != addresses {
		t.Errorf("eth1 has %q, want %q", got, addresses)
	}
	if got := strings.Join(state.DNS.Running.Server, " "); got != servers {
		t.Errorf("the resolver has %q, want %q", got, servers)
	}
}

func TestLease_Interface_AllSettingsApplied(t *testing.T) {
	n := newNode(t)
	n.pass(t)
	if len(n.clients.configs) > 0 {
		t.Errorf("clients run: %+v", n.clients.configs)
	}
	n.turn(t, true)
	n.lease(t, "")
	n.pass(t)
	n.has(t, "", "192.0.2.53")
	if len(n.clients.configs) != 1 || n.clients.configs[0].V4.Hostname != "node-1" {
		t.Errorf("clients are %+v", n.clients.configs)
	}
	for _, address := range []string{"192.0.2.77/24", "192.0.2.77/24", "192.0.2.78/24"} {
		n.lease(t, address)
		n.pass(t)
		n.has(t, strings.TrimSuffix(address, "/24"), "192.0.2.53 192.0.2.2")
	}
	state, err := n.host.Show(t.Context())
	if err != nil || len(state.Routes.Running) != 2 || state.Routes.Running[1].Destination != "203.0.113.0/24" {
		t.Errorf("routes are %+v, %v; want those to 192.0.2.0/24 and 203.0.113.0/24", state.Routes, err)
	}
	n.lease(t, "169.254.64.1/32") // reserved
	n.pass(t)
	n.has(t, "", "192.0.2.53")
	known, err := n.store.Known()
	if err != nil || len(known.Clients) != 1 || !strings.Contains(known.Clients[0].Problem, "169.254.64.1/32, which is reserved") {
		t.Errorf("known is %+v, %v", known, err)
	}
	n.lease(t, "192.0.2.77/24")
	n.pass(t)
	n.lease(t, "") // it has expired, or was refused
	n.pass(t)
	n.has(t, "", "192.0.2.53")
	if w, err := n.store.Wanted(); err != nil || w.Static != nil {
		t.Errorf("wanted is %+v, %v", w, err)
	}
}

// TestDHCPClient_EndedDuringUndoableChange_LeaseKept, but its interface has nothing of it.
func TestDHCPClient_EndedDuringUndoableChange_LeaseKept(t *testing.T) {
	n := newNode(t)
	n.turn(t, true)
	n.lease(t, "192.0.2.77/24")
	n.pass(t)
	n.pending = true
	n.turn(t, false)
	n.has(t, "", "192.0.2.53 192.0.2.2")
	n.pass(t)
	n.has(t, "", "192.0.2.53")
	if len(n.clients.configs) != 1 {
		t.Errorf("the client has ended: %+v", n.clients.configs)
	}
	n.pending = false
	n.pass(t)
	if len(n.clients.configs) > 0 {
		t.Errorf("the client runs: %+v", n.clients.configs)
	}
}

// TestDHCPServe_WantedSettingsChange_Followed by another process, which writes the file.
func TestDHCPServe_WantedSettingsChange_Followed(t *testing.T) {
	n := newNode(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	ready := make(chan struct{})
	n.lease(t, "192.0.2.77/24")
	go func() { ended <- n.server.Run(ctx, ready) }()
	<-ready
	n.turn(t, true)
	waits.True(t, 10*time.Second, "the lease is used", func() bool {
		r, err := n.host.ReadResolver()
		return err == nil && len(r.Server) > 1 // It comes last.
	})
	n.has(t, "192.0.2.77", "192.0.2.53 192.0.2.2")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	n.has(t, "192.0.2.77", "192.0.2.53 192.0.2.2") // the end takes nothing away
}

// TestResolvConf_LastLeaseGone_Restored, also one that is not there. What a
// document says meanwhile stays.
func TestResolvConf_LastLeaseGone_Restored(t *testing.T) {
	const byHand = "# by hand\nnameserver 192.0.2.53\noptions  rotate\n"
	for name, before := range map[string]*string{"a file": new(byHand), "no file": nil} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			path := filepath.Join(n.dir, "resolv.conf")
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if before != nil {
				if err := os.WriteFile(path, []byte(*before), 0o640); err != nil {
					t.Fatal(err)
				}
			}
			was := n.resolverFile(t)
			n.turn(t, true)
			n.lease(t, "192.0.2.77/24")
			n.pass(t)
			n.turn(t, false)
			n.clients.held = nil
			n.pass(t)
			if is := n.resolverFile(t); !reflect.DeepEqual(was, is) {
				t.Errorf("the file was %+v and is %+v", was, is)
			}
		})
	}
	n := newNode(t)
	n.turn(t, true)
	n.lease(t, "192.0.2.77/24")
	n.pass(t)
	if err := n.host.Do(t.Context(), plan.SetResolver{Resolver: document.Resolver{Server: []string{"192.0.2.54"}}}); err != nil {
		t.Fatal(err)
	}
	n.turn(t, false)
	n.clients.held = nil
	n.pass(t)
	if r, err := n.host.ReadResolver(); err != nil || !slices.Equal(r.Server, []string{"192.0.2.54"}) {
		t.Errorf("the resolver has %v, %v", r, err)
	}
}

// TestNameServers_FromLeaseAfterBoot_NotStatic: the file of the resolver outlives a boot. A
// file that another program of the host writes at the boot stays, and counts as static.
func TestNameServers_FromLeaseAfterBoot_NotStatic(t *testing.T) {
	for name, c := range map[string]struct{ written, servers string }{
		"the file as it was left":      {"", "192.0.2.53"},
		"a file that others have made": {"nameserver 192.0.2.99\n", "192.0.2.99"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			was := n.resolverFile(t)
			n.turn(t, true)
			n.lease(t, "192.0.2.77/24")
			n.pass(t)
			if c.written != "" {
				if err := os.WriteFile(filepath.Join(n.dir, "resolv.conf"), []byte(c.written), 0o600); err != nil {
					t.Fatal(err)
				}
				was = n.resolverFile(t)
			}
			n.boots(t, "second")
			n.pass(t)
			if is := n.resolverFile(t); !reflect.DeepEqual(was, is) {
				t.Errorf("after the boot the file is %+v, want %+v", is, was)
			}
			n.turn(t, true)
			n.pass(t)
			n.has(t, "192.0.2.77", c.servers+" 192.0.2.2")
			n.turn(t, false)
			n.pass(t)
			if is := n.resolverFile(t); !reflect.DeepEqual(was, is) {
				t.Errorf("without DHCP the file is %+v, want %+v", is, was)
			}
		})
	}
}

func (n *node) resolverFile(t *testing.T) resolvconf.Copy {
	t.Helper()
	file, err := n.host.Resolver()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestResolvConf_RouterAdvertisements_NameServersAdded after what leases have, also in the next process, until its end
// or until a document does not want it.
func TestResolvConf_RouterAdvertisements_NameServersAdded(t *testing.T) {
	n := newNode(t)
	autoconf := func(on, dns bool) {
		t.Helper()
		ip := document.IP{DHCP: new(false), Autoconf: &on, AutoDNS: &dns}
		if err := n.host.Do(t.Context(), plan.SetAutomatic{Name: "eth1", Family: document.FamilyIPv6, IP: ip}); err != nil {
			t.Fatal(err)
		}
	}
	hear := func(until time.Time, servers ...string) {
		a := dhcp.Advertised{Index: n.host.Index(t.Context(), "eth1"), Search: []dhcp.Option{{Text: "router.example", Until: until}}}
		for _, server := range servers {
			a.DNS = append(a.DNS, dhcp.Option{Text: server, Until: until})
		}
		n.clients.advertised = []dhcp.Advertised{a}
	}
	soon := time.Now().AddDate(0, 0, 1)
	hear(soon, "2001:db8::53", "fe80::1")
	n.pass(t)
	n.has(t, "", "192.0.2.53") // The document does not say autoconf.
	autoconf(true, true)
	n.turn(t, true)
	n.lease(t, "192.0.2.77/24")
	n.pass(t)
	const all = "192.0.2.53 192.0.2.2 2001:db8::53 fe80::1%eth1"
	n.has(t, "192.0.2.77", all)
	if r, err := n.host.ReadResolver(); err != nil || !slices.Equal(r.Search, []string{"router.example"}) {
		t.Errorf("the search domains are %v, %v", r.Search, err)
	}
	n.clients.advertised = nil
	n.boots(t, "first") // another process of the same boot
	n.pass(t)
	n.has(t, "192.0.2.77", all)
	autoconf(true, false)
	n.pass(t)
	n.has(t, "192.0.2.77", "192.0.2.53 192.0.2.2")
	hear(time.Now(), "2001:db8::53")
	autoconf(true, true)
	n.pass(t)
	n.has(t, "192.0.2.77", "192.0.2.53 192.0.2.2")
	hear(soon, "2001:db8::54")
	n.turn(t, false)
	n.pass(t)
	n.has(t, "", "192.0.2.53 2001:db8::54")
	was := n.resolverFile(t)
	n.pass(t)
	if is := n.resolverFile(t); !reflect.DeepEqual(was, is) {
		t.Errorf("a pass without news has written %+v", is)
	}
	autoconf(false, true)
	n.pass(t)
	n.has(t, "", "192.0.2.53")
	if is := n.resolverFile(t); string(is.Text) != static {
		t.Errorf("the file is %q", is.Text)
	}
}
