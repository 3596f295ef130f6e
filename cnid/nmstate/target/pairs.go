// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import "github.com/alioth-net/alioth/api/nmstate/document"

// pairs makes the two ends of each pair fit each other. An end may be desired without the
// name of the other one, which names it.
func (r *resolution) pairs() {
	var silent []string
	for _, name := range r.order {
		i, ok := r.final[name]
		switch {
		case !ok || i.Type != document.VethPair || gone(*i):
		case peerOf(*i) == "":
			silent = append(silent, name)
		default:
			r.pairOf(*i)
		}
	}
	for _, name := range silent {
		if peerOf(*r.final[name]) == "" && !r.existed(name) {
			r.add(r.at(name)+".veth.peer", "missing: making a pair needs the name of the other end")
		}
	}
}

func (r *resolution) pairOf(i document.Interface) {
	name, peer, path := i.Name, peerOf(i), r.at(i.Name)+".veth.peer"
	have, exists := r.current[name]
	switch {
	case exists && peer == peerOf(have):
	case exists && peerOf(have) == "":
		r.add(path, "%s: the other end of %s is in another network namespace: make %s absent first", peer, name, name)
	case peer == name:
		r.add(path, "%s: want the name of another interface", peer)
	default:
		r.release(name, peerOf(have))
		r.pair(path, name, peer)
	}
}

func peerOf(i document.Interface) string {
	if i.Veth == nil {
		return ""
	}
	return i.Veth.Peer
}

// pair makes two interfaces the ends of a new pair.
func (r *resolution) pair(path, name, peer string) {
	end, ok := r.final[peer]
	anew := ok && Recreated(r.current[peer], *end)
	switch {
	case r.invalid[peer]:
	case r.existed(peer) && !anew && peerOf(r.current[peer]) != name:
		r.add(path, "%s: it exists, and is no end of this pair: make it absent first, or choose another name", peer)
	case ok && gone(*end):
		r.add(path, "%s: it is absent: make it up, or choose another name", peer)
	case ok && peerOf(*end) != "" && peerOf(*end) != name:
		r.add(path, "%s: it is the other end of %s (%s)", peer, peerOf(*end), r.at(peer))
	case ok:
		end.Veth = &document.Veth{Peer: name}
	default:
		r.final[peer] = &document.Interface{Name: peer, Type: document.VethPair, State: document.Up, Veth: &document.Veth{Peer: name}}
	}
}

func (r *resolution) existed(name string) bool {
	_, ok := r.current[name]
	return ok
}

// release removes the former peer of an interface that gets a new one.
func (r *resolution) release(name, former string) {
	end, ok := r.get(former)
	if !ok || gone(end) || peerOf(end) != name {
		return
	}
	if r.wanted(former) {
		r.add(r.at(former)+".veth.peer", "%s: it gets another other end (%s)", name, r.at(name))
		return
	}
	r.final[former] = &document.Interface{Name: former, Type: document.VethPair, State: document.Absent}
}
