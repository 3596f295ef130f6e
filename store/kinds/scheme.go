// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"

	acnv1alpha1 "github.com/alioth-net/alioth/api/acn/v1alpha1"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	danmiov1 "github.com/alioth-net/alioth/api/danmio/v1"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	nmstatev1beta1 "github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/api/v1alpha1"
)

// AddToScheme registers every kind that has rows.
func AddToScheme(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, discoveryv1.AddToScheme, networkingv1.AddToScheme, v1alpha1.AddToScheme, arktosv1.AddToScheme,
		danmv1.AddToScheme, danmiov1.AddToScheme, nadv1.AddToScheme, nmstatev1.AddToScheme, nmstatev1beta1.AddToScheme,
		multitenancyv1alpha1.AddToScheme, acnv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	return nil
}
