// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// endingCache is the cache of a term. A manager that has to end while its cache has not read the
// API yet waits for the cache without end, on a full processor
// (kubernetes-sigs/controller-runtime#3440). With the end of the term this cache reports that it
// has read everything. No component uses it any more.
type endingCache struct {
	cache.Cache
	term context.Context //nolint:containedctx // the cache belongs to the term
}

// newEndingCache makes the cache of a manager; it fits manager.Options.NewCache.
func newEndingCache(term context.Context) cache.NewCacheFunc {
	return func(config *rest.Config, options cache.Options) (cache.Cache, error) {
		inner, err := cache.New(config, options)
		if err != nil {
			return nil, fmt.Errorf("make the cache: %w", err)
		}
		return endingCache{Cache: inner, term: term}, nil
	}
}

// WaitForCacheSync implements cache.Informers.
func (c endingCache) WaitForCacheSync(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.term, cancel)()
	return c.Cache.WaitForCacheSync(ctx) || c.term.Err() != nil
}
