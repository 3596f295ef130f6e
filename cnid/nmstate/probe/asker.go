// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"

	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/api/nmstate/reach"
)

// Asker asks about changes of one host.
type Asker struct {
	// Space is the host's network namespace.
	Space ns.NetNS
	// APIServer has to be reached after each change if it was reached before. The zero value
	// means that no server is asked.
	APIServer reach.Target
}

// Before asks about a host before a change. after returns what has to pass when the host has the
// state now.
func (a Asker) Before(ctx context.Context, c Change) (after func(now *document.State) []Probe) {
	questions := c.before(a.APIServer)
	passed := map[string]bool{}
	for n, ok := range passing(ctx, a.probes(questions)) {
		if ok {
			passed[questions[n].key()] = true
		}
	}
	return func(now *document.State) []Probe { return a.probes(c.after(a.APIServer, now, passed)) }
}

func (a Asker) probes(questions []question) (list []Probe) {
	for _, q := range questions {
		list = append(list, a.probe(q))
	}
	return list
}

func (a Asker) probe(q question) Probe {
	p := Probe{Name: q.String()}
	switch q.kind {
	case gateway:
		p.Asked, p.Check = "resolution of its Ethernet address", a.in(q.hop.alive)
	case fullSize:
		p.Asked, p.Check = "echo requests", a.in(q.hop.fullSize)
	case server, names:
		p.Asked = "queries for " + publicName
		var checks []func(context.Context) error
		for _, one := range q.servers {
			checks = append(checks, a.in(func(ctx context.Context) error { return askServer(ctx, one, q.kind == names) }))
		}
		p.Check = anyOf(checks)
	default:
		p.Asked = "new TCP connections"
		if q.target.Port == 0 {
			p.Asked = "echo requests"
		}
		p.Check = a.in(func(ctx context.Context) error { return reached(ctx, q.target) })
	}
	return p
}

// in returns a check that is made in the host's network namespace.
func (a Asker) in(check func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		failure := a.Space.Do(func(ns.NetNS) error { err = check(ctx); return nil })
		return errors.Join(failure, err)
	}
}
