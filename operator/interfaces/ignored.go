// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package interfaces

import (
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/pod"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/pluginconf"
)

// key is a key of a selection. capability is the CNI capability that passes its value to plugins.
type key struct{ name, capability string }

// keysOf lists the keys of a selection that only plugins use. Networks of Alioth take none of them,
// and a plugin takes the keys that it has the capability for. As with Multus, the pod starts
// without the others; an event names them.
func keysOf(s annotations.NetworkSelection) []key {
	var keys []key
	for _, one := range []struct {
		key
		given bool
	}{
		{key{"mac", "mac"}, s.MAC != ""},
		{key{"infiniband-guid", "infinibandGUID"}, s.GUID != ""},
		{key{"cni-args", ""}, len(s.CNIArgs) > 0},
		{key{"portMappings", "portMappings"}, len(s.PortMappings) > 0},
		{key{"bandwidth", "bandwidth"}, s.Bandwidth != annotations.Bandwidth{}},
	} {
		if one.given {
			keys = append(keys, one.key)
		}
	}
	return keys
}

// ignore adds an event about a key that no component carries out. The text follows the key.
func (r *request) ignore(name, format string, args ...any) {
	r.notices = append(r.notices, pod.Notice{
		Reason: v1alpha1.RequestIgnoredReason, Action: fmt.Sprintf("Ignore %s of %s", name, r.name),
		Message: fmt.Sprintf("interface %s: %q ", r.name, name) + fmt.Sprintf(format, args...),
	})
}

// ignoreForeign adds events about keys that no sort of network takes.
func (r *request) ignoreForeign(s annotations.NetworkSelection) {
	if s.DeviceID != "" {
		r.ignore(
			"deviceID",
			`is ignored: the kubelet chooses the devices of the pod; remove it, and request the resource of the devices in a container`,
		)
	}
	for _, name := range s.Foreign {
		r.ignore(
			name,
			"is ignored: it is no key of a selection; write the gateway into \"default-route\" if the pod's default route shall lead there, and else remove it",
		)
	}
}

// ignoreForPlugins adds events about keys that a network of Alioth does not take.
func (r *request) ignoreForPlugins(def *multinet.Definition, s annotations.NetworkSelection) {
	for _, one := range keysOf(s) {
		r.ignore(one.name, "is ignored: %s stands for a network of Alioth, which has no capability for it; remove it", def)
	}
}

// ignoreUnserved adds an event for each key whose capability no plugin of the definition has.
func (r *request) ignoreUnserved(def *multinet.Definition, s annotations.NetworkSelection, built pluginconf.Config) {
	for _, one := range append(keysOf(s), key{"ips", "ips"}) {
		if !slices.Contains(built.Unserved, one.capability) {
			continue
		}
		r.ignore(
			one.name,
			"%s: %s; add it to spec.config of %s, or remove %q",
			built.Plain.Fate(one.capability),
			pluginconf.Lacks(one.capability),
			def,
			one.name,
		)
	}
}
