// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/nmstate/reach"
)

// APIServer returns the target of an API server, which a node must reach after each change of its
// network if it does before; the zero value if the text, a host or URL as in a kubeconfig, has
// no host.
func APIServer(server string) reach.Target {
	if !strings.Contains(server, "://") {
		server = "https://" + server
	}
	address, err := url.Parse(server)
	if err != nil || address.Hostname() == "" {
		return reach.Target{}
	}
	port := address.Port()
	switch {
	case port != "":
	case address.Scheme == "http":
		port = "80"
	default:
		port = "443"
	}
	target, err := reach.Parse(net.JoinHostPort(address.Hostname(), port))
	if err != nil {
		return reach.Target{}
	}
	return target
}

// targets lists the targets that a node has to reach after a change of a part.
type targets struct {
	// reach are the targets of the part, and kept the targets of other parts. The latter count
	// only if they were reached before the change: an unreachable target does not block another
	// part.
	reach, kept []reach.Target
}

// everywhere are the targets that count for each part, and the error if they can't be read.
// divided are the targets of policies with parts.
type everywhere struct {
	targets []reach.Target
	fault   error
	divided []string
}

// everywhereOf divides the targets of an object. A policy handler of an earlier version gives
// parts no targets, and then the targets of all policies count for each part.
func everywhereOf(w Wanted) (e everywhere) {
	inParts := map[string]bool{}
	for _, part := range w.Parts {
		for _, text := range part.Reach {
			inParts[text] = true
		}
	}
	var undivided []string
	for _, text := range w.PolicyReach {
		if inParts[text] {
			e.divided = append(e.divided, text)
		} else {
			undivided = append(undivided, text)
		}
	}
	hand, err := reach.ParseList("spec.reach", w.Reach)
	policies, other := reach.ParseList("spec.policyReach", undivided)
	e.targets, e.fault = appendNew(hand, policies...), errors.Join(err, other)
	return e
}

// with returns the targets of a part that names some.
func (e everywhere) with(named []string) (t targets, err error) {
	own, err := reach.ParseList("spec.parts.reach", named)
	t.reach = appendNew(slices.Clone(e.targets), own...)
	for _, text := range e.divided {
		// One that nobody can read is a fault of its own part.
		if target, err := reach.Parse(text); err == nil && !slices.Contains(t.reach, target) {
			t.kept = append(t.kept, target)
		}
	}
	return t, errors.Join(e.fault, err)
}

// appendNew adds the targets that a list lacks.
func appendNew(list []reach.Target, more ...reach.Target) []reach.Target {
	for _, one := range more {
		if !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	return list
}
