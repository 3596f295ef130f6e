// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
)

// checkAll checks the interfaces that shall be there, complete.
func (r *resolution) checkAll() {
	for _, name := range r.names() {
		i := *r.final[name]
		if gone(i) || r.invalid[name] {
			if i.Type == document.Loopback {
				r.Add(r.at(name)+".state", "%s: the loopback interface stays up", i.State)
			}
			continue
		}
		if i.Type == document.Loopback && i.State != document.Up {
			r.Add(r.at(name)+".state", "%s: the loopback interface stays up", i.State)
		}
		now, exists := r.current[name]
		if !exists || compare.Recreated(now, i) {
			r.checkNew(r.at(name), i)
		}
		r.checkBase(i)
		r.checkPortAddresses(i)
		r.checkPromiscuous(r.at(name)+".mac-vlan", name)
		r.checkActiveMAC(name)
		r.checkVFIDs(r.at(name)+".ethernet.sr-iov", i)
		if i.State == document.Up {
			r.checkMTU(i)
		}
	}
	r.checkPortsStay()
	r.checkOwners()
	r.checkNesting()
	r.checkLoops()
}

// checkNew checks that an interface has what making it needs.
func (r *resolution) checkNew(path string, i document.Interface) {
	need := func(field string, missing bool) {
		if missing {
			r.Add(path+"."+field, "missing: making %s needs it", i.Name)
		}
	}
	switch i.Type {
	case document.Bond:
		need("link-aggregation.mode", i.Bond == nil || i.Bond.Mode == "")
	case document.VLANType:
		need("vlan.base-iface", i.Base() == "")
		need("vlan.id", i.VLAN == nil || i.VLAN.ID == nil)
	case document.VXLANType:
		need("vxlan.id", i.VXLAN == nil || i.VXLAN.ID == nil)
	case document.VRFType:
		need("vrf.route-table-id", i.VRF == nil || i.VRF.Table == nil)
	case document.MACVLANType:
		need("mac-vlan.base-iface", i.Base() == "")
	case document.IPVLANType:
		need("ipvlan.base-iface", i.Base() == "")
	}
}

func (r *resolution) checkBase(i document.Interface) {
	base := i.Base()
	if base == "" || r.invalid[base] {
		return
	}
	if _, exists := r.get(base); !exists {
		r.Add(r.basePath(i), "%s: no such interface", base)
	}
	// A base that the document names was checked with its VLANs before.
	if below, _ := r.get(base); !r.named(base) && i.Type == document.VLANType && i.State == document.Up &&
		below.State == document.Down {
		r.Add(r.basePath(i), "%s: it is down, and a VLAN of it can't be up: name %s too, with state up", base, base)
	}
}

// checkPromiscuous: the kernel knows no such setting of other modes, which are promiscuous.
func (r *resolution) checkPromiscuous(path, name string) {
	i := r.final[name]
	if i.MACVLAN == nil || i.MACVLAN.Mode == compare.Passthru {
		return
	}
	if want := r.desired[name].MACVLAN; want != nil && compare.IsFalse(want.Promiscuous) {
		r.Add(
			path+".promiscuous",
			"false: a MAC-VLAN of mode %s is promiscuous: remove the field, or set mode to %s",
			i.MACVLAN.Mode,
			compare.Passthru,
		)
	}
	alone := *i.MACVLAN
	alone.Promiscuous = nil
	i.MACVLAN = &alone
}

// checkActiveMAC: with fail_over_mac active, a bond has the MAC address of its active port, which
// is any of its ports. A state that was names the one that was active.
func (r *resolution) checkActiveMAC(name string) {
	i := r.final[name]
	if i.Bond == nil || i.Bond.Mode != "active-backup" ||
		compare.Option(compare.FailOverMAC, i.Bond.Options[compare.FailOverMAC]) != "active" {
		return
	}
	mac := compare.CanonicalMAC(r.desired[name].MACAddress)
	has := func(port string) bool {
		now := r.current[port]
		return mac == now.MACAddress || mac == now.PermanentMACAddress ||
			mac == compare.CanonicalMAC(r.desired[port].MACAddress)
	}
	if mac != "" && mac != r.current[name].MACAddress && !slices.ContainsFunc(i.Bond.Ports, has) {
		r.Add(
			r.at(name)+".mac-address",
			"%s: a bond with fail_over_mac active has the address of its active port: remove one of the two",
			mac,
		)
	}
	i.MACAddress = ""
}

func (r *resolution) checkVFIDs(path string, i document.Interface) {
	if i.Ethernet == nil || i.Ethernet.SRIOV == nil || i.Ethernet.SRIOV.TotalVFs == nil {
		return
	}
	total := *i.Ethernet.SRIOV.TotalVFs
	for n, vf := range i.Ethernet.SRIOV.VFs {
		if vf.ID >= total {
			r.Add(fmt.Sprintf("%s.vfs[%d].id", path, n), "%d: want less than total-vfs, %d", vf.ID, total)
		}
	}
}

// minIPv6 is the least MTU of a link with IPv6 (RFC 8200).
const minIPv6 = 1280

func (r *resolution) checkMTU(i document.Interface) {
	if i.MTU == nil {
		return
	}
	path, mtu := r.at(i.Name)+".mtu", *i.MTU
	now := r.current[i.Name]
	switch {
	case now.MinMTU != nil && mtu < *now.MinMTU:
		r.Add(path, "%d: %s takes %d or more", mtu, i.Name, *now.MinMTU)
	case now.MaxMTU != nil && *now.MaxMTU > 0 && mtu > *now.MaxMTU:
		r.Add(path, "%d: %s takes at most %d", mtu, i.Name, *now.MaxMTU)
	case mtu < 1:
		r.Add(path, "%d: want 1 or more", mtu)
	case mtu < minIPv6 && hasIPv6(i.IPv6):
		r.Add(path, "%d: IPv6 needs %d or more: raise it, or set ipv6.enabled to false", mtu, minIPv6)
	}
	r.checkBaseMTU(path, i)
}

// hasIPv6 reports whether an interface shall take part in IPv6.
func hasIPv6(ip *document.IP) bool {
	return ip != nil && !compare.IsFalse(ip.Enabled) && (ip.Enabled != nil || len(ip.Addresses) > 0)
}

// checkBaseMTU: packets of a derived interface have to fit into the packets of its base.
func (r *resolution) checkBaseMTU(path string, i document.Interface) {
	base, ok := r.get(i.Base())
	// The kernel leaves a tunnel its MTU when the MTU of the base shrinks.
	stays := i.Type == document.VXLANType &&
		r.desired[i.Name].MTU == nil && !compare.Differs(r.current[i.Name].MTU, i.MTU) &&
		r.existed(i.Name) && !compare.Recreated(r.current[i.Name], i) && !r.onNewBase(i)
	if !ok || stays {
		return
	}
	if room := r.mtuOf(base, maxInterfaces) - headers(i); *i.MTU > room {
		r.Add(path, "%d: the MTU of %s leaves %d: lower it, or raise that of %s", *i.MTU, base.Name, room, base.Name)
	}
}

// mtuOf returns the MTU that an interface shall have, or that the kernel gives it. depth
// bounds how many interfaces below it are looked at.
func (r *resolution) mtuOf(i document.Interface, depth int) int {
	if i.MTU != nil {
		return *i.MTU
	}
	if now := r.current[i.Name]; now.MTU != nil {
		return *now.MTU
	}
	if base, ok := r.get(i.Base()); ok && depth > 0 {
		return r.mtuOf(base, depth-1) - headers(i)
	}
	return defaultMTU
}

// defaultMTU is the kernel's of most new interfaces (ETH_DATA_LEN).
const defaultMTU = 1500

// headers returns how many bytes the outer headers of a tunnel have (VXLAN_HEADROOM and
// VXLAN6_HEADROOM of Linux), and 0 for other interfaces.
func headers(i document.Interface) int {
	const four, six = 50, 70
	if i.Type != document.VXLANType {
		return 0
	}
	if i.VXLAN != nil && strings.Contains(i.VXLAN.Remote+i.VXLAN.Local, ":") {
		return six
	}
	return four
}

// maxNesting is how many controllers may be above an interface (a limit of nmstate).
const maxNesting = 4

func (r *resolution) checkNesting() {
	for _, name := range r.names() {
		depth, chain := 0, name
		for i, ok := r.get(name); ok && controllerOf(i) != "" && depth <= maxNesting; i, ok = r.get(controllerOf(i)) {
			depth++
			chain += ", " + controllerOf(i)
		}
		if depth > maxNesting {
			r.Add(r.at(name)+".controller", "more than %d controllers above each other: %s", maxNesting, chain)
		}
	}
}

// checkLoops refuses interfaces that are made of themselves: a controller is made of its
// ports, and a derived interface of its base.
func (r *resolution) checkLoops() {
	ports := map[string][]string{}
	note := func(i document.Interface) {
		if c := controllerOf(i); c != "" && !gone(i) {
			ports[c] = append(ports[c], i.Name)
		}
	}
	for name := range r.current {
		i, _ := r.get(name)
		note(i)
	}
	for name, i := range r.final {
		if !r.existed(name) {
			note(*i)
		}
	}
	search := loops{r: r, ports: ports, done: map[string]bool{}, open: map[string]bool{}}
	for _, name := range r.names() {
		search.visit(name)
	}
}

type loops struct {
	r          *resolution
	ports      map[string][]string
	done, open map[string]bool
}

func (l loops) visit(name string) {
	if l.done[name] {
		return
	}
	if l.open[name] {
		l.r.Add(l.r.at(name), "%s is made of itself, by way of its ports or its base", name)
		return
	}
	l.open[name] = true
	i, _ := l.r.get(name)
	if base := i.Base(); base != "" && !gone(i) {
		l.visit(base)
	}
	for _, port := range sortedList(l.ports[name]) {
		l.visit(port)
	}
	l.open[name], l.done[name] = false, true
}
