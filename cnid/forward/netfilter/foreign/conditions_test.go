// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/cnid/internal/testnet"
)

func TestForeignInputRules_Table_OnlyCertainAccept(t *testing.T) {
	readsInput(t, testTraffic(), map[string]bool{
		"tcp dport { 22, 443 } accept":                            false,
		"tcp dport 4789 accept":                                   false,
		"tcp dport != 22 accept":                                  false,
		"tcp dport 4000-5000 accept":                              false,
		"tcp dport { 22, 4789 } accept":                           false,
		"meta l4proto tcp accept":                                 false,
		"meta l4proto { tcp, icmp } accept":                       false,
		"ip protocol tcp accept":                                  false,
		"udp dport { 53 } accept":                                 false,
		"udp dport { 53, 123 } accept":                            false,
		"udp dport { 53, 100-200 } accept":                        false,
		"udp dport != { 53, 4789 } accept":                        false,
		"udp dport != 4789 accept":                                false,
		"udp dport 53-100 accept":                                 false,
		"udp dport != 4000-5000 accept":                           false,
		"udp sport 53 accept":                                     false,
		"meta l4proto udp limit rate 5/second accept":             false,
		`iifname "eth1" accept`:                                   false,
		`iifname "eth1" udp dport 4789 accept`:                    false,
		`iifname != "eth0" accept`:                                false,
		`iif lo accept`:                                           false,
		`iif lo udp dport 4789 accept`:                            false,
		`iifname "eth0" tcp dport 22 accept`:                      false,
		`iifname "eth0" ip saddr 198.51.100.7 accept`:             false,
		"iifgroup 4 accept":                                       false,
		"ip daddr 192.0.2.2 accept":                               false,
		"ip saddr 192.0.2.0/24 accept":                            false,
		"meta nfproto ipv6 udp dport 4789 accept":                 false,
		"ip saddr . udp dport { 192.0.2.2 . 53 } accept":          false,
		"udp dport { 53, 4789 } accept":                           true,
		"udp dport { 53, 4000-5000 } accept":                      true,
		"udp dport { 4789-4790, 4791 } accept":                    true,
		"udp dport != { 53, 123 } accept":                         true,
		"udp dport != 53 accept":                                  true,
		"udp dport 4000-5000 accept":                              true,
		"udp dport != 53-100 accept":                              true,
		"udp dport 4789 limit rate 5000/second accept":            true,
		"meta l4proto { tcp, udp } th dport 4789 accept":          true,
		"meta l4proto udp accept":                                 true,
		"ip protocol udp accept":                                  true,
		`iifname "eth0" accept`:                                   true,
		`iifname { "eth0", "eth1" } accept`:                       true,
		`iifname "eth*" accept`:                                   true,
		"iifgroup 3 accept":                                       true,
		"meta iif 77 accept":                                      true,
		"ip daddr 192.0.2.1 accept":                               true,
		"ip daddr 192.0.2.0/25 accept":                            true,
		`iifname "eth0" ip daddr 192.0.2.1 udp dport 4789 accept`: true,
		"ip saddr 192.0.2.0/24 udp dport 4789 accept":             true,
		`iifname "eth0" jump below`:                               false,
		`iifname "eth0" goto drops`:                               false,
		"udp dport 4789 jump drops":                               false,
		"udp dport 4789 jump returns":                             false,
		"tcp dport 4789 jump accepts":                             false,
		"udp dport 4789 drop\n udp dport 4789 jump drops":         false,
		"drop\n udp dport 4789 accept":                            false,
		"udp dport 4789 jump accepts":                             true,
		`iifname "eth0" goto tunnels`:                             true,
		`iifname "eth1" goto tunnels`:                             false,
		"jump tunnels":                                            true,
		"meta l4proto udp jump tunnels":                           true,
		"meta l4proto udp meta mark 0x1 jump accepts":             false,
	})
}

func TestForeignInputRulesIPv6_Table_OnlyCertainAccept(t *testing.T) {
	traffic := testTraffic()
	traffic.Tunnel = netip.MustParseAddr("2001:db8::1")
	readsInput(t, traffic, map[string]bool{
		"ip6 nexthdr tcp accept":                        false,
		"ip6 daddr 2001:db8::2 accept":                  false,
		"ip6 daddr != 2001:db8::1 accept":               false,
		"ip6 saddr 2001:db8::/64 accept":                false,
		"meta nfproto ipv4 accept":                      false,
		"meta nfproto ipv4 udp dport 4789 accept":       false,
		"ip saddr 192.0.2.0/24 udp dport 4789 accept":   false,
		"ip daddr 192.0.2.1 accept":                     false,
		"tcp dport 4789 accept":                         false,
		"ip6 nexthdr udp accept":                        true,
		"ip6 daddr 2001:db8::1 accept":                  true,
		"ip6 daddr { 2001:db8::1, 2001:db8::7 } accept": true,
		"ip6 daddr { 2001:db8::/64, fc00::/7 } accept":  true,
		"ip6 daddr 2001:db8::/60 accept":                true,
		"ip6 saddr 2001:db8::/64 udp dport 4789 accept": true,
		"meta nfproto ipv6 accept":                      true,
		"udp dport 4789 accept":                         true,
	})
}

// readsInput expects that rules of an input chain with the policy drop let the tunnel through, or
// that they do not.
func readsInput(t *testing.T, traffic Traffic, accepting map[string]bool) {
	const others = "chain drops { drop; accept; }\nchain returns { return; accept; }\nchain accepts { accept; }\n" +
		"chain below { tcp dport 22 accept; drop; }\nchain tunnels { udp dport 4789 accept; drop; }\n"
	for rules, accepts := range accepting {
		t.Run(rules, func(t *testing.T) {
			testnet.In(t, testnet.New(t), func() error {
				if err := testnet.NFT("table inet fw {\n" + others + "chain entry { " + inputDrop + rules + "\n}\n}"); err != nil {
					return err
				}
				found, err := Blocks(t.Context(), traffic)
				if err != nil || (len(found) == 0) != accepts {
					t.Errorf("blocks: %v, %v", found, err)
				}
				return nil
			})
		})
	}
}

// inputs are conditions of rules of an INPUT chain with the policy DROP.
var inputs = map[string]bool{
	"-p tcp --dport 4789":                            false,
	"-p tcp -m multiport --dports 22,4789":           false,
	"-p udp --dport 53":                              false,
	"-p udp ! --dport 4789":                          false,
	"-p udp -m multiport --dports 53,123":            false,
	"-p udp -m multiport ! --dports 53,4000:5000":    false,
	"-p udp -m multiport --sports 53,4789":           false,
	"-p tcp -m multiport --dports 4000:5000":         false,
	"-p udp -m multiport --dports 53,4789":           true,
	"-p udp -m multiport --dports 53,4000:5000,6000": true,
	"-p udp -m multiport --dports 4789:4790":         true,
	"-p udp -m multiport ! --dports 53,123":          true,
	"-p udp --sport 53":                              false,
	"-p udp -m limit --limit 5/second":               false,
	"! -p udp":                                       false,
	"-i eth1 -p udp --dport 4789":                    false,
	"! -i eth0":                                      false,
	"-i eth1":                                        false,
	"-d 192.0.2.2":                                   false,
	"! -d 192.0.2.1":                                 false,
	"-m conntrack --ctstate NEW,ESTABLISHED":         false,
	"-m devgroup --src-group 7":                      false,
	"-m devgroup ! --src-group 3":                    false,
	"-m devgroup --src-group 7 -p udp --dport 4789":  false,
	"-p udp --dport 4789":                            true,
	"-p udp --dport 4000:5000":                       true,
	"-p udp ! --dport 53":                            true,
	"-s 192.0.2.0/24 -p udp --dport 4789":            true,
	"-p udp":                                         true,
	"-i eth0":                                        true,
	"-i eth+":                                        true,
	"! -i eth1":                                      true,
	"-d 192.0.2.1":                                   true,
	"-d 192.0.2.0/24":                                true,
	"-m devgroup --src-group 3":                      true,
	"-i eth0 -m conntrack --ctstate UNTRACKED":       true,
	"-i eth0 -m conntrack ! --ctstate INVALID":       true,
	"-i eth0 -m state --state NEW":                   false,
}

// forwards are conditions of rules for packets to pods, beside one that accepts packets from pods.
var forwards = map[string]bool{
	"! -o alv+":                      false,
	"-i alv+":                        false,
	"-m conntrack --ctstate NEW":     false,
	"-m conntrack --ctstate INVALID": false,
	"-m conntrack ! --ctstate RELATED,ESTABLISHED": false,
	"-m state --state NEW":                         false,
	"! -d 169.254.64.0/18":                         false,
	"-m devgroup ! --dst-group 0x616c7670":         false,
	"-m devgroup --dst-group 7":                    false,
	"-m conntrack --ctstate RELATED,ESTABLISHED":   true,
	"-m conntrack ! --ctstate INVALID":             true,
	"-m state --state NEW,ESTABLISHED":             true,
	"-d 169.254.0.0/16":                            true,
	"-m devgroup --dst-group 0x616c7670":           true,
	"-o alv+":                                      true,
}

func TestIptablesConditions_Table_Parsed(t *testing.T) {
	for _, program := range []string{"iptables-legacy", "iptables-nft"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("missing feature: %s is not installed", program)
		}
		for conditions, accepts := range inputs {
			readsIptables(t, accepts, program+" -P INPUT DROP", program+" -A INPUT "+conditions+" -j ACCEPT")
		}
		for conditions, accepts := range forwards {
			readsIptables(t, accepts, program+" -P FORWARD DROP", program+" -A FORWARD -i alv+ -j ACCEPT", program+" -A FORWARD "+conditions+" -j ACCEPT")
		}
		readsIptables(t, false, program+" -P FORWARD DROP", program+" -A FORWARD ! -i alv+ -j ACCEPT", program+" -A FORWARD -o alv+ -j ACCEPT")
		readsIptables(t, false, program+" -P INPUT DROP", program+" -N other", program+" -A other -j DROP", program+" -A INPUT -p udp --dport 4789 -j other")
	}
}

// readsIptables expects that the rules of some commands accept Alioth's packets, or that they drop
// some.
func readsIptables(t *testing.T, accepts bool, lines ...string) {
	t.Run(lines[len(lines)-1], func(t *testing.T) {
		testnet.In(t, testnet.New(t), func() error {
			if err := commands(lines...); err != nil {
				return err
			}
			found, err := Blocks(t.Context(), testTraffic())
			if err != nil || (len(found) == 0) != accepts {
				t.Errorf("%s: blocks: %v, %v", strings.Join(lines, "; "), found, err)
			}
			return nil
		})
	})
}
