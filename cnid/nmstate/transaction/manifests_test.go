// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/snapshot/randomhost"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
)

// manifest holds the desired state of a policy, of a kind that the examples of kubernetes-nmstate
// have, and its desired state after a change.
type manifest struct{ desired, changed string }

// manifests are these kinds without DHCP.
var manifests = map[string]manifest{
	"an Ethernet device with an address": {
		"interfaces: [{name: eth1, type: ethernet, state: up, ipv4: {enabled: true, dhcp: false, address: [{ip: 198.51.100.20, prefix-length: 24}]}}]",
		"interfaces: [{name: eth1, type: ethernet, state: up, ipv4: {enabled: true, address: [{ip: 198.51.100.21, prefix-length: 25}]}}]",
	},
	"an Ethernet device that forwards": {
		"interfaces: [{name: eth1, type: ethernet, state: up, ipv4: {enabled: true, forwarding: true, address: [{ip: 198.51.100.20, prefix-length: 24}]}, ipv6: {enabled: true, forwarding: true}}]",
		"interfaces: [{name: eth1, type: ethernet, state: up, ipv4: {enabled: true, forwarding: false, address: [{ip: 198.51.100.21, prefix-length: 24}]}}]",
	},
	"a bond with a miimon in quotes": {
		"interfaces: [{name: bond0, type: bond, state: up, link-aggregation: {mode: balance-rr, options: {miimon: '140'}, port: [eth1, eth2]}, ipv4: {enabled: true, address: [{ip: 198.51.100.20, prefix-length: 24}]}}]",
		"interfaces: [{name: bond0, type: bond, state: up, link-aggregation: {mode: 1, options: {miimon: '120'}, port: [eth1, eth2]}}]",
	},
	"a bond that is removed": {
		"interfaces: [{name: bond0, type: bond, state: up, link-aggregation: {mode: balance-rr, port: [eth1, eth2]}}]",
		"interfaces: [{name: bond0, state: absent}]",
	},
	"a VLAN of a bond": {
		"interfaces: [{name: bond0, type: bond, state: up, link-aggregation: {mode: balance-rr, port: [eth1, eth2]}}, {name: bond0.102, type: vlan, state: up, vlan: {base-iface: bond0, id: 102}, ipv4: {enabled: true, address: [{ip: 198.51.100.20, prefix-length: 24}]}}]",
		"interfaces: [{name: bond0.102, type: vlan, state: up, mtu: '1400', vlan: {base-iface: bond0, id: '103'}}]",
	},
	"a VLAN": {
		"interfaces: [{name: eth1.102, type: vlan, state: up, vlan: {base-iface: eth1, id: 102}}]",
		"interfaces: [{name: eth1.102, type: vlan, state: absent}]",
	},
	"a bridge": {
		"interfaces: [{name: br1, type: linux-bridge, state: up, bridge: {options: {stp: {enabled: false}}, port: [{name: eth1}]}, ipv4: {enabled: true, address: [{ip: 198.51.100.20, prefix-length: 24}]}}]",
		"interfaces: [{name: br1, type: linux-bridge, state: up, bridge: {options: {multicast-router: 2}, port: [{name: eth1}, {name: eth2}]}}]",
	},
	"a bridge with VLANs": {
		"interfaces: [{name: br1, type: linux-bridge, state: up, description: with eth1 as a port, bridge: {options: {stp: {enabled: false}}, port: [{name: eth1, vlan: {mode: trunk, trunk-tags: [{id: 101}, {id-range: {max: 500, min: 200}}], tag: 100, enable-native: true}}]}}]",
		"interfaces: [{name: br1, type: linux-bridge, bridge: {port: [{name: eth1, vlan: {}}]}}]",
	},
	"a bridge that is removed, and its port gets an address": {
		"interfaces: [{name: br1, type: linux-bridge, state: up, bridge: {port: [{name: eth1}]}}]",
		"interfaces: [{name: br1, type: linux-bridge, state: absent}, {name: eth1, type: ethernet, state: up, ipv4: {enabled: true, address: [{ip: 198.51.100.20, prefix-length: 24}]}}]",
	},
	"a route": {
		"{interfaces: [{name: eth1, type: ethernet, state: up, ipv4: {enabled: true, address: [{ip: 198.51.100.20, prefix-length: 24}]}}], routes: {config: [{destination: 203.0.113.0/24, metric: 150, next-hop-address: 198.51.100.1, next-hop-interface: eth1, table-id: 254}]}}",
		"routes: {config: [{destination: 203.0.113.0/24, metric: '151', mtu: '1400', next-hop-address: 198.51.100.1, next-hop-interface: eth1}, {destination: 203.0.113.9, next-hop-address: 0.0.0.0, next-hop-interface: eth1, metric: -1}]}",
	},
	"a VRF with a route": {
		"{interfaces: [{name: vrf102, type: vrf, state: up, vrf: {port: [eth1], route-table-id: 102}}, {name: eth1, type: ethernet, state: up, ipv4: {enabled: true, address: [{ip: 198.51.100.20, prefix-length: 24}]}}], routes: {config: [{destination: 203.0.113.0/24, metric: 150, next-hop-address: 198.51.100.1, next-hop-interface: eth1, table-id: 102}]}}",
		"routes: {config: [{state: absent, vrf-name: vrf102, destination: 203.0.113.0/24}]}",
	},
	"a resolver": {
		"dns-resolver: {config: {search: [example.com, example.org], server: [192.0.2.53, '2001:db8::53']}}",
		"dns-resolver: {config: {search: [], server: []}}",
	},
	"a resolver and a device that is absent": {
		"dns-resolver: {config: {search: [example.net]}}",
		"{dns-resolver: {config: {search: [], server: []}}, interfaces: [{name: eth1, state: absent}]}",
	},
	"an interface that never was": {
		"interfaces: [{name: eth666, state: absent}, {name: eth1, type: ethernet, mtu: 1450}]",
		"interfaces: [{name: eth666, state: absent}, {name: eth1, type: ethernet, mtu: 1400}]",
	},
	"LLDP that is off": {
		"interfaces: [{name: eth1, type: ethernet, state: up, mtu: 1450, lldp: {enabled: false}}]",
		"interfaces: [{name: eth1, type: ethernet, state: up, mtu: 1400, lldp: {enabled: false}}]",
	},
}

// manifestHost has three Ethernet devices, which are up.
const manifestHost = `
sysctl -qw net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.all.accept_dad=0
ip link set lo up
ip link add eth0 type veth peer name eth0.ep
ip link add eth1 type veth peer name eth1.ep
ip link add eth2 type veth peer name eth2.ep
ip link set eth0 up
ip link set eth0.ep up
ip link set eth1 up
ip link set eth1.ep up
ip link set eth2 up
ip link set eth2.ep up
`

// TestNmstateManifests_Each_AppliedChangedAndUndone: each is reached, needs no step when
// it is applied again, and the host is as before when it is undone. So is its change.
func TestNmstateManifests_Each_AppliedChangedAndUndone(t *testing.T) {
	for name, m := range manifests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "resolv.conf"), []byte("# by hand\nnameserver 192.0.2.9\n"), 0o640); err != nil {
				t.Fatal(err)
			}
			h := randomhost.New(t)
			h.Run(manifestHost)
			undone(t, h, dir, m.desired)
			manage(t, h, dir, func(manager *transaction.Manager) error {
				_, err := manager.Apply(t.Context(), parseManifest(t, m.desired), transaction.Options{Timeout: time.Hour})
				return err
			})
			undone(t, h, dir, m.changed)
		})
	}
}

// undone applies a document, applies it again, rolls it back, and compares the host.
func undone(t *testing.T, h *randomhost.Host, dir, text string) {
	t.Helper()
	before, file := h.Settled(), resolver(t, dir)
	manage(t, h, dir, func(manager *transaction.Manager) error {
		desired := parseManifest(t, text)
		result, err := manager.Apply(t.Context(), desired, transaction.Options{Timeout: time.Hour, NoCommit: true})
		if err != nil {
			return err
		}
		if len(result.Steps) == 0 {
			t.Errorf("%s changes nothing", text)
		}
		if again, err := manager.Plan(t.Context(), desired); err != nil || len(again) > 0 {
			t.Errorf("%s applied again: %v, %v", text, again, err)
		}
		return manager.Rollback(t.Context())
	})
	h.Is(before)
	if now := resolver(t, dir); now != file {
		t.Errorf("the file of the resolver was %q and is %q", file, now)
	}
}

// manage calls a function with a manager of a host. It skips the test where the kernel lacks what
// the manifest needs.
func manage(t *testing.T, h *randomhost.Host, dir string, do func(*transaction.Manager) error) {
	t.Helper()
	var failed error
	h.Space.Do(t, func() error {
		network, err := open(dir)
		if err != nil {
			return err
		}
		defer network.Close()
		cfg := config(dir, network)
		cfg.Log, cfg.Tries, cfg.Interval = t.Output(), 3, 10*time.Millisecond
		cfg.Safeguards = guardedBy(&cfg, func(string) (int, error) { return os.Getpid(), nil })
		manager, err := transaction.New(cfg)
		if err == nil {
			failed = do(manager)
		}
		return err
	})
	if errors.Is(failed, errors.ErrUnsupported) {
		t.Skip(failed)
	}
	if failed != nil {
		t.Fatal(failed)
	}
}

func parseManifest(t *testing.T, text string) *document.State {
	t.Helper()
	desired, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return desired
}
