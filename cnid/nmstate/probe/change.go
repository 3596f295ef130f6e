// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/api/nmstate/reach"
	"github.com/alioth-net/alioth/api/quote"
)

// Change is a change of a host's network, with the fields that decide about the questions.
type Change struct {
	// Before holds the state of the host before the change, and Committed the state that
	// earlier changes declared. The gateways of Committed have answered once.
	Before, Committed *document.State
	// Routes are all that the host shall have in its configuration.
	Routes []document.Route
	// Interfaces are those that change.
	Interfaces []document.Interface
	// Repair: the change declares only settings that are committed already. It restores a
	// verified state, so it has no new gateways, and only the targets that were reached before
	// count.
	Repair bool
	// Reach are targets that have to be reached after the change, and Kept those that have to be
	// if they were before it.
	Reach, Kept []reach.Target
}

// kind names the subject of a question.
type kind int

const (
	// gateway: a next hop of a default route answers. fullSize: it answers to packets of the
	// full MTU of the interface, too.
	gateway kind = iota
	fullSize
	// server: one of the name servers answers. names: one of them knows a public name.
	server
	names
	// apiServer and target: a target is reached.
	apiServer
	target
)

// question is something to ask.
type question struct {
	kind    kind
	hop     hop
	servers []string
	target  reach.Target
}

// key is equal for two questions if the later one has to pass because the earlier one did. A
// gateway is the same on another interface, and so is the resolver with other servers.
func (q question) key() string {
	switch q.kind {
	case gateway, fullSize:
		return fmt.Sprint(q.kind, q.hop.ip)
	case server, names:
		return fmt.Sprint(q.kind)
	default:
		return fmt.Sprint(q.kind, q.target)
	}
}

// String returns the name of the target.
func (q question) String() string {
	switch q.kind {
	case gateway:
		return "gateway " + q.hop.String()
	case fullSize:
		return "gateway " + q.hop.String() + " with packets of full size"
	case server, names:
		if len(q.servers) > 1 {
			return "each of the name servers " + strings.Join(q.servers, ", ")
		}
		return "name server " + q.servers[0]
	case apiServer:
		return "API server " + quote.Name(q.target.String())
	default:
		return "target " + quote.Name(q.target.String()) + " of reach"
	}
}

// before are the questions before a change. api is the API server, the zero value without one.
func (c Change) before(api reach.Target) []question {
	list := serversOf(c.Before)
	for _, h := range hopsOf(c.Before) {
		list = append(list, question{kind: gateway, hop: h}, question{kind: fullSize, hop: h})
	}
	if api != (reach.Target{}) {
		list = append(list, question{kind: apiServer, target: api})
	}
	if c.Repair {
		list = append(list, questions(c.Reach)...)
	}
	return append(list, questions(c.Kept)...)
}

// after are the questions after a change. passed has the keys of those before that were answered.
func (c Change) after(api reach.Target, now *document.State, passed map[string]bool) []question {
	var list []question
	for _, q := range append(serversOf(now), question{kind: apiServer, target: api}) {
		if passed[q.key()] {
			list = append(list, q)
		}
	}
	list = append(list, c.gateways(now, passed)...)
	for _, q := range questions(c.Reach) {
		if !c.Repair || passed[q.key()] {
			list = append(list, q)
		}
	}
	for _, q := range questions(c.Kept) {
		if passed[q.key()] {
			list = append(list, q)
		}
	}
	return list
}

func questions(targets []reach.Target) (list []question) {
	for _, one := range targets {
		list = append(list, question{kind: target, target: one})
	}
	return list
}

// gateways are those that the host has now. Without one of a family, those before count: the
// change has cut the host off from them.
func (c Change) gateways(now *document.State, passed map[string]bool) (list []question) {
	hops, former := hopsOf(now), hopsOf(c.Before)
	known := slices.Concat(former, hopsOf(c.Committed))
	for _, h := range former {
		sameFamily := func(other hop) bool { return other.ip.Is4() == h.ip.Is4() }
		if !slices.ContainsFunc(hopsOf(now), sameFamily) {
			hops = append(hops, h)
		}
	}
	for _, h := range hops {
		q := question{kind: gateway, hop: h}
		isNew := !c.Repair && c.makes(h) && !slices.ContainsFunc(known, func(other hop) bool { return other.ip == h.ip })
		if isNew || passed[q.key()] {
			list = append(list, q)
		}
		if q.kind = fullSize; passed[q.key()] {
			list = append(list, q)
		}
	}
	return list
}

// makes reports whether a default route is made by the change: a routing daemon may make one
// meanwhile by an interface that does not change.
func (c Change) makes(h hop) bool {
	return slices.Contains(hops(c.Routes), h) ||
		slices.ContainsFunc(c.Interfaces, func(i document.Interface) bool { return i.Name == h.link })
}

// hopsOf are the next hops of the default routes of a state.
func hopsOf(state *document.State) []hop {
	if state == nil || state.Routes == nil {
		return nil
	}
	return hops(slices.Concat(state.Routes.Running, state.Routes.Config))
}

// hops are the next hops of default routes of all tables, each once.
func hops(routes []document.Route) (list []hop) {
	for _, route := range routes {
		prefix, err := netip.ParsePrefix(route.Destination)
		if err != nil || prefix.Bits() != 0 || route.Interface == "" {
			continue
		}
		ip, err := netip.ParseAddr(route.Address)
		if err != nil || ip.IsUnspecified() {
			continue
		}
		if h := (hop{ip: ip.Unmap(), link: route.Interface}); !slices.Contains(list, h) {
			list = append(list, h)
		}
	}
	return list
}

// serversOf are the questions about the name servers of a state.
func serversOf(state *document.State) []question {
	if state.DNS == nil || state.DNS.Running == nil || len(state.DNS.Running.Server) == 0 {
		return nil
	}
	servers := state.DNS.Running.Server
	return []question{{kind: server, servers: servers}, {kind: names, servers: servers}}
}
