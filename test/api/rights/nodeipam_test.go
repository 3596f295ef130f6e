// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rights_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	acnv1alpha1 "github.com/alioth-net/alioth/api/acn/v1alpha1"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator"
	"github.com/alioth-net/alioth/test/api/chart"
)

// TestOperatorRights_NodeIPAM_ExactlyUsed has the operator write each kind of the node IPAM API in
// both groups, with its admission policies.
func TestOperatorRights_NodeIPAM_ExactlyUsed(t *testing.T) {
	args := []string{"--set", "nodeIPAM.enabled=true,nodeIPAM.infraSubnet=" + name}
	admin, server := install(t, args...)
	operate(t, server.Config(), func(cfg *operator.Config) { cfg.NodeIPAM, cfg.NodeIPAMInfraSubnet = true, name })
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{multitenancyv1alpha1.NodeLabel: ""}}}
	today := &multitenancyv1alpha1.PodNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: "today"},
		Spec:       multitenancyv1alpha1.PodNetworkSpec{NetworkID: name, SubnetResourceID: name},
	}
	early := &acnv1alpha1.PodNetwork{ObjectMeta: metav1.ObjectMeta{Name: "early"}, Spec: today.Spec}
	of := func(network string) multitenancyv1alpha1.PodNetworkInstanceSpec {
		return multitenancyv1alpha1.PodNetworkInstanceSpec{PodNetwork: network, PodIPReservationSize: 1}
	}
	instances := []client.Object{
		&multitenancyv1alpha1.PodNetworkInstance{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "today"}, Spec: of("today")},
		&acnv1alpha1.PodNetworkInstance{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "early"}, Spec: of("early")},
	}
	for _, object := range append([]client.Object{
		node, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.TenantLabel: name}}},
		&v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.VPCSpec{CIDRs: []string{"10.10.0.0/16"}, AllowedTenants: []string{name}}},
		&v1alpha1.Subnet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.SubnetSpec{VPC: name, CIDRs: []string{"10.10.1.0/24"}}},
		today, early,
	}, instances...) {
		mustCreate(t, admin, object)
	}
	until(t, "both instances are Ready", func(ctx context.Context) (bool, error) {
		for _, object := range instances {
			if err := admin.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
				return false, err
			}
		}
		return instances[0].(*multitenancyv1alpha1.PodNetworkInstance).Status.Status == multitenancyv1alpha1.InstanceReady &&
			instances[1].(*acnv1alpha1.PodNetworkInstance).Status.Status == multitenancyv1alpha1.InstanceReady, nil
	})
	info := &multitenancyv1alpha1.NodeInfo{ObjectMeta: metav1.ObjectMeta{Name: name}}
	mustCreate(t, admin, info)
	info.Status.DeviceInfos = []multitenancyv1alpha1.DeviceInfo{{MacAddress: "00:0d:3a:00:00:01"}}
	if err := admin.Status().Update(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	reportAndForget(t, admin)
	for _, object := range instances {
		if err := admin.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		until(t, fmt.Sprintf("%T is gone", object), func(ctx context.Context) (bool, error) {
			err := admin.Get(ctx, client.ObjectKeyFromObject(object), object)
			return err != nil, client.IgnoreNotFound(err)
		})
	}
	objects, err := chart.New(t, root, nil).Template(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	requests, err := server.Requests()
	if err != nil {
		t.Fatal(err)
	}
	denied, unused, err := chart.Account{Name: "alioth-operator"}.Compare(objects, requests)
	if err != nil {
		t.Fatal(err)
	}
	unused = slices.DeleteFunc(unused, func(right string) bool { return !strings.Contains(right, "azure.com") })
	if len(denied) > 0 || len(unused) > 0 {
		t.Errorf("the operator was refused %q, and makes no use of %q", denied, unused)
	}
}

// reportAndForget has the operator report a pod that waits, and a successor of its name that
// has its addresses.
func reportAndForget(t *testing.T, admin client.Client) {
	t.Helper()
	for _, tt := range []struct {
		labels map[string]string
		state  multitenancyv1alpha1.PodNetworkConfigState
		early  acnv1alpha1.ConfigState
	}{
		{map[string]string{multitenancyv1alpha1.PodNetworkInstanceLabel: "missing"}, multitenancyv1alpha1.ConfigInstanceNotFound, ""},
		{map[string]string{multitenancyv1alpha1.PodNetworkLabel: "early"}, multitenancyv1alpha1.ConfigReady, acnv1alpha1.ConfigProvisioned},
	} {
		pod := newPod("web", "")
		pod.Labels = tt.labels
		mustCreate(t, admin, pod)
		config := &multitenancyv1alpha1.MultitenantPodNetworkConfig{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: pod.Name}}
		early := &acnv1alpha1.MultiTenantPodNetworkConfig{ObjectMeta: config.ObjectMeta}
		until(t, "both groups report that the pod is "+string(tt.state), func(ctx context.Context) (bool, error) {
			for _, object := range []client.Object{config, early} {
				err := admin.Get(ctx, client.ObjectKeyFromObject(object), object)
				if by := metav1.GetControllerOf(object); err != nil || by == nil || by.UID != pod.UID {
					return false, client.IgnoreNotFound(err)
				}
			}
			return config.Status.Status == tt.state && early.Status.Status == tt.early, nil
		})
		if err := admin.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
}

// mustCreate waits until admission knows the parameters that it needs.
func mustCreate(t *testing.T, admin client.Client, object client.Object) {
	t.Helper()
	until(t, fmt.Sprintf("%T %s is created", object, object.GetName()), func(ctx context.Context) (bool, error) {
		err := admin.Create(ctx, object)
		return err == nil, ignoreNotReady(err)
	})
}
