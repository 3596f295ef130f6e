// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	danmiov1 "github.com/alioth-net/alioth/api/danmio/v1"
)

// The kinds of networks.
const (
	danmNet        = "DanmNet"
	tenantNetwork  = "TenantNetwork"
	clusterNetwork = "ClusterNetwork"
)

var allNetworks = []string{danmNet, tenantNetwork, clusterNetwork}

// bothGroups are the groups that have DANM's kinds.
var bothGroups = []string{danmv1.GroupVersion.Group, danmiov1.GroupVersion.Group}

// danmObject returns an object of a kind of DANM with the fields of content.
func danmObject(t *testing.T, group, kind, name string, content map[string]any) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{Object: content}
	object.SetAPIVersion(group + "/v1")
	object.SetKind(kind)
	object.SetName(name)
	if kind == danmNet || kind == tenantNetwork {
		object.SetNamespace("default")
	}
	return object
}

// networkObject returns a network with a spec.
func networkObject(t *testing.T, group, kind, name string, spec *danmv1.NetworkSpec) *unstructured.Unstructured {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(spec)
	if err != nil {
		t.Fatal(err)
	}
	return danmObject(t, group, kind, name, map[string]any{"spec": fields})
}

// networkSpec returns a spec that every kind accepts, with both families.
func networkSpec() *danmv1.NetworkSpec {
	return &danmv1.NetworkSpec{NetworkID: "internal", Options: danmv1.NetworkOptions{
		HostDevice: "ens4", ContainerPrefix: "int", CIDR: "192.168.1.64/26", Net6: "2001:db8:0:1193::/64",
	}}
}

// deleteIt deletes an object after a test, whatever the test's result.
func deleteIt(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Delete(context.WithoutCancel(t.Context()), object); err != nil {
		t.Error(err)
	}
}

// TestDANMNetwork_Columns_ShowUse: the columns of `kubectl get`.
func TestDANMNetwork_Columns_ShowUse(t *testing.T) {
	c := newClient(t)
	for _, group := range bothGroups {
		spec := networkSpec()
		spec.NetworkType, spec.Options.VLAN = "macvlan", 300
		object := networkObject(t, group, clusterNetwork, "columns", spec)
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { deleteIt(t, c, object) })
		status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&danmv1.NetworkStatus{
			Used: 3, Free: 59, Total: 62, FreeText: "59", TotalText: ">1e15", Pods: 3, PodNames: []string{"customer-a/web-0"}, Conditions: notReady("NameConflict"),
		})
		if err != nil {
			t.Fatal(err)
		}
		object.Object["status"] = status
		if err := c.Status().Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		got := row(t, "/apis/"+group+"/v1/clusternetworks/columns")
		for name, want := range map[string]string{
			"Type": "macvlan", "NetworkID": "internal", "Parent": "ens4", "VLAN": "300", "CIDR": c26, "Net6": n64,
			"Used": "3", "Free": "59", "Total": ">1e15", "Pods": "3", "Ready": "False", "Reason": "NameConflict",
		} {
			if got[name] != want {
				t.Errorf("%s: column %s is %q, want %q", group, name, got[name], want)
			}
		}
	}
}
