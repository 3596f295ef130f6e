// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodenetwork

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
)

// TestMain is the guard of a transaction, where a test's command starts one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "state" {
		cmd := StateCommand()
		cmd.SetArgs(os.Args[2:])
		if cmd.Execute() != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// statePlace is a node for commands about its network.
type statePlace struct {
	node *netnstest.Namespace
	// root is the host's file system.
	root string
}

func newStatePlace(t *testing.T) statePlace {
	t.Helper()
	p := statePlace{node: netnstest.New(t), root: t.TempDir()}
	pod, err := os.Open(netnstest.New(t).Path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pod.Close() }()
	p.node.Do(t, func() error {
		ofPod := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(pod.Fd()))}
		own := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth1"}, PeerName: "eth2"}
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		peer := func() error {
			link, err := netlink.LinkByName("eth2")
			if err != nil {
				return err
			}
			return netlink.LinkSetUp(link)
		}
		return errors.Join(netlink.LinkSetUp(lo), netlink.LinkAdd(ofPod), netlink.LinkAdd(own), peer())
	})
	if err := os.MkdirAll(filepath.Join(p.root, "etc/systemd/system"), 0o700); err != nil {
		t.Fatal(err)
	}
	return p
}

// run runs a command in the node.
func (p statePlace) run(t *testing.T, input string, words ...string) (out string, err error) {
	t.Helper()
	cmd := StateCommand()
	cmd.SilenceUsage = true
	cmd.SetArgs(append(words, "--root", p.root, "--dir", filepath.Join(p.root, "state")))
	var text strings.Builder
	cmd.SetOut(&text)
	cmd.SetErr(t.Output())
	cmd.SetIn(strings.NewReader(input))
	p.node.Do(t, func() error {
		err = cmd.ExecuteContext(t.Context())
		return nil
	})
	return text.String(), err
}

func (p statePlace) must(t *testing.T, input string, words ...string) string {
	t.Helper()
	out, err := p.run(t, input, words...)
	if err != nil {
		t.Fatalf("state %v: %v", words, err)
	}
	return out
}

const numbered = "interfaces: [{name: eth1, ipv4: {enabled: true, address: [{ip: 10.0.0.1, prefix-length: 24}]}}]"

func TestState_ShowAndApply_RoundTrip(t *testing.T) {
	p := newStatePlace(t)
	if out := p.must(t, numbered, "apply", "-", "--dry-run"); !strings.Contains(out, "would add 10.0.0.1/24 to eth1") {
		t.Errorf("the steps are:\n%s", out)
	}
	if out := p.must(t, "", "show", "eth1"); strings.Contains(out, "10.0.0.1") {
		t.Errorf("a dry run has changed the node:\n%s", out)
	}
	if out := p.must(t, numbered, "apply", "-"); !strings.Contains(out, "The node has the desired state") {
		t.Errorf("it says %q", out)
	}
	if out := p.must(t, "", "show", "eth1", "-o", "json"); !strings.Contains(out, `"ip": "10.0.0.1"`) {
		t.Errorf("it shows:\n%s", out)
	}
	file := filepath.Join(t.TempDir(), "state.yaml")
	if err := os.WriteFile(file, []byte(p.must(t, "", "show")), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := p.must(t, "", "apply", file); !strings.Contains(out, "has this state already") {
		t.Errorf("what is shown was applied: %s", out)
	}
	if out := p.must(t, "", "restore"); out != "" {
		t.Errorf("it says %q", out)
	}
}

func TestState_PodDevices_HiddenAndUnchanged(t *testing.T) {
	p := newStatePlace(t)
	if out := p.must(t, "", "show"); strings.Contains(out, "name: eth0") || !strings.Contains(out, "name: eth1") {
		t.Errorf("it shows:\n%s", out)
	}
	if _, err := p.run(t, "", "show", "eth0"); err == nil || !strings.Contains(err.Error(), `no interface "eth0"`) {
		t.Errorf("got %v", err)
	}
	if _, err := p.run(t, "interfaces: [{name: eth0, type: ethernet, mtu: 1400}]", "apply", "-"); err == nil {
		t.Error("it was changed")
	}
}

func TestStateShow_Interface_RouteRulesIncluded(t *testing.T) {
	p := newStatePlace(t)
	p.must(t, `{interfaces: [{name: eth1, ipv4: {enabled: true, address: [{ip: 10.0.0.1, prefix-length: 24}]}}],
		routes: {config: [{destination: 198.51.100.0/24, next-hop-interface: eth1, table-id: 200}]},
		route-rules: {config: [{ip-from: 192.0.2.0/24, route-table: 200, priority: 1}, {iif: eth1, route-table: 50, priority: 2}, {ip-to: 192.0.2.0/24, route-table: 50, priority: 3}]}}`, "apply", "-")
	out := p.must(t, "", "show", "eth1")
	for rule, want := range map[string]bool{"priority: 1": true, "priority: 2": true, "priority: 3": false} {
		if strings.Contains(out, rule+"\n") != want {
			t.Errorf("it shows the rule with %s: %v\n%s", rule, !want, out)
		}
	}
	if out := p.must(t, "", "show", "eth2"); strings.Contains(out, "priority") {
		t.Errorf("it shows rules of another interface:\n%s", out)
	}
}

func TestStateShow_AutomaticValues_LeftOut(t *testing.T) {
	p := newStatePlace(t)
	p.node.Do(t, func() error {
		link, err := netlink.LinkByName("eth1")
		if err != nil {
			return err
		}
		network := &net.IPNet{IP: net.IPv4(198, 51, 100, 0), Mask: net.CIDRMask(24, 32)}
		return errors.Join(
			netlink.LinkSetUp(link),
			netlink.RouteAdd(&netlink.Route{Dst: network, LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_LINK, Protocol: unix.RTPROT_DHCP}),
		)
	})
	const route = "protocol: dhcp"
	if all := p.must(t, "", "show", "eth1"); !strings.Contains(all, route) {
		t.Errorf("the route is not shown:\n%s", all)
	}
	for _, words := range [][]string{{"show", "eth1", "-r"}, {"show", "--running-config"}} {
		if out := p.must(t, "", words...); strings.Contains(out, route) || !strings.Contains(out, "name: eth1") {
			t.Errorf("%v:\n%s", words, out)
		}
	}
	static, leased := document.Address{IP: "192.0.2.1", PrefixLength: 24}, document.Address{IP: "192.0.2.2", PrefixLength: 24, Protocol: document.ProtocolDHCP}
	state := &document.State{Interfaces: []document.Interface{{Name: "eth1", IPv4: &document.IP{DHCP: new(true), Addresses: []document.Address{leased, static}}}}}
	left := withoutAutomatic(state).Interfaces[0].IPv4
	if !slices.Equal(left.Addresses, []document.Address{static}) || !*left.DHCP || len(state.Interfaces[0].IPv4.Addresses) != 2 {
		t.Errorf("left are %+v", left)
	}
}

func TestStateApply_SeveralDocuments_AppliedInOrder(t *testing.T) {
	p := newStatePlace(t)
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "state.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first, second := file("interfaces: [{name: eth1, mtu: 1400}]"), file("interfaces: [{name: eth1, mtu: 1401}]")
	p.must(t, "", "apply", first, second)
	if out := p.must(t, "", "show", "eth1"); !strings.Contains(out, "mtu: 1401") {
		t.Errorf("it shows:\n%s", out)
	}
	bad := file("interfaces: [{name: eth1, mtu: big}]")
	if _, err := p.run(t, "", "apply", first, bad); err == nil || !strings.Contains(err.Error(), bad+": ") {
		t.Errorf("got %v", err)
	}
	if out := p.must(t, "", "show", "eth1"); !strings.Contains(out, "mtu: 1401") {
		t.Errorf("the document before the bad one was applied:\n%s", out)
	}
	for _, flag := range []string{"--dry-run", "--no-commit"} {
		if _, err := p.run(t, "", "apply", first, second, flag); err == nil || !strings.Contains(err.Error(), "one document") {
			t.Errorf("%s: got %v", flag, err)
		}
	}
}

func TestStateApply_NoCommit_WaitsOrRollsBack(t *testing.T) {
	p := newStatePlace(t)
	if out := p.must(t, numbered, "apply", "-", "--no-commit", "--timeout", "1h"); !strings.Contains(out, "aliothctl state commit") {
		t.Errorf("it says %q", out)
	}
	p.must(t, "", "rollback")
	if out := p.must(t, "", "show", "eth1"); strings.Contains(out, "10.0.0.1") {
		t.Errorf("it is still there:\n%s", out)
	}
	if _, err := p.run(t, "", "commit"); err == nil || !strings.Contains(err.Error(), "no transaction is open") {
		t.Errorf("got %v", err)
	}
	p.must(t, numbered, "apply", "-", "--no-commit", "--timeout", "1h")
	p.must(t, "", "commit")
	if out := p.must(t, "", "show", "eth1"); !strings.Contains(out, "10.0.0.1") {
		t.Errorf("it is gone:\n%s", out)
	}
}

func TestBootUnit_InstallAndUninstall_UnitFollows(t *testing.T) {
	p := newStatePlace(t)
	p.must(t, "interfaces: [{name: eth1, ipv4: {enabled: true, address: [{ip: 10.0.0.1, prefix-length: 24}]}}]\n"+
		"routes: {config: [{destination: 0.0.0.0/0, next-hop-address: 10.0.0.254, next-hop-interface: eth1}]}", "apply", "-", "--probe-timeout", "0")
	moved := strings.ReplaceAll(numbered, "10.0.0.1", "10.0.0.2")
	if _, err := p.run(t, moved, "apply", "-"); err == nil || !strings.Contains(err.Error(), "aliothctl state install") {
		t.Errorf("got %v", err)
	}
	if out := p.must(t, "", "install"); !strings.Contains(out, "installed and enabled") {
		t.Errorf("it says %q", out)
	}
	p.must(t, moved, "apply", "-")
	p.must(t, "", "install", "--remove")
	if _, err := p.run(t, numbered, "apply", "-"); err == nil {
		t.Error("the address was changed without the unit")
	}
}

func TestStateApply_ProbeUnanswered_ChangeUndone(t *testing.T) {
	p := newStatePlace(t)
	document := numbered + "\nroutes: {config: [{destination: 0.0.0.0/0, next-hop-address: 10.0.0.254, next-hop-interface: eth1}]}"
	for _, c := range []struct {
		document, want string
		words          []string
	}{
		{document, "gateway 10.0.0.254 on eth1 does not answer since ", nil},
		{numbered, "target 127.0.0.1:1 of reach does not answer since ", []string{"--reach", "127.0.0.1:1"}},
		{numbered, `--reach[1]: "a b": want HOST or HOST:PORT`, []string{"--reach", "storage,a b"}},
	} {
		_, err := p.run(t, c.document, append([]string{"apply", "-", "--probe-timeout", "200ms"}, c.words...)...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.words, err, c.want)
		}
		if out := p.must(t, "", "show", "eth1"); strings.Contains(out, "10.0.0.1") {
			t.Errorf("%v: it is not undone:\n%s", c.words, out)
		}
	}
	p.must(t, document, "apply", "-", "--probe-timeout", "0", "--reach", "127.0.0.1:1")
	if out := p.must(t, "", "show", "eth1"); !strings.Contains(out, "10.0.0.254") {
		t.Errorf("it is not there:\n%s", out)
	}
}

// TestFindings_NetworkFailureOrWrongCommand_Distinct: the exit status of nmstatectl differs between
// them, too.
func TestFindings_NetworkFailureOrWrongCommand_Distinct(t *testing.T) {
	p := newStatePlace(t)
	for _, c := range []struct {
		input   string
		words   []string
		finding bool
	}{
		{"interfaces: [{name: eth1, mtu: 1279}]", []string{"apply", "-"}, true},
		{numbered, []string{"apply", "-", "--reach", "127.0.0.1:1", "--probe-timeout", "200ms"}, true},
		{"", []string{"rollback"}, true},
		{"", []string{"show", "eth9"}, true},
		{"interfaces: [{name: eth1, mtu: big}]", []string{"apply", "-"}, false},
		{"", []string{"apply"}, false},
		{"", []string{"show", "-o", "xml"}, false},
	} {
		if _, err := p.run(t, c.input, c.words...); err == nil || IsFinding(err) != c.finding {
			t.Errorf("%v: %v is a finding: %v, want %v", c.words, err, IsFinding(err), c.finding)
		}
	}
}

func TestStateApply_BadDocument_RefusedWithPath(t *testing.T) {
	p := newStatePlace(t)
	for text, want := range map[string]string{
		"interfaces: [{name: eth1, mtuu: 1400}]": `unknown field "interfaces[0].mtuu"`,
		"interfaces: [{name: eth1, mtu: 70000}]": "interfaces[0].mtu",
		"interfaces: [{name: eth9, mtu: 1400}]":  "eth9",
		"interfaces: [{name: eth1, mtu: 1279}]":  "interfaces[0].mtu: 1279: IPv6 needs 1280 or more",
		"interfaces: [{name: eth1, ipv4: {enabled: true, address: [{ip: 169.254.64.9, prefix-length: 32}]}}]": "interfaces[0].ipv4.address[0].ip: 169.254.64.9",
	} {
		if _, err := p.run(t, text, "apply", "-"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := p.run(t, "", "show", "-o", "xml"); err == nil || !strings.Contains(err.Error(), "yaml or json") {
		t.Errorf("got %v", err)
	}
	if _, err := p.run(t, "", "apply", filepath.Join(p.root, "none")); err == nil {
		t.Error("a missing file is accepted")
	}
}
