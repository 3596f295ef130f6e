// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/api/chart"
)

// right is what somebody may or may not do, written "verb group/resource", with
// the core group left out.
type right struct {
	who  user
	text string
	// namespace asks for a right in one namespace only.
	namespace string
	allowed   bool
}

func (r right) review() *authorizationv1.SubjectAccessReview {
	verb, resource, _ := strings.Cut(r.text, " ")
	attributes := &authorizationv1.ResourceAttributes{Verb: verb, Resource: resource, Namespace: r.namespace}
	if group, rest, found := strings.Cut(resource, "/"); found && strings.Contains(group, ".") {
		attributes.Group, attributes.Resource = group, rest
	}
	attributes.Resource, attributes.Subresource, _ = strings.Cut(attributes.Resource, "/")
	return &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: r.who.name, Groups: r.who.groups, ResourceAttributes: attributes,
	}}
}

func rights(who user, namespace string, allowed bool, texts ...string) []right {
	var all []right
	for _, text := range texts {
		all = append(all, right{who: who, text: text, namespace: namespace, allowed: allowed})
	}
	return all
}

func TestRolesGiveWhatIsNeededAndNoMore(t *testing.T) {
	admin := start(t)
	viewer, editor := person("roles-viewer"), person("roles-editor")
	// The controller that adds these to "view" and "edit" does not run here.
	grant(t, admin, viewer, "alioth-view")
	grant(t, admin, editor, "alioth-view")
	grant(t, admin, editor, "alioth-edit")
	daemon := daemonOn("node-a")

	var all []right
	all = append(all, rights(operator(), "", true,
		"watch pods", "watch nodes", "watch namespaces", "watch services", "patch pods/status",
		"create events", "create events.k8s.io/events", "patch events.k8s.io/events",
		"update alioth.dev/vpcs", "patch alioth.dev/vpcs/status", "update alioth.dev/subnets", "patch alioth.dev/subnets/status",
		"create alioth.dev/addresses", "delete alioth.dev/addresses", "create alioth.dev/vniclaims", "delete alioth.dev/vniclaims",
		"create alioth.dev/rollcalls", "update alioth.dev/rollcalls",
		"update arktos.futurewei.com/networks", "patch arktos.futurewei.com/networks/status")...)
	all = append(all, rights(operator(), "", false,
		"patch pods", "update pods", "create pods", "delete pods", "create pods/exec", "get secrets", "get configmaps",
		"patch nodes", "patch nodes/status", "update namespaces", "update alioth.dev/addresses", "update alioth.dev/vniclaims",
		"delete alioth.dev/vpcs", "delete alioth.dev/subnets", "delete arktos.futurewei.com/networks",
		"assign alioth.dev/tenants", "create coordination.k8s.io/leases", "impersonate users",
		"create rbac.authorization.k8s.io/clusterrolebindings", "update apiextensions.k8s.io/customresourcedefinitions")...)
	all = append(all, rights(operator(), chart.Namespace, true, "create coordination.k8s.io/leases", "update coordination.k8s.io/leases")...)
	all = append(all, rights(daemon, "", true,
		"watch pods", "watch nodes", "watch services", "watch discovery.k8s.io/endpointslices",
		"watch alioth.dev/addresses", "watch alioth.dev/vpcs", "watch alioth.dev/subnets",
		"create alioth.dev/addresses", "delete alioth.dev/addresses", "create alioth.dev/rollcalls", "update alioth.dev/rollcalls", "patch nodes/status", "create events.k8s.io/events")...)
	all = append(all, rights(daemon, "", false,
		"patch pods", "patch pods/status", "delete pods", "create pods/exec", "patch nodes", "get secrets", "get configmaps",
		"update alioth.dev/addresses", "delete alioth.dev/rollcalls", "deletecollection alioth.dev/addresses",
		"update alioth.dev/vpcs", "update alioth.dev/subnets", "watch arktos.futurewei.com/networks",
		"create alioth.dev/vniclaims", "assign alioth.dev/tenants", "create serviceaccounts/token")...)
	all = append(all, rights(viewer, "default", true, "list arktos.futurewei.com/networks")...)
	all = append(all, rights(viewer, "default", false, "create arktos.futurewei.com/networks")...)
	all = append(all, rights(editor, "default", true, "create arktos.futurewei.com/networks", "delete arktos.futurewei.com/networks")...)
	all = append(all, rights(editor, "default", false,
		"update arktos.futurewei.com/networks/status", "create alioth.dev/vpcs", "create alioth.dev/subnets",
		"delete alioth.dev/addresses", "assign alioth.dev/tenants")...)
	checkRights(t, admin, all)
}

func TestPeoplesRolesAreAggregatedIntoKubernetesOwn(t *testing.T) {
	admin := start(t)
	for name, aggregate := range map[string]string{"alioth-view": "view", "alioth-edit": "edit"} {
		role := new(rbacv1.ClusterRole)
		if err := admin.Get(t.Context(), client.ObjectKey{Name: name}, role); err != nil {
			t.Fatal(err)
		}
		if role.Labels["rbac.authorization.k8s.io/aggregate-to-"+aggregate] != "true" {
			t.Errorf("%s has labels %v, want it aggregated to %s", name, role.Labels, aggregate)
		}
	}
}

func checkRights(t *testing.T, admin client.Client, all []right) {
	t.Helper()
	for _, r := range all {
		t.Run(r.who.name+" "+r.text, func(t *testing.T) {
			review := r.review()
			if err := admin.Create(t.Context(), review); err != nil {
				t.Fatal(err)
			}
			if review.Status.Allowed != r.allowed {
				t.Errorf("allowed is %t, want %t", review.Status.Allowed, r.allowed)
			}
		})
	}
}
