// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	acnv1alpha1 "github.com/alioth-net/alioth/api/acn/v1alpha1"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
)

// owner has Kubernetes delete the config with its pod, and never delay the pod's deletion.
func owner(want *content) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: "v1", Kind: "Pod", Name: want.name, UID: types.UID(want.uid), Controller: new(true),
		BlockOwnerDeletion: new(bool),
	}
}

// isOf reports whether a config is about the pod with this UID, with its present requests.
func isOf(object client.Object, want *content) bool {
	by := metav1.GetControllerOfNoCopy(object)
	if by == nil || string(by.UID) != want.uid {
		return false
	}
	if early, ok := object.(*acnv1alpha1.MultiTenantPodNetworkConfig); ok {
		return early.Spec == want.choice
	}
	spec := &object.(*multitenancyv1alpha1.MultitenantPodNetworkConfig).Spec
	return spec.PodNetworkChoice == want.choice && spec.PodUID == want.uid
}

func setSpec(object client.Object, want *content) {
	if early, ok := object.(*acnv1alpha1.MultiTenantPodNetworkConfig); ok {
		early.Spec = want.choice
		return
	}
	object.(*multitenancyv1alpha1.MultitenantPodNetworkConfig).Spec = multitenancyv1alpha1.MultitenantPodNetworkConfigSpec{
		PodNetworkChoice: want.choice, PodName: want.name, PodUID: want.uid,
	}
}

func setStatus(object client.Object, want *content) {
	var first multitenancyv1alpha1.InterfaceInfo
	if len(want.interfaces) > 0 {
		first = want.interfaces[0]
	}
	if early, ok := object.(*acnv1alpha1.MultiTenantPodNetworkConfig); ok {
		early.Status = acnv1alpha1.MultiTenantPodNetworkConfigStatus{
			UUID:       first.NCID,
			PrimaryIP:  first.PrimaryIP,
			MacAddress: first.MacAddress,
		}
		if want.state == multitenancyv1alpha1.ConfigReady {
			early.Status.Status = acnv1alpha1.ConfigProvisioned
		}
		return
	}
	config := object.(*multitenancyv1alpha1.MultitenantPodNetworkConfig)
	config.Status = multitenancyv1alpha1.MultitenantPodNetworkConfigStatus{
		NCID:           first.NCID,
		PrimaryIP:      first.PrimaryIP,
		MacAddress:     first.MacAddress,
		GatewayIP:      first.GatewayIP,
		InterfaceInfos: want.interfaces,
		DefaultDenyACL: want.defaultDeny,
		NodeName:       want.node,
		Status:         want.state,
	}
}
