// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"math/bits"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/store"
)

// anything is the key of a pod that any change may help: its decision is being made.
const anything = ""

// keyOfTenant is the key of pods that objects of a tenant may help.
func keyOfTenant(tenant string) string { return "tenant/" + tenant }

// keyOfDomain is the key of pods that wait for addresses of a domain.
func keyOfDomain(domain string) string { return "domain/" + domain }

// keysOf are the keys of a pod by its decision.
func keysOf(pod *store.Pod, d decision) []string {
	keys := []string{keyOfTenant(pod.Tenant)}
	for _, w := range d.wishes {
		keys = append(keys, keyOfDomain(w.domain()))
	}
	return keys
}

// waiting has the refused pods, which are checked again after a change, by what may help them.
// A change then costs as much as it has pods to help, however many pods of other tenants wait.
// Only the reconciler uses it. It needs no persistence: after a restart every pod is checked.
type waiting struct {
	mu   sync.Mutex
	pods map[types.NamespacedName][]string
	by   map[string]map[types.NamespacedName]struct{}
}

func newWaiting() *waiting {
	return &waiting{pods: map[types.NamespacedName][]string{}, by: map[string]map[types.NamespacedName]struct{}{}}
}

// put notes a pod under keys, in place of those that it had.
func (w *waiting) put(pod types.NamespacedName, keys ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(pod)
	w.pods[pod] = keys
	for _, key := range keys {
		if w.by[key] == nil {
			w.by[key] = map[types.NamespacedName]struct{}{}
		}
		w.by[key][pod] = struct{}{}
	}
}

// expect notes that a pod is about to be decided, unless it is noted already.
func (w *waiting) expect(pod types.NamespacedName, tenant string) {
	w.mu.Lock()
	_, noted := w.pods[pod]
	w.mu.Unlock()
	if !noted {
		w.put(pod, keyOfTenant(tenant))
	}
}

// share is how many pods of a tenant are decided as early as those of other tenants.
const share = 32

// priority is the one of requests for pods of a tenant: the more pods of it wait, the later
// they are decided. Pods of other tenants then wait for the share of each tenant at most.
func (w *waiting) priority(tenant string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return -bits.Len(uint(len(w.by[keyOfTenant(tenant)]) / share))
}

func (w *waiting) remove(pod types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(pod)
}

// drop removes a pod, with mu held.
func (w *waiting) drop(pod types.NamespacedName) {
	for _, key := range w.pods[pod] {
		delete(w.by[key], pod)
		if len(w.by[key]) == 0 && key != anything {
			delete(w.by, key)
		}
	}
	delete(w.pods, pod)
}

// list returns all pods.
func (w *waiting) list() []types.NamespacedName {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]types.NamespacedName, 0, len(w.pods))
	for pod := range w.pods {
		all = append(all, pod)
	}
	return all
}

// under returns the pods that one of the keys is for, each once.
func (w *waiting) under(keys ...string) []types.NamespacedName {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []types.NamespacedName
	keys = append(slices.Clone(keys), anything)
	slices.Sort(keys)
	keys = slices.Compact(keys)
	for i, key := range keys {
		for pod := range w.by[key] {
			if !slices.ContainsFunc(keys[:i], func(before string) bool { _, had := w.by[before][pod]; return had }) {
				all = append(all, pod)
			}
		}
	}
	return all
}
