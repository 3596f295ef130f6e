// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package permit

import (
	"maps"
	"slices"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// loss is an interface that can't be used after a change, or meanwhile.
type loss struct {
	change change
	// own: the change is about the interface itself, and not about one below it.
	own bool
}

// lost returns the interfaces that become unusable, by name: interfaces that go, are set down or
// become ports, and the interfaces on top of them. A controller is lost with its last port.
func (n node) lost(planned []change) map[string]loss {
	lost := map[string]loss{}
	gains := map[string]bool{}
	for _, d := range planned {
		switch d.kind {
		case moves:
			gains[d.controller] = true
		case removes, stops:
		default:
			continue
		}
		if _, known := lost[d.name]; !known {
			lost[d.name] = loss{d, true}
		}
	}
	names := slices.Sorted(maps.Keys(n.interfaces))
	for more := true; more; {
		more = false
		for _, name := range names {
			if _, known := lost[name]; known {
				continue
			}
			if l, ok := n.follows(n.interfaces[name], lost, gains); ok {
				lost[name], more = loss{l.change, false}, true
			}
		}
	}
	return lost
}

// follows returns the loss that an interface suffers from the losses of others.
func (n node) follows(i document.Interface, lost map[string]loss, gains map[string]bool) (loss, bool) {
	if l, ok := lost[i.Base()]; ok {
		return l, true
	}
	if i.Veth != nil {
		// The other end of a pair may become a port.
		l, ok := lost[i.Veth.Peer]
		return l, ok && l.own && l.change.kind != moves
	}
	// Ports of pods are not among the interfaces of the node, and carry nothing to others.
	ports := slices.DeleteFunc(slices.Clone(i.Ports()), func(port string) bool {
		_, shown := n.interfaces[port]
		return !shown
	})
	if len(ports) == 0 || gains[i.Name] {
		return loss{}, false
	}
	var last loss
	for _, port := range ports {
		l, ok := lost[port]
		if !ok {
			return loss{}, false
		}
		last = l
	}
	return last, true
}
