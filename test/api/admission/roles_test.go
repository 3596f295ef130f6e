// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/api/chart"
)

// program is a ServiceAccount of the chart and all that it may do, one line per resource. A program
// does not have a right that is not here. A new right is a decision, and this is where it is seen.
type program struct {
	account string
	// everywhere are its rights on cluster-scoped objects and in every namespace. home are its
	// further rights in Alioth's own namespace.
	everywhere, home []string
	// never are some of the rights that it must not get, by whatever rule.
	never []string
}

func programs() []program {
	return []program{
		{
			account: "alioth-operator",
			everywhere: []string{
				"addresses.alioth.dev: create delete get list patch watch",
				"admissiongrants.alioth.dev: create get update",
				"attachmentclaims.alioth.dev: create delete get list patch watch",
				"clusternetworks.danm.io/status: patch",
				"clusternetworks.danm.io: get list patch watch",
				"clusternetworks.danm.k8s.io/status: patch",
				"clusternetworks.danm.k8s.io: get list patch watch",
				"danmnets.danm.io/status: patch",
				"danmnets.danm.io: get list patch watch",
				"danmnets.danm.k8s.io/status: patch",
				"danmnets.danm.k8s.io: get list patch watch",
				"delegationgrants.alioth.dev: list watch",
				"domainclaims.alioth.dev: create delete get list watch",
				"endpoints: create delete get update",
				"endpointslices.discovery.k8s.io: create delete list update watch",
				"events.events.k8s.io: create patch",
				"externaladdresses.alioth.dev/status: patch",
				"externaladdresses.alioth.dev: create delete get list watch",
				"externalpools.alioth.dev/status: patch",
				"externalpools.alioth.dev: list watch",
				"hostaccesses.alioth.dev/status: patch",
				"hostaccesses.alioth.dev: list watch",
				"hostlinkreports.alioth.dev: list watch",
				"hostlinks.alioth.dev: create delete list update watch",
				"hostvniclaims.alioth.dev: create delete get list watch",
				"multitenantpodnetworkconfigs.acn.azure.com/status: patch",
				"multitenantpodnetworkconfigs.acn.azure.com: create delete list watch",
				"multitenantpodnetworkconfigs.multitenancy.acn.azure.com/status: patch",
				"multitenantpodnetworkconfigs.multitenancy.acn.azure.com: create delete list watch",
				"namespaces: list watch",
				"network-attachment-definitions.k8s.cni.cncf.io: list watch",
				"networks.arktos.futurewei.com/status: patch",
				"networks.arktos.futurewei.com: list patch watch",
				"nodeinfo.acn.azure.com: list watch",
				"nodeinfo.multitenancy.acn.azure.com: list watch",
				"nodenetconfpolicies.nmstate.io/status: patch",
				"nodenetconfpolicies.nmstate.io: get list watch",
				"nodenetworkconfigurationenactments.nmstate.io/status: patch",
				"nodenetworkconfigurationenactments.nmstate.io: delete get list watch",
				"nodenetworkconfigurationpolicies.nmstate.io/status: patch",
				"nodenetworkconfigurationpolicies.nmstate.io: get list watch",
				"nodenetworkstates.nmstate.io: list watch",
				"noderoles.alioth.dev: list watch",
				"nodes: get list watch",
				"podnetworkinstances.acn.azure.com/status: patch",
				"podnetworkinstances.acn.azure.com: list patch watch",
				"podnetworkinstances.multitenancy.acn.azure.com/status: patch",
				"podnetworkinstances.multitenancy.acn.azure.com: list patch watch",
				"podnetworks.acn.azure.com/status: patch",
				"podnetworks.acn.azure.com: list watch",
				"podnetworks.multitenancy.acn.azure.com/status: patch",
				"podnetworks.multitenancy.acn.azure.com: list watch",
				"pods/status: patch",
				"pods: get list watch",
				"policyidentities.alioth.dev: create delete list patch watch",
				"rolemembers.alioth.dev: create delete list update watch",
				"rollcalls.alioth.dev: create get list update watch",
				"scaledendpoints.alioth.dev: list update watch", // of an earlier time
				"servicecidrs.networking.k8s.io: list watch",
				"services/finalizers: update",
				"services/status: patch",
				"services: get list watch",
				"sharedservices.alioth.dev/status: patch",
				"sharedservices.alioth.dev: list watch",
				"subnets.alioth.dev/status: patch",
				"subnets.alioth.dev: list patch watch",
				"tenantconfigs.danm.io/status: patch",
				"tenantconfigs.danm.io: list watch",
				"tenantconfigs.danm.k8s.io/status: patch",
				"tenantconfigs.danm.k8s.io: list watch",
				"tenantnetworks.danm.io/status: patch",
				"tenantnetworks.danm.io: get list patch watch",
				"tenantnetworks.danm.k8s.io/status: patch",
				"tenantnetworks.danm.k8s.io: get list patch watch",
				"usages.alioth.dev: create list update watch",
				"vniclaims.alioth.dev: create delete get list watch",
				"vpcs.alioth.dev/status: patch",
				"vpcs.alioth.dev: get list patch watch",
			},
			home: []string{
				"leases.coordination.k8s.io [alioth-operator]: get list update watch",
				"leases.coordination.k8s.io: create",
			},
			never: []string{
				"patch pods", "update pods", "create pods", "delete pods", "create pods/exec", "create pods/binding", "get secrets", "list secrets",
				"get configmaps", "create serviceaccounts/token", "delete nodes", "patch nodes", "patch nodes/status", "update namespaces", "delete namespaces",
				"update alioth.dev/addresses", "update alioth.dev/vniclaims", "update services", "patch services", "update alioth.dev/externaladdresses", "update alioth.dev/externalpools", "update alioth.dev/hostaccesses", "create alioth.dev/hostaccesses", "create alioth.dev/delegationgrants", "update alioth.dev/delegationgrants", "deletecollection alioth.dev/addresses", "delete alioth.dev/vpcs",
				"update alioth.dev/attachmentclaims/status", "update alioth.dev/hostvniclaims", "update alioth.dev/domainclaims", "create alioth.dev/hostlinkreports", "update alioth.dev/hostlinkreports", "create danm.io/danmnets", "delete danm.k8s.io/tenantnetworks", "update danm.k8s.io/tenantconfigs", "update k8s.cni.cncf.io/network-attachment-definitions",
				"patch nmstate.io/nodenetworkstates", "patch nmstate.io/nodenetworkstates/status", "create nmstate.io/nodenetworkconfigurationenactments", "patch nmstate.io/nodenetworkconfigurationenactments", "patch nmstate.io/nodenetworkconfigurationpolicies", "create nmstate.io/nodenetconfpolicies",
				"create multitenancy.acn.azure.com/nodeinfo", "patch multitenancy.acn.azure.com/nodeinfo/status", "patch acn.azure.com/nodeinfo", "create multitenancy.acn.azure.com/podnetworks", "update acn.azure.com/podnetworks", "create acn.azure.com/podnetworkinstances", "delete multitenancy.acn.azure.com/podnetworkinstances",
				"create alioth.dev/vpcs", "delete alioth.dev/subnets", "delete arktos.futurewei.com/networks", "assign alioth.dev/tenants", "proxy alioth.dev/vpcs",
				"impersonate users", "create rbac.authorization.k8s.io/clusterrolebindings", "escalate rbac.authorization.k8s.io/clusterroles",
				"update apiextensions.k8s.io/customresourcedefinitions", "delete admissionregistration.k8s.io/validatingadmissionpolicies",
			},
		},
		{
			account: "alioth-cnid",
			everywhere: []string{
				"addresses.alioth.dev: delete get list watch",
				"attachmentclaims.alioth.dev/status: patch",
				"attachmentclaims.alioth.dev: list watch",
				"delegationgrants.alioth.dev: list watch",
				"domainclaims.alioth.dev: list watch",
				"endpointslices.discovery.k8s.io: list watch",
				"events.events.k8s.io: create patch",
				"externaladdresses.alioth.dev: list watch",
				"externalpools.alioth.dev: list watch",
				"hostaccesses.alioth.dev: list watch",
				"hostlinkreports.alioth.dev: create get list update watch",
				"hostlinks.alioth.dev: list watch",
				"namespaces: list watch",
				"networks.arktos.futurewei.com: list watch",
				"nodeinfo.acn.azure.com/status: patch",
				"nodeinfo.acn.azure.com: create patch",
				"nodeinfo.multitenancy.acn.azure.com/status: patch",
				"nodeinfo.multitenancy.acn.azure.com: create patch",
				"nodenetconfpolicies.nmstate.io: get list watch",
				"nodenetworkconfigurationenactments.nmstate.io/status: patch",
				"nodenetworkconfigurationenactments.nmstate.io: create delete get list patch watch",
				"nodenetworkconfigurationpolicies.nmstate.io: get list watch",
				"nodenetworkstates.nmstate.io/status: patch",
				"nodenetworkstates.nmstate.io: create get list patch watch",
				"noderoles.alioth.dev: create get update",
				"nodes/status: patch",
				"nodes: get list watch",
				"pods/status: patch",
				"pods: get list watch",
				"rolemembers.alioth.dev/status: patch",
				"rolemembers.alioth.dev: list watch",
				"rollcalls.alioth.dev: create get list update watch",
				"servicecidrs.networking.k8s.io: list watch",
				"services: list watch",
				"sharedservices.alioth.dev: list watch",
				"subjectaccessreviews.authorization.k8s.io: create",
				"subnets.alioth.dev: list watch",
				"tokenreviews.authentication.k8s.io: create",
				"vpcs.alioth.dev: get list watch",
			},
			never: []string{
				"patch pods", "update pods/status", "create pods", "delete pods", "create pods/exec", "create pods/eviction", "get secrets", "list secrets",
				"create serviceaccounts/token", "delete nodes", "patch nodes", "update nodes/status", "get nodes/proxy", "update namespaces",
				"create alioth.dev/addresses", "patch alioth.dev/addresses", "update alioth.dev/addresses", "patch services", "patch services/status", "create alioth.dev/hostaccesses", "update alioth.dev/hostaccesses", "create alioth.dev/externaladdresses", "delete alioth.dev/externaladdresses", "patch alioth.dev/externaladdresses/status", "deletecollection alioth.dev/addresses", "create alioth.dev/attachmentclaims", "update alioth.dev/attachmentclaims", "delete alioth.dev/attachmentclaims", "create alioth.dev/hostvniclaims", "create alioth.dev/domainclaims", "delete alioth.dev/domainclaims", "create alioth.dev/hostlinks", "update alioth.dev/hostlinks", "delete alioth.dev/hostlinks", "delete alioth.dev/hostlinkreports", "create alioth.dev/delegationgrants", "get k8s.cni.cncf.io/network-attachment-definitions", "get danm.io/tenantnetworks", "update danm.io/tenantnetworks/status", "delete alioth.dev/rollcalls", "create alioth.dev/rolemembers", "update alioth.dev/rolemembers", "delete alioth.dev/rolemembers", "create alioth.dev/scaledendpoints", "update alioth.dev/scaledendpoints", "delete alioth.dev/scaledendpoints", "list alioth.dev/noderoles", "delete alioth.dev/noderoles", "create alioth.dev/vniclaims",
				"delete alioth.dev/vniclaims", "list alioth.dev/usages", "create alioth.dev/usages", "update alioth.dev/usages", "update alioth.dev/vpcs", "update alioth.dev/subnets", "update arktos.futurewei.com/networks", "get configmaps",
				"delete nmstate.io/nodenetworkstates", "update nmstate.io/nodenetworkconfigurationenactments", "deletecollection nmstate.io/nodenetworkconfigurationenactments", "patch nmstate.io/nodenetworkconfigurationpolicies", "patch nmstate.io/nodenetworkconfigurationpolicies/status", "create nmstate.io/nodenetconfpolicies", "patch nmstate.io/nodenetconfpolicies/status",
				"list multitenancy.acn.azure.com/nodeinfo", "delete acn.azure.com/nodeinfo", "update multitenancy.acn.azure.com/nodeinfo", "get multitenancy.acn.azure.com/podnetworks", "create multitenancy.acn.azure.com/podnetworks", "patch acn.azure.com/podnetworkinstances/status", "create multitenancy.acn.azure.com/multitenantpodnetworkconfigs", "patch acn.azure.com/multitenantpodnetworkconfigs/status",
				"assign alioth.dev/tenants", "impersonate users", "create rbac.authorization.k8s.io/clusterrolebindings", "update coordination.k8s.io/leases",
				"delete admissionregistration.k8s.io/validatingadmissionpolicies",
			},
		},
		{
			// It has these while `helm upgrade` and `helm rollback` run only.
			account: "alioth-check-upgrade",
			everywhere: []string{
				"clusternetworks.danm.io: list",
				"clusternetworks.danm.k8s.io: list",
				"customresourcedefinitions.apiextensions.k8s.io [clusternetworks.danm.io clusternetworks.danm.k8s.io danmnets.danm.io danmnets.danm.k8s.io nodenetconfpolicies.nmstate.io nodenetworkconfigurationpolicies.nmstate.io podnetworkinstances.acn.azure.com podnetworkinstances.multitenancy.acn.azure.com podnetworks.acn.azure.com podnetworks.multitenancy.acn.azure.com tenantconfigs.danm.io tenantconfigs.danm.k8s.io tenantnetworks.danm.io tenantnetworks.danm.k8s.io]: get",
				"danmnets.danm.io: list",
				"danmnets.danm.k8s.io: list",
				"delegationgrants.alioth.dev: list",
				"externalpools.alioth.dev: list",
				"hostaccesses.alioth.dev: list",
				"networks.arktos.futurewei.com: list",
				"nodenetconfpolicies.nmstate.io: list",
				"nodenetworkconfigurationpolicies.nmstate.io: list",
				"podnetworkinstances.acn.azure.com: list",
				"podnetworkinstances.multitenancy.acn.azure.com: list",
				"podnetworks.acn.azure.com: list",
				"podnetworks.multitenancy.acn.azure.com: list",
				"sharedservices.alioth.dev: list",
				"subnets.alioth.dev: list",
				"tenantconfigs.danm.io: list",
				"tenantconfigs.danm.k8s.io: list",
				"tenantnetworks.danm.io: list",
				"tenantnetworks.danm.k8s.io: list",
				"vpcs.alioth.dev: list",
			},
			home:  []string{"leases.coordination.k8s.io [alioth-operator]: get"},
			never: []string{"create pods", "patch nodes", "get secrets", "patch alioth.dev/vpcs", "update coordination.k8s.io/leases"},
		},
		{
			// It has these while `helm uninstall` runs only.
			account: "alioth-uninstall",
			everywhere: []string{
				"addresses.alioth.dev: delete list",
				"attachmentclaims.alioth.dev: list patch",
				"clusternetworks.danm.io: list patch",
				"clusternetworks.danm.k8s.io: list patch",
				"danmnets.danm.io: list patch",
				"danmnets.danm.k8s.io: list patch",
				"externaladdresses.alioth.dev: delete list",
				"networks.arktos.futurewei.com: list patch",
				"nodes/status: patch",
				"nodes: list",
				"podnetworkinstances.acn.azure.com: list patch",
				"podnetworkinstances.multitenancy.acn.azure.com: list patch",
				"pods: list",
				"policyidentities.alioth.dev: delete list patch",
				"rollcalls.alioth.dev: deletecollection",
				"subnets.alioth.dev: list patch",
				"tenantnetworks.danm.io: list patch",
				"tenantnetworks.danm.k8s.io: list patch",
				"vpcs.alioth.dev: list patch",
			},
			home: []string{
				"daemonsets.apps: list patch",
				"deployments.apps: list patch",
				"pods: create delete",
			},
			never: []string{"create pods", "delete pods", "get secrets", "delete nodes", "delete alioth.dev/vpcs", "patch apps/deployments"},
		},
	}
}

func (p program) user() user {
	return serviceAccount("system:serviceaccount:"+chart.Namespace+":"+p.account, "")
}

// merge puts rules into lines of the form "resource.group/subresource [names]:
// verbs", sorted.
func merge(rules []rbacv1.PolicyRule) []string {
	var lines []string
	for _, rule := range rules {
		verbs := ": " + strings.Join(rule.Verbs, " ")
		for _, path := range rule.NonResourceURLs {
			lines = append(lines, path+verbs)
		}
		names := ""
		if len(rule.ResourceNames) > 0 {
			names = " [" + strings.Join(rule.ResourceNames, " ") + "]"
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				name, subresource, found := strings.Cut(resource, "/")
				name = strings.TrimSuffix(name+"."+group, ".")
				if found {
					name += "/" + subresource
				}
				lines = append(lines, name+names+verbs)
			}
		}
	}
	return together(lines)
}

// together unites the verbs of each resource and sorts the lines.
func together(sets ...[]string) []string {
	verbs := map[string][]string{}
	for _, line := range slices.Concat(sets...) {
		resource, list, _ := strings.Cut(line, ": ")
		verbs[resource] = append(verbs[resource], strings.Fields(list)...)
	}
	var lines []string
	for resource, list := range verbs {
		slices.Sort(list)
		lines = append(lines, resource+": "+strings.Join(slices.Compact(list), " "))
	}
	slices.Sort(lines)
	return lines
}

// rulesOf returns the rules of all roles that are bound to an account.
func rulesOf(t *testing.T, admin client.Client, account string) (everywhere, home []rbacv1.PolicyRule) {
	t.Helper()
	isIt := func(s rbacv1.Subject) bool {
		return s.Kind == rbacv1.ServiceAccountKind && s.Namespace == chart.Namespace && s.Name == account
	}
	var wide rbacv1.ClusterRoleBindingList
	var narrow rbacv1.RoleBindingList
	for _, list := range []client.ObjectList{&wide, &narrow} {
		if err := admin.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	for i := range wide.Items {
		if b := &wide.Items[i]; slices.ContainsFunc(b.Subjects, isIt) {
			role := &rbacv1.ClusterRole{}
			if err := admin.Get(t.Context(), client.ObjectKey{Name: b.RoleRef.Name}, role); err != nil {
				t.Fatal(err)
			}
			everywhere = append(everywhere, role.Rules...)
		}
	}
	for i := range narrow.Items {
		if b := &narrow.Items[i]; slices.ContainsFunc(b.Subjects, isIt) {
			if b.RoleRef.Kind != "Role" || b.Namespace != chart.Namespace {
				t.Fatalf("%s/%s binds %s %s", b.Namespace, b.Name, b.RoleRef.Kind, b.RoleRef.Name)
			}
			role := &rbacv1.Role{}
			if err := admin.Get(t.Context(), client.ObjectKey{Namespace: b.Namespace, Name: b.RoleRef.Name}, role); err != nil {
				t.Fatal(err)
			}
			home = append(home, role.Rules...)
		}
	}
	return everywhere, home
}

// review asks the API server for a user's rights in a namespace.
func review(t *testing.T, who user, namespace string) []string {
	t.Helper()
	answer, err := kubernetes.NewForConfigOrDie(configAs(t, who)).AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(),
		&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var rules []rbacv1.PolicyRule
	for _, r := range answer.Status.ResourceRules {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames, Verbs: r.Verbs})
	}
	for _, r := range answer.Status.NonResourceRules {
		rules = append(rules, rbacv1.PolicyRule{NonResourceURLs: r.NonResourceURLs, Verbs: r.Verbs})
	}
	return merge(rules)
}

func TestProgramRights_Installed_MatchList(t *testing.T) {
	admin := start(t)
	for _, p := range programs() {
		t.Run(p.account, func(t *testing.T) {
			everywhere, home := rulesOf(t, admin, p.account)
			if diff := cmp.Diff(p.everywhere, merge(everywhere)); diff != "" {
				t.Errorf("rules everywhere (-listed +installed):\n%s", diff)
			}
			if diff := cmp.Diff(p.home, merge(home)); diff != "" {
				t.Errorf("rules in Alioth's namespace (-listed +installed):\n%s", diff)
			}
			// The account also has the rights of every ServiceAccount.
			anybody := serviceAccount("system:serviceaccount:"+chart.Namespace+":nobody", "")
			for namespace, want := range map[string][]string{
				"default":       p.everywhere,
				chart.Namespace: together(p.everywhere, p.home),
			} {
				want = together(want, review(t, anybody, namespace))
				if diff := cmp.Diff(want, review(t, p.user(), namespace)); diff != "" {
					t.Errorf("the API server on namespace %s (-listed +allowed):\n%s", namespace, diff)
				}
			}
			checkRights(t, admin, rights(p.user(), "", false, p.never...))
		})
	}
}

// right is an action that a user may or may not do, written "verb group/resource", with the core
// group left out.
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
	if group, rest, found := strings.Cut(resource, "/"); found && (strings.Contains(group, ".") || group == "apps") {
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

// TestUserRoles_Aggregated_MatchList: users who may edit a namespace have its Networks and
// TenantNetworks. Of other resources they read the objects that concern their pods.
func TestUserRoles_Aggregated_MatchList(t *testing.T) {
	admin := start(t)
	create(t, admin, namespace("roles", nil))
	var read, write, beyond []string
	for _, verb := range []string{"get", "list", "watch"} {
		for _, resource := range []string{
			"arktos.futurewei.com/networks", "danm.k8s.io/tenantnetworks", "danm.io/tenantnetworks", "danm.k8s.io/danmnets", "danm.io/danmnets",
			"k8s.cni.cncf.io/network-attachment-definitions", "alioth.dev/attachmentclaims",
			"nmstate.io/nodenetworkstates", "nmstate.io/nodenetworkconfigurationpolicies", "nmstate.io/nodenetconfpolicies", "nmstate.io/nodenetworkconfigurationenactments",
			"multitenancy.acn.azure.com/podnetworkinstances", "acn.azure.com/podnetworkinstances", "multitenancy.acn.azure.com/multitenantpodnetworkconfigs", "acn.azure.com/multitenantpodnetworkconfigs",
		} {
			read = append(read, verb+" "+resource)
		}
	}
	for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection"} {
		for _, resource := range []string{"arktos.futurewei.com/networks", "danm.k8s.io/tenantnetworks", "danm.io/tenantnetworks"} {
			write = append(write, verb+" "+resource)
		}
		for _, resource := range []string{
			"arktos.futurewei.com/networks/status", "alioth.dev/vpcs", "alioth.dev/vpcs/status", "alioth.dev/subnets", "alioth.dev/subnets/status",
			"alioth.dev/addresses", "alioth.dev/vniclaims", "alioth.dev/rollcalls", "pods/status", "pods/binding", "namespaces",
			"danm.k8s.io/danmnets", "danm.io/danmnets", "danm.k8s.io/tenantnetworks/status", "danm.io/tenantnetworks/status", "danm.k8s.io/clusternetworks",
			"danm.io/tenantconfigs", "k8s.cni.cncf.io/network-attachment-definitions", "alioth.dev/attachmentclaims", "alioth.dev/hostvniclaims", "alioth.dev/delegationgrants",
			"nmstate.io/nodenetworkstates", "nmstate.io/nodenetworkconfigurationpolicies", "nmstate.io/nodenetconfpolicies", "nmstate.io/nodenetworkconfigurationenactments",
			"nmstate.io/nodenetworkconfigurationpolicies/status", "nmstate.io/nodenetworkconfigurationenactments/status",
			"multitenancy.acn.azure.com/podnetworkinstances", "acn.azure.com/podnetworkinstances", "acn.azure.com/podnetworkinstances/status",
			"multitenancy.acn.azure.com/multitenantpodnetworkconfigs", "acn.azure.com/multitenantpodnetworkconfigs", "multitenancy.acn.azure.com/podnetworks", "acn.azure.com/nodeinfo",
		} {
			beyond = append(beyond, verb+" "+resource)
		}
	}
	beyond = append(beyond, "assign alioth.dev/tenants", "use alioth.dev/danmnets", "proxy alioth.dev/vpcs", "list alioth.dev/addresses")
	for role, allowed := range map[string][]string{"view": read, "edit": slices.Concat(read, write), "admin": slices.Concat(read, write)} {
		who := person("roles-" + role)
		grantIn(t, admin, "roles", who, role)
		checkRights(t, admin, rights(who, "roles", true, allowed...))
		checkRights(t, admin, rights(who, "roles", false, beyond...))
		checkRights(t, admin, rights(who, "default", false, slices.Concat(read, write)...))
	}
	checkRights(t, admin, rights(person("roles-view"), "roles", false, write...))
}

// TestNodeNetworkRoles_OtherRole_NoRights: the objects have no namespace, so the rights of a
// namespace do not reach them.
func TestNodeNetworkRoles_OtherRole_NoRights(t *testing.T) {
	admin := start(t)
	owner, viewer, editor := person("nodes-owner"), person("nodes-viewer"), person("nodes-editor")
	create(t, admin, namespace("nodes-roles", nil))
	grantIn(t, admin, "nodes-roles", owner, "admin")
	grant(t, admin, viewer, "view")
	grant(t, admin, editor, "alioth-node-network-editor")
	var read, write []string
	for _, resource := range []string{"nodenetworkstates", "nodenetworkconfigurationpolicies", "nodenetconfpolicies", "nodenetworkconfigurationenactments"} {
		read = append(read, "get nmstate.io/"+resource, "list nmstate.io/"+resource)
	}
	for _, verb := range []string{"create", "update", "patch", "delete"} {
		write = append(write, verb+" nmstate.io/nodenetworkconfigurationpolicies", verb+" nmstate.io/nodenetconfpolicies")
	}
	write = append(write, "update nmstate.io/nodenetworkstates", "patch nmstate.io/nodenetworkstates", "delete nmstate.io/nodenetworkstates")
	beyond := []string{
		"create nmstate.io/nodenetworkstates", "patch nmstate.io/nodenetworkstates/status", "patch nmstate.io/nodenetworkconfigurationpolicies/status",
		"create nmstate.io/nodenetworkconfigurationenactments", "delete nmstate.io/nodenetworkconfigurationenactments", "patch nmstate.io/nodenetworkconfigurationenactments/status",
	}
	checkRights(t, admin, rights(owner, "", false, slices.Concat(read, write, beyond)...))
	checkRights(t, admin, rights(viewer, "", true, read...))
	checkRights(t, admin, rights(viewer, "", false, slices.Concat(write, beyond)...))
	checkRights(t, admin, rights(editor, "", true, slices.Concat(read, write)...))
	checkRights(t, admin, rights(editor, "", false, beyond...))
}

func checkRights(t *testing.T, admin client.Client, all []right) {
	t.Helper()
	for _, r := range all {
		t.Run(fmt.Sprintf("%s %s in %q", r.who.name, r.text, r.namespace), func(t *testing.T) {
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
