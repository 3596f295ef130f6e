// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Renumber gives a node another IPv4 address in the underlay in place of the one
// that it has: its own of Nodes, or its SpareIP, which its certificate covers as
// well. The kubelet is started anew with it. Connections from and to the old
// address break.
func (c *Cluster) Renumber(ctx context.Context, nodeName string, from, to netip.Addr) error {
	network, _ := c.Topology().Networks()
	inNetwork := func(ip netip.Addr) string { return netip.PrefixFrom(ip, network.Bits()).String() }
	for _, command := range [][]string{
		// Else the new address, and all routes, go with the old one.
		{"sh", "-c", "echo 1 > /proc/sys/net/ipv4/conf/eth0/promote_secondaries"},
		{"ip", "address", "add", inNetwork(to), "dev", "eth0"},
		{"ip", "address", "del", inNetwork(from), "dev", "eth0"},
	} {
		if _, err := c.NodeExec(ctx, nodeName, command...); err != nil {
			return fmt.Errorf("give %s the address %s: %w", nodeName, to, err)
		}
	}
	kubelet := nodeName + "/kubelet"
	if err := c.StopProcess(ctx, kubelet); err != nil {
		return err
	}
	err := c.state.update(func(s *State) {
		d := s.Daemons[kubelet]
		d.Spec.Args = withNodeIP(d.Spec.Args, from, to)
		s.setDaemon(d)
	})
	if err != nil {
		return err
	}
	return c.StartProcess(kubelet)
}

// withNodeIP replaces one of the addresses that a kubelet is told to use.
func withNodeIP(args []string, from, to netip.Addr) []string {
	const flag = "--node-ip="
	args = slices.Clone(args)
	for i, arg := range args {
		list, isFlag := strings.CutPrefix(arg, flag)
		if !isFlag {
			continue
		}
		ips := strings.Split(list, ",")
		if at := slices.Index(ips, from.String()); at >= 0 {
			ips[at] = to.String()
		}
		args[i] = flag + strings.Join(ips, ",")
	}
	return args
}
