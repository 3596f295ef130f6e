// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"slices"
	"testing"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/api/nmstate/reach"
)

// route is a default route by a gateway on an interface, with a table other than the main one.
func route(gateway, link string, table ...int64) document.Route {
	r := document.Route{Destination: "0.0.0.0/0", Address: gateway, Interface: link}
	if gateway != "" && gateway[0] != '1' {
		r.Destination = "::/0"
	}
	if len(table) > 0 {
		r.Table = &table[0]
	}
	return r
}

func stateOf(servers []string, routes ...document.Route) *document.State {
	s := &document.State{Routes: &document.Routes{Running: routes, Config: routes}}
	if len(servers) > 0 {
		s.DNS = &document.DNS{Running: &document.Resolver{Server: servers}}
	}
	return s
}

func namesOf(questions []question) (list []string) {
	for _, q := range questions {
		list = append(list, fmt.Sprint([]string{"gateway", "full", "server", "names", "api", "target"}[q.kind], " ", q))
	}
	slices.Sort(list)
	return list
}

// world is a change, and what the host has after it.
type world struct {
	before, committed, now *document.State
	wanted                 []document.Route
	changed                []string
	repair                 bool
	reach, kept            []string
	// answered are the questions before the change that were answered, all of them if it is nil.
	answered []string
}

const (
	oldGateway  = "gateway gateway 10.0.0.1 on eth0"
	oldFull     = "full gateway 10.0.0.1 on eth0 with packets of full size"
	newGateway  = "gateway gateway 10.0.0.9 on eth0"
	otherTarget = "target target 192.0.2.5:443 of reach"
	apiTarget   = "api API server 192.0.2.6:6443"
)

// TestProbeChoice_EachChange_QuestionsMatch has the whole choice.
func TestProbeChoice_EachChange_QuestionsMatch(t *testing.T) {
	first := stateOf(nil, route("10.0.0.1", "eth0"))
	for name, c := range map[string]struct {
		world
		want []string
	}{
		"nothing has changed": {world{before: first, now: first}, []string{oldGateway, oldFull, apiTarget}},
		"nothing has answered before": {
			world{before: first, now: first, answered: []string{"none"}}, nil,
		},
		"a gateway without echo": {world{before: first, now: first, answered: []string{oldGateway}}, []string{oldGateway}},
		"a new gateway in place of the old one": {
			world{before: first, now: stateOf(nil, route("10.0.0.9", "eth0")), wanted: []document.Route{route("10.0.0.9", "eth0")}},
			[]string{newGateway, apiTarget},
		},
		"a new gateway beside a dead one": {
			world{before: first, now: stateOf(nil, route("10.0.0.1", "eth0"), route("10.0.0.9", "eth0")), wanted: []document.Route{route("10.0.0.9", "eth0")}, answered: []string{"none"}},
			[]string{newGateway},
		},
		"a new gateway that earlier changes declared": {
			world{before: stateOf(nil), committed: stateOf(nil, route("10.0.0.9", "eth0")), now: stateOf(nil, route("10.0.0.9", "eth0")), wanted: []document.Route{route("10.0.0.9", "eth0")}},
			[]string{apiTarget},
		},
		"a new gateway of another table": {
			world{before: stateOf(nil), now: stateOf(nil, route("10.0.0.9", "eth0", 100)), wanted: []document.Route{route("10.0.0.9", "eth0", 100)}},
			[]string{newGateway, apiTarget},
		},
		"a gateway of a route that is no default": {
			world{
				before: stateOf(nil), wanted: []document.Route{{Destination: "10.9.0.0/16", Address: "10.0.0.9", Interface: "eth0"}},
				now: stateOf(nil, document.Route{Destination: "10.9.0.0/16", Address: "10.0.0.9", Interface: "eth0"}),
			},
			[]string{apiTarget},
		},
		"a new gateway of IPv6 on a link": {
			world{before: first, now: stateOf(nil, route("10.0.0.1", "eth0"), route("fe80::9", "eth1")), wanted: []document.Route{route("fe80::9", "eth1")}},
			[]string{oldGateway, oldFull, "gateway gateway fe80::9 on eth1", apiTarget},
		},
		"a route of a routing daemon comes meanwhile": {
			world{before: stateOf(nil), now: stateOf(nil, route("10.0.0.9", "eth0")), changed: []string{"eth1"}}, []string{apiTarget},
		},
		"a changed interface gets a default route by itself": {
			world{before: stateOf(nil), now: stateOf(nil, route("10.0.0.9", "eth0")), changed: []string{"eth0"}}, []string{newGateway, apiTarget},
		},
		"a repaired interface gets a default route by itself": {
			world{before: stateOf(nil), now: stateOf(nil, route("10.0.0.9", "eth0")), changed: []string{"eth0"}, repair: true}, []string{apiTarget},
		},
		"the gateway moves to a bridge": {
			world{before: first, now: stateOf(nil, route("10.0.0.1", "br0")), wanted: []document.Route{route("10.0.0.1", "br0")}},
			[]string{"gateway gateway 10.0.0.1 on br0", "full gateway 10.0.0.1 on br0 with packets of full size", apiTarget},
		},
		"no default route is left": {world{before: first, now: stateOf(nil)}, []string{oldGateway, oldFull, apiTarget}},
		"no default route of a family is left": {
			world{before: first, now: stateOf(nil, route("fe80::9", "eth1")), wanted: []document.Route{route("fe80::9", "eth1")}},
			[]string{oldGateway, oldFull, "gateway gateway fe80::9 on eth1", apiTarget},
		},
		"routes without a gateway": {
			world{before: stateOf(nil), now: stateOf(nil, route("", "eth0"), document.Route{Destination: "0.0.0.0/0", Type: document.Blackhole}), changed: []string{"eth0"}},
			[]string{apiTarget},
		},
		"other name servers": {
			world{before: stateOf([]string{"10.0.0.53"}), now: stateOf([]string{"10.0.0.54", "10.0.0.55"})},
			[]string{"names each of the name servers 10.0.0.54, 10.0.0.55", "server each of the name servers 10.0.0.54, 10.0.0.55", apiTarget},
		},
		"name servers of which none has answered": {
			world{before: stateOf([]string{"10.0.0.53"}), now: stateOf([]string{"10.0.0.54"}), answered: []string{"none"}}, nil,
		},
		"a name server that knew no names": {
			world{before: stateOf([]string{"10.0.0.53"}), now: stateOf([]string{"10.0.0.53"}), answered: []string{"server name server 10.0.0.53"}},
			[]string{"server name server 10.0.0.53"},
		},
		"the first name servers": {world{before: stateOf(nil), now: stateOf([]string{"10.0.0.54"})}, []string{apiTarget}},
		"no name servers":        {world{before: stateOf([]string{"10.0.0.53"}), now: stateOf(nil)}, []string{apiTarget}},
		"targets": {
			world{before: stateOf(nil), now: stateOf(nil), reach: []string{"192.0.2.5:443", "storage"}, answered: []string{"none"}},
			[]string{otherTarget, "target target storage of reach"},
		},
		"targets of a repair": {
			world{before: stateOf(nil), now: stateOf(nil), reach: []string{"192.0.2.5:443", "storage"}, repair: true, answered: []string{otherTarget}},
			[]string{otherTarget},
		},
		"targets of other parts": {
			world{before: stateOf(nil), now: stateOf(nil), reach: []string{"own"}, kept: []string{"192.0.2.5:443", "storage"}, answered: []string{otherTarget}},
			[]string{otherTarget, "target target own of reach"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			slices.Sort(c.want)
			if got := c.ask(t); !slices.Equal(got, c.want) {
				t.Errorf("asked are\n%q, want\n%q", got, c.want)
			}
		})
	}
}

func (w world) ask(t *testing.T) []string {
	t.Helper()
	targets, err := reach.ParseList("", w.reach)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := reach.ParseList("", w.kept)
	if err != nil {
		t.Fatal(err)
	}
	c := Change{Before: w.before, Committed: w.committed, Routes: w.wanted, Repair: w.repair, Reach: targets, Kept: kept}
	for _, name := range w.changed {
		c.Interfaces = append(c.Interfaces, document.Interface{Name: name})
	}
	api := reach.Target{Host: "192.0.2.6", Port: 6443}
	passed := map[string]bool{}
	for _, q := range c.before(api) {
		passed[q.key()] = w.answered == nil || slices.Contains(w.answered, namesOf([]question{q})[0])
	}
	return namesOf(c.after(api, w.now, passed))
}

func TestProbeChoice_HostWithoutAPIServer_NotAsked(t *testing.T) {
	c := Change{Before: stateOf(nil)}
	if got := c.before(reach.Target{}); len(got) > 0 {
		t.Errorf("asked are %q", namesOf(got))
	}
	if got := c.after(reach.Target{}, stateOf(nil), map[string]bool{}); len(got) > 0 {
		t.Errorf("asked are %q", namesOf(got))
	}
}
