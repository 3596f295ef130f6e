// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// WaitForAdmission returns when admission can judge Services, and Subnets if the chart is installed.
// For up to 30 s after the chart's first installation the API server does not know each kind of the
// policies' parameters, and refuses these objects (docs/tenants/outside.md).
func WaitForAdmission(ctx context.Context, client kubernetes.Interface, installed bool) error {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "asks-admission"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	err := WaitFor(ctx, "Services can be created", func(ctx context.Context) error {
		_, err := client.CoreV1().Services("default").Create(ctx, service, dryRun)
		return err
	})
	if err != nil || !installed {
		return err
	}
	return WaitFor(ctx, "Subnets can be created", func(ctx context.Context) error {
		return dryRunSubnet(ctx, client)
	})
}

// dryRunSubnet asks for a Subnet of a VPC that does not exist, and persists nothing.
func dryRunSubnet(ctx context.Context, client kubernetes.Interface) error {
	body, err := json.Marshal(&v1alpha1.Subnet{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Subnet"},
		ObjectMeta: metav1.ObjectMeta{Name: "asks-admission"},
		Spec:       v1alpha1.SubnetSpec{VPC: "asks-admission", CIDRs: []string{"192.0.2.0/24"}},
	})
	if err != nil {
		return err
	}
	path := "/apis/" + v1alpha1.GroupVersion.String() + "/subnets"
	request := client.CoreV1().RESTClient().Post().AbsPath(path).Param("dryRun", metav1.DryRunAll)
	return request.Body(body).Do(ctx).Error()
}
