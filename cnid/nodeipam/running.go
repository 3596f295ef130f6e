// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeipam

import (
	"context"
	"sync"

	"github.com/alioth-net/alioth/cnid/nodeipam/rest"
)

// running are the requests that are being carried out. A release ends them: the manager removes
// their attachments, in whatever order both come to it.
type running struct {
	mu sync.Mutex
	// requests are the running requests. They are few: they wait for the operator, or for the
	// kernel.
	requests map[*runningRequest]bool
}

type runningRequest struct {
	key    rest.Key
	cancel context.CancelFunc
}

func newRunning() running { return running{requests: map[*runningRequest]bool{}} }

// begin notes a request. done is called at its end.
func (r *running) begin(ctx context.Context, key rest.Key) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancel(ctx)
	one := &runningRequest{key, cancel}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests[one] = true
	return ctx, func() {
		cancel()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.requests, one)
	}
}

// end ends the requests that a release names, and returns their keys: they may yet attach an
// interface that the journal does not have now.
func (r *running) end(release rest.Key) (ended []rest.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for one := range r.requests {
		if names(release, one.key) {
			one.cancel()
			ended = append(ended, one.key)
		}
	}
	return ended
}
