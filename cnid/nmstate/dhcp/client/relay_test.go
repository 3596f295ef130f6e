// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
	"github.com/alioth-net/alioth/test/soak"
	"github.com/alioth-net/alioth/test/waits"
)

// badSite is a site whose host and server are joined by a cable that decides about each frame:
// how often it arrives.
func badSite(t *testing.T, copies func(frame []byte) int) *site {
	t.Helper()
	s := &site{t: t, client: testnet.New(t), server: testnet.New(t), folder: filepath.Join(t.TempDir(), "leases")}
	cable := testnet.New(t)
	testnet.Veth(t, s.client, "eth1", nil, cable, "left", nil)
	testnet.Veth(t, s.server, "srv", []string{"192.0.2.1/24", "2001:db8::1/64"}, cable, "right", nil)
	withChecksums(t, s.client, "eth1")
	withChecksums(t, s.server, "srv")
	left, right := tap(t, cable, "left"), tap(t, cable, "right")
	carry(t, left, right, copies)
	carry(t, right, left, copies)
	return s
}

// withChecksums makes an interface compute its checksums. The cable is not a device of the
// kernel, and the kernel would otherwise leave the checksums to it.
func withChecksums(t *testing.T, space ns.NetNS, name string) {
	t.Helper()
	testnet.In(t, space, func() error {
		tool, err := ethtool.NewEthtool()
		if err != nil {
			return err
		}
		defer tool.Close()
		return tool.Change(name, map[string]bool{"tx-checksum-ip-generic": false})
	})
}

// end is one end of the cable.
type end struct{ fd, index int }

func tap(t *testing.T, space ns.NetNS, name string) (e end) {
	t.Helper()
	testnet.In(t, space, func() error {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		e.index = l.Attrs().Index
		all := uint16(unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8)
		e.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		// A frame that the cable itself sends would come back.
		if err := unix.SetsockoptInt(e.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); err != nil {
			return err
		}
		second := unix.Timeval{Sec: 1}
		if err := unix.SetsockoptTimeval(e.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &second); err != nil {
			return err
		}
		return unix.Bind(e.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: e.index})
	})
	return e
}

// carry carries frames from one end to the other until the test ends.
func carry(t *testing.T, from, to end, copies func([]byte) int) {
	t.Helper()
	stop, done := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() {
		close(stop)
		<-done
		_ = unix.Close(from.fd)
	})
	go func() {
		defer close(done)
		frame := make([]byte, 2000)
		for {
			select {
			case <-stop:
				return
			default:
			}
			n, err := unix.Read(from.fd, frame)
			if err != nil {
				continue
			}
			for range copies(frame[:n]) {
				// The end of the cable may be gone already.
				_ = unix.Sendto(to.fd, frame[:n], 0, &unix.SockaddrLinklayer{Ifindex: to.index})
			}
		}
	}()
}

// isDHCP reports whether a frame has a message of DHCP: its cookie.
func isDHCP(frame []byte) bool { return bytes.Contains(frame, []byte{99, 130, 83, 99}) }

func TestDHCPClient_LostAndDuplicatePackets_LeaseObtained(t *testing.T) {
	t.Parallel()
	var messages atomic.Int32
	s := badSite(t, func(frame []byte) int {
		if isDHCP(frame) && messages.Add(1) == 1 {
			return 0 // the first question
		}
		return 3
	})
	s.dnsmasq("--dhcp-range=192.0.2.50,192.0.2.60,255.255.255.0,1h")
	s.run(four).waitFor("a lease", ipfamily.IPv4, hasAddress)
	if n := messages.Load(); n < 8 {
		t.Errorf("%d messages; a second question with three copies, and its answers, are more", n)
	}
}

// TestDHCPClient_ThirdOfPacketsLost_LeaseObtained takes some minutes: dnsmasq has no leases below two.
func TestDHCPClient_ThirdOfPacketsLost_LeaseObtained(t *testing.T) {
	soak.Only(t)
	t.Parallel()
	for i := range 10 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			s := badSite(t, func([]byte) int { return rand.IntN(3) }) // a third does not arrive, a third does twice
			s.dnsmasq("--dhcp-range=192.0.2.50,192.0.2.60,255.255.255.0,2m", "--dhcp-range=2001:db8::1000,2001:db8::1fff,64,2m")
			r := s.run(dhcp.Config{Interface: "eth1", V4: four.V4, V6: six.V6})
			for _, family := range ipfamily.Both {
				t.Run(family.String(), func(t *testing.T) {
					t.Parallel()
					isRenewed(t, r, family)
				})
			}
		})
	}
}

// isRenewed waits until a client has got a lease, and then a longer one.
func isRenewed(t *testing.T, r *running, family ipfamily.Family) {
	t.Helper()
	const long = 15 * time.Minute
	var first *dhcp.Lease
	waits.Until(t, long, "a lease that was prolonged", func() error {
		h := r.held(family)
		switch {
		case first == nil && h.Lease.HasAddress():
			first = h.Lease
		case first != nil && h.Lease.HasAddress() && h.Lease.Acquired.After(first.Acquired):
			return nil
		}
		return fmt.Errorf("%s is %s: %s", h.Key, h.Phase, h.Problem.Text)
	})
}
