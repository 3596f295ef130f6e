// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/alioth-net/alioth/api/ipfamily"
)

// ErrInvalid is wrapped by the error for a State that contradicts
// itself.
var ErrInvalid = errors.New("invalid datapath state")

// maxAffinity is the longest that the Kubernetes API allows.
const maxAffinity = 24 * time.Hour

// maxVNI is the largest VXLAN network identifier, RFC 7348 section 5.
const maxVNI = 1<<24 - 1

// maxIdentity is the largest identity that fits the packets of the tunnel (docs/design/165).
const maxIdentity = 1<<24 - 1

// mappedRange contains the IPv4-mapped addresses, the form of IPv4 addresses in maps.
var mappedRange = netip.MustParsePrefix("::ffff:0:0/96")

// families is the number of address families.
const families = len(ipfamily.Both)

// familyOf is the index of an address's family.
func familyOf(ip netip.Addr) int { return ipfamily.Of(ip.Unmap()).Index() }

// checker collects the facts on which rows have to agree.
type checker struct {
	vpcs       map[uint32]bool
	interfaces map[int]Interface
	seen       map[any]bool
	// leaveOut is called for each row that is left out, with the reason. If it is nil, the
	// first contradiction is an error.
	leaveOut func(error)
}

// each checks the rows of a list. A row with a contradiction is an error, or left out of the
// list: see checker.leaveOut.
func each[R any](c *checker, list *[]R, check func(R) error) error {
	var kept []R
	whole := true
	for i, row := range *list {
		err := check(row)
		switch {
		case err != nil && c.leaveOut == nil:
			return err
		case err != nil:
			c.leaveOut(err)
			if whole {
				kept, whole = slices.Clone((*list)[:i]), false
			}
		case !whole:
			kept = append(kept, row)
		}
	}
	if !whole {
		*list = kept
	}
	return nil
}

// Keys whose uniqueness is checked, by kind of rows.
type (
	interfaceKey int
	shadowKey    netip.Addr
	listedKey    struct {
		list string
		ip   netip.Addr
	}
	nodePortKey NodePort
	probeKey    netip.Addr
	rangeKey    struct {
		vni    uint32
		prefix netip.Prefix
	}
	subnetKey rangeKey
	closedKey rangeKey
	ownerKey  struct {
		vni uint32
		ip  netip.Addr
	}
	portKey struct {
		vni   uint32
		ip    netip.Addr
		proto uint8
		port  uint16
	}
	hookKey   netip.Addr
	cookieKey uint64
)

func newChecker() *checker {
	return &checker{vpcs: map[uint32]bool{}, interfaces: map[int]Interface{}, seen: map[any]bool{}}
}

// check returns the first contradiction in the part of a VNI.
func (s *State) check(vni uint32) error {
	return s.checkAll(newChecker(), vni)
}

// checkAll checks the part of a VNI with a checker.
func (s *State) checkAll(c *checker, vni uint32) error {
	checks := []func(*checker) error{
		s.checkVPCs, s.checkRoles, s.checkInterfaces, s.checkAddresses, s.checkSubnets, s.checkNodes, s.checkNodePorts,
		s.checkClosed, s.checkServices, s.checkTargets,
	}
	for _, check := range checks {
		if err := check(c); err != nil {
			return err
		}
	}
	return s.checkOwner(vni)
}

// checkOwner rejects rows that belong to another part.
func (s *State) checkOwner(vni uint32) error {
	foreign := func(other uint32) bool { return other != vni }
	if slices.ContainsFunc(s.VPCs, func(v VPC) bool { return foreign(v.VNI) }) ||
		slices.ContainsFunc(s.Interfaces, func(i Interface) bool { return foreign(i.VNI) }) ||
		slices.ContainsFunc(s.Addresses, func(a Address) bool { return foreign(a.VNI) }) ||
		slices.ContainsFunc(s.Roles, func(r Role) bool { return foreign(r.Key.VNI) }) ||
		slices.ContainsFunc(s.Subnets, func(n Subnet) bool { return foreign(n.VNI) }) ||
		slices.ContainsFunc(s.NodePorts, func(n NodePort) bool { return foreign(n.VNI) }) ||
		slices.ContainsFunc(s.Closed, func(c ClosedPrefix) bool { return foreign(c.VNI) }) ||
		slices.ContainsFunc(s.Services, func(v Service) bool { return foreign(v.VNI) }) {
		return fmt.Errorf("the part of VNI %d has rows of another one", vni)
	}
	if vni != 0 &&
		len(s.Nodes)+len(s.Own)+len(s.Announced)+len(s.Probes)+len(s.Hooks)+len(s.Namespaces)+len(s.Services) > 0 {
		return fmt.Errorf("the part of VNI %d has rows of none", vni)
	}
	return nil
}

// once rejects a second row of the same key, which format and args describe.
func (c *checker) once(key any, format string, args ...any) error {
	if c.seen[key] {
		return fmt.Errorf(format+" is given twice", args...)
	}
	c.seen[key] = true
	return nil
}

// present rejects rows of a VPC that the State does not contain.
func (c *checker) present(what any, vni uint32) error {
	if !c.vpcs[vni] {
		return fmt.Errorf("%v belongs to VNI %d, which is no VPC of this state", what, vni)
	}
	return nil
}

// known rejects rows of a VPC that the State does not contain. A network outside of every
// VPC has no row of its own.
func (c *checker) known(what any, number uint32) error {
	if IsOutside(number) {
		return nil
	}
	return c.present(what, number)
}

func checkIP(what string, ip netip.Addr) error {
	if !ip.IsValid() || ip.IsUnspecified() || ip.Zone() != "" {
		return fmt.Errorf("%s %q is no plain address", what, ip)
	}
	return nil
}

// checkPrefix rejects prefixes that IPv4 addresses in their mapped form would match by
// accident.
func checkPrefix(p netip.Prefix) error {
	switch {
	case !p.IsValid() || p.Addr().Is4In6():
		return fmt.Errorf("prefix %q is not valid", p)
	case p != p.Masked():
		return fmt.Errorf("prefix %s has bits set beyond its length; it is %s", p, p.Masked())
	case p.Addr().Is6() && p.Overlaps(mappedRange):
		return fmt.Errorf("prefix %s contains the IPv4-mapped range; name 2000::/3 or narrower ranges", p)
	}
	return nil
}

func (s *State) checkVPCs(c *checker) error {
	return each(c, &s.VPCs, func(v VPC) error {
		if v.VNI == 0 || v.VNI > maxVNI {
			return fmt.Errorf("VNI %d of a VPC is not in 1 to %d", v.VNI, maxVNI)
		}
		if c.vpcs[v.VNI] {
			return fmt.Errorf("VPC of VNI %d is given twice", v.VNI)
		}
		for _, p := range v.Prefixes {
			if err := checkPrefix(p); err != nil {
				return fmt.Errorf("VPC of VNI %d: %w", v.VNI, err)
			}
			if err := c.once(rangeKey{vni: v.VNI, prefix: p}, "range %s of VNI %d", p, v.VNI); err != nil {
				return err
			}
		}
		c.vpcs[v.VNI] = true
		return nil
	})
}

func (s *State) checkInterfaces(c *checker) error {
	return each(c, &s.Interfaces, func(i Interface) error {
		if err := i.check(c); err != nil {
			return fmt.Errorf("interface %d: %w", i.Ifindex, err)
		}
		c.interfaces[i.Ifindex] = i
		return nil
	})
}

func (i Interface) check(c *checker) error {
	if err := c.present("it", i.VNI); err != nil {
		return err
	}
	return i.Check()
}

// Check returns an error for an interface that contradicts itself: no State has it.
func (i Interface) Check() error {
	if i.Ifindex <= 0 || i.Ifindex > math.MaxInt32 {
		return fmt.Errorf("device index %d is none", i.Ifindex)
	}
	if i.MAC == (MAC{}) || i.MAC[0]&1 != 0 {
		return fmt.Errorf("MAC %s is no address of one station", i.MAC)
	}
	if i.Node && i.Netkit {
		return fmt.Errorf("the node's own interface is no netkit pair")
	}
	if i.Identity > maxIdentity {
		return fmt.Errorf("identity %d is above %d", i.Identity, maxIdentity)
	}
	return i.checkAddrs()
}

// checkAddrs returns an error for addresses, or their shadows, that contradict each other.
func (i Interface) checkAddrs() error {
	var have [families]bool
	for _, ip := range i.Addrs {
		if err := checkIP("address", ip); err != nil {
			return err
		}
		family := familyOf(ip)
		if have[family] {
			return fmt.Errorf("address %s is the second of its family", ip)
		}
		have[family] = true
	}
	if len(i.Addrs) == 0 {
		return fmt.Errorf("no address")
	}
	for family, shadow := range []netip.Addr{i.Shadow4, i.Shadow6} {
		if !shadow.IsValid() {
			continue
		}
		if familyOf(shadow) != family || !have[family] || i.Node {
			return fmt.Errorf("shadow %s does not belong to an address of the interface", shadow)
		}
	}
	return nil
}

// unique yields the keys that no other interface of any VPC may have: the device and shadows.
func (i Interface) unique(yield func(any) bool) {
	if !yield(interfaceKey(i.Ifindex)) {
		return
	}
	for _, shadow := range []netip.Addr{i.Shadow4, i.Shadow6} {
		if shadow.IsValid() && !yield(shadowKey(shadow.Unmap())) {
			return
		}
	}
}

// checkUnique rejects values that an interface of any VPC has already.
func (i Interface) checkUnique(c *checker) error {
	for key := range i.unique {
		if !c.seen[key] {
			c.seen[key] = true
			continue
		}
		if shadow, ok := key.(shadowKey); ok {
			return fmt.Errorf("interface %d: shadow %s is given twice", i.Ifindex, netip.Addr(shadow))
		}
		return fmt.Errorf("interface %d is given twice", i.Ifindex)
	}
	return nil
}

func (s *State) checkAddresses(c *checker) error {
	return each(c, &s.Addresses, func(a Address) error {
		if err := checkIP("address", a.IP); err != nil {
			return err
		}
		if err := c.present(a.IP, a.VNI); err != nil {
			return err
		}
		if err := a.checkKind(c); err != nil {
			return fmt.Errorf("address %s of VNI %d: %w", a.IP, a.VNI, err)
		}
		return c.once(ownerKey{vni: a.VNI, ip: a.IP.Unmap()}, "address %s of VNI %d", a.IP.Unmap(), a.VNI)
	})
}

func (a Address) checkKind(c *checker) error {
	switch a.Kind {
	case Local:
		i, ok := c.interfaces[a.Ifindex]
		if !ok || i.VNI != a.VNI {
			return fmt.Errorf("device %d is no interface of that VNI", a.Ifindex)
		}
	case Remote:
		return checkIP("node", a.Node)
	case Gateway, HeldOutside:
	default:
		return fmt.Errorf("kind %d is unknown", a.Kind)
	}
	return nil
}

func (s *State) checkSubnets(c *checker) error {
	return each(c, &s.Subnets, func(n Subnet) error {
		if err := checkPrefix(n.Prefix); err != nil {
			return fmt.Errorf("subnet of VNI %d: %w", n.VNI, err)
		}
		if err := c.present(n.Prefix, n.VNI); err != nil {
			return err
		}
		if err := c.plays(n.Prefix, n.VNI, n.Role); err != nil {
			return err
		}
		return c.once(subnetKey{vni: n.VNI, prefix: n.Prefix}, "subnet %s of VNI %d", n.Prefix, n.VNI)
	})
}

func (s *State) checkNodes(c *checker) error {
	for _, list := range []struct {
		of  string
		ips *[]netip.Addr
	}{{"node", &s.Nodes}, {"own address", &s.Own}, {"announced address", &s.Announced}} {
		if err := each(c, list.ips, func(ip netip.Addr) error {
			if err := checkIP(list.of, ip); err != nil {
				return err
			}
			return c.once(listedKey{list.of, ip.Unmap()}, "%s %s", list.of, ip.Unmap())
		}); err != nil {
			return err
		}
	}
	return nil
}

func (s *State) checkClosed(c *checker) error {
	all := s.Closed
	return each(c, &s.Closed, func(p ClosedPrefix) error {
		if err := checkPrefix(p.Prefix); err != nil && !shields(all, p) {
			return fmt.Errorf("closed prefix: %w", err)
		}
		if p.Class < ClosedShadow || p.Class > ClosedBalancer {
			return fmt.Errorf("closed prefix %s has unknown class %d", p.Prefix, p.Class)
		}
		if p.VNI == 0 && (p.Class == OpenListed || p.Class == OpenMetadata) {
			return fmt.Errorf("prefix %s is open to every VPC: an exception belongs to one", p.Prefix)
		}
		if p.VNI != 0 {
			if err := c.present(p.Prefix, p.VNI); err != nil {
				return err
			}
		}
		return c.once(closedKey{vni: p.VNI, prefix: p.Prefix}, "closed prefix %s of VNI %d", p.Prefix, p.VNI)
	})
}

// shields reports that a range of IPv6 contains the IPv4-mapped range, but matches no
// IPv4 address: an entry of the same VNI for all of IPv4 is longer.
func shields(all []ClosedPrefix, p ClosedPrefix) bool {
	wide := p.Prefix.Addr().Is6() && p.Prefix == p.Prefix.Masked() && p.Prefix.Contains(mappedRange.Addr())
	return wide && slices.ContainsFunc(all, func(q ClosedPrefix) bool {
		return q.VNI == p.VNI && q.Prefix == netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	})
}

// check returns the first contradiction in a virtual address of a VPC.
func (a *VirtualAddress) check() error {
	if a.VNI == 0 || len(a.Services) == 0 || slices.ContainsFunc(a.Services, a.foreign) {
		return fmt.Errorf("virtual address %s of VNI %d has no services, or some of another one", a.IP, a.VNI)
	}
	return checkServices(&a.Services, newChecker())
}

// foreign reports whether a service is of another virtual address.
func (a *VirtualAddress) foreign(s Service) bool { return s.VNI != a.VNI || s.VIP.Unmap() != a.IP }

func (s *State) checkServices(c *checker) error { return checkServices(&s.Services, c) }

func checkServices(services *[]Service, c *checker) error {
	return each(c, services, func(v Service) error {
		if err := v.check(); err != nil {
			return fmt.Errorf("service %s port %d: %w", v.VIP, v.Port, err)
		}
		key := portKey{vni: v.VNI, ip: v.VIP.Unmap(), proto: v.Proto, port: v.Port}
		return c.once(key, "service %s protocol %d port %d of VNI %d", key.ip, v.Proto, v.Port, v.VNI)
	})
}

func (v Service) check() error {
	if err := checkIP("virtual address", v.VIP); err != nil {
		return err
	}
	if v.Port == 0 || (v.Proto != ProtoTCP && v.Proto != ProtoUDP) {
		return fmt.Errorf("protocol %d is not TCP or UDP, or the port is missing", v.Proto)
	}
	if v.Affinity < 0 || v.Affinity%time.Second != 0 || v.Affinity > maxAffinity {
		return fmt.Errorf("affinity %s is not whole seconds up to %s", v.Affinity, maxAffinity)
	}
	return v.checkBackends()
}

func (v Service) checkBackends() error {
	if len(v.Backends) > MaxBackends {
		return fmt.Errorf("%d backends are more than %d", len(v.Backends), MaxBackends)
	}
	if v.LeftOut && len(v.Backends) > 0 {
		return fmt.Errorf("it has %d backends and is marked as left out", len(v.Backends))
	}
	for _, b := range v.Backends {
		if err := checkIP("backend", b.IP); err != nil {
			return err
		}
		if b.Port == 0 || b.IP.Unmap().Is4() != v.VIP.Unmap().Is4() {
			return fmt.Errorf("backend %s port %d is of another family or has no port", b.IP, b.Port)
		}
		if b.Outside && !v.isOfVPC() {
			return fmt.Errorf("backend %s is outside of a VPC, and the service is of none", b.IP)
		}
	}
	return nil
}

func (s *State) checkTargets(c *checker) error {
	if err := each(c, &s.Probes, func(p ProbeTarget) error {
		if err := checkTarget(p.IP, p.Shadow); err != nil {
			return err
		}
		return c.once(probeKey(p.IP.Unmap()), "probe target %s", p.IP.Unmap())
	}); err != nil {
		return err
	}
	return each(c, &s.Hooks, func(h HookTarget) error {
		if err := checkTarget(h.IP, h.Shadow); err != nil {
			return err
		}
		return c.once(hookKey(h.IP.Unmap()), "hook target %s", h.IP.Unmap())
	})
}

func checkTarget(ip, shadow netip.Addr) error {
	if err := checkIP("target", ip); err != nil {
		return err
	}
	if !shadow.IsValid() {
		return nil // the connect is refused
	}
	if err := checkIP("shadow", shadow); err != nil {
		return err
	}
	if ip.Unmap().Is4() != shadow.Unmap().Is4() {
		return fmt.Errorf("target %s and its shadow %s are of different families", ip, shadow)
	}
	return nil
}
