// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"slices"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/scaled"
)

// candidate is a backend at one of its ports.
type candidate struct {
	Backend
	judged *scaled.Backend
}

func backendsOf(list []candidate) []Backend {
	var backends []Backend
	for _, c := range list {
		backends = append(backends, c.Backend)
	}
	slices.SortFunc(backends, func(a, b Backend) int { return a.Compare(b.AddrPort) })
	backends = slices.Compact(backends)
	return backends[:min(len(backends), MaxBackends)]
}

// preferred returns the candidates whose topology hints name the node of the clients, otherwise
// the candidates whose hints name its zone. As in kube-proxy, hints of a kind count only if all
// candidates have one and at least one matches; otherwise it returns all.
func preferred(tx store.ReadTx, all []candidate, node string) []candidate {
	found := withHint(all, node, func(e *scaled.Backend) []string { return e.ForNodes })
	if found != nil {
		return found
	}
	if self := store.GetNode(tx, node); self != nil {
		found = withHint(all, self.Zone, func(e *scaled.Backend) []string { return e.ForZones })
	}
	if found != nil {
		return found
	}
	return all
}

// withHint returns the candidates whose hint names a place, nil if none does or one
// has no hint.
func withHint(all []candidate, place string, hints func(*scaled.Backend) []string) (found []candidate) {
	for _, c := range all {
		places := hints(c.judged)
		if len(places) == 0 {
			return nil
		}
		if slices.Contains(places, place) {
			found = append(found, c)
		}
	}
	return found
}
