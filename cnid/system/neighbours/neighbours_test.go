// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package neighbours

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/test/waits"
)

func TestNeighbours_AddressAnnounced_Learned(t *testing.T) {
	here, there := testnet.New(t), testnet.New(t)
	testnet.Veth(t, here, "eth0", []string{"192.0.2.1/24", "2001:db8::1/64"}, there, "eth0", []string{"192.0.2.2/24", "2001:db8::2/64"})
	ips := []netip.Addr{netip.MustParseAddr("192.0.2.80"), netip.MustParseAddr("2001:db8::80")}
	testnet.In(t, there, func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		for _, ip := range ips { // as if another node had been there
			row := &netlink.Neigh{LinkIndex: link.Attrs().Index, State: netlink.NUD_STALE, IP: ip.AsSlice(), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 9}}
			if err := netlink.NeighSet(row); err != nil {
				return err
			}
		}
		return nil
	})
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	var last error
	for end := time.Now().Add(waits.Limit(5 * time.Second)); time.Now().Before(end); <-again.C {
		// Once is not enough, and the daemon does it more often too: a device that has
		// just come up may not take part in IPv6 yet.
		var mac net.HardwareAddr
		testnet.In(t, here, func() error {
			link, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			mac = link.Attrs().HardwareAddr
			return Announce(link.Attrs().Index, [6]byte(mac), ips)
		})
		testnet.In(t, there, func() error {
			last = whereAre(ips, mac)
			return nil
		})
		if last == nil {
			return
		}
	}
	t.Error(last)
}

// whereAre explains why addresses are not known to be at a MAC.
func whereAre(ips []netip.Addr, mac net.HardwareAddr) error {
	list, err := netlink.NeighList(0, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	found := map[netip.Addr]string{}
	for _, row := range list {
		if ip, ok := netip.AddrFromSlice(row.IP); ok {
			found[ip.Unmap()] = row.HardwareAddr.String()
		}
	}
	for _, ip := range ips {
		if found[ip] != mac.String() {
			return fmt.Errorf("%s is at %s, want %s", ip, found[ip], mac)
		}
	}
	return nil
}
