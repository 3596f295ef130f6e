// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	someDep = "kernel/net/udp_tunnel.ko.xz:\n" +
		"kernel/net/ip6_udp-tunnel.ko.xz: kernel/net/udp_tunnel.ko.xz\n" +
		"kernel/drivers/vxlan.ko.xz: kernel/net/ip6_udp-tunnel.ko.xz kernel/net/udp_tunnel.ko.xz\n" +
		"kernel/drivers/geneve.ko.xz: kernel/net/ip6_udp-tunnel.ko.xz kernel/net/udp_tunnel.ko.xz\n"
	someBuiltin = "kernel/drivers/net/netkit.ko\n"
)

func TestOrder_Modules_AfterDependencies(t *testing.T) {
	got, err := order([]string{"vxlan", "netkit", "ip6_udp_tunnel", "geneve"}, someDep, someBuiltin)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"kernel/net/udp_tunnel.ko.xz", "kernel/net/ip6_udp-tunnel.ko.xz", "kernel/drivers/vxlan.ko.xz", "kernel/drivers/geneve.ko.xz",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestOrder_ModulesMissing_AllNamed(t *testing.T) {
	_, err := order([]string{"ipvlan", "vxlan", "igb"}, someDep, someBuiltin)
	if err == nil || !strings.Contains(err.Error(), "ipvlan") || !strings.Contains(err.Error(), "igb") || strings.Contains(err.Error(), "vxlan") {
		t.Errorf("got %v, want an error about ipvlan and igb", err)
	}
}
