// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"github.com/alioth-net/alioth/api/nmstate/document"
)

// resolver returns the resolver's configuration that shall be, nil if a document has none.
func (r *resolution) resolver(dns, current *document.DNS) *document.Resolver {
	if dns == nil || dns.Config == nil {
		return nil
	}
	var now document.Resolver
	if current != nil && current.Config != nil {
		now = *current.Config
	}
	r.Resolver(*dns.Config, now)
	return new(MergeResolver(now, *dns.Config))
}

// MergeResolver returns a resolver's configuration with the lists that a document has. A
// document without any list removes all.
func MergeResolver(now, want document.Resolver) document.Resolver {
	if want.Server == nil && want.Search == nil && want.Options == nil {
		now = document.Resolver{}
	}
	return document.Resolver{
		Server:  orList(want.Server, now.Server),
		Search:  orList(want.Search, now.Search),
		Options: orList(want.Options, now.Options),
	}
}

// orList returns a list, or without one the other list.
func orList(list, other []string) []string {
	switch {
	case list != nil:
		return list
	case other != nil:
		return other
	default:
		return []string{}
	}
}
