// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/alioth-net/alioth/cnid/internal/testnet"
)

func TestFlowLimit_PodAboveShare_NewFlowsRefused(t *testing.T) {
	r := newRig(t, 0x30000000)
	for i := range 4 {
		if _, err := ask(t, r.pod, r.node, "169.254.64.5", "192.0.2.1"); err != nil {
			t.Fatalf("flow %d of the 4 allowed: %v", i+1, err)
		}
	}
	if seen, err := askInVain(t, r.pod, r.node, "169.254.64.5", "192.0.2.1"); err == nil {
		t.Errorf("flow 5 was answered, from %v", seen)
	}
	if seen, err := askInVain(t, r.pod, r.outside, "169.254.64.5", "192.0.2.9"); err == nil {
		t.Errorf("flow 5 to the outside was answered, from %v", seen)
	}
	r.wantCounter(t, ReasonFlowLimit)
	if _, err := ask(t, r.node, r.pod, "", "169.254.64.5"); err != nil {
		t.Errorf("the node's own flow toward the pod: %v", err)
	}
}

func TestFlowLimit_DefaultVPCPodAboveShare_Refused(t *testing.T) {
	for _, c := range []struct{ name, greedy, modest, node string }{
		{"IPv4", "10.244.0.9", "10.244.0.10", "10.244.0.1"},
		{"IPv6", "fd10:244::9", "fd10:244::10", "fd10:244::1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 0)
			bits := map[bool]string{true: "/16", false: "/48"}[c.name == "IPv4"]
			testnet.In(t, r.backend, func() error { return addAddress("eth0", c.modest+bits) })
			for i := range 4 {
				if _, err := ask(t, r.backend, r.node, c.greedy, c.node); err != nil {
					t.Fatalf("flow %d of the 4 allowed: %v", i+1, err)
				}
			}
			if seen, err := askInVain(t, r.backend, r.node, c.greedy, c.node); err == nil {
				t.Errorf("flow 5 was answered, from %v", seen)
			}
			r.wantCounter(t, ReasonFlowLimit)
			if _, err := ask(t, r.backend, r.node, c.modest, c.node); err != nil {
				t.Errorf("another pod's flow: %v", err)
			}
			if _, err := ask(t, r.node, r.backend, c.node, c.greedy); err != nil {
				t.Errorf("the node's own flow toward the greedy pod: %v", err)
			}
		})
	}
}

// fill leaves no room in a set of addresses. What it puts in has no flows to
// count, so the kernel never takes it out.
func fill(t *testing.T, r rig, name string) {
	t.Helper()
	testnet.In(t, r.node, func() error {
		conn := &nftables.Conn{}
		set, err := conn.GetSetByName(table(), name)
		if err != nil {
			return err
		}
		const batch = 1000 // a netlink attribute has at most 64 KiB
		for first := 0; first < maxFlowHolders; first += batch {
			var elements []nftables.SetElement
			for i := first; i < min(first+batch, maxFlowHolders); i++ {
				elements = append(elements, nftables.SetElement{Key: binary.BigEndian.AppendUint32(nil, 0x01000000+uint32(i))})
			}
			if err := conn.SetAddElements(set, elements); err != nil {
				return err
			}
			if err := conn.Flush(); err != nil {
				return fmt.Errorf("add elements from %d on: %w", first, err)
			}
		}
		return nil
	})
}

func TestFlowLimit_AccountFull_Refused(t *testing.T) {
	t.Run("a pod", func(t *testing.T) {
		r := newRig(t, 0x30000000)
		fill(t, r, "pod_flows4")
		if seen, err := askInVain(t, r.pod, r.node, "169.254.64.5", "192.0.2.1"); err == nil {
			t.Errorf("its flow to the node was answered, from %v", seen)
		}
		if seen, err := askInVain(t, r.pod, r.outside, "169.254.64.5", "192.0.2.9"); err == nil {
			t.Errorf("its flow to the outside was answered, from %v", seen)
		}
		r.wantCounter(t, ReasonFlowLimit)
		if _, err := ask(t, r.node, r.pod, "", "169.254.64.5"); err != nil {
			t.Errorf("the node's own flow toward the pod: %v", err)
		}
		if _, err := ask(t, r.backend, r.node, "10.244.0.9", "10.244.0.1"); err != nil {
			t.Errorf("a flow of the default VPC, whose account has room: %v", err)
		}
	})
	t.Run("the default VPC", func(t *testing.T) {
		r := newRig(t, 0x30000000)
		fill(t, r, "node_flows4")
		if seen, err := askInVain(t, r.backend, r.node, "10.244.0.9", "10.244.0.1"); err == nil {
			t.Errorf("answered, from %v", seen)
		}
		r.wantCounter(t, ReasonFlowLimit)
		if _, err := ask(t, r.pod, r.node, "169.254.64.5", "192.0.2.1"); err != nil {
			t.Errorf("a flow of a pod, whose account has room: %v", err)
		}
	})
}

func TestFlowLimit_UsualPodCount_SharesFitConntrack(t *testing.T) {
	for _, c := range []struct {
		name                      string
		asked, pods, room, shared uint32
	}{
		{"more than there is", 4096, 110, 262144, 1787},
		{"a node that does not say how many pods it takes", 4096, 0, 262144, 1787},
		{"a node of many pods", 4096, 500, 262144, 393},
		{"a node of few", 4096, 10, 262144, 4096},
		{"less than there is", 100, 110, 262144, 100},
		{"no limit asked for", 0, 110, 262144, 0},
		{"conntrack without a limit", 4096, 110, 0, 4096},
		{"conntrack too small for all", 4096, 110, 100, 1},
		{"the largest numbers", 1<<32 - 1, 110, 1<<32 - 1, 29283867},
		{"more pods than a node can have", 4096, 1<<32 - 1, 262144, 96},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := fittingShare(c.asked, c.pods, c.room)
			if got != c.shared {
				t.Errorf("the share is %d, want %d", got, c.shared)
			}
			pods := uint64(min(c.pods, mostPods))
			if uint64(c.room) > pods && uint64(got)*pods > uint64(c.room) {
				t.Errorf("%d pods may hold %d flows of %d", pods, uint64(got)*pods, c.room)
			}
		})
	}
}

func TestFlowLimit_Apply_BoundedByKernelConntrack(t *testing.T) {
	testnet.In(t, testnet.New(t), func() error {
		s := testState()
		s.FlowsPerShadow = 1 << 30
		apply(t, s) // loads conntrack unless it is loaded
		apply(t, s)
		before := handles(t)
		apply(t, s)
		if after := handles(t); len(after) == 0 || before[0] != after[0] {
			t.Errorf("the same state replaced the table: rules %v became %v", before, after)
		}
		text, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_max")
		if err != nil {
			return err
		}
		room, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
		if err != nil {
			return err
		}
		if room == 0 {
			t.Skip("nf_conntrack_max is 0: conntrack has no limit here")
		}
		if got := appliedShare(t); uint64(got)*usualPods > room || got == 0 {
			t.Errorf("a pod may hold %d of %d entries", got, room)
		}
		return nil
	})
}

// appliedShare is the limit that the kernel has for a pod.
func appliedShare(t *testing.T) uint32 {
	t.Helper()
	rules, err := (&nftables.Conn{}).GetRules(table(), &nftables.Chain{Name: podShare, Table: table()})
	if err != nil {
		t.Fatalf("list rules of %s: %v", podShare, err)
	}
	for _, r := range rules {
		for _, e := range r.Exprs {
			if set, ok := e.(*expr.Dynset); ok && len(set.Exprs) == 1 {
				return set.Exprs[0].(*expr.Connlimit).Count
			}
		}
	}
	t.Fatalf("no limit in the rules of %s", podShare)
	return 0
}
