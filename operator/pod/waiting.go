// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// waiting is the set of refused pods, which are checked again after a change. Only the
// reconciler uses it. It needs no persistence: after a restart every pod is checked.
type waiting struct {
	mu   sync.Mutex
	pods map[types.NamespacedName]struct{}
}

func newWaiting() *waiting {
	return &waiting{pods: map[types.NamespacedName]struct{}{}}
}

func (w *waiting) add(pod types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods[pod] = struct{}{}
}

func (w *waiting) remove(pod types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pods, pod)
}

func (w *waiting) list() []types.NamespacedName {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]types.NamespacedName, 0, len(w.pods))
	for pod := range w.pods {
		all = append(all, pod)
	}
	return all
}
