// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/engine"
	"github.com/alioth-net/alioth/cnid/nmstate/host"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/test/waits"
)

// clientNode is a node with eth1, whose other end is in the namespace of a DHCP server. Its files
// are in a folder of its own.
type clientNode struct {
	node
	root   string
	server *netnstest.Namespace
}

// serving is the environment variable that makes the test's binary the process that runs the
// DHCP clients. Its value is the folder of the transactions and, after a colon, the file system.
const serving = "ALIOTH_TEST_ENGINE_SERVING"

const staticResolver = "# by hand\nnameserver 127.0.0.1\n"

func newClient(t *testing.T) clientNode {
	t.Helper()
	n := clientNode{node: node{space: netnstest.New(t), dir: t.TempDir()}, root: t.TempDir(), server: netnstest.New(t)}
	err := errors.Join(
		os.MkdirAll(filepath.Join(n.root, "etc/systemd/system"), 0o700), n.config().Unit().Install(), os.Symlink("/proc", filepath.Join(n.root, "proc")),
		os.WriteFile(filepath.Join(n.root, "etc/resolv.conf"), []byte(staticResolver), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.Open(n.server.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	for _, space := range []*netnstest.Namespace{n.space, n.server} {
		space.Do(t, func() error { return os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", []byte("0"), 0) })
	}
	n.space.Do(t, func() error {
		if err := give("lo", "127.0.0.1/8"); err != nil {
			return err
		}
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth1"}, PeerName: "eth1", PeerNamespace: netlink.NsFd(int(other.Fd()))})
	})
	n.server.Do(t, func() error {
		return errors.Join(give("eth1", "192.0.2.1/24"), give("eth1", "2001:db8::1/64"), give("lo", "127.0.0.1/8"))
	})
	return n
}

// dnsmasq starts a DHCP server, and returns how to end it.
func (n clientNode) dnsmasq(t *testing.T) (end func()) {
	t.Helper()
	if _, err := exec.LookPath("dnsmasq"); err != nil {
		t.Fatal("dnsmasq is missing; run: make setup")
	}
	dir := t.TempDir()
	cmd := exec.Command("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--no-ping", "--no-resolv", "--user=root",
		"--interface=eth1", "--bind-interfaces", "--leasefile-ro", "--pid-file="+filepath.Join(dir, "pid"), "--log-facility=-",
		"--dhcp-range=192.0.2.100,192.0.2.150,2m", "--dhcp-range=2001:db8::100,2001:db8::1ff,slaac,64,2m", "--enable-ra",
		"--dhcp-option=option:dns-server,192.0.2.2,192.0.2.3", "--dhcp-option=option:domain-search,lease.example",
		"--dhcp-option=option6:dns-server,[2001:db8::2]", "--dhcp-authoritative")
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	n.server.Do(t, cmd.Start)
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	end = func() {
		_ = cmd.Process.Kill()
		<-ended
	}
	t.Cleanup(end)
	return end
}

func (n clientNode) config() engine.Config {
	none := func(document.Interface) bool { return false } // eth1 is one end of a veth pair, like the devices of pods
	return engine.Config{
		Dir: n.dir, Root: n.root, Guard: []string{"/proc/self/exe", "guard", n.dir, n.root}, Log: os.Stderr,
		Others: host.Others{Interface: none},
	}
}

// in calls f with an engine of the node.
func (n clientNode) in(t *testing.T, f func(*engine.Engine) error) error {
	t.Helper()
	return n.with(t, func(cfg *engine.Config) {
		*cfg = n.config()
		cfg.Log = t.Output()
	}, f)
}

func (n clientNode) apply(ctx context.Context, t *testing.T, text string, o transaction.Options) error {
	t.Helper()
	o.Timeout = time.Hour
	return n.in(t, func(e *engine.Engine) error {
		_, err := e.Apply(ctx, parse(t, text), o)
		return err
	})
}

// must applies a document.
func (n clientNode) must(t *testing.T, text string) {
	t.Helper()
	if err := n.apply(t.Context(), t, text, transaction.Options{}); err != nil {
		t.Fatal(err)
	}
}

// serve runs the DHCP clients in a process of its own, and returns how to kill it.
func (n clientNode) serve(t *testing.T) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serving+"="+n.dir+":"+n.root)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	n.space.Do(t, cmd.Start)
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(kill)
	if word, err := io.ReadAll(io.LimitReader(out, 5)); err != nil || string(word) != "ready" {
		t.Fatalf("the clients say %q, %v", word, err)
	}
	return kill
}

// serveDHCP is the work of that process.
func serveDHCP(dir, root string) error {
	e, err := engine.Open(clientNode{node: node{dir: dir}, root: root}.config())
	if err != nil {
		return err
	}
	defer e.Close()
	ready, ended := make(chan struct{}), make(chan error)
	go func() { ended <- e.ServeDHCP(context.Background(), ready) }()
	select {
	case <-ready:
		if _, err := os.Stdout.WriteString("ready"); err != nil {
			return err
		}
	case err := <-ended:
		return err
	}
	return <-ended
}

func (n clientNode) state(t *testing.T) (state *document.State) {
	t.Helper()
	err := n.in(t, func(e *engine.Engine) (err error) {
		state, err = e.Show(t.Context())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func (n clientNode) eth1(t *testing.T) document.Interface { t.Helper(); return n.called(t, "eth1") }

func (n clientNode) called(t *testing.T, name string) document.Interface {
	t.Helper()
	state := n.state(t)
	return state.Interfaces[slices.IndexFunc(state.Interfaces, func(i document.Interface) bool { return i.Name == name })]
}

// addressesBy are the addresses of a family of eth1 that came by a protocol.
func (n clientNode) addressesBy(t *testing.T, family, protocol string) (list []string) {
	t.Helper()
	return addressesBy(n.eth1(t), family, protocol)
}

func addressesBy(i document.Interface, family, protocol string) (list []string) {
	ip := i.IPv4
	if family == document.FamilyIPv6 {
		ip = i.IPv6
	}
	for _, a := range ip.Addresses {
		if a.Protocol == protocol {
			list = append(list, a.IP)
		}
	}
	return list
}

func (n clientNode) leased(t *testing.T) string {
	return strings.Join(n.addressesBy(t, document.FamilyIPv4, document.ProtocolDHCP), " ")
}

func (n clientNode) resolver(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(n.root, "etc/resolv.conf"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func eth1(text string) string { return fmt.Sprintf("interfaces: [{name: eth1, %s}]", text) }

const asks = "ipv4: {enabled: true, dhcp: true}"

func TestEngineDHCP_Lease_AddressWithoutDeclaration(t *testing.T) {
	t.Parallel()
	n := newClient(t)
	n.dnsmasq(t)
	n.serve(t)
	n.must(t, eth1(asks))
	i := n.eth1(t)
	if !*i.IPv4.DHCP || !*i.IPv4.AutoDNS || !strings.HasPrefix(n.leased(t), "192.0.2.1") {
		t.Fatalf("eth1 has %+v", i.IPv4)
	}
	if i.IPv4.Addresses[0].ValidLifetime == "" {
		t.Errorf("the address is %+v", i.IPv4.Addresses[0])
	}
	state := n.state(t)
	running := slices.ContainsFunc(state.Routes.Running, func(r document.Route) bool {
		return r.Destination == "0.0.0.0/0" && r.Address == "192.0.2.1" && r.Protocol == document.ProtocolDHCP
	})
	if !running || len(state.Routes.Config) > 0 {
		t.Errorf("routes are %+v", state.Routes)
	}
	waits.True(t, 10*time.Second, "the resolver has what the lease has", func() bool {
		return strings.Contains(n.resolver(t), "nameserver 127.0.0.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\n") &&
			strings.Contains(n.resolver(t), "search lease.example\n")
	})
	if diff := cmp.Diff([]string{"127.0.0.1"}, n.state(t).DNS.Config.Server); diff != "" {
		t.Errorf("configured name servers: %s", diff)
	}
	text, err := os.ReadFile(filepath.Join(n.dir, "committed.json"))
	if err != nil || strings.Contains(string(text), n.leased(t)) || !strings.Contains(string(text), `"dhcp":true`) {
		t.Errorf("committed is %s, %v", text, err)
	}
	// A document that does not name them leaves the settings; turned off, the address is static.
	n.must(t, eth1("mtu: 1400"))
	was := n.leased(t)
	n.must(t, eth1("ipv4: {enabled: true, dhcp: false}"))
	if i := n.eth1(t); n.leased(t) != "" || *i.IPv4.DHCP || len(i.IPv4.Addresses) != 1 || i.IPv4.Addresses[0].IP != was {
		t.Errorf("eth1 has %+v, want %s to be static", n.eth1(t).IPv4, was)
	}
	waits.True(t, 10*time.Second, "the resolver has what is static", func() bool { return !strings.Contains(n.resolver(t), "192.0.2.2\n") })
	n.must(t, eth1("ipv4: {enabled: true, dhcp: true, address: []}"))
	if n.leased(t) == "" {
		t.Errorf("eth1 has %+v", n.eth1(t).IPv4)
	}
}

// TestEngineDHCP_Undo_LeaseReleased and stops a client that the change has started.
func TestEngineDHCP_Undo_LeaseReleased(t *testing.T) {
	t.Parallel()
	n := newClient(t)
	n.dnsmasq(t)
	n.serve(t)
	rollback := func() {
		t.Helper()
		if err := n.in(t, func(e *engine.Engine) error { return e.Rollback(t.Context()) }); err != nil {
			t.Fatal(err)
		}
	}
	open := transaction.Options{NoCommit: true}
	if err := n.apply(t.Context(), t, eth1(asks), open); err != nil {
		t.Fatal(err)
	}
	rollback()
	if i := n.eth1(t); *i.IPv4.DHCP || n.leased(t) != "" || n.resolver(t) != staticResolver {
		t.Errorf("after the undo eth1 has %+v, and the resolver\n%s", i.IPv4, n.resolver(t))
	}
	n.must(t, eth1(asks))
	waits.True(t, 10*time.Second, "the resolver has the lease's servers", func() bool { return strings.Contains(n.resolver(t), "192.0.2.2") })
	before, lease, resolver := n.eth1(t).IPv4, n.leased(t), n.resolver(t)
	if err := n.apply(t.Context(), t, eth1("ipv4: {enabled: true, dhcp: false, address: [{ip: 192.0.2.9, prefix-length: 24}]}"), open); err != nil {
		t.Fatal(err)
	}
	if n.leased(t) != "" {
		t.Errorf("DHCP is off, and eth1 has %s", n.leased(t))
	}
	rollback()
	after := n.eth1(t).IPv4
	if n.leased(t) != lease || n.resolver(t) != resolver {
		t.Errorf("after the undo eth1 has %q instead of %q, and the resolver\n%s", n.leased(t), lease, n.resolver(t))
	}
	if diff := cmp.Diff(before.Automatic(), after.Automatic()); diff != "" {
		t.Errorf("after the undo: %s", diff)
	}
}

// TestEngineDHCP_ProcessEnds_LeaseKept: one that is killed takes nothing away, and the next one goes on
// with the lease.
func TestEngineDHCP_ProcessEnds_LeaseKept(t *testing.T) {
	t.Parallel()
	n := newClient(t)
	end := n.dnsmasq(t)
	kill := n.serve(t)
	n.must(t, eth1(asks))
	lease := n.leased(t)
	kill()
	end() // nobody gives a lease anew
	if err := n.apply(t.Context(), t, eth1("ipv4: {dhcp: true, auto-gateway: false}"), transaction.Options{}); !errors.Is(err, engine.ErrNotServed) {
		t.Errorf("without a process for the clients: %v", err)
	}
	if n.leased(t) != lease {
		t.Fatalf("eth1 has %q instead of %q", n.leased(t), lease)
	}
	gone := n.watchRemovals(t)
	n.serve(t)
	n.must(t, eth1("ipv4: {dhcp: true, auto-gateway: false}"))
	if n.leased(t) != lease {
		t.Errorf("eth1 has %q instead of %q", n.leased(t), lease)
	}
	if list := gone(); len(list) > 0 {
		t.Errorf("meanwhile these were removed: %v", list)
	}
}

// watchRemovals returns which addresses were removed since.
func (n clientNode) watchRemovals(t *testing.T) func() []string {
	t.Helper()
	updates, done := make(chan netlink.AddrUpdate, 100), make(chan struct{})
	n.space.Do(t, func() error { return netlink.AddrSubscribe(updates, done) })
	return func() (list []string) {
		close(done)
		for len(updates) > 0 {
			if u := <-updates; !u.NewAddr && u.LinkAddress.IP.To4() != nil {
				list = append(list, u.LinkAddress.String())
			}
		}
		return list
	}
}

// TestEngineDHCP_NoAnswer_ChangeUndone and says for what it waited.
func TestEngineDHCP_NoAnswer_ChangeUndone(t *testing.T) {
	t.Parallel()
	n := newClient(t)
	n.serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(3*time.Second))
	defer cancel()
	err := n.apply(ctx, t, eth1(asks+", wait-ip: ipv4"), transaction.Options{})
	if !errors.Is(err, transaction.ErrRolledBack) || !strings.Contains(err.Error(), "eth1 has no address (wait-ip: ipv4): DHCP for IPv4 on eth1") {
		t.Errorf("got %v", err)
	}
	if i := n.eth1(t); *i.IPv4.DHCP {
		t.Errorf("after the undo eth1 has %+v", i.IPv4)
	}
}

// TestEngineDHCP_InterfaceWithPorts_NoWait, unless wait-ip says so. The client goes on.
func TestEngineDHCP_InterfaceWithPorts_NoWait(t *testing.T) {
	t.Parallel()
	n := newClient(t)
	n.serve(t)
	bridge := func(more string) string {
		return "interfaces: [{name: br1, type: linux-bridge, bridge: {port: [{name: eth1}]}, " + asks + more + "}]"
	}
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(3*time.Second))
	defer cancel()
	err := n.apply(ctx, t, bridge(", wait-ip: any"), transaction.Options{})
	if !errors.Is(err, transaction.ErrRolledBack) || !strings.Contains(err.Error(), "br1 has no address (wait-ip: any)") {
		t.Errorf("got %v", err)
	}
	n.must(t, bridge(""))
	n.dnsmasq(t)
	waits.True(t, 20*time.Second, "br1 has the address of a lease", func() bool {
		return len(addressesBy(n.called(t, "br1"), document.FamilyIPv4, document.ProtocolDHCP)) > 0
	})
}

// TestEngineDHCP_RebootBeforeExpiry_LeaseRestored, without another process.
func TestEngineDHCP_RebootBeforeExpiry_LeaseRestored(t *testing.T) {
	t.Parallel()
	n := newClient(t)
	n.dnsmasq(t)
	committed := `{"interfaces":[{"name":"eth1","state":"up","ipv4":{"enabled":true,"dhcp":true}}]}`
	if err := os.WriteFile(filepath.Join(n.dir, "committed.json"), []byte(committed), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.in(t, func(e *engine.Engine) error { return e.Restore(t.Context()) }); err != nil {
		t.Fatal(err)
	}
	lease := n.leased(t)
	if lease == "" {
		t.Fatalf("eth1 has %+v", n.eth1(t).IPv4)
	}
	gone := n.watchRemovals(t)
	n.serve(t) // the daemon, later
	if n.leased(t) != lease || len(gone()) > 0 {
		t.Errorf("eth1 has %q instead of %q", n.leased(t), lease)
	}
}

func TestEngineIPv6_RouterAndServer_AddressesObtained(t *testing.T) {
	t.Parallel()
	n := newClient(t)
	n.dnsmasq(t)
	n.serve(t)
	n.must(t, eth1("wait-ip: ipv6, ipv6: {enabled: true, dhcp: true, autoconf: true}"))
	waits.True(t, 20*time.Second, "addresses of the router and of the server", func() bool {
		return len(n.addressesBy(t, document.FamilyIPv6, document.ProtocolRA)) > 0 && len(n.addressesBy(t, document.FamilyIPv6, document.ProtocolDHCP)) > 0
	})
	n.must(t, eth1("ipv6: {dhcp: false, autoconf: false, address: [{ip: '2001:db8::7', prefix-length: 64}]}"))
	if list := n.eth1(t).IPv6.Addresses; len(list) != 1 || list[0].IP != "2001:db8::7" {
		t.Errorf("eth1 has %+v", list)
	}
	n.must(t, eth1("ipv6: {dhcp: true, autoconf: false, address: []}, wait-ip: ipv6"))
	if list := n.eth1(t).IPv6.Addresses; len(list) != 1 || list[0].Protocol != document.ProtocolDHCP {
		t.Errorf("eth1 has %+v", list)
	}
}

// TestEngineIPv6_RouterNameServers_Used with autoconf alone, and stay when the process ends that has
// heard of them.
func TestEngineIPv6_RouterNameServers_Used(t *testing.T) {
	t.Parallel()
	n := newClient(t)
	end := n.dnsmasq(t)
	kill := n.serve(t)
	if six := n.eth1(t).IPv6; !*six.Autoconf || *six.AutoDNS {
		t.Errorf("before, the kernel alone configures eth1, and it has %+v", six)
	}
	n.must(t, eth1("ipv6: {enabled: true, autoconf: true}"))
	const line = "nameserver 127.0.0.1\nnameserver 2001:db8::2\n"
	waits.Until(t, 20*time.Second, "the resolver has the server that the router tells", func() error {
		if text := n.resolver(t); !strings.Contains(text, line) {
			return errors.New(text)
		}
		return nil
	})
	kill()
	end()
	n.serve(t)
	if !*n.eth1(t).IPv6.AutoDNS {
		t.Errorf("eth1 has %+v", n.eth1(t).IPv6)
	}
	if text := n.resolver(t); !strings.Contains(text, line) {
		t.Errorf("after the end of the process the resolver has\n%s", text)
	}
	n.must(t, eth1("ipv6: {enabled: true, autoconf: false}"))
	waits.True(t, 20*time.Second, "the resolver has what is static", func() bool { return n.resolver(t) == staticResolver })
}
