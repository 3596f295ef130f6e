// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trust_test makes the inventory of the product's trust (docs/security/trust.md), and fails
// where the product reads a field of the API that the inventory lacks.
package trust_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/api/inforce"
	"github.com/alioth-net/alioth/test/api/samples"
	"github.com/alioth-net/alioth/test/waits"
)

const root = "../../.."

var shared apiserver.Shared

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard()) // clients log nothing that a test would miss
	os.Exit(shared.Run(m))
}

// scheme has every kind of the product and of Kubernetes.
func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	all := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, kinds.AddToScheme} {
		if err := add(all); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func clientAs(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// writtenBy returns for each kind with a sample who may write which of the paths.
func writtenBy(t *testing.T, paths map[schema.GroupKind][]string) map[schema.GroupKind]*writers {
	t.Helper()
	config := shared.Config(t)
	admin := clientAs(t, config)
	operator := clientAs(t, principalNamed("operator").config(config))
	inforce.Install(t, root, admin, operator)
	var policies admissionregistrationv1.ValidatingAdmissionPolicyList
	if err := admin.List(t.Context(), &policies); err != nil {
		t.Fatal(err)
	}
	all := samples.All(t)
	clients := map[string]dynamic.Interface{}
	for _, who := range principals() {
		clients[who.name] = who.client(t, config)
	}
	resources := resourcesOf(t, config)
	found := map[schema.GroupKind]*writers{}
	var lock sync.Mutex
	try := func(object *unstructured.Unstructured) {
		kind := object.GroupVersionKind().GroupKind()
		s, ok := resources[object.GroupVersionKind()]
		if !ok {
			t.Errorf("the API server has no %s", kind)
			return
		}
		s.object = object
		p := &prober{sample: &s, admin: admin, clients: clients, values: func(path string) []any { return probesOf(kind.Kind, path) }}
		p.probe(t, paths[kind])
		p.found.policies = policiesOf(policies.Items, s.resource)
		lock.Lock()
		defer lock.Unlock()
		found[kind] = p.found
	}
	first := all[0] // the namespace, which others are in
	try(first)
	giveRights(t, admin)
	giveGrants(t, admin, operator)
	var rest errgroup.Group
	rest.SetLimit(6)
	for _, object := range all[1:] {
		rest.Go(func() error { try(object); return nil })
	}
	_ = rest.Wait()
	return found
}

// policiesOf returns the names of the chart's policies for writes of a resource or of a part of
// it, sorted.
func policiesOf(policies []admissionregistrationv1.ValidatingAdmissionPolicy, resource schema.GroupVersionResource) []string {
	var names []string
	for i := range policies {
		rules := policies[i].Spec.MatchConstraints.ResourceRules
		matches := slices.ContainsFunc(rules, func(rule admissionregistrationv1.NamedRuleWithOperations) bool {
			if !slices.Contains(rule.APIGroups, resource.Group) && !slices.Contains(rule.APIGroups, "*") {
				return false
			}
			return slices.ContainsFunc(rule.Resources, func(name string) bool {
				name, _, _ = strings.Cut(name, "/")
				return name == "*" || name == resource.Resource
			})
		})
		if matches && strings.HasPrefix(policies[i].Name, "alioth-") {
			names = append(names, policies[i].Name)
		}
	}
	slices.Sort(names)
	return names
}

// giveGrants writes the grants that the operator would write from a TenantConfig, and returns when
// they are in force. Without them the policies refuse TenantNetworks whatever they contain.
func giveGrants(t *testing.T, admin, operator client.Client) {
	t.Helper()
	grants := &v1alpha1.AdmissionGrants{}
	if err := admin.Get(t.Context(), client.ObjectKey{Name: v1alpha1.TenantNetworkGrants}, grants); err != nil {
		t.Fatal(err)
	}
	grants.TenantNetworks = &v1alpha1.TenantNetworkGrant{TenantConfig: "config", Devices: []string{"ens4"}, NetworkTypes: []string{"bridge"}}
	if err := operator.Update(t.Context(), grants); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, waits.Limit(time.Minute), true, func(ctx context.Context) (bool, error) {
		network := &danmv1.TenantNetwork{
			ObjectMeta: metav1.ObjectMeta{Namespace: tenantNamespace, Name: "probe"}, Spec: danmv1.NetworkSpec{NetworkID: "probe", NetworkType: "macvlan"},
		}
		return admin.Create(ctx, network, client.DryRunAll) == nil, nil
	})
	if err != nil {
		t.Fatalf("wait until TenantNetworks are permitted: %v", err)
	}
}

// resourcesOf asks the API server for its resources and their subresources that take an object.
func resourcesOf(t *testing.T, config *rest.Config) map[schema.GroupVersionKind]sample {
	t.Helper()
	api, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, lists, err := api.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	all := map[schema.GroupVersionKind]sample{}
	parts := map[schema.GroupVersionResource][]string{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			name, part, isPart := strings.Cut(r.Name, "/")
			switch resource := version.WithResource(name); {
			case !isPart:
				all[version.WithKind(r.Kind)] = sample{resource: resource, namespaced: r.Namespaced}
			case part == "status" || part == "ephemeralcontainers" || part == "resize" || part == "finalize":
				parts[resource] = append(parts[resource], part)
			}
		}
	}
	for kind, s := range all {
		s.parts = parts[s.resource]
		all[kind] = s
	}
	return all
}
