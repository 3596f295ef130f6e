// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/target"
)

// Lack says which property of the desired state a host has not got, instead of a step: the
// expected value, and the found one.
func Lack(now *document.State, step Step) string {
	if words := lackOfInterface(now, step); words != "" {
		return words
	}
	return lackOfEntry(now, step)
}

// lackOfInterface is "" for a step that is about no interface alone.
func lackOfInterface(now *document.State, step Step) string {
	switch s := step.(type) {
	case Change:
		return s.lack(now)
	case PortChange:
		return s.lack(now)
	case Create:
		return fmt.Sprintf("%s: expected of type %s, found none", s.Interface.Name, s.Interface.Type)
	case Delete:
		return fmt.Sprintf("%s: expected none, found it", s.Name)
	case Enslave:
		return fmt.Sprintf("%s.controller: expected %q, found %q", s.Port, s.Controller, controller(find(now, s.Port)))
	case SetUp:
		return s.Name + ".state: expected up, found down"
	case SetDown:
		return s.Name + ".state: expected down, found up"
	case SetFamily:
		return fmt.Sprintf("%s.ipv6.enabled: expected %v, found %v", s.Name, s.Enabled, !s.Enabled)
	case SetForwarding:
		return fmt.Sprintf("%s.%s.forwarding: expected %v, found %v", s.Name, s.Family, s.On, !s.On)
	case AddAddress:
		return fmt.Sprintf("%s: expected %s/%d, found %s", s.Name, s.Address.IP, s.Address.PrefixLength, addressWords(find(now, s.Name)))
	case RemoveAddress:
		return fmt.Sprintf("%s: expected no %s/%d, found it", s.Name, s.Address.IP, s.Address.PrefixLength)
	default:
		return ""
	}
}

// lackOfEntry is Lack for routes, rules, the resolver and all others.
func lackOfEntry(now *document.State, step Step) string {
	switch s := step.(type) {
	case AddRoute:
		return fmt.Sprintf("expected the route %s, found none", routeWords(s.Route))
	case RemoveRoute:
		return fmt.Sprintf("expected no route %s, found it", routeWords(s.Route))
	case AddRule:
		return fmt.Sprintf("expected the rule %s, found none", ruleWords(s.Rule))
	case RemoveRule:
		return fmt.Sprintf("expected no rule %s, found it", ruleWords(s.Rule))
	case SetResolver:
		found := &document.Resolver{}
		if now.DNS != nil && now.DNS.Config != nil {
			found = now.DNS.Config
		}
		return fmt.Sprintf("dns-resolver.config: expected %s, found %s", jsonWords(s.Resolver), jsonWords(found))
	default:
		return "expected no need to " + step.String()
	}
}

func (s Change) lack(now *document.State) string {
	found := document.Interface{}
	if i := find(now, s.Interface.Name); i != nil {
		found = *i
	}
	is, shall := objectOf(found), objectOf(s.Interface)
	delete(shall, "name")
	delete(shall, "type")
	return strings.Join(differences(s.Interface.Name, is, shall), ", ")
}

func (s PortChange) lack(now *document.State) string {
	is := document.BridgePort{Name: s.Port.Name}
	if bridge := find(now, s.Bridge); bridge != nil && bridge.Bridge != nil {
		for _, port := range bridge.Bridge.Ports {
			if port.Name == s.Port.Name {
				is = port
			}
		}
	}
	wrap := func(port document.BridgePort) document.Interface {
		return document.Interface{Name: s.Bridge, Bridge: &document.Bridge{Ports: []document.BridgePort{port}}}
	}
	return strings.Join(differences(s.Bridge, objectOf(wrap(is)), objectOf(wrap(s.Port))), ", ")
}

// differences are the fields that an object shall have and another one has otherwise.
func differences(path string, is, shall map[string]any) (list []string) {
	for _, key := range slices.Sorted(maps.Keys(shall)) {
		at, found := path+"."+key, is[key]
		inner, nested := shall[key].(map[string]any)
		outer, _ := found.(map[string]any)
		switch {
		case nested:
			list = append(list, differences(at, outer, inner)...)
		case found == nil:
			list = append(list, fmt.Sprintf("%s: expected %s, found none", at, jsonWords(shall[key])))
		case jsonWords(found) != jsonWords(shall[key]):
			list = append(list, fmt.Sprintf("%s: expected %s, found %s", at, jsonWords(shall[key]), jsonWords(found)))
		}
	}
	return list
}

func objectOf(i document.Interface) map[string]any {
	object, err := target.Object(i)
	if err != nil {
		return nil
	}
	return object
}

// jsonWords is a value as documents have it.
func jsonWords(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return "a value"
	}
	return string(text)
}

func find(s *document.State, name string) *document.Interface {
	at := slices.IndexFunc(s.Interfaces, func(i document.Interface) bool { return i.Name == name })
	if at < 0 {
		return nil
	}
	return &s.Interfaces[at]
}

func addressWords(i *document.Interface) string {
	var words []string
	if i != nil {
		for _, a := range append(slices.Clone(addresses(i.IPv4)), addresses(i.IPv6)...) {
			words = append(words, fmt.Sprintf("%s/%d", a.IP, a.PrefixLength))
		}
	}
	if words == nil {
		return "no address"
	}
	return strings.Join(words, " ")
}
