// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeipam

import (
	"context"
	"sync"
)

// running are the requests that are being carried out, by container. A release ends them:
// the manager removes what they have made, in whatever order both come to it.
type running struct {
	mu sync.Mutex
	// byContainer has the functions that end requests. Their keys are unique.
	byContainer map[string]map[*context.CancelFunc]bool
}

func newRunning() running { return running{byContainer: map[string]map[*context.CancelFunc]bool{}} }

// begin notes a request. done is called at its end.
func (r *running) begin(ctx context.Context, containerID string) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byContainer[containerID] == nil {
		r.byContainer[containerID] = map[*context.CancelFunc]bool{}
	}
	r.byContainer[containerID][&cancel] = true
	return ctx, func() {
		cancel()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.byContainer[containerID], &cancel)
		if len(r.byContainer[containerID]) == 0 {
			delete(r.byContainer, containerID)
		}
	}
}

// end ends the requests of a container.
func (r *running) end(containerID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for cancel := range r.byContainer[containerID] {
		(*cancel)()
	}
}
