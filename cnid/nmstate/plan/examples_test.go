// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/policy/capture"
	"github.com/alioth-net/alioth/cnid/nmstate/target"
)

// documentsOfNmstate has one state document for each thing that nmstate's documentation
// shows an example of.
const documentsOfNmstate = "testdata/nmstate"

// accepted are the examples that a host can have, with those that it has before, in order.
var accepted = map[string][]string{
	"interface-up": {"ethernet-absent"}, "interface-down": {"dummy"}, "interface-ignore": nil,
	"ethernet-addresses": nil, "ethernet-no-addresses": {"ethernet-addresses"}, "ethernet-absent": {"ethernet-addresses"},
	"ethernet-settings": nil, "alt-names": nil, "alt-names-absent": {"alt-names"}, "forwarding": nil, "loopback": nil, "loopback-absent": {"loopback"}, "default-route": {"default-route-absent"}, "default-route-absent": nil,
	"dummy": nil, "dummy-absent": {"dummy"}, "veth": nil, "veth-absent": {"veth"},

	"bond-balance-rr": {"ethernet-addresses"}, "bond-active-backup": nil, "bond-balance-xor": nil, "bond-broadcast": nil,
	"bond-802.3ad": nil, "bond-balance-tlb": nil, "bond-balance-alb": nil, "bond-arp": nil,
	"bond-without-ports": {"bond-vlan"}, "bond-port-by-controller": nil, "bond-other-mode": {"bond-vlan"},
	"bond-absent": {"bond-balance-rr"}, "bond-vlan": nil, "bond-bridge-vlan": nil, "bond-bridge-vlan-absent": {"bond-bridge-vlan"},

	"bridge-stp": nil, "bridge-addresses": {"ethernet-addresses"}, "bridge-vlan-trunk": nil, "bridge-vlan-access": {"bridge-vlan-trunk"},
	"bridge-vlan-off": {"bridge-vlan-access"}, "bridge-802.1ad": nil, "bridge-without-ports": {"bridge-stp"}, "bridge-absent": {"bridge-stp"},
	"bridge-multicast": nil, "bridge-copy-mac": nil, "bridge-vlan-last": {"bridge-vlan-trunk"},

	"vlan": nil, "vlan-802.1ad": nil, "vlan-other-id": {"vlan"}, "vlan-absent": {"vlan"},
	"vxlan": nil, "vxlan-local": nil, "vxlan-absent": {"vxlan"}, "vrf": nil, "vrf-absent": {"vrf"},
	"macvlan": nil, "macvlan-passthru": {"macvlan"}, "macvlan-absent": {"macvlan"}, "ipvlan": nil, "ipvlan-absent": {"ipvlan"},
	"sriov": nil, "sriov-vfs": {"sriov"}, "sriov-none": {"sriov-vfs"},

	"dhcp": nil, "dhcp-settings": {"dhcp"}, "dhcp-off": {"dhcp"}, "autoconf": {"dhcp"},
	"routes": nil, "routes-other-gateway": {"routes"}, "routes-absent": {"routes"}, "routes-blackhole": nil,
	"rules": nil, "rules-marks": nil, "rules-absent": {"rules"}, "dns": nil, "dns-empty": {"dns"},

	"policy-bridge-on-default-route": nil, "policy-all-ethernet-up": {"ethernet-addresses"},
	"policy-all-bridges-down": {"bridge-addresses"}, "policy-bridge-by-description": {"ethernet-settings"},
	"policy-bond-by-mac": {"ethernet-settings"}, "policy-bridge-by-alt-name": {"alt-names"}, "policy-static": {"routes", "dns"},

	"policy-lldp-off": nil, "dns-lists-empty": {"dns"}, "dns-search-only": {"dns"}, "vrf-routes": nil, "absent-unknown": nil,
	"routes-attributes": nil, "rules-hosts": nil, "rules-all-absent": {"rules"},
}

// refused are the examples that no host can have, with what the error has to say: paths, and
// why.
var refused = map[string][]string{
	"refused-dhcp-settings": {
		`interfaces[0].ipv4.allow-extra-address": addresses are as the document has them`,
		`interfaces[0].ipv6.addr-gen-mode": addr-gen-mode is not supported`,
	},
	"refused-lldp":         {`interfaces[0].lldp": LLDP is not supported`},
	"refused-802.1x":       {`interfaces[0].802.1x": 802.1x is not supported`},
	"refused-ethtool":      {`interfaces[0].ethtool": ethtool settings are not supported`},
	"refused-speed":        {`interfaces[0].ethernet.auto-negotiation"`, `interfaces[0].ethernet.speed"`, `interfaces[0].ethernet.duplex"`},
	"refused-dispatch":     {`interfaces[0].dispatch": dispatch scripts are not supported`},
	"refused-mptcp":        {`interfaces[0].mptcp": MPTCP is not supported`},
	"refused-identifier":   {`interfaces[0].identifier": only the name identifies an interface`, `interfaces[0].profile-name": there are no profiles`},
	"refused-ports-config": {`interfaces[0].link-aggregation.ports-config": settings of single ports of a bond are not supported`},
	"refused-old-names":    {`unknown field "interfaces[0].link-aggregation.slaves"`},
	"refused-vlan-settings": {
		`interfaces[0].vlan.reorder-headers": reorder-headers is not supported`, `interfaces[0].vlan.loose-binding": loose-binding is not supported`,
		`interfaces[0].vlan.registration-protocol": the registration protocol of a VLAN is not supported`,
	},
	"refused-ovs-bridge": {"interfaces[0].type: ovs-bridge: want one of ethernet,", "interfaces[1].type: ovs-interface: want one of ethernet,"},
	"refused-ovs-db":     {`"ovs-db": Open vSwitch is not supported; use a linux-bridge`, `"ovn": Open vSwitch is not supported`},
	"refused-types": {
		"interfaces[0].type: team:", "interfaces[1].type: infiniband:", "interfaces[2].type: macsec:", "interfaces[3].type: hsr:",
		"interfaces[4].type: mac-vtap:", "interfaces[5].type: ipsec:", "interfaces[6].type: tun:",
	},
	"refused-hostname": {`"hostname": the host's name is not supported; set it with hostnamectl`},
	"refused-several-next-hops": {
		`routes.config[0].weight": routes with several next hops are not supported`,
		`routes.config[1].cwnd": cwnd of a route is not supported`,
	},
}

func TestNmstateExamples_Each_ReachedAndRestored(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(accepted)) {
		t.Run(name, func(t *testing.T) {
			m := exampleHost(t)
			for _, before := range accepted[name] {
				m.apply(t, resolve(t, m.desired(t, before), m.show()))
			}
			before := m.show()
			desired := m.desired(t, name)
			to := resolve(t, desired, before)
			for range 2 { // the restored state leads to the target again
				m.apply(t, to)
				containsAll(t, m.show(), withRouting(to.Document))
				if again := plan.Between(m.show(), resolve(t, desired, m.show())); len(again) > 0 {
					t.Fatalf("a second apply has steps:%s", lines(again))
				}
				m.restore(t, before, to)
			}
		})
	}
}

func TestNmstateExamples_Impossible_RefusedWithPathAndReason(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		t.Run(name, func(t *testing.T) {
			err := refusal(t, name)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, part := range refused[name] {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q is missing in\n%v", part, err)
				}
			}
		})
	}
}

func refusal(t *testing.T, name string) error {
	t.Helper()
	desired, err := document.Parse(example(t, name))
	if err != nil {
		return err
	}
	_, err = target.Resolve(desired, exampleHost(t).show())
	return err
}

func TestNmstateExamples_EachFile_HasCase(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(documentsOfNmstate, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		_, ok := accepted[name]
		if _, no := refused[name]; ok == no {
			t.Errorf("%s is accepted: %v, and refused: %v", name, ok, no)
		}
	}
	if len(files) != len(accepted)+len(refused) {
		t.Errorf("%d documents, and %d are tested", len(files), len(accepted)+len(refused))
	}
}

// exampleHost is a host with four Ethernet devices. The first one has the default route, the
// second one is up, and the last one can have virtual functions.
func exampleHost(t *testing.T) *model {
	t.Helper()
	m := newModel("eth0", "eth1", "eth2", "eth3")
	m.withVFs("eth3")
	m.links["lo"] = &link{
		Interface: document.Interface{Name: "lo", Type: document.Loopback}, six: true, up: true, mtu: 65536,
		v4: []document.Address{{IP: "127.0.0.1", PrefixLength: 8}},
	}
	m.resolver = &document.Resolver{Server: []string{"192.0.2.1"}, Search: []string{}, Options: []string{}}
	for _, name := range []string{"default-route", "interface-up"} {
		m.apply(t, resolve(t, m.desired(t, name), m.show()))
	}
	return m
}

func example(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(documentsOfNmstate, name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// desired returns the state document of an example, rendered if it has expressions.
func (m *model) desired(t *testing.T, name string) *document.State {
	t.Helper()
	text := example(t, name)
	if strings.Contains(string(text), "\ncapture:\n") {
		text = m.render(t, text)
	}
	state := parse(t, string(text))
	if state.Routes == nil {
		state.Routes = &document.Routes{}
	}
	if state.RouteRules == nil {
		state.RouteRules = &document.RouteRules{}
	}
	return state
}

func (m *model) render(t *testing.T, text []byte) []byte {
	t.Helper()
	var policy struct {
		Capture      map[string]string `json:"capture"`
		DesiredState map[string]any    `json:"desiredState"`
	}
	if err := yaml.UnmarshalStrict(text, &policy); err != nil {
		t.Fatal(err)
	}
	shown := m.show()
	shown.Routes.Running = shown.Routes.Config
	current := map[string]any{}
	if err := json.Unmarshal(textOf(shown), &current); err != nil {
		t.Fatal(err)
	}
	captured, err := capture.Evaluate(policy.Capture, current, nil)
	if err != nil {
		t.Fatal(err)
	}
	desired, err := capture.Render(policy.DesiredState, captured)
	if err != nil {
		t.Fatal(err)
	}
	return textOf(desired)
}

func resolve(t *testing.T, desired, current *document.State) *target.Target {
	t.Helper()
	to, err := target.Resolve(desired, current)
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// containsAll checks that a state has what an example names.
func containsAll(t *testing.T, state, desired *document.State) {
	t.Helper()
	plain := *desired
	plain.Interfaces = nil
	for _, i := range desired.Interfaces {
		plain.Interfaces = append(plain.Interfaces, asShown(i))
	}
	contains(t, state, &plain)
	for _, rule := range desired.RouteRules.Config {
		there := slices.ContainsFunc(state.RouteRules.Config, func(r document.RouteRule) bool { return compare.RuleMatches(rule, r) })
		if there != (rule.State == "") {
			t.Errorf("rule %+v is there: %v", rule, there)
		}
	}
	if desired.DNS != nil && desired.DNS.Config != nil {
		if want := textOf(target.MergeResolver(*state.DNS.Config, *desired.DNS.Config)); string(want) != string(textOf(state.DNS.Config)) {
			t.Errorf("the resolver has %s instead of %s", textOf(state.DNS.Config), want)
		}
	}
}

// asShown returns a desired interface in the words of the shown one, without read-only fields.
func asShown(i document.Interface) document.Interface {
	i.PermanentMACAddress, i.MinMTU, i.MaxMTU = "", nil, nil
	if i.State == document.Up {
		i.State = ""
	}
	i.WaitIP = "" // no state that is has it
	return i
}
