// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package problems

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// Links are the host links of the node.
type Links interface {
	// Failures returns the failures of host links.
	Failures() []multinet.LinkFailure
}

// Lacking finds the features that the node's pods and networks need and the kernel lacks.
type Lacking struct {
	node     string
	store    *store.Store
	registry ifdriver.Registry
	links    Links
	// present are kinds of attachments that were made for a try already.
	present map[ifdriver.Kind]bool
}

// NewLacking returns a Lacking that finds the missing features of a node. registry has the kinds
// of attachments.
func NewLacking(node string, s *store.Store, registry ifdriver.Registry, links Links) *Lacking {
	return &Lacking{node: node, store: s, registry: registry, links: links, present: map[ifdriver.Kind]bool{}}
}

// Find returns a sentence for each missing feature. A kind of attachment is tried only if
// a pod of the node needs it. It is called by one goroutine.
func (l *Lacking) Find(ctx context.Context) (all []string) {
	for _, kind := range l.needed() {
		if l.present[kind] {
			continue
		}
		err := l.registry.Probe(ctx, kind)
		switch {
		case err == nil:
			l.present[kind] = true
		case errors.Is(err, ifdriver.ErrUnsupported):
			all = append(all, fmt.Sprintf("pods of this node have interfaces of kind %s, and %v", kind, err))
		}
	}
	for _, failure := range l.links.Failures() {
		if failure.Reason == v1alpha1.KernelUnsupportedReason {
			all = append(all, failure.Message)
		}
	}
	return all
}

// needed returns the kinds of the attachments outside of every VPC that pods of the node have.
func (l *Lacking) needed() []ifdriver.Kind {
	known := l.registry.Catalog()
	var kinds []ifdriver.Kind
	l.store.View(func(tx store.ReadTx) {
		for _, claim := range multinet.ClaimsByNode(tx, l.node) {
			if _, ok := known[ifdriver.Kind(claim.Driver)]; ok {
				kinds = append(kinds, ifdriver.Kind(claim.Driver))
			}
		}
	})
	slices.Sort(kinds)
	return slices.Compact(kinds)
}
