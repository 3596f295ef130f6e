// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	nmstatev1beta1 "github.com/alioth-net/alioth/api/nmstate/v1beta1"
)

func nodeState(node string) *nmstatev1beta1.NodeNetworkState {
	return &nmstatev1beta1.NodeNetworkState{ObjectMeta: metav1.ObjectMeta{Name: node}}
}

func rawDocument(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }

// enactment returns the enactment of a policy on a node, as the node's daemon makes it.
func enactment(node, policy string) *nmstatev1beta1.NodeNetworkConfigurationEnactment {
	return &nmstatev1beta1.NodeNetworkConfigurationEnactment{ObjectMeta: metav1.ObjectMeta{
		Name: nmstatev1beta1.EnactmentName(node, nmstatev1.NodeNetworkConfigurationPolicyKind, policy),
		Labels: map[string]string{
			nmstatev1.NodeLabel: nmstatev1beta1.LabelValue(node), nmstatev1.PolicyLabel: nmstatev1beta1.LabelValue(policy),
		},
	}}
}

// named has a status that names its policy.
func named(e *nmstatev1beta1.NodeNetworkConfigurationEnactment, kind, policy string) {
	e.Status.Policy = &nmstatev1beta1.PolicyReference{Kind: kind, Name: policy, UID: "u"}
}

func configurationPolicy(name string) *nmstatev1.NodeNetworkConfigurationPolicy {
	return &nmstatev1.NodeNetworkConfigurationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: nmstatev1.NodeNetworkConfigurationPolicySpec{DesiredState: rawDocument(`{"interfaces":[]}`)},
	}
}

// deleting tries to delete an object.
func deleting(object client.Object) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error { return c.Delete(ctx, object, client.DryRunAll) }
}

// patched is for users who have the right to patch, and none to update.
func patched[T client.Object](through string, changes ...change[T]) []change[T] {
	for i := range changes {
		changes[i].through, changes[i].except = through, byUpdate
	}
	return changes
}

func TestDaemonNetworkState_OtherNode_Refused(t *testing.T) {
	admin := start(t)
	for _, node := range []string{"state-a", "state-b"} {
		establish(t, admin, nodeState(node))
	}
	type state = *nmstatev1beta1.NodeNetworkState
	type edit = change[state]
	own, other := daemonOn("state-a"), daemonOn("state-b")
	owned := func(node string) state {
		object := nodeState("state-new")
		object.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node, UID: "u"}}
		return object
	}
	held, unmanaged := nodeState("state-new"), nodeState("state-new")
	held.Finalizers, unmanaged.Spec.Managed = []string{"example.com/mine"}, new(bool)
	const ofItsOwn, metadata = "may write the NodeNetworkState of its own node only", "must not set finalizers"
	run(t, slices.Concat(
		creations(t, "its own", daemonOn("state-new"), nodeState("state-new"), ""),
		creations(t, "its own, owned by its Node", daemonOn("state-new"), owned("state-new"), ""),
		creations(t, "its own, owned by another Node", daemonOn("state-new"), owned("state-a"), metadata),
		creations(t, "its own, that nobody may delete", daemonOn("state-new"), held, metadata),
		creations(t, "its own, left alone", daemonOn("state-new"), unmanaged, "must not change spec.managed"),
		creations(t, "another node's", own, nodeState("state-new"), ofItsOwn),
		creations(t, "with a token of no node", daemonOn(""), nodeState("state-new"), "needs a token that is bound to its pod"),
		[]attempt{{"it deletes none", own, deleting(nodeState("state-a")), "cannot delete"}},
	))
	desired := func(s state) {
		s.Spec.DesiredState, s.Spec.PolicyState = rawDocument(`{"interfaces":[{"name":"bond1"}]}`), rawDocument(`{"interfaces":[{"name":"bond1"}]}`)
	}
	current := func(s state) { s.Status.CurrentState = rawDocument(`{"interfaces":[{"name":"eth0"}]}`) }
	runChanges(t, slices.Concat(
		patched(
			"",
			edit{name: "what policies make of its own", who: own, object: nodeState("state-a"), edit: desired},
			edit{name: "what policies make of another", who: other, object: nodeState("state-a"), edit: desired, refused: ofItsOwn},
			edit{
				name:    "what its own has to reach",
				who:     own,
				object:  nodeState("state-a"),
				edit:    func(s state) { s.Spec.Reach = []nmstatev1.ReachTarget{"a"} },
				refused: "must not change spec.reach",
			},
			edit{
				name:    "its own left alone",
				who:     own,
				object:  nodeState("state-a"),
				edit:    func(s state) { s.Spec.Managed = new(bool) },
				refused: "must not change spec.managed",
			},
			edit{name: "a label", who: own, object: nodeState("state-a"), edit: func(s state) { s.Labels = map[string]string{"a": "b"} }, refused: metadata},
			edit{name: "an annotation", who: own, object: nodeState("state-a"), edit: func(s state) { s.Annotations = map[string]string{"a": "b"} }, refused: metadata},
		),
		patched(
			"status",
			edit{name: "what is", who: own, object: nodeState("state-a"), edit: current},
			edit{name: "what is on another", who: other, object: nodeState("state-a"), edit: current, refused: ofItsOwn},
			edit{
				name:    "what is, with a token of no node",
				who:     daemonOn(""),
				object:  nodeState("state-a"),
				edit:    current,
				refused: "needs a token that is bound to its pod",
			},
		),
		[]edit{{name: "an administrator's desired state", who: clusterAdmin(), object: nodeState("state-a"), edit: desired}},
	))
}

func TestDaemonEnactment_OtherNode_Refused(t *testing.T) {
	start(t)
	own := daemonOn("node-a")
	long := strings.Repeat("n", 45) + "." + strings.Repeat("x", 40)
	labelled := func(object *nmstatev1beta1.NodeNetworkConfigurationEnactment, key, value string) *nmstatev1beta1.NodeNetworkConfigurationEnactment {
		object.Labels[key] = value
		return object
	}
	noLabels, held, owned := enactment("node-a", "p"), enactment("node-a", "p"), enactment("node-a", "p")
	noLabels.Labels, held.Finalizers = nil, []string{"example.com/mine"}
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "gone", UID: "gone"}}
	const ofItsOwn, metadata = "may write enactments of its own node only", "must not set finalizers"
	run(t, slices.Concat(
		applied(t, "its own", own, enactment("node-a", "p"), ""),
		applied(t, "another node's", own, enactment("node-b", "p"), ofItsOwn),
		applied(t, "of a node whose name begins so", own, enactment("node-ab", "p"), ofItsOwn),
		applied(t, "of a node in its domain", own, enactment("node-a.b", "p"), ofItsOwn),
		applied(t, "with the label of another", own, labelled(enactment("node-a", "p"), nmstatev1.NodeLabel, "node-b"), ofItsOwn),
		applied(t, "by the name of another", own, labelled(enactment("node-b", "p"), nmstatev1.NodeLabel, "node-a"), ofItsOwn),
		applied(t, "without a label", own, noLabels, ofItsOwn),
		applied(t, "with a token of no node", daemonOn(""), enactment("node-a", "p"), "needs a token that is bound to its pod"),
		applied(t, "with a further label", own, labelled(enactment("node-a", "p"), "a", "b"), metadata),
		applied(t, "that nobody may delete", own, held, metadata),
		applied(t, "of another owner", own, owned, metadata),
		applied(t, "of a node with a long name", daemonOn(long), enactment(long, "p"), ""),
		applied(
			t,
			"with the label of another long name",
			daemonOn(long),
			labelled(enactment(long, "p"), nmstatev1.NodeLabel, nmstatev1beta1.LabelValue("m"+long)),
			ofItsOwn,
		),
		applied(t, "with a part of the label", daemonOn(long), labelled(enactment(long, "p"), nmstatev1.NodeLabel, "n-0123456789abcdef"), ofItsOwn),
	))
}

// applied are attempts to create an enactment in the way that a daemon has a right to.
func applied(t *testing.T, name string, who user, object client.Object, refused string) []attempt {
	t.Helper()
	return creations(t, name, who, object, refused)[:1]
}

func TestSlotsAndPolicyStatus_WriterNotOperator_Refused(t *testing.T) {
	admin := start(t)
	type one = *nmstatev1beta1.NodeNetworkConfigurationEnactment
	type edit = change[one]
	bonds := func() one { return enactment("slot-a", "bonds") }
	waiting := enactment("slot-a", "waiting")
	establish(t, admin, waiting)
	granted := bonds()
	establish(t, admin, granted)
	slot := func(holder string) func(one) {
		return func(e one) {
			named(e, nmstatev1.NodeNetworkConfigurationPolicyKind, e.Labels[nmstatev1.PolicyLabel])
			e.Status.Slot = &nmstatev1beta1.Slot{Holder: holder, Expires: metav1.NewMicroTime(time.Unix(1, 0))}
		}
	}
	slot("slot-a")(granted)
	if err := as(t, withRights(operator())).Status().Update(t.Context(), granted); err != nil {
		t.Fatal(err)
	}
	own, other := daemonOn("slot-a"), daemonOn("slot-b")
	desired := func(e one) {
		named(e, nmstatev1.NodeNetworkConfigurationPolicyKind, e.Labels[nmstatev1.PolicyLabel])
		e.Status.DesiredState = rawDocument(`{"interfaces":[{"name":"bond1"}]}`)
	}
	returned := func(e one) { e.Status.Slot = nil }
	const slots = "only the Alioth operator grants and takes slots"
	// An apply of a status without a slot leaves the operator's slot as it is.
	runChanges(t, []edit{
		{name: "the daemon, no slot", who: withRights(own), object: bonds(), through: "status", edit: returned, refused: slots, except: byApply},
	})
	runChanges(t, patched(
		"status",
		edit{name: "the daemon, a slot", who: own, object: enactment("slot-a", "waiting"), edit: slot("slot-a"), refused: slots},
		edit{
			name:    "the daemon, a longer slot",
			who:     own,
			object:  bonds(),
			edit:    func(e one) { e.Status.Slot.Expires = metav1.NewMicroTime(time.Unix(9, 0)) },
			refused: slots,
		},
		edit{name: "an administrator, a slot", who: clusterAdmin(), object: enactment("slot-a", "waiting"), edit: slot("slot-a"), refused: slots},
		edit{name: "the operator, a slot", who: operator(), object: enactment("slot-a", "waiting"), edit: slot("slot-a")},
		edit{name: "the operator, no slot", who: operator(), object: bonds(), edit: returned},
		edit{name: "the daemon, what is desired, with its slot", who: own, object: bonds(), edit: desired},
		edit{name: "the daemon, what is desired, before its slot", who: own, object: enactment("slot-a", "waiting"), edit: desired},
		edit{name: "the daemon of another node", who: other, object: bonds(), edit: desired, refused: "of its own node only"},
	))
	run(t, []attempt{
		{"the daemon deletes its own", own, deleting(bonds()), ""},
		{"the daemon deletes another's", other, deleting(bonds()), "of its own node only"},
	})

	establish(t, admin, configurationPolicy("slot-policy"))
	netconf := &nmstatev1.NodeNetConfPolicy{ObjectMeta: metav1.ObjectMeta{Name: "slot-policy"}}
	netconf.Spec.DesiredState = rawDocument(`{"interfaces":[]}`)
	establish(t, admin, netconf)
	type policy = *nmstatev1.NodeNetworkConfigurationPolicy
	type old = *nmstatev1.NodeNetConfPolicy
	const status = "only the Alioth operator writes the status of policies"
	observed := func(p policy) { p.Status.ObservedGeneration = 7 }
	runChanges(t, patched(
		"status",
		change[policy]{name: "the operator, the status of a policy", who: operator(), object: configurationPolicy("slot-policy"), edit: observed},
		change[policy]{
			name:    "an administrator, the status of a policy",
			who:     clusterAdmin(),
			object:  configurationPolicy("slot-policy"),
			edit:    observed,
			refused: status,
		},
		change[policy]{name: "the daemon, the status of a policy", who: own, object: configurationPolicy("slot-policy"), edit: observed, refused: "cannot patch"},
	))
	conditions := func(p old) { p.Status.ObservedGeneration = 7 }
	runChanges(t, patched("status",
		change[old]{name: "the operator, the status of an old policy", who: operator(), object: netconf, edit: conditions},
		change[old]{name: "an administrator, the status of an old policy", who: clusterAdmin(), object: netconf, edit: conditions, refused: status},
	))
	run(t, creations(t, "an administrator, a policy", clusterAdmin(), configurationPolicy("slot-new"), ""))
}

// withRights returns a user who may do all that no policy refuses.
func withRights(u user) user {
	u.groups = append(slices.Clone(u.groups), "system:masters")
	return u
}

// TestDaemonNodeNetworkWrite_BroadRole_Refused: a role with too many rights is a common accident.
func TestDaemonNodeNetworkWrite_BroadRole_Refused(t *testing.T) {
	admin := start(t)
	for _, object := range []client.Object{nodeState("broad-a"), configurationPolicy("broad"), enactment("broad-a", "broad")} {
		establish(t, admin, object)
	}
	own, written := withRights(daemonOn("broad-a")), configurationPolicy("broad")
	const states = "may write NodeNetworkStates and enactments only"
	netconf := &nmstatev1.NodeNetConfPolicy{ObjectMeta: metav1.ObjectMeta{Name: "broad"}}
	netconf.Spec.DesiredState = rawDocument(`{"interfaces":[]}`)
	run(t, slices.Concat(
		creations(t, "a policy", own, configurationPolicy("broad-new"), states),
		creations(t, "a policy of the early design", own, netconf, states),
		[]attempt{
			{"the end of a policy", own, deleting(written), states},
			{"the end of its state", own, deleting(nodeState("broad-a")), "must not delete its NodeNetworkState"},
			{"the end of its state, by another", withRights(daemonOn("broad-b")), deleting(nodeState("broad-a")), "of its own node only"},
		},
	))
	runChanges(t, []change[*nmstatev1.NodeNetworkConfigurationPolicy]{
		{name: "the spec of a policy", who: own, object: written, edit: func(p *nmstatev1.NodeNetworkConfigurationPolicy) { p.Spec.Priority = 9 }, refused: states},
		{
			name:    "the status of a policy",
			who:     own,
			object:  written,
			through: "status",
			edit:    func(p *nmstatev1.NodeNetworkConfigurationPolicy) { p.Status.ObservedGeneration = 9 },
			refused: "ValidatingAdmissionPolicy",
		},
	})
	runChanges(t, []change[*nmstatev1beta1.NodeNetworkConfigurationEnactment]{
		{name: "its enactment as another's", who: own, object: enactment("broad-a", "broad"), edit: func(e *nmstatev1beta1.NodeNetworkConfigurationEnactment) {
			e.Labels[nmstatev1.NodeLabel] = "broad-b"
		}, refused: "of its own node only"},
		{
			name:    "its enactment with a label",
			who:     own,
			object:  enactment("broad-a", "broad"),
			edit:    func(e *nmstatev1beta1.NodeNetworkConfigurationEnactment) { e.Labels["a"] = "b" },
			refused: "must not set finalizers",
		},
	})
}

// TestTenantServiceAccount_NodeNetworkWrite_Refused: not even with the rights of a cluster
// administrator, which a wrong binding gives.
func TestTenantServiceAccount_NodeNetworkWrite_Refused(t *testing.T) {
	admin := start(t)
	for name, labels := range map[string]map[string]string{"nodes-blue": tenant("blue"), "nodes-blue-2": nil, "nodes-empty": tenant("")} {
		create(t, admin, namespace(name, labels))
	}
	for _, object := range []client.Object{nodeState("tenants-a"), configurationPolicy("tenants"), enactment("tenants-a", "tenants")} {
		establish(t, admin, object)
	}
	robot := func(namespace string) user {
		return user{name: "system:serviceaccount:" + namespace + ":robot", groups: []string{"system:serviceaccounts:" + namespace, "system:masters"}}
	}
	blue := robot("nodes-blue")
	const refused = `ServiceAccounts of namespace "nodes-blue" may not write objects of nmstate.io: the namespace is that of the tenant "blue"`
	fresh := nodeState("tenants-new")
	run(t, slices.Concat(
		creations(t, "a policy", blue, configurationPolicy("tenants-new"), refused),
		creations(t, "a state", blue, fresh, refused),
		creations(t, "an enactment", blue, enactment("tenants-a", "new"), refused),
		[]attempt{
			{"the end of a policy", blue, deleting(configurationPolicy("tenants")), refused},
			{"the end of a state", blue, deleting(nodeState("tenants-a")), refused},
			{"the end of an enactment", blue, deleting(enactment("tenants-a", "tenants")), refused},
		},
		creations(t, "a policy, without a tenant", robot("nodes-blue-2"), configurationPolicy("tenants-new"), ""),
		creations(t, "a policy, with an empty label", robot("nodes-empty"), configurationPolicy("tenants-new"), ""),
	))
	type state = *nmstatev1beta1.NodeNetworkState
	runChanges(t, []change[state]{
		{name: "what shall be", who: blue, object: nodeState("tenants-a"), edit: func(s state) { s.Spec.Managed = new(bool) }, refused: refused},
		{
			name:    "what is",
			who:     blue,
			object:  nodeState("tenants-a"),
			through: "status",
			edit:    func(s state) { s.Status.HandlerNmstateVersion = "x" },
			refused: refused,
		},
		{name: "what shall be, without a tenant", who: robot("nodes-blue-2"), object: nodeState("tenants-a"), edit: func(s state) { s.Spec.Managed = new(bool) }},
	})
}

// TestNamespaceOwner_NodeNetworkObjects_NoRights: roles of a namespace give no right on objects of
// the cluster.
func TestNamespaceOwner_NodeNetworkObjects_NoRights(t *testing.T) {
	admin := start(t)
	create(t, admin, namespace("nodes-owned", tenant("owned")))
	owner := person("nodes-owned-admin")
	create(t, admin, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "nodes-everything"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"nmstate.io"}, Resources: []string{"*"}, Verbs: []string{"*"}},
	}})
	grantIn(t, admin, "nodes-owned", owner, "nodes-everything")
	run(t, creations(t, "a policy", owner, configurationPolicy("owned-new"), "at the cluster scope"))
}
