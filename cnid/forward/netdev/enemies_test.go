// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/test/waits"
)

// TestNetdev_HostilePod_NodePathsUnchanged: the node drops source-routed packets and redirects of a
// pod, although the host accepts them by the settings of all devices and of new ones. From a
// device of others both have their effect, so they are well-formed.
func TestNetdev_HostilePod_NodePathsUnchanged(t *testing.T) {
	for name, guarded := range map[string]bool{"a host end": true, "a device of others": false} {
		t.Run(name, func(t *testing.T) {
			pod, n := testnet.New(t), &node{NetNS: testnet.New(t), settings: filepath.Join(t.TempDir(), "sysctls.json")}
			n.in(t, trusting)
			testnet.Veth(t, n, podDevice, []string{nodeIP + "/24"}, pod, "eth0", []string{podIP + "/24"})
			var server net.PacketConn
			n.in(t, func() (err error) {
				if server, err = (&net.ListenConfig{}).ListenPacket(context.Background(), "udp4", nodeIP+":7000"); err != nil {
					return err
				}
				return n.prepare(guarded)
			})
			defer server.Close()
			testnet.In(t, pod, func() error {
				return errors.Join(sendUDP(true, "routed"), redirect(), sendUDP(false, "plain"))
			})
			if arrived := len(receive(t, server)) == 2; arrived == guarded {
				t.Errorf("the source-routed packet has arrived: %t", arrived)
			}
			n.in(t, func() error {
				found, err := netlink.RouteGet(net.ParseIP("203.0.113.9"))
				if err == nil && (found[0].Gw.String() == newGateway) == guarded {
					t.Errorf("after the redirect the gateway is %s", found[0].Gw)
				}
				return err
			})
		})
	}
}

const nodeIP, podIP, newGateway = "192.0.2.1", "192.0.2.5", "192.0.2.6"

// trusting makes a host that accepts everything, as no host should.
func trusting() error {
	failures := []error{write(forward4, "1")}
	for _, device := range []string{"all", "default"} {
		for _, name := range []string{"accept_source_route", "accept_redirects"} {
			failures = append(failures, write(perDevice("ipv4", device, name), "1"))
		}
	}
	return errors.Join(failures...)
}

// prepare makes a route by the pod, another gateway that is known, and the settings.
func (n *node) prepare(guarded bool) error {
	link, err := netlink.LinkByName(podDevice)
	if err != nil {
		return err
	}
	index := link.Attrs().Index
	_, dst, _ := net.ParseCIDR("203.0.113.0/24")
	neighbour := &netlink.Neigh{LinkIndex: index, State: netlink.NUD_PERMANENT, IP: net.ParseIP(newGateway), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 6}}
	err = errors.Join(netlink.RouteAdd(&netlink.Route{LinkIndex: index, Dst: dst, Gw: net.ParseIP(podIP)}), netlink.NeighSet(neighbour))
	if err != nil || !guarded {
		return err
	}
	host, err := New(n.settings, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer host.Close()
	return host.tunePod(hostdev.Pod{Device: podDevice, Ifindex: index, Shadows: []netip.Addr{netip.MustParseAddr("169.254.64.5")}})
}

// receive returns what arrives until the plain packet, the last one: packets of one device
// stay in order.
func receive(t *testing.T, server net.PacketConn) (seen []string) {
	t.Helper()
	if err := server.SetReadDeadline(time.Now().Add(waits.Limit(time.Minute))); err != nil {
		t.Fatal(err)
	}
	for len(seen) == 0 || seen[len(seen)-1] != "plain" {
		buffer := make([]byte, 16)
		size, _, err := server.ReadFrom(buffer)
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, string(buffer[:size]))
	}
	return seen
}

// redirect sends an ICMP redirect (RFC 792) about an echo reply of the node to 203.0.113.9.
func redirect() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	message := []byte{
		5, 1, 0, 0, 192, 0, 2, 6, // redirect for the host, by the other gateway
		0x45, 0, 0, 28, 0, 1, 0, 0, 64, unix.IPPROTO_ICMP, 0, 0, 192, 0, 2, 1, 203, 0, 113, 9,
		0, 0, 0xff, 0xff, 0, 0, 0, 0, // an echo reply
	}
	binary.BigEndian.PutUint16(message[18:], checksum(message[8:28]))
	binary.BigEndian.PutUint16(message[2:], checksum(message))
	return unix.Sendto(fd, message, 0, &unix.SockaddrInet4{Addr: [4]byte{192, 0, 2, 1}})
}

// checksum is the checksum of the Internet (RFC 1071) of an even number of bytes.
func checksum(data []byte) uint16 {
	var sum uint32
	for i := 0; i < len(data); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(data[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

func write(setting, value string) error {
	return os.WriteFile(filepath.Join(hostdev.SettingsRoot, setting), []byte(value), 0o644)
}

// sendUDP sends a text to the node, with a loose source route (RFC 791) if it is wanted.
func sendUDP(routed bool, text string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if routed {
		// The route has one stop, the node itself, which is the next hop too.
		lsrr := string([]byte{131, 7, 4, 192, 0, 2, 1, 0})
		if err := unix.SetsockoptString(fd, unix.IPPROTO_IP, unix.IP_OPTIONS, lsrr); err != nil {
			return err
		}
	}
	return unix.Sendto(fd, []byte(text), 0, &unix.SockaddrInet4{Port: 7000, Addr: [4]byte{192, 0, 2, 1}})
}
