// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	kjson "sigs.k8s.io/json"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
)

// mergeAll merges the desired interfaces over the current ones.
func (r *resolution) mergeAll() {
	ends := map[string]string{}
	for _, name := range r.order {
		if i := r.desired[name]; i.Veth != nil && i.Veth.Peer != "" && i.State == document.Up {
			ends[i.Veth.Peer] = name
		}
	}
	for _, name := range r.order {
		want := r.desired[name]
		have, exists := r.current[name]
		if want.State == document.Absent {
			r.final[name] = removed(have, name)
			continue
		}
		if want.State == document.Down && !exists && compare.Virtual(want.Type) {
			r.final[name] = &document.Interface{Name: name, Type: want.Type, State: document.Absent}
			continue
		}
		if want.State == document.Inactive && !exists && want.Type == "" {
			continue // somebody has removed it
		}
		kind, ok := r.kind(want, have, exists, ends[name])
		if !ok {
			r.invalid[name] = true
			continue
		}
		r.Sections(r.at(name), want, kind)
		want.Type = kind
		r.put(want, have)
	}
}

// put merges one interface.
func (r *resolution) put(want, have document.Interface) {
	inactive := want.State == document.Inactive
	if inactive {
		want.State = document.Down
	}
	merged := normalized(want, have)
	if inactive && compare.Virtual(merged.Type) {
		r.final[want.Name] = &merged
		return
	}
	if merged.State == document.Down && !stays(merged, have) {
		stop(&merged)
	}
	r.final[want.Name] = &merged
}

// normalized is a desired interface merged over the current one.
func normalized(want, have document.Interface) document.Interface {
	want.PermanentMACAddress, want.MinMTU, want.MaxMTU = "", nil, nil
	merged := Merge(have, want)
	merged.AltNames = document.MergeAltNames(have.AltNames, want.AltNames)
	merged.MACAddress = compare.CanonicalMAC(merged.MACAddress)
	merged.IPv4 = completed(merged.IPv4, want.IPv4, have.IPv4, ipfamily.IPv4)
	merged.IPv6 = completed(merged.IPv6, want.IPv6, have.IPv6, ipfamily.IPv6)
	normalizeTypes(&merged, want, have)
	if merged.Type == document.Loopback {
		keepOwnAddresses(&merged, have)
	}
	return merged
}

// stays reports whether a virtual interface is down already, and equals its part of a document.
// So a shown state can be applied.
func stays(merged, have document.Interface) bool {
	return compare.Virtual(have.Type) && have.State == document.Down && reflect.DeepEqual(merged, normalized(have, have))
}

// stop makes an interface what one is that shall be down: a virtual one is not there.
func stop(i *document.Interface) {
	if compare.Virtual(i.Type) {
		*i = document.Interface{Name: i.Name, Type: i.Type, State: document.Absent}
		return
	}
	i.IPv4, i.IPv6 = bare(i.IPv4), bare(i.IPv6)
}

// removed is an interface without settings. Whatever else a document says of an absent one
// does not matter.
func removed(have document.Interface, name string) *document.Interface {
	if have.Type == document.Loopback {
		return resetLoopback(have)
	}
	i := &document.Interface{Name: name, Type: have.Type, State: document.Absent}
	if compare.Physical(have.Type) {
		i.Description, i.Controller, i.AcceptAllMACAddresses = new(""), new(""), new(false)
		i.AltNames = without(have.AltNames)
		i.IPv4, i.IPv6 = bare(nil), bare(nil)
		i.IPv4.DHCP, i.IPv6.DHCP = off(orNew(have.IPv4).DHCP), off(orNew(have.IPv6).DHCP)
		// The MTU stays, also where a bond gives its port back another one.
		i.MTU = have.MTU
	}
	return i
}

// kind returns the type of a desired interface, and false for a missing or wrong type. other is
// the name of the desired interface whose pair it completes.
func (r *resolution) kind(want, have document.Interface, exists bool, other string) (string, bool) {
	path := r.at(want.Name)
	if exists {
		if want.Type == "" || want.Type == document.Unknown || compare.SameClass(want.Type, have.Type) {
			return have.Type, true
		}
		if compare.Virtual(have.Type) {
			r.Add(path+".type", "%s: %s is of type %s: make it absent first", want.Type, want.Name, have.Type)
		} else {
			r.Add(path+".type", "%s: %s is of type %s: choose another name", want.Type, want.Name, have.Type)
		}
		return "", false
	}
	switch {
	case other != "" && (want.Type == "" || compare.SameClass(want.Type, document.VethPair)):
		return document.VethPair, true
	case want.Type == document.Ethernet && r.moreVFs:
		return want.Type, true
	case want.Type == document.Ethernet:
		r.Add(path+".name", "%s: no such device", want.Name)
	case want.Type == "":
		r.Add(path+".type", "missing: %s does not exist, and making it needs its type", want.Name)
	case !compare.Virtual(want.Type):
		r.Add(path+".type", "%s: %s does not exist, and interfaces of that type can't be made", want.Type, want.Name)
	default:
		return want.Type, true
	}
	return "", false
}

// normalizeTypes writes values of the sections in the form for comparisons.
func normalizeTypes(i *document.Interface, want, have document.Interface) {
	if i.VXLAN != nil {
		i.VXLAN.Local, i.VXLAN.Remote = compare.CanonicalAddress(i.VXLAN.Local), compare.CanonicalAddress(i.VXLAN.Remote)
	}
	if i.Bridge != nil && i.Bridge.Options != nil {
		i.Bridge.Options.GroupAddress = compare.CanonicalMAC(i.Bridge.Options.GroupAddress)
	}
	if i.Bond != nil {
		normalizeOptions(i.Bond, want.Bond, have.Bond)
	}
	if i.Ethernet != nil && i.Ethernet.SRIOV != nil {
		normalizeVFs(i.Ethernet.SRIOV, want)
	}
}

// normalizeVFs leaves out virtual functions that go.
func normalizeVFs(s *document.SRIOV, want document.Interface) {
	listed := want.Ethernet != nil && want.Ethernet.SRIOV != nil && want.Ethernet.SRIOV.VFs != nil
	var kept []document.VF
	for _, vf := range s.VFs {
		vf.MACAddress = compare.CanonicalMAC(vf.MACAddress)
		if listed || s.TotalVFs == nil || vf.ID < *s.TotalVFs {
			kept = append(kept, vf)
		}
	}
	s.VFs = kept
}

// Object returns an interface as an object of JSON.
func Object(i document.Interface) (map[string]any, error) {
	text, err := json.Marshal(i)
	if err != nil {
		return nil, fmt.Errorf("write interface %s: %w", i.Name, err)
	}
	object := map[string]any{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &object); err != nil {
		return nil, fmt.Errorf("write interface %s: %w", i.Name, err)
	}
	return object, nil
}

// Read is the inverse of Object.
func Read(object map[string]any) (i document.Interface, err error) {
	text, err := json.Marshal(object)
	if err != nil {
		return i, fmt.Errorf("read an interface: %w", err)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &i); err != nil {
		return i, fmt.Errorf("read an interface: %w", err)
	}
	return i, nil
}

// resolved returns a document with values instead of references to them: the MAC address of
// another interface, and the table of a VRF. Interfaces and routes keep their places.
func (r *resolution) resolved(desired, current *document.State) *document.State {
	d := *desired
	d.RouteRules = withPriorities(desired.RouteRules, current.RouteRules)
	d.Interfaces = slices.Clone(desired.Interfaces)
	for n, i := range d.Interfaces {
		if i.CopyMACFrom != "" && i.State != document.Ignore {
			d.Interfaces[n] = r.withMAC(fmt.Sprintf("interfaces[%d].copy-mac-from", n), i)
		}
	}
	if desired.Routes == nil {
		return &d
	}
	d.Routes = &document.Routes{Running: desired.Routes.Running, Config: slices.Clone(desired.Routes.Config)}
	for n, route := range d.Routes.Config {
		if route.VRF != "" && route.State != document.Ignore {
			d.Routes.Config[n] = r.inTable(routePath(n), route, d.Interfaces)
		}
	}
	return &d
}

// withMAC returns an interface with the MAC address of a second interface. It takes the
// hardware's address of an interface with hardware, because that address stays the same in a
// bond.
func (r *resolution) withMAC(path string, i document.Interface) document.Interface {
	from := r.current[i.CopyMACFrom]
	mac := cmp.Or(from.PermanentMACAddress, from.MACAddress)
	switch {
	case mac == "":
		r.Add(path, "%s: no such interface, or none with a MAC address", i.CopyMACFrom)
	case i.MACAddress != "" && compare.CanonicalMAC(i.MACAddress) != compare.CanonicalMAC(mac):
		r.Add(path, "%s: its MAC address is %s: remove one of mac-address and copy-mac-from", i.CopyMACFrom, mac)
	}
	i.MACAddress, i.CopyMACFrom = mac, ""
	return i
}

// inTable returns a route with the table of the VRF that it names.
func (r *resolution) inTable(path string, route document.Route, desired []document.Interface) document.Route {
	name := route.VRF
	route.VRF = ""
	vrf := r.current[name].VRF
	for _, i := range desired {
		switch {
		case i.Name != name:
		case i.State == document.Absent || i.State == document.Down:
			vrf = nil
		case i.VRF != nil && i.VRF.Table != nil:
			vrf = i.VRF
		}
	}
	switch {
	case vrf == nil || vrf.Table == nil:
		r.Add(path+".vrf-name", "%s: no such VRF", name)
	case route.Table != nil && *route.Table != 0 && *route.Table != *vrf.Table:
		r.Add(
			path+".table-id",
			"%d: the table of %s is %d: remove one of table-id and vrf-name",
			*route.Table,
			name,
			*vrf.Table,
		)
	default:
		route.Table = vrf.Table
	}
	return route
}
