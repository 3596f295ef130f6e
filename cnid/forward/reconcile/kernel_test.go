// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/cni/drivers"
	"github.com/alioth-net/alioth/cnid/forward/netdev"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/forward/netfilter"
	"github.com/alioth-net/alioth/cnid/forward/netfilter/foreign"
	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
	"github.com/alioth-net/alioth/cnid/forward/nodeservices"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/internal/testpins"
	"github.com/alioth-net/alioth/cnid/internal/testrows"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/store"
)

// clsactOf returns the qdisc that holds the programs of a device, or nil.
func clsactOf(device string) (netlink.Qdisc, error) {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return nil, err
	}
	qdiscs, err := netlink.QdiscList(link)
	if err != nil {
		return nil, err
	}
	for _, q := range qdiscs {
		if q.Type() == "clsact" {
			return q, nil
		}
	}
	return nil, nil
}

// nodeRows returns what the API has of a node without pods.
func nodeRows(t *testing.T) *store.Store {
	t.Helper()
	rows, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	vpc, subnet := testrows.VPC("default", 1, "10.244.0.0/16"), testrows.Subnet("default", "default", "10.244.0.0/16", "10.244.0.1")
	node := testrows.Node("node1", "192.0.2.1")
	address := testrows.Address("default", "default", "10.244.0.7", "node1", store.Holder{Kind: store.HolderNode, Name: "node1", UID: "node1"}, "10.244.0.7")
	err = rows.Update(func(tx store.Tx) error {
		return errors.Join(store.PutVPC(tx, &vpc), store.PutSubnet(tx, &subnet), store.PutNode(tx, &node), store.PutAddress(tx, &address))
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// newTestKernel returns the kernel of a namespace with its host, which are closed with
// the test. It is called in the namespace.
func newTestKernel(t *testing.T, pinDir, cgroup string) (*Kernel, error) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	host, err := netdev.New(filepath.Join(t.TempDir(), "sysctls.json"), log)
	if err != nil {
		return nil, err
	}
	t.Cleanup(host.Close)
	k := NewKernel(KernelConfig{
		PinDir: pinDir, CgroupRoot: cgroup, Shadow4: shadow4, TunnelPort: programs.DefaultTunnelPort,
		FlowsPerShadow: 4096, ConnectionsPerInterface: programs.DefaultConnectionsPerInterface,
		Host: host, HealthChecks: nodeservices.NewHealthChecks(log), Announcer: nodeservices.NewAnnouncer(log),
		Metrics: NewMetrics(prometheus.NewRegistry()), Log: log,
	})
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k, nil
}

var shadow4 = netip.MustParsePrefix("169.254.64.0/18")

func TestReconcilePass_ProgramsDetached_Reattached(t *testing.T) {
	space, neighbour := testnet.New(t), testnet.New(t)
	pinDir, cgroup := testpins.New(t, space)
	testnet.Veth(t, space, "eth0", []string{"192.0.2.1/24"}, neighbour, "eth0", []string{"192.0.2.2/24"})
	rows := nodeRows(t)
	cfg := plan.Config{
		Node: "node1", DefaultVPC: "default", Shadows: []netip.Prefix{shadow4}, TunnelPort: programs.DefaultTunnelPort,
		FlowsPerShadow: 4096, NodePorts: true, Kinds: drivers.All().Catalog(),
	}
	testnet.In(t, space, func() error {
		k, err := newTestKernel(t, pinDir, cgroup)
		if err != nil {
			return err
		}
		pass := func() error {
			var want plan.Wanted
			rows.View(func(tx store.ReadTx) {
				if err = k.Prepare(store.GetNode(tx, "node1"), true); err == nil {
					want = plan.Build(tx, plan.Input{Config: cfg, NodePeer: k.indexes.NodePeer})
				}
			})
			if err != nil {
				return err
			}
			if failed, err := k.Apply(want, atEverything); err != nil || len(failed) != 0 {
				return fmt.Errorf("apply: %v, %w", failed, err)
			}
			return nil
		}
		survey := func(when string, want bool) {
			if harmed, err := k.Survey(); harmed != want || err != nil {
				t.Errorf("a survey %s has found harm: %v, %v; want %v", when, harmed, err, want)
			}
		}
		survey("before the first pass", false)
		if err := pass(); err != nil {
			return err
		}
		survey("after a pass", false)
		if err := netfilter.Remove(); err != nil {
			return err
		}
		survey("without the packet filter", true)
		if err := pass(); err != nil {
			return err
		}
		survey("after another pass", false)
		qdisc, err := clsactOf(hostdev.NodePeer)
		if err != nil || qdisc == nil {
			return fmt.Errorf("%s has no programs: %w", hostdev.NodePeer, err)
		}
		if err := netlink.QdiscDel(qdisc); err != nil {
			return err
		}
		survey("without a program", true)
		if err := pass(); err != nil {
			return err
		}
		if qdisc, err = clsactOf(hostdev.NodePeer); qdisc == nil {
			t.Errorf("%s has no programs after a thorough pass: %v", hostdev.NodePeer, err)
		}
		return nil
	})
}

// TestReconcile_ContradictoryPlan_RestProgrammed has one in each of the
// states of a plan.
func TestReconcile_ContradictoryPlan_RestProgrammed(t *testing.T) {
	space, neighbour := testnet.New(t), testnet.New(t)
	pinDir, cgroup := testpins.New(t, space)
	testnet.Veth(t, space, "eth0", []string{"192.0.2.1/24"}, neighbour, "eth0", []string{"192.0.2.2/24"})
	rows := nodeRows(t)
	cfg := plan.Config{
		Node: "node1", DefaultVPC: "default", Shadows: []netip.Prefix{shadow4}, TunnelPort: programs.DefaultTunnelPort,
		FlowsPerShadow: 4096, NodePorts: true, Kinds: drivers.All().Catalog(),
	}
	testnet.In(t, space, func() error {
		k, err := newTestKernel(t, pinDir, cgroup)
		if err != nil {
			return err
		}
		var want plan.Wanted
		rows.View(func(tx store.ReadTx) {
			if err = k.Prepare(store.GetNode(tx, "node1"), true); err == nil {
				want = plan.Build(tx, plan.Input{Config: cfg, NodePeer: k.indexes.NodePeer})
			}
		})
		if err != nil {
			return err
		}
		apply := func(want plan.Wanted, left int) {
			t.Helper()
			failed, err := k.Apply(want, atEverything)
			if err != nil || len(failed) != 0 || len(k.LeftOut()) != left {
				t.Errorf("the plan gives the errors %v and %v, and %q are left out, want %d", failed, err, k.LeftOut(), left)
			}
		}
		apply(want, 0)
		bad := want
		node := *want.Datapath.VPCs[0]
		node.Nodes = append(slices.Clone(node.Nodes), netip.IPv4Unspecified())
		bad.Datapath.VPCs = maps.Clone(want.Datapath.VPCs)
		bad.Datapath.VPCs[0] = &node
		bad.Devices.Pods = append(slices.Clone(want.Devices.Pods), hostdev.Pod{Device: "alv-none"})
		bad.Filter.HostPorts = append(slices.Clone(want.Filter.HostPorts), ruleset.HostPort{HostPort: 80})
		apply(bad, 3)
		apply(bad, 3)
		apply(want, 0)
		return nil
	})
}

func TestForeignBlocks_TrustedUplink_TunnelPasses(t *testing.T) {
	k := &Kernel{tunnel: netip.MustParseAddr("2001:db8::1"), underlay: netdev.Underlay{Device: "eth0", Ifindex: 77, Group: 3}}
	for _, rule := range []string{`iifname "eth0" accept`, "meta iif 77 accept", "iifgroup 3 accept", "ip6 daddr 2001:db8::1 accept", ""} {
		testnet.In(t, testnet.New(t), func() error {
			if err := testnet.NFT("table ip6 fw { chain entry { type filter hook input priority 0; policy drop;\n" + rule + "\n}\n}"); err != nil {
				return err
			}
			found, err := foreign.Blocks(t.Context(), k.Traffic())
			if err != nil || (len(found) == 0) != (rule != "") {
				t.Errorf("%q: blocks: %v, %v", rule, found, err)
			}
			return nil
		})
	}
}
