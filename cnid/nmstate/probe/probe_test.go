// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/test/waits"
)

func fixed(name string, err error) Probe {
	return Probe{Name: name, Check: func(context.Context) error { return err }}
}

func TestOnlyWhatPassedHasToPassAgain(t *testing.T) {
	down := errors.New("no answer")
	list := Passing(t.Context(), []Probe{fixed("a", nil), fixed("b", down), fixed("c", nil)})
	if len(list) != 2 || list[0].Name != "a" || list[1].Name != "c" {
		t.Errorf("%v pass", list)
	}
	if err := Await(t.Context(), list, time.Minute); err != nil {
		t.Error(err)
	}
	err := Await(t.Context(), []Probe{fixed("a", nil), fixed("b", down), fixed("c", down)}, time.Millisecond)
	if !errors.Is(err, down) || !strings.Contains(err.Error(), "b was reached before") || !strings.Contains(err.Error(), "c was reached before") || strings.Contains(err.Error(), "a was") {
		t.Errorf("got %v", err)
	}
}

func TestAConnectionMayTakeAWhileToComeBack(t *testing.T) {
	var calls atomic.Int32
	slow := Probe{Name: "slow", Check: func(context.Context) error {
		if calls.Add(1) < 3 {
			return errors.New("not yet")
		}
		return nil
	}}
	if err := Await(t.Context(), []Probe{slow}, time.Minute); err != nil {
		t.Error(err)
	}
}

func TestAnEndedContextEndsTheWait(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Await(ctx, []Probe{fixed("a", errors.New("no answer"))}, time.Hour); err == nil {
		t.Error("it passed")
	}
}

func TestAGatewayIsReachedOnItsLinkOnly(t *testing.T) {
	node, gateway := testnet.New(t), testnet.New(t)
	testnet.Veth(t, node, "eth0", []string{"192.0.2.7/24", "2001:db8::7/64"}, gateway, "eth0", []string{"192.0.2.1/24", "2001:db8::1/64"})
	testnet.In(t, node, func() error {
		for _, ip := range []string{"192.0.2.1", "2001:db8::1"} {
			// IPv6 takes part in a network a moment after its link is up.
			var err error
			for range 10 {
				if err = once(t.Context(), Gateway(netip.MustParseAddr(ip))); err == nil {
					break
				}
			}
			if err != nil {
				t.Errorf("%s: %v", ip, err)
			}
		}
		for _, ip := range []string{"192.0.2.9", "198.51.100.1"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := Gateway(netip.MustParseAddr(ip)).Check(ctx); err == nil {
				t.Errorf("%s is reached", ip)
			}
			cancel()
		}
		return nil
	})
}

func TestAnMTUThatTheNetworkDoesNotCarryIsFound(t *testing.T) {
	node, gateway := testnet.New(t), testnet.New(t)
	testnet.Veth(t, node, "eth0", []string{"192.0.2.7/24", "2001:db8::7/64"}, gateway, "eth0", []string{"192.0.2.1/24", "2001:db8::1/64"})
	resize := func(mtu int) {
		testnet.In(t, node, func() error {
			eth0, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			return netlink.LinkSetMTU(eth0, mtu)
		})
	}
	for _, text := range []string{"192.0.2.1", "2001:db8::1"} {
		ip := netip.MustParseAddr(text)
		check := func(ctx context.Context, p Probe) (err error) {
			testnet.In(t, node, func() error {
				for err = p.Check(ctx); err != nil && ctx.Err() == nil; err = p.Check(ctx) {
					t.Log(err)
				}
				return nil
			})
			return err
		}
		for _, mtu := range []int{1500, 1400} {
			resize(mtu)
			ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(20*time.Second))
			if err := check(ctx, FullSize(ip)); err != nil {
				t.Errorf("%s with an MTU of %d: %v", ip, mtu, err)
			}
			cancel()
		}
		resize(9000)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		if err := check(ctx, FullSize(ip)); err == nil || !strings.Contains(err.Error(), "9000 bytes") {
			t.Errorf("%s with an MTU that is too large: %v", ip, err)
		}
		cancel()
		if err := check(t.Context(), Gateway(ip)); err != nil {
			t.Errorf("%s with small packets: %v", ip, err)
		}
	}
}

func TestAnAddressAcceptsConnectionsOrNot(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := TCP("the API server", listener.Addr().String())
	if err := p.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Check(t.Context()); err == nil {
		t.Error("a closed port accepts connections")
	}
	if !strings.Contains(p.Name, listener.Addr().String()) {
		t.Errorf("its name is %q", p.Name)
	}
}

// answer is a name server that knows no name.
func answer(conn net.PacketConn) {
	buffer := make([]byte, 512)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		reply := append([]byte{}, buffer[:n]...)
		reply[2], reply[3] = 0x81, 0x83 // a response; NXDOMAIN
		_, _ = conn.WriteTo(reply, from)
	}
}

func TestANameServerIsReachedIfItAnswersAtAll(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go answer(conn)
	server := conn.LocalAddr().String()
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(10*time.Second))
	defer cancel()
	if err := lookup(ctx, server, "example.invalid."); err != nil {
		t.Error(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	short, end := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer end()
	if err := lookup(short, server, "example.invalid."); err == nil {
		t.Error("a server that is gone answers")
	}
	if name := Lookup("192.0.2.53", "example.com.").Name; !strings.Contains(name, "192.0.2.53") {
		t.Errorf("its name is %q", name)
	}
}
