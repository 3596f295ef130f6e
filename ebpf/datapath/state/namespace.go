// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
)

// MaxMemberships is the number of interfaces that a Namespace may have.
const MaxMemberships = 8

// IsOutside reports whether a number in place of a VNI belongs to a network outside of every VPC.
// Only rows about sockets and their Services have such numbers. A VNI has 24 bits, so neither an
// interface with programs nor a packet of the tunnel has such a number.
func IsOutside(number uint32) bool { return number > maxVNI }

// numbered names a VPC or a network outside of every VPC by its number.
func numbered(number uint32) string {
	if IsOutside(number) {
		return fmt.Sprintf("network number %d", number)
	}
	return fmt.Sprintf("VNI %d", number)
}

// Namespace is a network namespace with interfaces of any kind. The hooks on sockets use it to
// find a socket's VPCs and networks outside of every VPC.
type Namespace struct {
	// Cookie is the kernel's identity of it, socket(7) SO_NETNS_COOKIE. It is never
	// used twice between two boots.
	Cookie uint64
	// Shared reports that the addresses of the shared services' backends (VNI 0) have
	// the same meaning here, which they never have in a tenant's VPC. The node's own
	// sockets reach them directly; pods' packets are translated to shadow addresses.
	Shared bool
	// Memberships are its interfaces, 1 to MaxMemberships. A virtual address belongs to
	// the first VPC or network that has it.
	Memberships []Membership
}

// Membership is an interface of a Namespace in a VPC, or in a network outside of every VPC.
type Membership struct {
	// VNI is the number of the network outside of every VPC, above all VNIs.
	VNI uint32
	// Addrs are the interface's addresses, at most one per family. They identify
	// clients for services.
	Addrs []netip.Addr
	// Ifindex is the interface's host end, 0 without one. Outside of every VPC it is always 0: no
	// program sees the packets.
	Ifindex int
}

func (s *State) checkNamespaces(c *checker) error {
	return each(c, &s.Namespaces, func(n Namespace) error {
		if n.Cookie == 0 {
			return errors.New("namespace has no cookie")
		}
		if len(n.Memberships) == 0 || len(n.Memberships) > MaxMemberships {
			return fmt.Errorf("namespace %d has %d interfaces, not 1 to %d", n.Cookie, len(n.Memberships), MaxMemberships)
		}
		for _, m := range n.Memberships {
			if err := m.check(c); err != nil {
				return fmt.Errorf("namespace %d: %w", n.Cookie, err)
			}
		}
		return c.once(cookieKey(n.Cookie), "namespace %d", n.Cookie)
	})
}

func (m Membership) check(c *checker) error {
	if err := c.known("its interface", m.VNI); err != nil {
		return err
	}
	if IsOutside(m.VNI) && m.Ifindex != 0 {
		return fmt.Errorf("its interface in %s has the host end %d; such an interface has none", numbered(m.VNI), m.Ifindex)
	}
	if m.Ifindex < 0 || m.Ifindex > math.MaxInt32 {
		return fmt.Errorf("%d is no device index", m.Ifindex)
	}
	var have [families]bool
	for _, ip := range m.Addrs {
		if err := checkIP("address", ip); err != nil {
			return err
		}
		family := familyOf(ip)
		if have[family] {
			return fmt.Errorf("address %s is a second one of its family", ip)
		}
		have[family] = true
	}
	return nil
}

func (n Namespace) text() (key, content string) {
	n.Memberships = slices.Clone(n.Memberships)
	for i := range n.Memberships {
		m := &n.Memberships[i]
		m.Addrs = slices.SortedFunc(slices.Values(m.Addrs), netip.Addr.Compare)
	}
	return fmt.Sprintf("network namespace %d", n.Cookie), fmt.Sprintf("%+v", n)
}
