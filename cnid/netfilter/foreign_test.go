// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/cnid/internal/testnet"
)

func testTraffic() Traffic {
	return Traffic{
		Shadows: testState().Shadows, PodDevices: "alv", NodeDevice: "alioth_node", TunnelPort: 4789,
		Underlay: "eth0", Tunnel: netip.MustParseAddr("192.0.2.1"),
	}
}

// nft runs a script as somebody else would.
func nft(script string) error {
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, out)
	}
	return nil
}

const (
	forwardDrop = "type filter hook forward priority 0; policy drop;\n"
	forwardOpen = "type filter hook forward priority 0; policy accept;\n"
	inputDrop   = "type filter hook input priority 0; policy drop;\n"
)

func TestChainsOfOthersThatDropOurPacketsAreFoundAndTheRemedyHelps(t *testing.T) {
	for _, c := range []struct {
		name, script string
		// want are the chains that block.
		want []string
	}{
		{"nothing of others", "", nil},
		{"an empty chain", "table ip filter { chain FORWARD { " + forwardOpen + "}\n}", nil},
		{"a policy of IPv4", "table ip filter { chain FORWARD { " + forwardDrop + "}\n}", []string{"ip filter FORWARD"}},
		{"a policy of both families", "table inet fw { chain through { " + forwardDrop + "}\n}", []string{"inet fw through"}},
		{"two families apart", "table ip a { chain f { " + forwardDrop + "}\n}\ntable ip6 b { chain f { " + forwardDrop + "}\n}", []string{"ip a f", "ip6 b f"}},
		{"a table that sleeps", "table ip filter { flags dormant; chain FORWARD { " + forwardDrop + "}\n}", nil},
		{"another hook", "table ip filter { chain OUTPUT { type filter hook output priority 0; policy drop; }\n}", nil},
		{"a policy, what is ours accepted", "table inet fw { chain through { " + forwardDrop + `iifname "alv*" accept
			oifname "alv*" ct state established,related accept
		}
}`, nil},
		{"a policy, only one direction accepted", "table inet fw { chain through { " + forwardDrop + `iifname "alv*" accept
		}
}`, []string{"inet fw through"}},
		{"a policy, established accepted, nobody may open", "table inet fw { chain through { " + forwardDrop + `ct state established,related accept
		}
}`, []string{"inet fw through"}},
		{"a policy, other devices accepted", "table inet fw { chain through { " + forwardDrop + `iifname "docker0" accept
			oifname "docker0" accept
		}
}`, []string{"inet fw through"}},
		{"a policy, our addresses accepted", "table ip fw { chain through { " + forwardDrop + `ip saddr 169.254.64.0/18 accept
			ip daddr 169.254.64.0/18 accept
		}
}`, nil},
		{"a policy, our devices accepted in a set", "table inet fw { chain through { " + forwardDrop + `iifname { "alv*", "docker0" } accept
			ct state established,related accept
		}
}`, nil},
		{"a rejection of everything in a chain below", "table inet fw { chain rest { reject; }\nchain through { " + forwardOpen + `jump rest
		}
}`, []string{"inet fw through"}},
		{"a chain below that accepts", "table inet fw { chain ours { accept; }\nchain through { " + forwardDrop + `iifname "alv*" jump ours
			oifname "alv*" goto ours
		}
}`, nil},
		{"a chain below that returns", "table inet fw { chain ours { return; drop; }\nchain through { " + forwardOpen + `jump ours
		}
}`, nil},
		{"a chain below that only some see", "table inet fw { chain some { drop; }\nchain through { " + forwardOpen + `tcp dport 25 jump some
			meta mark 0x7 goto some
		}
}`, nil},
		{"a drop of something else", "table inet fw { chain through { " + forwardOpen + `iifname "docker0" drop
			ct state invalid drop
			tcp dport 25 drop
			iifname != "alv*" oifname != "alv*" drop
		}
}`, nil},
		{"a drop by device", "table inet fw { chain through { " + forwardOpen + `iifname != { "docker0" } counter
			iifname "alv*" oifname "eth0" counter log drop
		}
}`, []string{"inet fw through"}},
		{"an input that lacks the tunnel", "table inet fw { chain entry { " + inputDrop + `iif lo accept
			ct state established,related accept
			tcp dport 22 accept
		}
}`, []string{"inet fw entry"}},
		{"an input that has the tunnel", "table inet fw { chain entry { " + inputDrop + `ct state established,related accept
			udp dport 4789 accept
		}
}`, nil},
		{"an input that drops what conntrack does not know", "table inet fw { chain entry { type filter hook input priority 0; policy accept; ct state invalid drop\n}\n}", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			testnet.In(t, testnet.New(t), func() error {
				apply(t, testState())
				if err := nft(c.script); err != nil {
					return err
				}
				found, err := Blocks(testTraffic())
				if err != nil {
					return err
				}
				var names []string
				for _, b := range found {
					names = append(names, b.Chain)
					if err := nft(strings.ReplaceAll(strings.Join(b.Rules, "\n"), "nft ", "")); err != nil {
						return err
					}
				}
				if strings.Join(names, ", ") != strings.Join(c.want, ", ") {
					t.Errorf("blocking chains are %q, want %q", names, c.want)
				}
				if found, err = Blocks(testTraffic()); err != nil || len(found) != 0 {
					t.Errorf("after the remedy: %v, %v", found, err)
				}
				return nil
			})
		})
	}
}

func TestIptablesRulesOfTheNewKindAreUnderstood(t *testing.T) {
	if _, err := exec.LookPath("iptables-nft"); err != nil {
		t.Skip("missing feature: iptables-nft is not installed")
	}
	testnet.In(t, testnet.New(t), func() error {
		for _, args := range []string{
			"-P FORWARD DROP", "-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT", "-A FORWARD -i docker0 -j ACCEPT",
		} {
			if out, err := exec.Command("iptables-nft", strings.Fields(args)...).CombinedOutput(); err != nil {
				return fmt.Errorf("iptables %s: %w: %s", args, err, out)
			}
		}
		if found, err := Blocks(testTraffic()); err != nil || len(found) != 1 || found[0].Chain != "ip filter FORWARD" {
			t.Errorf("blocks: %v, %v", found, err)
		}
		if out, err := exec.Command("iptables-nft", strings.Fields("-I FORWARD -i alv+ -j ACCEPT")...).CombinedOutput(); err != nil {
			return fmt.Errorf("iptables: %w: %s", err, out)
		}
		if found, err := Blocks(testTraffic()); err != nil || len(found) != 0 {
			t.Errorf("after the remedy: %v, %v", found, err)
		}
		return nil
	})
}
