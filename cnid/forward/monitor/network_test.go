// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"net"
	"os"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/internal/testnet"
)

func TestKernelMonitor_EachNetworkChange_Reported(t *testing.T) {
	space := testnet.New(t)
	lo := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: 1}}
	testnet.In(t, space, func() error { return netlink.LinkSetUp(lo) })
	host := func(last byte) *net.IPNet { return &net.IPNet{IP: net.IP{192, 0, 2, last}, Mask: net.CIDRMask(32, 32)} }
	for name, c := range map[string]struct {
		change func() error
		want   []uint16
	}{
		"address": {func() error { return netlink.AddrAdd(lo, &netlink.Addr{IPNet: host(1)}) }, []uint16{unix.RTM_NEWADDR, unix.RTM_NEWROUTE}},
		"route":   {func() error { return netlink.RouteAdd(&netlink.Route{LinkIndex: 1, Dst: host(2)}) }, []uint16{unix.RTM_NEWROUTE}},
		"rule": {func() error {
			rule := netlink.NewRule()
			rule.Table, rule.Priority, rule.Family = 77, 777, netlink.FAMILY_V4
			return netlink.RuleAdd(rule)
		}, []uint16{unix.RTM_NEWRULE}},
		"device": {func() error { return createPairs(1) }, []uint16{unix.RTM_NEWLINK}},
	} {
		t.Run(name, func(t *testing.T) {
			var file *os.File
			testnet.In(t, space, func() (err error) {
				if file, err = subscribe(unix.NETLINK_ROUTE, networkGroups); err != nil {
					return err
				}
				return c.change()
			})
			t.Cleanup(func() { file.Close() })
			messages, whole, err := readBatch(file, func() {})
			if err != nil || !whole {
				t.Fatalf("whole %t, %v", whole, err)
			}
			got := map[uint16]bool{}
			for _, message := range messages {
				got[message.Header.Type] = true
			}
			for _, kind := range c.want {
				if !got[kind] {
					t.Errorf("messages of types %v, want %d", got, kind)
				}
			}
		})
	}
}
