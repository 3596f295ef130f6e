// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ifdriver

import (
	"context"
	"fmt"
)

// Registry lists the drivers that a node can open, each kind once. Of the kinds of pairs
// the preferred one comes first.
type Registry []Type

// Catalog returns the capabilities of every driver.
func (r Registry) Catalog() Catalog {
	catalog := Catalog{}
	for _, t := range r {
		catalog[t.Kind] = t.Capabilities
	}
	return catalog
}

// Pairs returns the kinds of pairs, in the order of the registry.
func (r Registry) Pairs() []Kind {
	var kinds []Kind
	for _, t := range r {
		if t.Pair {
			kinds = append(kinds, t.Kind)
		}
	}
	return kinds
}

// Probe tries whether the kernel can make attachments of a kind. A kind that is not
// in the registry is an ErrUnsupported.
func (r Registry) Probe(ctx context.Context, kind Kind) error {
	for _, t := range r {
		if t.Kind == kind {
			return t.Probe(ctx)
		}
	}
	return fmt.Errorf("%w of kind %q", ErrUnsupported, kind)
}

// Open opens every driver for the network namespace of the calling thread: existing
// attachments keep their driver, whatever the kind of new ones is.
func (r Registry) Open(node Node) (Drivers, error) {
	drivers := Drivers{}
	for _, t := range r {
		driver, err := t.Open(node)
		if err != nil {
			drivers.Close()
			return nil, fmt.Errorf("open driver %s: %w", t.Kind, err)
		}
		drivers[t.Kind] = driver
	}
	return drivers, nil
}
