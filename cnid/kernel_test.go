// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/attach/drivers"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/netdev"
	"github.com/alioth-net/alioth/cnid/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/netfilter"
	"github.com/alioth-net/alioth/cnid/plan"
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

func TestAThoroughPassGivesBackProgramsThatWereTakenAway(t *testing.T) {
	m, neighbour := newMachine(t, "node1"), testnet.New(t)
	if err := os.Mkdir(m.cfg.StateDir, 0o700); err != nil {
		t.Fatal(err)
	}
	testnet.Veth(t, m, "eth0", []string{"192.0.2.1/24"}, neighbour, "eth0", []string{"192.0.2.2/24"})
	s := script{
		VPCs:    []store.VPC{vpcRow("default", 1, "10.244.0.0/16")},
		Subnets: []store.Subnet{subnetRow("default", "default", "10.244.0.0/16", "10.244.0.1")},
		Nodes:   []store.Node{nodeRow("node1", "192.0.2.1")},
		Addresses: []store.Address{
			addressRow("default", "default", "10.244.0.7", "node1", store.Holder{Kind: store.HolderNode, Name: "node1", UID: "node1"}, "10.244.0.7"),
		},
	}
	rows, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	if err := rows.Update(s.fill); err != nil {
		t.Fatal(err)
	}
	testnet.In(t, m, func() error {
		log := slog.New(slog.NewTextHandler(t.Output(), nil))
		host, err := netdev.New(m.cfg.settingsFile(), log)
		if err != nil {
			return err
		}
		defer host.Close()
		k := newKernel(m.cfg, host, newSyncMetrics(prometheus.NewRegistry()), log)
		defer k.close()
		pass := func() error {
			if err := k.prepare([]netip.Addr{netip.MustParseAddr("192.0.2.1")}, true); err != nil {
				return err
			}
			var want plan.Wanted
			rows.View(func(tx store.ReadTx) {
				want = plan.Build(tx, plan.Input{Config: m.cfg.planConfig(drivers.All().Catalog()), NodePeer: k.indexes.NodePeer})
			})
			if failed, err := k.apply(want, atEverything); err != nil || len(failed) != 0 {
				return fmt.Errorf("apply: %v, %w", failed, err)
			}
			return nil
		}
		survey := func(when string, want bool) {
			if harmed, err := k.survey(); harmed != want || err != nil {
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
