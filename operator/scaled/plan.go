// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scaled

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/scaled"
	"github.com/alioth-net/alioth/store/rules/services"
)

// Rules are the settings that do not change while an operator runs.
type Rules struct {
	// DefaultVPC is the name of the default VPC.
	DefaultVPC string
	// Shared are the Services (namespace/name) that every VPC reaches, besides the Services that
	// SharedService objects name.
	Shared []string
	// APIServer is the Service (namespace/name) whose endpoints nodes reserve. Its verdict reports
	// that all other verdicts have been written: nodes wait for that.
	APIServer string
}

// judging returns the rules to judge by.
func (r Rules) judging(tx store.ReadTx) services.Rules {
	return services.Rules{DefaultVPC: r.DefaultVPC, Knowledge: knowledge{tx, r}}
}

// knowledge implements services.Knowledge by all rows of the cluster.
type knowledge struct {
	tx    store.ReadTx
	rules Rules
}

// Shared implements services.Knowledge.
func (k knowledge) Shared(row *store.Service) bool {
	return row.Network == "" && (slices.Contains(k.rules.Shared, nameOf(row)) ||
		slices.ContainsFunc(store.ListSharedServices(k.tx), func(s *store.SharedService) bool {
			return s.ServiceNamespace == row.Namespace && s.ServiceName == row.Name
		}))
}

// Reserved implements services.Knowledge.
func (k knowledge) Reserved(row *store.Service) bool { return nameOf(row) == k.rules.APIServer }

// Partial implements services.Knowledge: the operator has all Addresses.
func (knowledge) Partial(string) bool { return false }

func nameOf(row *store.Service) string { return row.Namespace + "/" + row.Name }

// step is one write. held is the object as it was read, nil for a new one. wanted is nil for an
// object to delete.
type step struct{ held, wanted *scaled.Endpoint }

// decide returns the objects to write for a Service, in order. A node that has seen any number of
// these writes has at least the backends from before, except backends that have ended.
func decide(tx store.ReadTx, rules Rules, namespace, name string) []step {
	held := scaled.ByService(tx, namespace, name)
	kept := map[string]bool{}
	var steps []step
	for _, v := range verdicts(tx, rules, namespace, name) {
		mine := slices.DeleteFunc(slices.Clone(held), func(row *scaled.Endpoint) bool { return row.ID != v.ID })
		for _, wanted := range arrange(v, mine) {
			kept[wanted.Name] = true
			at := slices.IndexFunc(mine, func(row *scaled.Endpoint) bool { return row.Name == wanted.Name })
			switch {
			case at < 0:
				steps = append(steps, step{wanted: wanted})
			case !same(mine[at], wanted):
				steps = append(steps, step{held: mine[at], wanted: wanted})
			}
		}
	}
	for _, row := range held {
		if !kept[row.Name] {
			steps = append(steps, step{held: row})
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.turn(), b.turn()) })
	return steps
}

// turn orders steps. New parts without a head are ignored until the head is there. A backend that
// moves between parts comes to its new part before it leaves the old one.
func (s step) turn() int {
	switch {
	case s.wanted == nil:
		return 3
	case s.held != nil:
		return 1
	case s.wanted.Part == 0:
		return 2
	}
	return 0
}

// verdicts returns the verdicts that nodes need. No node follows the verdict of a Service without a
// VPC that is not exposed.
func verdicts(tx store.ReadTx, rules Rules, namespace, name string) (list []*services.Verdict) {
	service := store.GetService(tx, namespace, name)
	if service == nil {
		return nil
	}
	judging := rules.judging(tx)
	if home := services.Judge(tx, judging, service); home.VPC != "" || home.Exposed {
		if nameOf(service) == rules.APIServer {
			home.AllJudged = v1alpha1.ScaledVersion
		}
		list = append(list, home)
	}
	return append(list, services.JudgeOutside(tx, judging, service)...)
}

// same reports whether an object has a content already.
func same(held, wanted *scaled.Endpoint) bool {
	return equality.Semantic.DeepEqual(specOf(held), specOf(wanted))
}
