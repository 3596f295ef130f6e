// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

func TestDelegationGrant_WrongValue_Refused(t *testing.T) {
	base := func() *v1alpha1.DelegationGrant {
		return &v1alpha1.DelegationGrant{
			ObjectMeta: named("routers"),
			Spec:       v1alpha1.DelegationGrantSpec{Networks: []string{"infra/router"}, Plugins: []string{"bridge"}, Settings: []string{"trust", "spoofchk"}},
		}
	}
	checkCreations(t, base, []creation[*v1alpha1.DelegationGrant]{
		{"both", nil, ""},
		{"plugins alone", func(g *v1alpha1.DelegationGrant) { g.Spec.Settings = nil }, ""},
		{"settings alone", func(g *v1alpha1.DelegationGrant) { g.Spec.Plugins = nil }, ""},
		{"neither", func(g *v1alpha1.DelegationGrant) { g.Spec.Plugins, g.Spec.Settings = nil, nil }, "name plugins, settings or fromNamespaces"},
		{"all settings", func(g *v1alpha1.DelegationGrant) {
			g.Spec.Settings = []string{"trust", "spoofchk", "min_tx_rate", "vlanQoS", "vlanProto"}
		}, ""},
		{"a setting that needs no grant", func(g *v1alpha1.DelegationGrant) { g.Spec.Settings = []string{"max_tx_rate"} }, "spec.settings[0]"},
		{"a setting twice", func(g *v1alpha1.DelegationGrant) { g.Spec.Settings = []string{"trust", "trust"} }, "Duplicate value"},
		{"all requests", func(g *v1alpha1.DelegationGrant) { g.Spec.Requests = []string{"cni-args", "mac", "infiniband-guid"} }, ""},
		{"a request that needs no grant", func(g *v1alpha1.DelegationGrant) { g.Spec.Requests = []string{"ips"} }, "spec.requests[0]"},
		{"definitions of another namespace alone", func(g *v1alpha1.DelegationGrant) {
			g.Spec = v1alpha1.DelegationGrantSpec{Namespaces: []string{"shop"}, FromNamespaces: []string{"shared"}}
		}, ""},
		{"two namespaces that share", func(g *v1alpha1.DelegationGrant) {
			g.Spec.Namespaces, g.Spec.FromNamespaces = []string{"shop", "bank"}, []string{"shop"}
		}, ""},
		{"definitions for nobody", func(g *v1alpha1.DelegationGrant) { g.Spec.FromNamespaces = []string{"shared"} }, "fromNamespaces needs namespaces"},
		{"a namespace with a path", func(g *v1alpha1.DelegationGrant) {
			g.Spec.Namespaces, g.Spec.FromNamespaces = []string{"shop"}, []string{"../shared"}
		}, "spec.fromNamespaces[0]"},
		{"a plugin of Alioth", func(g *v1alpha1.DelegationGrant) { g.Spec.Plugins = []string{"alioth-ipam"} }, "plugins of Alioth"},
	})
}
