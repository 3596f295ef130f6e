// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// hop is a gateway on an interface.
type hop struct {
	// ip has no zone.
	ip   netip.Addr
	link string
}

func (h hop) String() string { return h.ip.String() + " on " + h.link }

// alive asks whether a gateway answers: to a request for its Ethernet address, for many gateways
// answer no echo requests, or to an echo request where no such addresses are.
func (h hop) alive(ctx context.Context) error {
	err := h.resolve(ctx)
	if errors.Is(err, errNoResolution) {
		return h.request(0).send(ctx)
	}
	return err
}

// fullSize asks whether a gateway answers the largest packets of the interface, which no router
// may fragment. The size grows and shrinks with the interface's MTU at each moment. So fullSize
// finds an MTU that the network does not carry, and passes an MTU that it does carry.
func (h hop) fullSize(ctx context.Context) error {
	link, err := h.device()
	if err != nil {
		return err
	}
	mtu := link.Attrs().MTU
	if err := h.request(mtu).send(ctx); err != nil {
		return fmt.Errorf("packets of %d bytes: %w", mtu, err)
	}
	return nil
}

func (h hop) request(size int) request {
	to := h.ip
	if to.Is6() && to.IsLinkLocalUnicast() {
		to = to.WithZone(h.link)
	}
	return request{to: to, link: h.link, size: size}
}

func (h hop) device() (netlink.Link, error) {
	link, err := netlink.LinkByName(h.link)
	if err != nil {
		return nil, fmt.Errorf("look up the interface %s: %w", h.link, err)
	}
	return link, nil
}

// errNoResolution: the kernel asks nobody for the Ethernet address of the gateway, because the
// interface has none, or somebody has written it.
var errNoResolution = errors.New("the address is not resolved")

// lookAgain is how often the kernel's neighbours are read.
const lookAgain = 50 * time.Millisecond

// resolve lets the kernel ask a gateway for its Ethernet address (RFC 826, RFC 4861), also if
// the kernel knows it, and returns when there is an answer.
func (h hop) resolve(ctx context.Context) error {
	link, err := h.device()
	if err != nil {
		return err
	}
	if link.Attrs().RawFlags&(unix.IFF_NOARP|unix.IFF_LOOPBACK) != 0 {
		return errNoResolution
	}
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for asked := false; ; {
		entry, err := h.neighbour(link)
		switch {
		case err != nil:
			return err
		case entry.State&(netlink.NUD_PERMANENT|netlink.NUD_NOARP) != 0:
			return errNoResolution
		case asked && entry.State&netlink.NUD_REACHABLE != 0:
			return nil
		case !asked || entry.State == netlink.NUD_NONE || entry.State&netlink.NUD_FAILED != 0:
			if err := ask(entry); err != nil {
				return fmt.Errorf("ask for the Ethernet address of %s: %w", h, err)
			}
			asked = true
		}
		select {
		case <-ctx.Done():
			return errors.New("nobody has told its Ethernet address")
		case <-again.C:
		}
	}
}

// neighbour returns what the kernel knows of a gateway; the state is NUD_NONE for nothing.
func (h hop) neighbour(link netlink.Link) (netlink.Neigh, error) {
	nothing := netlink.Neigh{LinkIndex: link.Attrs().Index, IP: h.ip.AsSlice(), State: netlink.NUD_NONE}
	rows, err := netlink.NeighList(link.Attrs().Index, 0)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nothing, fmt.Errorf("read the neighbours on %s: %w", h.link, err)
	}
	for _, row := range rows {
		if ip, ok := netip.AddrFromSlice(row.IP); ok && ip.Unmap() == h.ip {
			return row, nil
		}
	}
	return nothing, nil
}

// ask lets the kernel ask a neighbour for its Ethernet address.
func ask(entry netlink.Neigh) error {
	const known = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE
	switch {
	case entry.State&known != 0:
		// Whether the neighbour is a router stays: the kernel drops routes through one that is not.
		return netlink.NeighSet(&netlink.Neigh{
			LinkIndex: entry.LinkIndex, IP: entry.IP, HardwareAddr: entry.HardwareAddr, State: netlink.NUD_PROBE,
			Flags: entry.Flags & netlink.NTF_ROUTER,
		})
	case entry.State&netlink.NUD_INCOMPLETE != 0:
		return nil // It does so already.
	default:
		return netlink.NeighSet(
			&netlink.Neigh{LinkIndex: entry.LinkIndex, IP: entry.IP, State: netlink.NUD_NONE, Flags: netlink.NTF_USE},
		)
	}
}
