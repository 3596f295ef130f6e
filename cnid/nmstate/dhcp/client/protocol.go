// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
)

// protocol is the state machine of a family with its sockets. One goroutine calls it.
type protocol interface {
	// identity identifies the client to servers.
	identity() []byte
	// open opens the sockets on a link that is up. They close by close.
	open(l link) error
	close()
	// resume makes a new state with a lease of before, or without.
	resume(lease *dhcp.Lease)

	up()
	down()
	tick()
	take(p packet)
	inUse(address netip.Addr)
	stop()

	// due is when tick is to be called, zero if never.
	due() time.Time
	// status returns the lease that the client holds, its phase and its problem.
	status() (lease *dhcp.Lease, phase string, problem dhcp.Problem)
}

// packet is a payload that a socket received, or a claim of ARP.
type packet struct {
	payload []byte
	from    netip.Addr
	// claimed is the address that another host claims by ARP.
	claimed netip.Addr
	by      net.HardwareAddr
}

// inbox takes packets for a client. What has no room is lost, as on the network.
type inbox chan packet

// waiting is how many packets a client has no time for yet.
const waiting = 16

func (b inbox) put(p packet) {
	select {
	case b <- p:
	default:
	}
}

// env has what a protocol uses of its surroundings.
type env struct {
	inbox inbox
	space Space
	keeper
}

// keeper keeps the lease of a client.
type keeper interface {
	// hold is told which lease is in use from now on; it is on disk when hold returns.
	hold(lease *dhcp.Lease)
	// failed hears of a message that could not be sent.
	failed(doing string, err error)
}

func random() uint64 { return rand.Uint64() }
