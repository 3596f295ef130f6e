// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/api/nmstate/reach"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/nmstate/engine"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
	"github.com/alioth-net/alioth/test/waits"
)

// verified is a node with the default gateway 192.0.2.1 and 2001:db8::1. A second router,
// 192.0.2.2 and 2001:db8::2, is on the same link. The API server is beyond the gateway.
type verified struct {
	node, gateway, second ns.NetNS
	root                  string
	api                   reach.Target
}

// beyond is an address that the gateway alone has.
const beyond = "203.0.113.9"

func newVerified(t *testing.T) *verified {
	t.Helper()
	v := &verified{node: testnet.New(t), gateway: testnet.New(t), second: testnet.New(t), root: t.TempDir()}
	testnet.Veth(t, v.gateway, "port", nil, v.second, "eth0", []string{"192.0.2.2/24", "2001:db8::2/64"})
	testnet.Veth(t, v.node, "eth1", []string{"192.0.2.7/24", "2001:db8::7/64"}, v.gateway, "node", nil)
	testnet.In(t, v.gateway, func() error { return bridge("192.0.2.1/24", "2001:db8::1/64") })
	testnet.In(t, v.node, func() error {
		return errors.Join(defaultRoute("192.0.2.1"), defaultRoute("2001:db8::1"))
	})
	units := filepath.Join(v.root, "etc/systemd/system")
	if err := os.MkdirAll(units, 0o700); err != nil {
		t.Fatal(err)
	}
	v.resolver(t, "")
	if err := (engine.Config{Root: v.root}).Unit().Install(); err != nil {
		t.Fatal(err)
	}
	testnet.In(t, v.gateway, func() error { return give("lo", beyond+"/32") })
	_, v.api = v.listen(t, v.gateway, beyond+":6443")
	return v
}

// bridge makes one of the devices port and node, with addresses that can be used at once.
func bridge(addresses ...string) error {
	br := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br"}}
	if err := netlink.LinkAdd(br); err != nil {
		return err
	}
	for _, name := range []string{"port", "node"} {
		port, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetMaster(port, br); err != nil {
			return err
		}
	}
	for _, text := range addresses {
		address, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		address.Flags = 2 // IFA_F_NODAD
		if err := netlink.AddrAdd(br, address); err != nil {
			return err
		}
	}
	return netlink.LinkSetUp(br)
}

func defaultRoute(gateway string) error {
	eth1, err := netlink.LinkByName("eth1")
	if err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{LinkIndex: eth1.Attrs().Index, Gw: net.ParseIP(gateway), Protocol: 4}) // static
}

func (v *verified) set(t *testing.T, space ns.NetNS, setting, value string) {
	t.Helper()
	testnet.In(t, space, func() error { return os.WriteFile("/proc/sys/net/"+setting, []byte(value), 0) })
}

// deaf lets the routers answer no echo requests.
func (v *verified) deaf(t *testing.T) {
	t.Helper()
	for _, space := range []ns.NetNS{v.gateway, v.second} {
		v.set(t, space, "ipv4/icmp_echo_ignore_all", "1")
		v.set(t, space, "ipv6/icmp/echo_ignore_all", "1")
	}
}

// resolver writes the node's resolv.conf.
func (v *verified) resolver(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(v.root, "etc/resolv.conf"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// listen accepts connections of TCP.
func (v *verified) listen(t *testing.T, space ns.NetNS, address string) (net.Listener, reach.Target) {
	t.Helper()
	var listener net.Listener
	testnet.In(t, space, func() (err error) {
		listener, err = net.Listen("tcp", address)
		return err
	})
	t.Cleanup(func() { _ = listener.Close() })
	target, err := reach.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return listener, target
}

// answer answers queries of DNS.
func (v *verified) answer(t *testing.T, space ns.NetNS, ip string) net.PacketConn {
	t.Helper()
	var conn net.PacketConn
	testnet.In(t, space, func() (err error) {
		conn, err = net.ListenPacket("udp", net.JoinHostPort(ip, "53"))
		return err
	})
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buffer := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			buffer[2] |= 0x80 // a response
			_, _ = conn.WriteTo(buffer[:n], from)
		}
	}()
	return conn
}

// with calls f with an engine of the node.
func (v *verified) with(t *testing.T, f func(*engine.Engine) error) (err error) {
	t.Helper()
	testnet.In(t, v.node, func() error {
		dir := filepath.Join(v.root, "state")
		cfg := configOf(dir, v.root)
		cfg.Log, cfg.APIServer = t.Output(), v.api
		e, openErr := engine.Open(cfg)
		if openErr != nil {
			return openErr
		}
		defer e.Close()
		err = f(e)
		return nil
	})
	return err
}

// moment is long enough to find out that something does not answer, and far from what may take a
// while: what has to answer has a minute.
const moment = 200 * time.Millisecond

func (v *verified) apply(t *testing.T, text string, o transaction.Options, targets ...string) error {
	t.Helper()
	return v.with(t, func(e *engine.Engine) (err error) {
		if o.Reach, err = reach.ParseList("", targets); err == nil {
			o.Timeout = time.Hour
			_, err = e.Apply(t.Context(), parse(t, text), o)
		}
		return err
	})
}

func (v *verified) show(t *testing.T) (state *document.State) {
	t.Helper()
	if err := v.with(t, func(e *engine.Engine) (err error) {
		state, err = e.Show(t.Context())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return state
}

// undone checks that a change is undone, with words of the cause in its error.
func (v *verified) undone(t *testing.T, text string, targets []string, words ...string) {
	t.Helper()
	before := v.show(t)
	err := v.apply(t, text, transaction.Options{ProbeLimit: moment}, targets...)
	if !errors.Is(err, transaction.ErrRolledBack) {
		t.Fatalf("%s: got %v", text, err)
	}
	for _, word := range append(words, "does not answer since 20") {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %q lacks %q", text, err, word)
		}
	}
	if diff := cmp.Diff(before, v.show(t)); diff != "" {
		t.Errorf("%s: the node is not as it was (-want +got):\n%s", text, diff)
	}
}

func (v *verified) kept(t *testing.T, text string, targets ...string) {
	t.Helper()
	before := v.show(t)
	if err := v.apply(t, text, transaction.Options{}, targets...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if cmp.Equal(before, v.show(t)) {
		t.Errorf("%s: nothing was changed", text)
	}
}

// via is a document with one default route of each family.
func via(four, six string) string {
	return `routes: {config: [{destination: 0.0.0.0/0, state: absent}, {destination: "::/0", state: absent},
		{destination: 0.0.0.0/0, next-hop-address: ` + four + `, next-hop-interface: eth1},
		{destination: "::/0", next-hop-address: "` + six + `", next-hop-interface: eth1}]}`
}

const described = "interfaces: [{name: eth1, description: "

func TestVerification_GatewayDead_DefaultRouteUndone(t *testing.T) {
	t.Parallel()
	v := newVerified(t)
	v.api = reach.Target{}
	v.undone(t, via("192.0.2.77", "2001:db8::1"), nil, "gateway 192.0.2.77 on eth1", "asked by resolution of its Ethernet address")
	v.undone(t, via("192.0.2.1", "2001:db8::77"), nil, "gateway 2001:db8::77 on eth1")
	v.undone(
		t,
		`routes: {config: [{destination: 0.0.0.0/0, next-hop-address: 192.0.2.77, next-hop-interface: eth1, table-id: 100}]}`,
		nil,
		"gateway 192.0.2.77 on eth1",
	)
	v.kept(t, `routes: {config: [{destination: 198.51.100.0/24, next-hop-address: 192.0.2.77, next-hop-interface: eth1}]}`)
	v.deaf(t)
	v.kept(t, via("192.0.2.2", "2001:db8::2"))
}

// TestVerification_GatewayDeadBefore_NotAwaited, nor does one that an earlier change has verified:
// it is down when the node boots, and when a link flaps.
func TestVerification_GatewayDeadBefore_NotAwaited(t *testing.T) {
	t.Parallel()
	v := newVerified(t)
	v.api = reach.Target{}
	v.kept(t, via("192.0.2.2", "2001:db8::2"))
	testnet.In(t, v.second, func() error {
		eth0, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.LinkSetDown(eth0)
	})
	v.kept(t, described+"two}]")
	testnet.In(t, v.node, func() error {
		return netlink.RouteDel(&netlink.Route{Dst: nil, Gw: net.ParseIP("192.0.2.2"), Priority: 0})
	})
	before := v.show(t)
	if err := v.with(t, func(e *engine.Engine) error { return e.Restore(t.Context()) }); err != nil {
		t.Error(err)
	}
	if cmp.Equal(before, v.show(t)) {
		t.Error("nothing was restored")
	}
}

func TestVerification_APIServerCutOff_ChangeUndone(t *testing.T) {
	t.Parallel()
	v := newVerified(t)
	v.undone(t, via("192.0.2.2", "2001:db8::2"), nil, "API server "+v.api.String(), "asked by new TCP connections")
	v.kept(t, described+"one}]")
	v.api = reach.Target{Host: beyond, Port: 6444}
	v.kept(t, via("192.0.2.2", "2001:db8::2"))
}

func TestVerification_NameServerAnsweredBefore_OneMustAnswer(t *testing.T) {
	t.Parallel()
	v := newVerified(t)
	const dead = "dns-resolver: {config: {server: [192.0.2.77, 192.0.2.78]}}"
	first := v.answer(t, v.gateway, beyond)
	v.resolver(t, "nameserver "+beyond+"\n")
	v.undone(t, dead, nil, "each of the name servers 192.0.2.77, 192.0.2.78", "asked by queries for root-servers.net.")
	v.answer(t, v.second, "2001:db8::2")
	v.kept(t, `dns-resolver: {config: {server: [192.0.2.77, "2001:db8::2"]}}`)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	v.resolver(t, "nameserver "+beyond+"\n")
	v.kept(t, dead)
}

func TestVerification_TargetUnreachable_ChangeUndone(t *testing.T) {
	t.Parallel()
	v := newVerified(t)
	storage, target := v.listen(t, v.second, "192.0.2.2:443")
	v.kept(t, described+"one}]", target.String(), beyond+":6443")
	v.undone(t, described+"two}]", []string{target.String(), "192.0.2.1:444"}, "target 192.0.2.1:444 of reach", "asked by new TCP connections", "refused")
	v.undone(t, described+"two}]", []string{"192.0.2.77:443"}, "target 192.0.2.77:443 of reach")
	v.kept(t, described+"two}]", "192.0.2.1", "2001:db8::1")
	v.deaf(t)
	v.undone(t, described+"three}]", []string{"192.0.2.1"}, "target 192.0.2.1 of reach", "asked by echo requests")
	if err := storage.Close(); err != nil {
		t.Fatal(err)
	}
	testnet.In(t, v.node, func() error { // A person changes the committed settings.
		eth1, err := netlink.LinkByName("eth1")
		if err != nil {
			return err
		}
		return netlink.LinkSetAlias(eth1, "other")
	})
	v.kept(t, described+"two}]", target.String())
	if err := v.apply(t, described+"three}]", transaction.Options{NoProbe: true}, target.String()); err != nil {
		t.Errorf("without questions: %v", err)
	}
}

// TestVerification_OtherPartsTarget_ReachableIfBefore: a change that cuts it off is undone, and one that
// was down before holds nothing up.
func TestVerification_OtherPartsTarget_ReachableIfBefore(t *testing.T) {
	t.Parallel()
	v := newVerified(t)
	_, target := v.listen(t, v.second, "192.0.2.2:443")
	dead := reach.Target{Host: "192.0.2.77", Port: 443}
	keep := transaction.Options{Kept: []reach.Target{target, dead}, ProbeLimit: moment}
	before := v.show(t)
	const cut = "routes: {config: [{destination: 192.0.2.2/32, route-type: blackhole}]}"
	if err := v.apply(t, cut, keep); !errors.Is(err, transaction.ErrRolledBack) || !strings.Contains(err.Error(), "target 192.0.2.2:443") ||
		strings.Contains(err.Error(), dead.Host) {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(before, v.show(t)); diff != "" {
		t.Errorf("the node is not as it was (-want +got):\n%s", diff)
	}
	keep.ProbeLimit = 0
	if err := v.apply(t, described+"one}]", keep); err != nil {
		t.Errorf("a change that cuts nothing off: %v", err)
	}
}

// TestVerification_ProcessItself_UndoesInTime: at the deadline the guard ends it.
func TestVerification_ProcessItself_UndoesInTime(t *testing.T) {
	t.Parallel()
	v := newVerified(t)
	before := v.show(t)
	err := v.with(t, func(e *engine.Engine) error {
		o := transaction.Options{Timeout: waits.Limit(10 * time.Second), ProbeLimit: time.Hour, Reach: []reach.Target{{Host: "192.0.2.1", Port: 444}}}
		_, err := e.Apply(t.Context(), parse(t, described+"one}]"), o)
		return err
	})
	if !errors.Is(err, transaction.ErrRolledBack) || !strings.Contains(err.Error(), "192.0.2.1:444") {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(before, v.show(t)); diff != "" {
		t.Errorf("the node is not as it was (-want +got):\n%s", diff)
	}
}
