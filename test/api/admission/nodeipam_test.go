// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/kinds/ipamapi"
)

// configKinds are the kinds of the configs of pods, by group.
var configKinds = map[string]string{
	"multitenancy.acn.azure.com": "MultitenantPodNetworkConfig", "acn.azure.com": "MultiTenantPodNetworkConfig",
}

// inEachGroup runs a test for each group of the node IPAM API.
func inEachGroup(t *testing.T, test func(t *testing.T, group string)) {
	for _, group := range ipamapi.Groups {
		t.Run(group, func(t *testing.T) { test(t, group) })
	}
}

// ipamObject returns an object of the node IPAM API.
func ipamObject(group, kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1alpha1", "kind": kind}}
	object.SetNamespace(namespace)
	object.SetName(name)
	if spec != nil {
		object.Object["spec"] = spec
	}
	return object
}

func podNetwork(group, name string) *unstructured.Unstructured {
	return ipamObject(group, "PodNetwork", "", name, map[string]any{"networkID": "blue"})
}

func podNetworkInstance(group, namespace, name string) *unstructured.Unstructured {
	return ipamObject(group, "PodNetworkInstance", namespace, name, map[string]any{"podnetwork": "net"})
}

func podConfig(group, namespace, name string) *unstructured.Unstructured {
	return ipamObject(group, configKinds[group], namespace, name, map[string]any{"podNetwork": "net"})
}

func nodeInfo(group, name string) *unstructured.Unstructured {
	return ipamObject(group, "NodeInfo", "", name, nil)
}

// ownedBy has an owner.
func ownedBy(object *unstructured.Unstructured, owner map[string]any) *unstructured.Unstructured {
	copied := object.DeepCopy()
	copied.Object["metadata"].(map[string]any)["ownerReferences"] = []any{owner}
	return copied
}

func nodeOwner(name string, more map[string]any) map[string]any {
	owner := map[string]any{"apiVersion": "v1", "kind": "Node", "name": name, "uid": "u"}
	for key, value := range more {
		owner[key] = value
	}
	return owner
}

type ipamChange = change[*unstructured.Unstructured]

// sets returns an edit of one field.
func sets(value any, path ...string) func(*unstructured.Unstructured) {
	return func(object *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
			panic(err) // the paths are constants of this file
		}
	}
}

func withFinalizer(object *unstructured.Unstructured) {
	object.SetFinalizers([]string{"example.com/mine"})
}

// collectors returns the accounts of Kubernetes that remove the dependents of objects that are
// gone.
func collectors() map[string]user {
	all := map[string]user{}
	for name, account := range map[string]string{
		"the garbage collector":    "system:serviceaccount:kube-system:generic-garbage-collector",
		"the namespace controller": "system:serviceaccount:kube-system:namespace-controller",
		"the controller manager":   "system:kube-controller-manager",
	} {
		all[name] = withRights(user{name: account})
	}
	return all
}

// TestPodConfig_WriterNotOperator_Refused: people read them as the state of a pod.
func TestPodConfig_WriterNotOperator_Refused(t *testing.T) {
	admin := start(t)
	create(t, admin, namespace("ipam-configs", nil))
	inEachGroup(t, func(t *testing.T, group string) {
		held := podConfig(group, "ipam-configs", "held")
		held.SetOwnerReferences(nil)
		pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "held", "uid": "u", "controller": true}
		writes := withRights(operator())
		establish(t, as(t, writes), ownedBy(held, pod))
		fresh := podConfig(group, "ipam-configs", "fresh")
		spec, status := sets("other", "spec", "podNetwork"), sets("10.0.0.9/32", "status", "primaryIP")
		orphan := func(object *unstructured.Unstructured) { object.SetOwnerReferences(nil) }
		const refused = "only the Alioth operator writes the configs of pods"
		run(t, slices.Concat(
			creations(t, "the operator makes one", writes, fresh, ""),
			creations(t, "an administrator makes one", clusterAdmin(), fresh, refused),
			creations(t, "a daemon makes one", withRights(daemonOn("node-a")), fresh, "ValidatingAdmissionPolicy"),
			[]attempt{
				{"the operator deletes one", writes, deleting(held), ""},
				{"an administrator deletes one", clusterAdmin(), deleting(held), refused},
			},
		))
		for name, who := range collectors() {
			run(t, slices.Concat([]attempt{{name + " deletes one", who, deleting(held), ""}}, creations(t, name+" makes one", who, fresh, refused)))
			runChanges(t, []ipamChange{
				{name: name + " orphans one", who: who, object: held, edit: orphan},
				{name: name + ", the spec", who: who, object: held, edit: spec, refused: refused},
				{name: name + ", the status", who: who, object: held, through: "status", edit: status, refused: refused},
			})
		}
		runChanges(t, []ipamChange{
			{name: "the operator, the spec", who: writes, object: held, edit: spec},
			{name: "the operator, the status", who: writes, object: held, through: "status", edit: status},
			{name: "an administrator, the spec", who: clusterAdmin(), object: held, edit: spec, refused: refused},
			{name: "an administrator, the status", who: clusterAdmin(), object: held, through: "status", edit: status, refused: refused},
			{name: "an administrator, the owner", who: clusterAdmin(), object: held, edit: orphan, refused: refused},
		})
	})
}

// TestReservation_WriterNotOperator_Refused: the status of an instance keeps addresses from others,
// and its finalizer keeps the instance.
func TestReservation_WriterNotOperator_Refused(t *testing.T) {
	admin := start(t)
	create(t, admin, namespace("ipam-status", nil))
	const refused, finalizer = "only the Alioth operator writes the status of PodNetworks and PodNetworkInstances", "only the Alioth operator removes the finalizer alioth.dev/in-use"
	inEachGroup(t, func(t *testing.T, group string) {
		for kind, held := range map[string]*unstructured.Unstructured{
			"a PodNetwork": podNetwork(group, "ipam-status"), "an instance": podNetworkInstance(group, "ipam-status", "held"),
		} {
			held.SetFinalizers([]string{v1alpha1.Finalizer})
			establish(t, admin, held.DeepCopy())
			status := sets("Ready", "status", "status")
			release := func(object *unstructured.Unstructured) { object.SetFinalizers(nil) }
			label := func(object *unstructured.Unstructured) { object.SetLabels(map[string]string{"a": "b"}) }
			runChanges(t, []ipamChange{
				{name: kind + ", the status, by the operator", who: withRights(operator()), object: held, through: "status", edit: status},
				{name: kind + ", the status, by an administrator", who: clusterAdmin(), object: held, through: "status", edit: status, refused: refused},
				{name: kind + ", the finalizer, by the operator", who: withRights(operator()), object: held, edit: release},
				{name: kind + ", the finalizer, by an administrator", who: clusterAdmin(), object: held, edit: release, refused: finalizer},
				{name: kind + ", a label, by an administrator", who: clusterAdmin(), object: held, edit: label},
			})
		}
	})
}

func TestDaemonNodeInfo_OtherNode_Refused(t *testing.T) {
	admin := start(t)
	inEachGroup(t, func(t *testing.T, group string) {
		for _, node := range []string{"info-a", "info-b"} {
			establish(t, admin, nodeInfo(group, node))
		}
		held, labelled := nodeInfo(group, "info-new"), nodeInfo(group, "info-new")
		withFinalizer(held)
		labelled.SetLabels(map[string]string{"a": "b"})
		own, fresh, newDaemon := daemonOn("info-a"), nodeInfo(group, "info-new"), daemonOn("info-new")
		const ofItsOwn, metadata = "may write the NodeInfo of its own node only", "must not set finalizers, annotations or labels of NodeInfos"
		run(t, slices.Concat(
			creations(t, "its own", newDaemon, fresh, ""),
			creations(t, "its own, owned by its Node", newDaemon, ownedBy(fresh, nodeOwner("info-new", nil)), ""),
			creations(
				t,
				"its own, owned by its Node, as CNS writes it",
				newDaemon,
				ownedBy(fresh, nodeOwner("info-new", map[string]any{"blockOwnerDeletion": false})),
				"",
			),
			creations(t, "its own, owned by another Node", newDaemon, ownedBy(fresh, nodeOwner("info-a", nil)), metadata),
			creations(t, "its own, that blocks its Node", newDaemon, ownedBy(fresh, nodeOwner("info-new", map[string]any{"blockOwnerDeletion": true})), metadata),
			creations(t, "its own, that its Node controls", newDaemon, ownedBy(fresh, nodeOwner("info-new", map[string]any{"controller": true})), metadata),
			creations(t, "its own, that nobody may delete", newDaemon, held, metadata),
			creations(t, "its own, with a label", newDaemon, labelled, metadata),
			creations(t, "another node's", own, fresh, ofItsOwn),
			creations(t, "with a token of no node", daemonOn(""), fresh, "needs a token that is bound to its pod"),
			[]attempt{{"it deletes none", own, deleting(nodeInfo(group, "info-a")), "cannot delete"}},
		))
		machine := sets("vm-1", "spec", "vmUniqueID")
		status := sets([]any{map[string]any{"macAddress": "00:0d:3a:12:34:56"}}, "status", "deviceInfos")
		if group == "acn.azure.com" { // it has no spec
			machine, status = sets(map[string]any{}, "status"), sets("vm-1", "status", "vmUniqueID")
		}
		a := nodeInfo(group, "info-a")
		runChanges(t, slices.Concat(
			patched(
				"",
				ipamChange{name: "the machine of its own", who: own, object: a, edit: machine},
				ipamChange{name: "the machine of another", who: daemonOn("info-b"), object: a, edit: machine, refused: ofItsOwn},
				ipamChange{name: "a finalizer", who: own, object: a, edit: withFinalizer, refused: metadata},
				ipamChange{
					name:    "an annotation",
					who:     own,
					object:  a,
					edit:    func(o *unstructured.Unstructured) { o.SetAnnotations(map[string]string{"a": "b"}) },
					refused: metadata,
				},
			),
			patched(
				"status",
				ipamChange{name: "what its own offers", who: own, object: a, edit: status},
				ipamChange{name: "what another offers", who: daemonOn("info-b"), object: a, edit: status, refused: ofItsOwn},
				ipamChange{
					name:    "what its own offers, with a token of no node",
					who:     daemonOn(""),
					object:  a,
					edit:    status,
					refused: "needs a token that is bound to its pod",
				},
			),
			[]ipamChange{{name: "an administrator, what it offers", who: clusterAdmin(), object: a, through: "status", edit: status}},
		))
	})
}

// TestDaemonPodNetworkWrite_BroadRole_Refused: a role with too many rights is a common accident.
func TestDaemonPodNetworkWrite_BroadRole_Refused(t *testing.T) {
	admin := start(t)
	create(t, admin, namespace("ipam-broad", nil))
	own := withRights(daemonOn("node-a"))
	const refused = "the daemon may write NodeInfos only"
	inEachGroup(t, func(t *testing.T, group string) {
		held, instance := podNetwork(group, "ipam-broad"), podNetworkInstance(group, "ipam-broad", "held")
		establish(t, admin, held)
		establish(t, admin, instance)
		run(t, slices.Concat(
			creations(t, "a PodNetwork", own, podNetwork(group, "ipam-broad-new"), refused),
			creations(t, "an instance", own, podNetworkInstance(group, "ipam-broad", "new"), refused),
			[]attempt{
				{"the end of a PodNetwork", own, deleting(held), refused},
				{"the end of an instance", own, deleting(instance), refused},
			},
		))
		runChanges(t, []ipamChange{
			{name: "the spec of a PodNetwork", who: own, object: held, edit: sets("red", "spec", "networkID"), refused: refused},
			{
				name:    "the status of an instance",
				who:     own,
				object:  instance,
				through: "status",
				edit:    sets("Ready", "status", "status"),
				refused: "ValidatingAdmissionPolicy",
			},
		})
	})
}

// TestTenantServiceAccount_PodNetworkWrite_Refused: not even with the rights of a cluster
// administrator, which a wrong binding gives. PodNetworkInstances are in their namespace.
func TestTenantServiceAccount_PodNetworkWrite_Refused(t *testing.T) {
	admin := start(t)
	for name, labels := range map[string]map[string]string{"ipam-blue": tenant("blue"), "ipam-none": nil, "ipam-empty": tenant("")} {
		create(t, admin, namespace(name, labels))
	}
	robot := func(namespace string) user {
		return user{name: "system:serviceaccount:" + namespace + ":robot", groups: []string{"system:serviceaccounts:" + namespace}}
	}
	blue := withRights(robot("ipam-blue"))
	create(t, admin, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ipam-blue",
			Name:      "editors",
		}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "alioth-pod-network-editor"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "ipam-blue", Name: "robot"}},
	})
	untilGranted(t, admin, "ipam-blue", robot("ipam-blue"), "alioth-pod-network-editor")
	const refused = `ServiceAccounts of namespace "ipam-blue" may not write PodNetworks and NodeInfos: the namespace is that of the tenant "blue"`
	inEachGroup(t, func(t *testing.T, group string) {
		held, info := podNetwork(group, "ipam-tenants"), nodeInfo(group, "ipam-tenants")
		for _, object := range []client.Object{held, info} {
			establish(t, admin, object)
		}
		run(t, slices.Concat(
			creations(t, "a PodNetwork", blue, podNetwork(group, "ipam-tenants-new"), refused),
			creations(t, "a NodeInfo", blue, nodeInfo(group, "ipam-tenants-new"), refused),
			[]attempt{
				{"the end of a PodNetwork", blue, deleting(held), refused},
				{"the end of a NodeInfo", blue, deleting(info), refused},
			},
			creations(t, "a PodNetwork, without a tenant", withRights(robot("ipam-none")), podNetwork(group, "ipam-tenants-new"), ""),
			creations(t, "a NodeInfo, with an empty label", withRights(robot("ipam-empty")), nodeInfo(group, "ipam-tenants-new"), ""),
			creations(t, "an instance, by a role of its namespace", robot("ipam-blue"), podNetworkInstance(group, "ipam-blue", "new"), ""),
			creations(t, "an instance elsewhere", robot("ipam-blue"), podNetworkInstance(group, "ipam-none", "new"), "cannot"),
			creations(t, "a PodNetwork, by a role of its namespace", robot("ipam-blue"), podNetwork(group, "ipam-tenants-new"), "at the cluster scope"),
		))
		status := sets("vm-9", "status", "vmUniqueID")
		if group != "acn.azure.com" {
			status = sets([]any{map[string]any{"macAddress": "00:0d:3a:12:34:56"}}, "status", "deviceInfos")
		}
		runChanges(t, []ipamChange{
			{name: "the spec of a PodNetwork", who: blue, object: held, edit: sets("red", "spec", "networkID"), refused: refused},
			{name: "the status of a NodeInfo", who: blue, object: info, through: "status", edit: status, refused: refused},
			{name: "the spec of a PodNetwork, without a tenant", who: withRights(robot("ipam-none")), object: held, edit: sets("red", "spec", "networkID")},
		})
	})
}

// TestPodNetworkRoles_OtherRole_NoRights: in a namespace the role gives its instances, everywhere
// also PodNetworks.
func TestPodNetworkRoles_OtherRole_NoRights(t *testing.T) {
	admin := start(t)
	create(t, admin, namespace("ipam-roles", nil))
	viewer, editor, everywhere := person("ipam-viewer"), person("ipam-editor"), person("ipam-everywhere")
	grant(t, admin, viewer, "view")
	grantIn(t, admin, "ipam-roles", editor, "alioth-pod-network-editor")
	grant(t, admin, everywhere, "alioth-pod-network-editor")
	for _, group := range ipamapi.Groups {
		var wide, narrow, never []string
		for _, verb := range []string{"create", "update", "patch", "delete"} {
			wide, narrow = append(wide, verb+" "+group+"/podnetworks"), append(narrow, verb+" "+group+"/podnetworkinstances")
			for _, resource := range []string{"nodeinfo", "multitenantpodnetworkconfigs", "podnetworks/status", "podnetworkinstances/status"} {
				never = append(never, verb+" "+group+"/"+resource)
			}
		}
		checkRights(t, admin, rights(viewer, "", true, "list "+group+"/podnetworks", "get "+group+"/nodeinfo", "list "+group+"/podnetworkinstances"))
		checkRights(t, admin, rights(viewer, "", false, slices.Concat(wide, narrow, never)...))
		checkRights(t, admin, rights(editor, "ipam-roles", true, narrow...))
		checkRights(t, admin, rights(editor, "", false, slices.Concat(wide, narrow, never)...))
		checkRights(t, admin, rights(everywhere, "", true, slices.Concat(wide, narrow)...))
		checkRights(t, admin, rights(everywhere, "", false, never...))
	}
}

// TestPodDevices_ResourceUnserved_Refused: it would be Pending for ever.
func TestPodDevices_ResourceUnserved_Refused(t *testing.T) {
	admin := start(t)
	create(t, admin, namespace("ipam-resources", nil))
	pod := func(name, requests string, init bool) *corev1.Pod {
		one := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ipam-resources", Name: name}}
		container := corev1.Container{Name: "c", Image: "example.com/none"}
		one.Spec.AutomountServiceAccountToken = new(bool)
		one.Spec.Containers = []corev1.Container{container}
		of := &one.Spec.Containers[0]
		if init {
			one.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "example.com/none"}}
			of = &one.Spec.InitContainers[0]
		}
		if requests != "" {
			list := corev1.ResourceList{corev1.ResourceName(requests): resource1, corev1.ResourceCPU: resource1}
			of.Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
		}
		return one
	}
	const refused = "Alioth serves acn.azure.com/vnet-nic alone"
	run(t, slices.Concat(
		creations(t, "nothing", clusterAdmin(), pod("nothing", "", false), ""),
		creations(t, "a device", clusterAdmin(), pod("device", "acn.azure.com/vnet-nic", false), ""),
		creations(t, "a resource of others", clusterAdmin(), pod("other", "example.com/nic", false), ""),
		creations(t, "InfiniBand", clusterAdmin(), pod("infiniband", "acn.azure.com/infiniband-nic", false), refused),
		creations(t, "InfiniBand under its other name", clusterAdmin(), pod("ib", "acn.azure.com/vnet-nic-ib", false), refused),
		creations(t, "InfiniBand of an init container", clusterAdmin(), pod("init", "acn.azure.com/infiniband-nic", true), refused),
	))
}

var resource1 = resource.MustParse("1")
