// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
	"github.com/alioth-net/alioth/cnid/nmstate/target"
)

// phase is when settings are changed. Some name ports, which are there afterwards only.
type phase bool

const (
	beforePorts phase = false
	afterPorts  phase = true
)

// ofPorts are options of a bond that name a port of it.
func ofPorts(option string) bool { return option == "primary" || option == "active_slave" }

func withoutPorts(options map[string]any) map[string]any {
	options = maps.Clone(options)
	maps.DeleteFunc(options, func(name string, _ any) bool { return ofPorts(name) })
	return options
}

// lowerMTUs gives interfaces smaller MTUs, children before parents.
func (p *planner) lowerMTUs() {
	for _, name := range slices.Backward(p.order) {
		now, want := p.now[name], p.want[name]
		if !p.dirty[name] || now == nil || want == nil || now.MTU == nil || want.MTU == nil || *want.MTU >= *now.MTU {
			continue
		}
		p.step(Change{document.Interface{Name: name, Type: now.Type, MTU: want.MTU}})
		p.resized(now, *want.MTU)
	}
}

// change applies settings that differ, parents before children.
func (p *planner) change(when phase) {
	p.each(func(now, want *document.Interface) {
		is, shall := settings(*now), settings(*want)
		if when == beforePorts && shall.Bond != nil {
			shall.Bond.Options = withoutPorts(shall.Bond.Options)
		}
		if to := p.want[controller(want)]; when == beforePorts && to != nil && to.Type == document.Bond &&
			controller(now) != to.Name {
			shall.MTU = nil // The bond gives the port its MTU.
		}
		changed, ok := difference(is, shall)
		if names := lacking(now.AltNames, want.AltNames); len(names) > 0 {
			if !ok {
				changed = document.Interface{Name: is.Name, Type: is.Type}
			}
			changed.AltNames, ok = names, true
		}
		if !ok {
			return
		}
		if compare.StopsToChange(is, shall) {
			p.stop(now)
		}
		p.step(Change{changed})
		p.changed(now, changed)
	})
}

// changed notes settings.
func (p *planner) changed(now *document.Interface, changed document.Interface) {
	names := document.MergeAltNames(now.AltNames, changed.AltNames)
	*now = target.Merge(*now, changed)
	now.AltNames = names
	if changed.MTU != nil {
		p.resized(now, *changed.MTU)
	}
}

// settings are those that Change applies, of an interface.
func settings(i document.Interface) document.Interface {
	s := document.Interface{
		Name: i.Name, Type: i.Type, Description: i.Description, MACAddress: i.MACAddress, MTU: i.MTU,
		AcceptAllMACAddresses: i.AcceptAllMACAddresses,
	}
	if i.Bond != nil {
		s.Bond = &document.LinkAggregation{Options: i.Bond.Options}
	}
	if i.Bridge != nil {
		s.Bridge = &document.Bridge{Options: i.Bridge.Options}
	}
	if i.MACVLAN != nil {
		s.MACVLAN = &document.MACVLAN{Mode: i.MACVLAN.Mode, Promiscuous: i.MACVLAN.Promiscuous}
	}
	if i.IPVLAN != nil {
		s.IPVLAN = &document.IPVLAN{Mode: i.IPVLAN.Mode, Private: i.IPVLAN.Private, VEPA: i.IPVLAN.VEPA}
	}
	return s
}

// difference returns the wanted settings that differ from the present ones, and false without a
// difference.
func difference(is, shall document.Interface) (document.Interface, bool) {
	if covers(reflect.ValueOf(is), reflect.ValueOf(shall)) {
		return is, false
	}
	now, err := target.Object(is)
	if err != nil {
		return is, false
	}
	want, err := target.Object(shall)
	if err != nil {
		return is, false
	}
	changed := missing(now, want)
	if len(changed) == 0 {
		return is, false
	}
	changed["name"], changed["type"] = is.Name, is.Type
	i, err := target.Read(changed)
	return i, err == nil
}

// covers reports whether all wanted fields are present, with the very same values. It is much
// cheaper than a search for the missing fields, which knows other forms of the values too.
func covers(is, shall reflect.Value) bool {
	if shall.Kind() != reflect.Struct {
		return reflect.DeepEqual(is.Interface(), shall.Interface())
	}
	for at := range shall.NumField() {
		is, shall := is.Field(at), shall.Field(at)
		if shall.IsZero() {
			continue // A document does not have the field.
		}
		if shall.Kind() == reflect.Pointer {
			if is.IsNil() {
				return false
			}
			is, shall = is.Elem(), shall.Elem()
		}
		if !covers(is, shall) {
			return false
		}
	}
	return true
}

// missing returns what an object shall have and has not.
func missing(now, want map[string]any) map[string]any {
	lacks := map[string]any{}
	for key, value := range want {
		object, isObject := value.(map[string]any)
		if !isObject {
			if !sameValue(key, now[key], value) {
				lacks[key] = value
			}
			continue
		}
		is, _ := now[key].(map[string]any)
		if inner := missing(is, object); len(inner) > 0 {
			lacks[key] = inner
		}
	}
	return lacks
}

// sameValue compares values of fields. A field that is not there is false, 0 or "".
func sameValue(key string, now, want any) bool {
	if now == nil && (want == false || want == "" || want == int64(0)) {
		return true
	}
	if reflect.DeepEqual(now, want) {
		return true
	}
	_, list := want.([]any)
	return !list && compare.Option(key, now) == compare.Option(key, want)
}

// vfsDiffer compares virtual functions by their numbers.
func vfsDiffer(now, want document.SRIOV) bool {
	is, shall := ofVFs(now), ofVFs(want)
	return len(missing(is, shall)) > 0
}

// ofVFs are the settings of virtual functions as an object, each by its number.
func ofVFs(s document.SRIOV) map[string]any {
	whole, err := target.Object(document.Interface{Ethernet: &document.EthernetConfig{SRIOV: &s}})
	if err != nil {
		return nil
	}
	ethernet, _ := whole["ethernet"].(map[string]any)
	object, _ := ethernet["sr-iov"].(map[string]any)
	list, _ := object["vfs"].([]any)
	delete(object, "vfs")
	for n, vf := range list {
		object["vf "+compare.Option("", int64(s.VFs[n].ID))] = vf
	}
	return object
}

// changePorts applies settings of ports of bridges.
func (p *planner) changePorts() {
	p.each(func(now, want *document.Interface) {
		if want.Bridge == nil {
			return
		}
		is := map[string]document.BridgePort{}
		if now.Bridge != nil {
			for _, port := range now.Bridge.Ports {
				is[port.Name] = port
			}
		}
		for _, port := range want.Bridge.Ports {
			if p.now[port.Name] == nil || controller(p.now[port.Name]) != want.Name {
				continue
			}
			have := is[port.Name]
			if p.enslaved[port.Name] {
				have = document.BridgePort{}
			}
			if portDiffers(have, port, *now) {
				p.step(PortChange{want.Name, port})
			}
		}
	})
}

// unfilter turns filters of VLANs off that are on.
func (p *planner) unfilter(current *document.State, bridges []string) {
	for _, i := range current.Interfaces {
		if slices.Contains(bridges, i.Name) && compare.FiltersVLANs(i.Bridge) {
			p.step(Unfilter{i.Name})
		}
	}
}

// portDiffers compares settings of a port of a bridge.
func portDiffers(now, want document.BridgePort, bridge document.Interface) bool {
	if want.VLAN != nil && !sameVLANs(now.VLAN, *want.VLAN, bridge) {
		return true
	}
	return want.Hairpin != nil && *want.Hairpin != (now.Hairpin != nil && *now.Hairpin) ||
		want.PathCost != nil && (now.PathCost == nil || *now.PathCost != *want.PathCost) ||
		want.Priority != nil && (now.Priority == nil || *now.Priority != *want.Priority)
}

// sameVLANs compares VLANs of a port. No VLANs of its own are those that a new port has:
// none, or the bridge's default one.
func sameVLANs(now *document.PortVLAN, want document.PortVLAN, bridge document.Interface) bool {
	is := document.PortVLAN{}
	if now != nil {
		is = *now
	}
	if want.Mode == "" {
		return is.Mode == "" || compare.OfNewPort(is, bridge)
	}
	tag := func(v document.PortVLAN) int {
		if v.Tag == nil {
			return 0
		}
		return *v.Tag
	}
	native := func(v document.PortVLAN) bool { return v.EnableNative != nil && *v.EnableNative }
	return is.Mode == want.Mode && tag(is) == tag(want) && native(is) == native(want) &&
		slices.Equal(tagsOf(is), tagsOf(want))
}

// tagsOf are the tags of a trunk as ranges that do not touch, in order.
func tagsOf(v document.PortVLAN) []document.TagRange {
	var all []document.TagRange
	for _, tag := range v.TrunkTags {
		switch {
		case tag.ID != nil:
			all = append(all, document.TagRange{Min: *tag.ID, Max: *tag.ID})
		case tag.Range != nil:
			all = append(all, *tag.Range)
		}
	}
	slices.SortFunc(all, func(a, b document.TagRange) int { return a.Min - b.Min })
	var merged []document.TagRange
	for _, r := range all {
		if last := len(merged) - 1; last >= 0 && r.Min <= merged[last].Max+1 {
			merged[last].Max = max(merged[last].Max, r.Max)
			continue
		}
		merged = append(merged, r)
	}
	return merged
}

// sameAddress compares addresses in whatever form they are written.
func sameAddress(a, b document.Address) bool {
	return a.PrefixLength == b.PrefixLength && strings.EqualFold(a.IP, b.IP)
}
