// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	rows "github.com/alioth-net/alioth/store/rows/policy"
)

// Keys has the keys of labels of pods that policies select by. The policies of a namespace reach
// pods of the VPCs that have pods of this namespace, so a tenant adds no labels to the sets of
// others. Selectors of namespaces are not evaluated: Keys may name a key that no policy selects by
// in the end, which costs a larger set, and it lacks none.
//
// Keys is not for concurrent use while it is changed.
type Keys struct {
	policies map[rows.Key]*rows.Policy
	within   map[keyIn]int
	across   map[string]map[string]int
}

// keyIn is a key that selections of pods of one namespace use.
type keyIn struct{ key, namespace string }

// Reach has the policies that apply to pods of a VPC, or have them as peers: by the namespaces of
// the pods in the VPC.
type Reach struct {
	// Namespaces have pods in the VPC.
	Namespaces []string
	// Everyone is true for pods that selectors match from every VPC: the backends of shared services.
	Everyone bool
}

// NewKeys returns Keys without policies.
func NewKeys() *Keys {
	return &Keys{policies: map[rows.Key]*rows.Policy{}, within: map[keyIn]int{}, across: map[string]map[string]int{}}
}

// Put adds a policy, or replaces the policy of its key. The row must not change afterwards. A
// MultiNetworkPolicy selects interfaces outside of VPCs, which have no sets.
func (k *Keys) Put(p *rows.Policy) {
	k.Delete(p.Key)
	if p.Kind == rows.MultiNetworkPolicy {
		return
	}
	k.policies[p.Key] = p
	k.count(p, 1)
}

// Delete removes the policy of a key, if there is one.
func (k *Keys) Delete(key rows.Key) {
	if p := k.policies[key]; p != nil {
		delete(k.policies, key)
		k.count(p, -1)
	}
}

// Selected reports whether a policy that reaches a pod of the namespace selects by the key.
func (k *Keys) Selected(key, namespace string, reach Reach) bool {
	if k.within[keyIn{key, namespace}] > 0 {
		return true
	}
	from := k.across[key]
	if from[""] > 0 || reach.Everyone && len(from) > 0 {
		return true
	}
	for _, name := range reach.Namespaces {
		if from[name] > 0 {
			return true
		}
	}
	return false
}

// count adds n to the counters of all requirements of a policy on labels of pods.
func (k *Keys) count(p *rows.Policy, n int) {
	k.countPods(p, &p.Subject, n)
	for _, rules := range p.Rules {
		for i := range rules {
			for _, peer := range rules[i].Peers {
				if peer.Pods != nil {
					k.countPods(p, peer.Pods, n)
				}
			}
		}
	}
}

func (k *Keys) countPods(p *rows.Policy, pods *rows.Pods, n int) {
	for i := range pods.Pods {
		key := pods.Pods[i].Key
		if pods.Namespace != "" {
			at := keyIn{key, pods.Namespace}
			if k.within[at] += n; k.within[at] == 0 {
				delete(k.within, at)
			}
			continue
		}
		from := k.across[key]
		if from == nil {
			from = map[string]int{}
			k.across[key] = from
		}
		if from[p.Namespace] += n; from[p.Namespace] == 0 {
			delete(from, p.Namespace)
		}
		if len(from) == 0 {
			delete(k.across, key)
		}
	}
}
