// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/test/cluster"
)

// OnUnderlay returns the addresses of the nodes' network that end in a number.
func (e *Env) OnUnderlay(number byte) (v4, v6 netip.Addr) {
	net4, net6 := e.Lab.Topology().Networks()
	four, six := net4.Addr().As4(), net6.Addr().As16()
	four[3], six[15] = number, number
	return netip.AddrFrom4(four), netip.AddrFrom16(six)
}

// OutsideHost returns a machine on the underlay outside of the cluster, for the time of a test,
// with an IPv4 address that ends in the given number.
func (e *Env) OutsideHost(t *testing.T, name string, number byte) *cluster.Host {
	t.Helper()
	v4, _ := e.OnUnderlay(number)
	return e.OutsideHostAt(t, name, v4)
}

// OutsideHostAt does the same with addresses of either family.
func (e *Env) OutsideHostAt(t *testing.T, name string, addresses ...netip.Addr) *cluster.Host {
	t.Helper()
	host, err := e.Lab.AddHost(name, addresses...)
	if err != nil {
		t.Fatalf("add a host to the underlay: %v", err)
	}
	t.Cleanup(func() {
		if err := host.Remove(); err != nil {
			t.Errorf("remove host %s: %v", name, err)
		}
	})
	return host
}

// OnHost runs the test tool on a host of the underlay.
func (e *Env) OnHost(t *testing.T, host *cluster.Host, arguments ...string) string {
	t.Helper()
	out, err := host.Exec(Within(t, Patience), append([]string{e.Tool}, arguments...)...)
	if err != nil {
		t.Fatalf("on the outside host: %v\n%s", err, strings.TrimSpace(out))
	}
	return out
}

// Cable lays a cable between the first two nodes for the time of a test, for a network
// without Alioth. Both ends have its name.
func (e *Env) Cable(t *testing.T, name string) {
	t.Helper()
	first, second := e.Nodes()
	step := exec.Command(
		"ip",
		"link",
		"add",
		name,
		"netns",
		e.Lab.NodeNetNS(first),
		"type",
		"veth",
		"peer",
		"name",
		name,
		"netns",
		e.Lab.NodeNetNS(second),
	)
	if out, err := step.CombinedOutput(); err != nil {
		t.Fatalf("lay a cable: %v: %s", err, out)
	}
	t.Cleanup(func() { e.OnNode(t, first, "ip", "link", "del", name) })
	for _, node := range []string{first, second} {
		e.OnNode(t, node, "ip", "link", "set", name, "up")
	}
}
