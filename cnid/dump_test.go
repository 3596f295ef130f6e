// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/inspect/verify"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/store"
)

// differences compares the dumps of both daemons with the API that both daemons got.
func (l *lab) differences(t *testing.T) (found []verify.Difference) {
	t.Helper()
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	reported := l.nodes[0].script
	err = s.Update(func(tx store.Tx) error {
		for _, vpc := range reported.VPCs {
			claim := store.VNIClaim{Meta: meta("claim-" + vpc.Name), VNI: vpc.VNI, VPC: vpc.Name, VPCUID: vpc.UID}
			if err := store.PutVNIClaim(tx, &claim); err != nil {
				return err
			}
		}
		return reported.fill(tx)
	})
	if err != nil {
		t.Fatal(err)
	}
	in := verify.Input{Pods: map[string]verify.Pod{}}
	for _, pod := range reported.Pods {
		in.Pods[pod.UID] = verify.Pod{Running: true}
	}
	for _, m := range l.nodes {
		dump, err := nodestatus.FetchDump(t.Context(), m.cfg.socket())
		if err != nil {
			t.Fatal(err)
		}
		in.Nodes = append(in.Nodes, verify.Node{Name: m.cfg.NodeName, Dump: &dump})
	}
	s.View(func(tx store.ReadTx) { found = verify.Compare(tx, in) })
	return found
}

func TestDump_PodChangesInterface_DifferenceFromAPI(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.start(t)
	for _, difference := range l.differences(t) {
		t.Error(difference)
	}
	testnet.In(t, l.pods["b1"].NetNS, func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.LinkSetMTU(link, 1300)
	})
	found := l.differences(t)
	if len(found) != 1 || found[0].Kind != verify.InterfaceBroken || found[0].Node != "node1" || !strings.Contains(found[0].String(), "ns/b1") {
		t.Errorf("after a pod changed its MTU: %v", found)
	}
}
