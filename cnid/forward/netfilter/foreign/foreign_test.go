// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/forward/netfilter"
	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
)

func testTraffic() Traffic {
	return Traffic{
		Shadows:  []netip.Prefix{netip.MustParsePrefix("169.254.64.0/18"), netip.MustParsePrefix("fd41:6c69:6f74:6801::/64")},
		PodGroup: hostdev.PodGroup, PodDevices: "alv", NodeDevice: "alioth_node", TunnelPort: 4789,
		Underlay: "eth0", UnderlayIndex: 77, UnderlayGroup: 3, Tunnel: netip.MustParseAddr("192.0.2.1"),
	}
}

// trustsNoName requires that a remedy accepts no device by the beginning of its name: people
// can give such a name to other devices.
func trustsNoName(t *testing.T, b Block) {
	t.Helper()
	if text := b.String(); strings.Contains(text, testTraffic().PodDevices+"*") || strings.Contains(text, testTraffic().PodDevices+"+") {
		t.Errorf("the remedy accepts devices by their name: %s", text)
	}
}

// applyOurs makes Alioth's own table. It drops much, but must not be reported as a block.
func applyOurs(t *testing.T) {
	t.Helper()
	traffic := testTraffic()
	s := ruleset.State{
		Shadows: traffic.Shadows, TunnelPort: traffic.TunnelPort, PodGroup: hostdev.PodGroup, PodKinds: hostdev.PodKinds, NodeDevice: traffic.NodeDevice,
		MarkMask: 0x30000000, SharedMark: 0x10000000, EgressMark: 0x20000000, NodeMark: 0x30000000,
		OpeningMark: 0x10000000, TunneledMark: 0x30000000, FlowsPerShadow: 4,
	}
	for _, shadows := range s.Shadows {
		s.NodeShadows = append(s.NodeShadows, shadows.Addr().Next())
	}
	if _, err := netfilter.Apply(s); err != nil {
		t.Fatalf("Apply: %v", err)
	}
}

const (
	forwardDrop = "type filter hook forward priority 0; policy drop;\n"
	forwardOpen = "type filter hook forward priority 0; policy accept;\n"
	inputDrop   = "type filter hook input priority 0; policy drop;\n"
)

func TestForeignChains_DropPackets_FoundAndRemedyHelps(t *testing.T) {
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
		{"a policy, the group of pods accepted", "table inet fw { chain through { " + forwardDrop + `iifgroup 0x616c7670 accept
			oifgroup 0x616c7670 ct state established,related accept
		}
}`, nil},
		{"a policy, the group accepted in one direction", "table inet fw { chain through { " + forwardDrop + `iifgroup 0x616c7670 accept
		}
}`, []string{"inet fw through"}},
		{"a policy, another group accepted", "table inet fw { chain through { " + forwardDrop + `iifgroup 7 accept
			oifgroup 7 accept
		}
}`, []string{"inet fw through"}},
		{"a policy, the group of the node's network accepted", "table inet fw { chain through { " + forwardDrop + `iifgroup 3 accept
			oifgroup 3 accept
			oifname "alioth_node" accept
			iifname "alioth_node" accept
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
		{"a drop by device, which is somebody's decision", "table inet fw { chain through { " + forwardOpen + `iifname "alv*" oifname "eth0" counter log drop
		}
}`, nil},
		{"a policy, flows of all accepted", "table inet fw { chain through { " + forwardDrop + `ct state new,established accept
		}
}`, nil},
		{"a policy, flows of others accepted", "table inet fw { chain through { " + forwardDrop + `iifname "docker0" ct state new accept
			ct state established,related accept
		}
}`, []string{"inet fw through"}},
		{"a policy, our devices accepted elsewhere", "table inet fw { chain after { type filter hook postrouting priority 0;\n" + `oifname "alv*" accept
		iifname "alv*" accept
		}
chain through { ` + forwardDrop + "}\n}", []string{"inet fw through"}},
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
				applyOurs(t)
				if err := testnet.NFT(c.script); err != nil {
					return err
				}
				found, err := Blocks(t.Context(), testTraffic())
				if err != nil {
					return err
				}
				var names []string
				for _, b := range found {
					names = append(names, b.Chain)
					trustsNoName(t, b)
					if err := testnet.NFT(strings.ReplaceAll(strings.Join(b.Rules, "\n"), "nft ", "")); err != nil {
						return err
					}
				}
				if strings.Join(names, ", ") != strings.Join(c.want, ", ") {
					t.Errorf("blocking chains are %q, want %q", names, c.want)
				}
				if found, err = Blocks(t.Context(), testTraffic()); err != nil || len(found) != 0 {
					t.Errorf("after the remedy: %v, %v", found, err)
				}
				return nil
			})
		})
	}
}

func TestIptablesNFT_Rules_Understood(t *testing.T) {
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
		if found, err := Blocks(t.Context(), testTraffic()); err != nil || len(found) != 1 || found[0].Chain != "ip filter FORWARD" {
			t.Errorf("blocks: %v, %v", found, err)
		}
		for _, condition := range []string{"-i alv+", fmt.Sprintf("-m devgroup --src-group %#x", hostdev.PodGroup)} {
			for _, verb := range []string{"-I", "-D"} {
				out, err := exec.Command("iptables-nft", strings.Fields(verb+" FORWARD "+condition+" -j ACCEPT")...).CombinedOutput()
				if err != nil {
					return fmt.Errorf("iptables: %w: %s", err, out)
				}
				if found, err := Blocks(t.Context(), testTraffic()); err != nil || (len(found) == 0) != (verb == "-I") {
					t.Errorf("after %s of %s: %v, %v", verb, condition, found, err)
				}
			}
		}
		return nil
	})
}

func TestLegacyIptables_DropPackets_FoundAndRemedyHelps(t *testing.T) {
	for _, command := range []string{"iptables-legacy", "ip6tables-legacy"} {
		if _, err := exec.LookPath(command); err != nil {
			t.Skipf("missing feature: %s is not installed", command)
		}
	}
	const v4, v6 = "iptables-legacy ", "ip6tables-legacy "
	const forward4, forward6 = "iptables-legacy filter FORWARD", "ip6tables-legacy filter FORWARD"
	for _, c := range []struct {
		name     string
		commands []string
		want     string
	}{
		{"nothing", nil, ""},
		{"a table without rules", []string{v4 + "-P FORWARD ACCEPT"}, ""},
		{"a policy", []string{v4 + "-P FORWARD DROP"}, forward4},
		{"a policy of each family", []string{v4 + "-P FORWARD DROP", v6 + "-P FORWARD DROP"}, forward6 + ", " + forward4},
		{"a policy, established accepted", []string{
			v4 + "-P FORWARD DROP", v4 + "-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
		}, forward4},
		{"a policy, what is ours accepted", []string{
			v4 + "-P FORWARD DROP", v4 + "-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT", v4 + "-A FORWARD -i alv+ -j ACCEPT",
		}, ""},
		{"a policy, others accepted", []string{v4 + "-P FORWARD DROP", v4 + "-A FORWARD -i docker0 -j ACCEPT", v4 + "-A FORWARD -o docker0 -j ACCEPT"}, forward4},
		{"a policy, our addresses accepted", []string{
			v6 + "-P FORWARD DROP", v6 + "-A FORWARD -s fd41:6c69:6f74:6801::/64 -j ACCEPT", v6 + "-A FORWARD -d fd41:6c69:6f74:6801::/64 -j ACCEPT",
		}, ""},
		{"a policy, only one direction accepted", []string{v4 + "-P FORWARD DROP", v4 + "-A FORWARD -i alv+ -j ACCEPT"}, forward4},
		{"a policy, our devices accepted where nothing leads", []string{
			v4 + "-P FORWARD DROP", v4 + "-N ours", v4 + "-A ours -i alv+ -j ACCEPT", v4 + "-A ours -o alv+ -j ACCEPT",
		}, forward4},
		{"a policy, our devices only marked", []string{
			v4 + "-t mangle -P FORWARD DROP", v4 + "-t mangle -A FORWARD -i alv+ -j MARK --set-mark 1", v4 + "-t mangle -A FORWARD -o alv+ -j MARK --set-mark 1",
		}, "iptables-legacy mangle FORWARD"},
		{"a chain below that accepts", []string{
			v4 + "-P FORWARD DROP", v4 + "-N ours", v4 + "-A ours -j ACCEPT", v4 + "-A FORWARD -i alv+ -j ours", v4 + "-A FORWARD -o alv+ -g ours",
		}, ""},
		{"a chain below that returns", []string{v4 + "-P FORWARD DROP", v4 + "-N ours", v4 + "-A ours -j RETURN", v4 + "-A FORWARD -j ours"}, forward4},
		{"a rejection in a chain below", []string{v4 + "-N rest", v4 + "-A rest -j REJECT", v4 + "-A FORWARD -j rest"}, forward4},
		{"a drop with conditions, which is not certain", []string{v4 + "-A FORWARD ! -i docker0 -j DROP"}, ""},
		{"a drop of something else", []string{v4 + "-A FORWARD -i docker0 -j DROP", v4 + "-A FORWARD -p tcp --dport 25 -j DROP"}, ""},
		{"a rule that only counts", []string{v4 + "-A FORWARD -i alv+"}, ""},
		{"an input without the tunnel", []string{v4 + "-P INPUT DROP", v4 + "-A INPUT -p tcp --dport 22 -j ACCEPT"}, "iptables-legacy filter INPUT"},
		{"another table", []string{v4 + "-t mangle -P FORWARD DROP"}, "iptables-legacy mangle FORWARD"},
	} {
		t.Run(c.name, func(t *testing.T) {
			testnet.In(t, testnet.New(t), func() error {
				applyOurs(t)
				if err := commands(c.commands...); err != nil {
					return err
				}
				found, err := Blocks(t.Context(), testTraffic())
				if err != nil {
					return err
				}
				var names []string
				for _, b := range found {
					names = append(names, b.Chain)
					trustsNoName(t, b)
					if err := commands(b.Rules...); err != nil {
						return err
					}
				}
				if strings.Join(names, ", ") != c.want {
					t.Errorf("blocking chains are %q, want %q", names, c.want)
				}
				if found, err = Blocks(t.Context(), testTraffic()); err != nil || len(found) != 0 {
					t.Errorf("after the remedy: %v, %v", found, err)
				}
				return nil
			})
		})
	}
}

func TestLegacyIptables_Comment_NoConditionOrTarget(t *testing.T) {
	const rules = `:FORWARD DROP [0:0]
-A FORWARD -i alv+ -m comment --comment "say \"no\" -j DROP" -j ACCEPT
-A FORWARD -o alv+ -j LOG --log-prefix "-j DROP "
-A FORWARD -o alv+ -j ACCEPT
COMMIT
`
	traffic := testTraffic()
	if forward := traffic.crossings()[0]; traffic.readLegacy(rules).drops("FORWARD", forward.packets) {
		t.Errorf("%s drops: %s", rules, forward.what)
	}
}

func TestLegacyIptables_QuotedText_NoCondition(t *testing.T) {
	const rules = `:FORWARD DROP [0:0]
-A FORWARD -i alv+ -j ACCEPT
-A FORWARD -m string --string "to \" -o alv+ " --algo bm -j ACCEPT
COMMIT
`
	traffic := testTraffic()
	if forward := traffic.crossings()[0]; !traffic.readLegacy(rules).drops("FORWARD", forward.packets) {
		t.Errorf("%s does not drop: %s", rules, forward.what)
	}
}

func TestLegacyIptables_ProgramMissing_Reported(t *testing.T) {
	iptables, err := exec.LookPath("iptables-legacy")
	if err != nil {
		t.Skip("missing feature: iptables-legacy is not installed")
	}
	for _, c := range []struct {
		name, command string
		want          int
	}{
		{"no table", "", 0},
		{"a table that filters", iptables + " -A FORWARD -j DROP", 1},
		{"a table that only translates", iptables + " -t nat -A POSTROUTING -j RETURN", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			testnet.In(t, testnet.New(t), func() error {
				if c.command != "" {
					if err := commands(c.command); err != nil {
						return err
					}
				}
				if found := Unread(); len(found) != 0 {
					t.Errorf("with the program: %q", found)
				}
				t.Setenv("PATH", t.TempDir())
				found := Unread()
				if len(found) != c.want || c.want > 0 && !strings.Contains(found[0], "iptables-legacy (filter)") {
					t.Errorf("without the program: %q, want %d", found, c.want)
				}
				blocks, err := Blocks(t.Context(), testTraffic())
				if err != nil || len(blocks) != 0 {
					t.Errorf("blocks without the program: %v, %v", blocks, err)
				}
				return nil
			})
		})
	}
}

// commands runs command lines in the calling thread's network namespace.
func commands(lines ...string) error {
	for _, line := range lines {
		words := strings.Fields(line)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", line, err, out)
		}
	}
	return nil
}

func TestLegacyIptables_BlockSearch_NoTableMade(t *testing.T) {
	testnet.In(t, testnet.New(t), func() error {
		if _, err := Blocks(t.Context(), testTraffic()); err != nil {
			return err
		}
		for _, f := range legacyFamilies {
			text, err := os.ReadFile(f.names)
			if err != nil && !errors.Is(err, os.ErrNotExist) || len(text) > 0 {
				t.Errorf("%s has %q, %v", f.names, text, err)
			}
		}
		return nil
	})
}

func TestForeignChains_HostPortsBlocked_Found(t *testing.T) {
	testnet.In(t, testnet.New(t), func() error {
		applyOurs(t)
		if err := testnet.NFT("table inet fw { chain through { " + forwardDrop + "iifname \"alv*\" accept\nct state established,related accept\n}\n}"); err != nil {
			return err
		}
		for _, ports := range []bool{false, true} {
			traffic := testTraffic()
			traffic.HostPorts = ports
			if found, err := Blocks(t.Context(), traffic); err != nil || (len(found) > 0) != ports {
				t.Errorf("with ports %v: %v, %v", ports, found, err)
			}
		}
		return nil
	})
}
