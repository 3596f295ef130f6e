// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package sharedservice

import (
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
)

// source requests a SharedService when it or its Service changes.
func source(f *feed.Feed) *feed.Source {
	return feed.NewSource(f, everything,
		feed.On(func(_ store.ReadTx, old, now *store.SharedService) []feed.Request {
			return []feed.Request{feed.Now("", feed.Either(old, now).Name)}
		}),
		feed.On(func(tx store.ReadTx, old, now *store.Service) []feed.Request {
			service := feed.Either(old, now)
			var naming []feed.Request
			for _, shared := range store.ListSharedServices(tx) {
				if shared.ServiceNamespace == service.Namespace && shared.ServiceName == service.Name {
					naming = append(naming, feed.Now("", shared.Name))
				}
			}
			return naming
		}),
	)
}

func everything(tx store.ReadTx) []feed.Request {
	var all []feed.Request
	for _, shared := range store.ListSharedServices(tx) {
		all = append(all, feed.Now("", shared.Name))
	}
	return all
}
