// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/nmstate/snapshot"
)

func TestSnapshotArea_Irreversible_MarkedFinal(t *testing.T) {
	for name, c := range map[string]struct {
		host    string
		removed string
		want    []string
	}{
		"a device on it that is elsewhere": {
			"ip link add link eth1 name mv0 type macvlan\nip link set mv0 netns ELSEWHERE", "eth1",
			[]string{"eth1: the interface mv0 on it, in another network namespace"},
		},
		"a device elsewhere on another one": {"ip link add link eth1 name mv0 type macvlan\nip link set mv0 netns ELSEWHERE", "eth2", nil},
		"a pair":                            {"ip link add br0 type bridge\nip link set eth1 master br0", "eth1", nil},
		"a bridge with a pair whose other end is elsewhere": {
			"ip link add br0 type bridge\nip link set eth1 master br0\nip link set eth1.ep netns ELSEWHERE", "br0", nil,
		},
		"a pair whose other end is elsewhere": {
			"ip link set eth1.ep netns ELSEWHERE", "eth1", []string{"eth1: the other end of the pair is in another network namespace"},
		},
		"a device on one that is elsewhere": {
			"ip link add link eth1 name mv0 type macvlan\nip link set eth1 netns ELSEWHERE", "mv0",
			[]string{"mv0: the network below it is in another network namespace"},
		},
		"queueing disciplines that are made again": {"tc qdisc add dev eth1 clsact\ntc qdisc add dev eth1 root handle 1: htb", "eth1", nil},
		"a filter": {
			"tc qdisc add dev eth1 clsact\ntc filter add dev eth1 egress prio 5 u32 match u32 0 0 flowid 1:1", "eth1",
			[]string{"eth1: the filter u32 (tc-u32(8))"},
		},
		"a filter of another device": {"tc qdisc add dev eth1 clsact\ntc filter add dev eth1 ingress prio 5 u32 match u32 0 0 flowid 1:1", "eth2", nil},
		"a filter of a class": {
			"tc qdisc add dev eth1 root handle 1: htb\ntc class add dev eth1 parent 1: classid 1:1 htb rate 1mbit\ntc filter add dev eth1 parent 1:1 prio 5 u32 match u32 0 0 flowid 1:1", "eth1",
			[]string{"eth1: the filter u32 (tc-u32(8))"},
		},
		"a size table":       {"tc qdisc add dev eth1 stab overhead 4 root handle 1: pfifo", "eth1", []string{"eth1: the size table of the queueing discipline pfifo (tc-stab(8))"}},
		"a block of filters": {"tc qdisc add dev eth1 ingress_block 7 clsact", "eth1", []string{"eth1: the block of filters of the queueing discipline clsact (tc(8))"}},
		"another discipline": {"tc qdisc add dev eth1 root handle 1: netem delay 1ms", "eth1", []string{"eth1: the queueing discipline netem (tc-netem(8))"}},
		"keys of macsec": {
			"ip link add link eth1 name eth1.10 type vlan id 10\nip link add link eth1.10 name ms0 type macsec", "eth1.10",
			[]string{"ms0: settings of macsec that another program made"},
		},
		"sources of macvlan": {
			"ip link add link eth1 name mv0 type macvlan mode source macaddr add 02:00:00:00:00:77", "mv0",
			[]string{"mv0: a list of source addresses"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			elsewhere := testnet.New(t)
			h := furnished(t, strings.ReplaceAll(c.host, "ELSEWHERE", elsewhere.Path()))
			above, err := h.Above(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			a := snapshot.Area{Names: []string{c.removed}, Removed: []string{c.removed}}
			if diff := cmp.Diff(c.want, h.all(a).Final(a, above)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSnapshotArea_PodNames_TreatedAsForeignText: a pod may give an interface a name that no terminal should
// show, and may have thousands of them.
func TestSnapshotArea_PodNames_TreatedAsForeignText(t *testing.T) {
	h := furnished(t, "ip link add eth7 index 70 type bridge")
	names := append([]string{"\x1b[2J"}, slices.Repeat([]string{"pod"}, 5000)...)
	a := snapshot.Area{Names: []string{"eth7"}, Removed: []string{"eth7"}}
	text := strings.Join(h.all(a).Final(a, map[uint32][]string{70: names}), "; ")
	if !strings.Contains(text, `"\x1b[2J", pod`) || len(text) > 2*quote.MaxQuoted {
		t.Errorf("%d bytes: %.100q, want a quoted name and few others", len(text), text)
	}
}

// TestSnapshotArea_BridgeZeroAddress_MarkedFinal: nobody can set it again, and what stands on the bridge keeps
// an undo from making another one.
func TestSnapshotArea_BridgeZeroAddress_MarkedFinal(t *testing.T) {
	h := furnished(t, "ip link add br0 type bridge\nip link set eth1 master br0\nip link set eth1 nomaster")
	for name, c := range map[string]struct {
		area snapshot.Area
		want []string
	}{
		"another address": {snapshot.Area{Names: []string{"br0"}, Identified: []string{"br0"}}, []string{"br0: the address zero, which a bridge has after its last port"}},
		"removed":         {snapshot.Area{Names: []string{"br0"}, Identified: []string{"br0"}, Removed: []string{"br0"}}, nil},
		"other settings":  {snapshot.Area{Names: []string{"br0"}}, nil},
		"another device":  {snapshot.Area{Names: []string{"eth1"}, Identified: []string{"eth1"}}, nil},
	} {
		if diff := cmp.Diff(c.want, h.all(c.area).Final(c.area, nil)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
