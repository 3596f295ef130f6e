// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/store"
)

// anything is the key of a pod that any change may help: its decision is being made.
const anything = ""

// keyOfTenant returns the key of pods that objects of a tenant may help.
func keyOfTenant(tenant string) string { return "tenant/" + tenant }

// keyOfDomain returns the key of pods that wait for addresses of a domain.
func keyOfDomain(domain string) string { return "domain/" + domain }

// keyOfLender returns the key of pods that definitions of another namespace may help.
func keyOfLender(namespace string) string { return "lender/" + namespace }

// lenders returns the other namespaces whose definitions a pod names, and may use. Pods that may
// not use them are not helped by their changes, however many name them.
func (r *Reconciler) lenders(tx store.ReadTx, pod *store.Pod) []string {
	if pod.Selections == "" && pod.DefaultSelection == "" {
		return nil // most pods
	}
	list, err := annotations.ParseNetworks(pod.Selections, pod.Namespace)
	if err != nil {
		return nil // a change of the pod alone helps
	}
	if one, err := annotations.ParseDefaultNetwork(pod.DefaultSelection, pod.Namespace); err == nil && one != nil {
		list = append(list, *one)
	}
	var all []string
	for _, one := range list {
		foreign := one.Namespace != pod.Namespace && !slices.Contains(all, one.Namespace)
		if foreign && r.Sharing.Shares(tx, pod.Namespace, pod.Tenant, one.Namespace) {
			all = append(all, one.Namespace)
		}
	}
	return all
}

// keysOf returns the keys of a pod by its decision, and by the namespaces of others whose
// definitions it names.
func keysOf(pod *store.Pod, d decision, lenders []string) []string {
	keys := []string{keyOfTenant(pod.Tenant)}
	for _, w := range d.desired {
		keys = append(keys, keyOfDomain(w.domain()))
	}
	for _, namespace := range lenders {
		keys = append(keys, keyOfLender(namespace))
	}
	return keys
}

// note is the entry of a pod in waiting. Without keys the pod is requested already.
type note struct {
	tenant string
	keys   []string
}

// waiting has the pods without an address, by the changes that may help them. A change then costs
// as much as it has pods to help, however many pods of other tenants wait. Only the reconciler uses
// it. It needs no persistence: after a restart every pod is checked.
type waiting struct {
	mu   sync.Mutex
	pods map[types.NamespacedName]note
	by   map[string]map[types.NamespacedName]struct{}
}

func newWaiting() *waiting {
	return &waiting{pods: map[types.NamespacedName]note{}, by: map[string]map[types.NamespacedName]struct{}{}}
}

// begin notes that a pod is being decided: any change may help it.
func (w *waiting) begin(pod types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(pod, note{w.pods[pod].tenant, []string{anything}})
}

// wait notes that a pod waits for the changes of its keys.
func (w *waiting) wait(pod types.NamespacedName, tenant string, keys []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(pod, note{tenant, keys})
}

func (w *waiting) remove(pod types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(pod)
}

// put replaces the note of a pod, with mu held.
func (w *waiting) put(pod types.NamespacedName, n note) {
	w.drop(pod)
	w.pods[pod] = n
	for _, key := range n.keys {
		if w.by[key] == nil {
			w.by[key] = map[types.NamespacedName]struct{}{}
		}
		w.by[key][pod] = struct{}{}
	}
}

// drop removes a pod, with mu held.
func (w *waiting) drop(pod types.NamespacedName) {
	n, noted := w.pods[pod]
	if !noted {
		return
	}
	for _, key := range n.keys {
		delete(w.by[key], pod)
		if len(w.by[key]) == 0 && key != anything {
			delete(w.by, key)
		}
	}
	delete(w.pods, pod)
}

// woken is a pod to request, with the number of pods of its tenant before it.
type woken struct {
	types.NamespacedName
	before int
}

// wake returns the pods that one of the keys is for, or all without keys. Until they are decided,
// later changes do not wake them again: the decision will see these, too. So a tenant makes at most
// one request per pod, however many changes it makes.
func (w *waiting) wake(keys ...string) []woken {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(keys) == 0 {
		keys = slices.Collect(maps.Keys(w.by))
	}
	var all []woken
	before := map[string]int{}
	for _, key := range append(slices.Clone(keys), anything) {
		for pod := range w.by[key] {
			tenant := w.pods[pod].tenant
			w.put(pod, note{tenant: tenant})
			all = append(all, woken{pod, before[tenant]})
			before[tenant]++
		}
	}
	return all
}
